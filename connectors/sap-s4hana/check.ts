/**
 * Checks whether the flow can work with this SAP: login, services, rights, and whether the system's own description of
 * the services has every field that the connector needs. Changes nothing.
 */
import { AuthError, type CheckResult, ConnectorError, z } from 'sourcing-bridge/connector';
import type { Deps } from './kind.ts';
import { differencesOf } from './metadata.ts';
import { orderService } from './odata.ts';
import { partnerService } from './partners.ts';
import { requisitionService } from './reads.ts';

const anything = z.record(z.string(), z.unknown());

interface Need {
  readonly name: string;
  readonly service: string;
  readonly set: string;
  readonly right: string;
  /** When the flow needs this; undefined: always. */
  readonly onlyFor?: string;
}

const needs: readonly Need[] = [
  {
    name: 'purchase orders',
    service: orderService,
    set: 'A_PurchaseOrder',
    right: 'communication scenario SAP_COM_0053, or authorisations M_BEST_BSA, M_BEST_EKO, M_BEST_EKG, M_BEST_WRK',
  },
  {
    name: 'business partners',
    service: partnerService,
    set: 'A_BusinessPartner',
    right: 'communication scenario SAP_COM_0008, or authorisations B_BUPA_RLT, F_LFA1_BUK, M_LFM1_EKO',
  },
  {
    name: 'purchase requisitions',
    service: requisitionService,
    set: 'A_PurchaseRequisitionItem',
    right: 'communication scenario SAP_COM_0102, or authorisations M_BANF_BSA, M_BANF_EKO, M_BANF_EKG, M_BANF_WRK',
    onlyFor: 'requisitions are read',
  },
];

/** What SAP answers to a question about a service that it has but that the user must not use. */
const shownDifferencesMax = 8;

/** One result, with a sentence for an operator, per service. If the login fails, it is the only result. */
export async function check({ odata }: Deps, signal: AbortSignal): Promise<CheckResult[]> {
  const results: CheckResult[] = [];
  for (const need of needs) {
    const { name, service, set, right, onlyFor } = need;
    const condition = onlyFor === undefined ? '' : ` Needed only where ${onlyFor}.`;
    try {
      await odata.list(service, set, anything, { top: 1 }, signal);
      const differences = differencesOf(service, await odata.metadata(service, signal));
      const shown = differences.slice(0, shownDifferencesMax).join('; ');
      const more =
        differences.length > shownDifferencesMax ? ` and ${differences.length - shownDifferencesMax} more` : '';
      results.push({
        name,
        ok: differences.length === 0,
        message:
          differences.length === 0
            ? `SAP accepts the login, shows ${name}, and describes all fields that are needed (${service}).`
            : `The description of ${service} is another one than the connector needs: ${shown}${more}.${condition}`,
      });
    } catch (error) {
      if (!(error instanceof ConnectorError)) throw error;
      if (results.length === 0 && (error instanceof AuthError || error.type === 'transient'))
        return [{ name: 'login', ok: false, message: error.message }];
      results.push({
        name,
        // Where nothing works, the reason is another one.
        ok: onlyFor !== undefined && results.some(({ ok }) => ok),
        message: `${service} cannot be used (${right}): ${error.message}.${condition}`,
      });
    }
  }
  return results;
}
