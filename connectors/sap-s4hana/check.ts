/**
 * Checks whether the flow can work with this SAP: login, services, rights, and whether the system's own description of
 * the services has every field that the connector needs. Changes nothing.
 */
import { type CheckResult, ConfigError, ConnectorError, createCheckList, z } from 'sourcing-bridge/connector';
import { attachmentService } from './attachments.ts';
import { literal } from './batch.ts';
import { contractService } from './contracts.ts';
import { conditionService, infoRecordService } from './info-records.ts';
import type { Deps } from './kind.ts';
import { differencesOf } from './metadata.ts';
import type { OData } from './odata.ts';
import { nameInV4 } from './orders.ts';
import { partnerService } from './partners.ts';
import { isV4 } from './protocols.ts';
import { quotationService } from './quotations.ts';
import { requisitionService } from './reads.ts';
import type { Settings } from './settings.ts';

const noObject = { BusinessObjectTypeName: literal('LFA1'), LinkedSAPObjectKey: literal('0') };
const anything = z.record(z.string(), z.unknown());

interface Need {
  readonly name: string;
  /** Undefined: the one that the system has for orders. */
  readonly service?: string;
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

const shownDifferencesMax = 8;

/** One result, with a sentence for an operator, per service. Without the first one, which all flows need, there is no other. */
export async function check(deps: Deps, signal: AbortSignal): Promise<CheckResult[]> {
  const { results, attempt } = createCheckList();
  for (const need of needs) {
    const isNeeded = need.onlyFor === undefined || need.always?.(deps.settings) === true;
    const isUsable = await attempt(need.name, async () => {
      try {
        return await describeService(deps, need, signal);
      } catch (error) {
        if (isNeeded || !(error instanceof ConnectorError)) throw error;
        return `${error.message}. Needed only where ${need.onlyFor}.`;
      }
    });
    if (!isUsable && results.length === 1) return results;
  }
  return [...results, ...supplierSettings(deps.settings)];
}

/** Throws for a service that cannot be used, or that is another one than the connector needs. */
async function describeService({ odata, orders }: Deps, need: Need, signal: AbortSignal): Promise<string> {
  const { name, right } = need;
  let service: string;
  let description: string | undefined;
  try {
    ({ service = await orders.service(signal) } = need);
    await ask(odata, service, isV4(service) ? nameInV4(need.set) : need.set, signal);
    description = await odata.metadata(service, signal);
  } catch (error) {
    if (!(error instanceof ConnectorError)) throw error;
    throw new ConfigError(`The service for ${name} cannot be used (${right}): ${error.message}`, { cause: error });
  }
  const differences = differencesOf(service, description ?? '');
  if (differences.length === 0)
    return `SAP accepts the login, shows ${name}, and describes all fields that are needed (${service}).`;
  throw new ConfigError(
    `The description of ${service} is another one than the connector needs: ${shownOf(differences)}`,
  );
}

/** Attachments are shown for an object only: for one that does not exist, none. */
async function ask(odata: OData, service: string, set: string, signal: AbortSignal): Promise<void> {
  if (service === attachmentService) await odata.ask(service, 'GetAllOriginals', anything, noObject, signal);
  else await odata.list(service, set, anything, { top: 1 }, signal);
}

function shownOf(differences: readonly string[]): string {
  const more = differences.length - shownDifferencesMax;
  return `${differences.slice(0, shownDifferencesMax).join('; ')}${more > 0 ? ` and ${more} more` : ''}`;
}

/** What SAP wants of new suppliers. It is no fault where the flow writes none, or where its mapping names both. */
function supplierSettings({ supplier_currency, reconciliation_account }: Settings): CheckResult[] {
  const missing = Object.entries({ supplier_currency, reconciliation_account }).filter(
    ([, value]) => value === undefined,
  );
  if (missing.length === 0) return [];
  const names = missing.map(([name]) => name).join(' and ');
  return [
    {
      name: 'new suppliers',
      ok: true,
      message: `Set ${names}: SAP makes no supplier without an order currency and a reconciliation account. Needed only where suppliers are written and the mapping names neither.`,
    },
  ];
}
