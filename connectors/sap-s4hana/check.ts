/** Checks whether the flow can work with this SAP: login, services, rights, settings. Changes nothing. */
import { AuthError, type CheckResult, ConnectorError, z } from 'sourcing-bridge/connector';
import type { Deps } from './kind.ts';
import { orderService } from './odata.ts';
import { partnerService } from './partners.ts';

const anything = z.record(z.string(), z.unknown());

/** What the connector asks of each service, with the communication scenario that contains it. */
const needs = [
  { name: 'purchase orders', service: orderService, set: 'A_PurchaseOrder', scenario: 'SAP_COM_0053' },
  { name: 'business partners', service: partnerService, set: 'A_BusinessPartner', scenario: 'SAP_COM_0008' },
];

/** One result, with a sentence for an operator, per service. If the login fails, it is the only result. */
export async function check({ odata }: Deps, signal: AbortSignal): Promise<CheckResult[]> {
  const results: CheckResult[] = [];
  for (const { name, service, set, scenario } of needs)
    try {
      await odata.list(service, set, anything, { top: 1 }, signal);
      results.push({ name, ok: true, message: `SAP accepts the login and shows ${name} (${service}).` });
    } catch (error) {
      if (!(error instanceof ConnectorError)) throw error;
      if (error instanceof AuthError && results.length === 0)
        return [{ name: 'login', ok: false, message: error.message }];
      results.push({
        name,
        ok: false,
        message: `${service} cannot be used (communication scenario ${scenario}): ${error.message}`,
      });
    }
  return results;
}
