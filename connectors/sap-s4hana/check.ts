/**
 * Checks whether the flow can work with this SAP: login, services, rights, and whether the system's own description of
 * the services has every field that the connector needs. Changes nothing.
 */
import { AuthError, type CheckResult, ConnectorError, z } from 'sourcing-bridge/connector';
import { attachmentService } from './attachments.ts';
import { contractService } from './contracts.ts';
import { conditionService, infoRecordService } from './info-records.ts';
import type { Deps } from './kind.ts';
import { differencesOf } from './metadata.ts';
import { literal, orderService } from './odata.ts';
import { partnerService } from './partners.ts';
import { quotationService } from './quotations.ts';
import { requisitionService } from './reads.ts';
import type { Settings } from './settings.ts';

const noObject = { BusinessObjectTypeName: literal('LFA1'), LinkedSAPObjectKey: literal('0') };
const anything = z.record(z.string(), z.unknown());

interface Need {
  readonly name: string;
  readonly service: string;
  readonly set: string;
  readonly right: string;
  /** When the flow needs this; undefined: always. */
  readonly onlyFor?: string;
  /** Whether these settings need it. */
  readonly always?: (settings: Settings) => boolean;
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
    name: 'purchase contracts',
    service: contractService,
    set: 'A_PurchaseContract',
    right: 'communication scenario SAP_COM_0101, or authorisations M_RAHM_BSA, M_RAHM_EKO, M_RAHM_EKG',
    onlyFor: 'awards become contracts',
    always: ({ awards }) => awards === 'contracts',
  },
  {
    name: 'info records',
    service: infoRecordService,
    set: 'A_PurchasingInfoRecord',
    right: 'communication scenario SAP_COM_0145, or authorisations M_EINF_EKO, M_EINF_EKG, M_EINF_WRK',
    onlyFor: 'awards become prices in info records',
    always: ({ awards }) => awards === 'info-records',
  },
  {
    name: 'purchasing prices',
    service: conditionService,
    set: 'A_PurgPrcgConditionRecord',
    right: 'communication scenario SAP_COM_0294, or authorisation V_KONH_VKS',
    onlyFor: 'awards become prices in info records',
    always: ({ awards }) => awards === 'info-records',
  },
  {
    name: 'supplier quotations',
    service: quotationService,
    set: 'A_SupplierQuotation',
    right: 'the service in the user’s communication arrangement, or authorisations M_ANFR_BSA, M_ANFR_EKO, M_ANFR_EKG',
    onlyFor: 'bids are written',
  },
  {
    name: 'attachments',
    service: attachmentService,
    set: 'AttachmentContentSet',
    right: 'communication scenario SAP_COM_0002, or authorisations S_GOS_ATT and those of the object',
    onlyFor: 'events, answers or files are written',
  },
  {
    name: 'purchase requisitions',
    service: requisitionService,
    set: 'A_PurchaseRequisitionItem',
    right: 'communication scenario SAP_COM_0102, or authorisations M_BANF_BSA, M_BANF_EKO, M_BANF_EKG, M_BANF_WRK',
    onlyFor: 'requisitions are read and told what became of them',
  },
];

/** What SAP answers to a question about a service that it has but that the user must not use. */
const shownDifferencesMax = 8;

/** One result, with a sentence for an operator, per service. If the login fails, it is the only result. */
export async function check({ odata, settings }: Deps, signal: AbortSignal): Promise<CheckResult[]> {
  const results: CheckResult[] = [];
  /** Attachments are shown for an object only: for one that does not exist, none. */
  const ask = async (service: string, set: string) =>
    service === attachmentService
      ? odata.ask(service, 'GetAllOriginals', anything, noObject, signal)
      : odata.list(service, set, anything, { top: 1 }, signal);
  for (const need of needs) {
    const { name, service, set, right } = need;
    const onlyFor = need.always?.(settings) === true ? undefined : need.onlyFor;
    const condition = onlyFor === undefined ? '' : ` Needed only where ${onlyFor}.`;
    try {
      await ask(service, set);
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
