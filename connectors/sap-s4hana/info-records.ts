/**
 * Awards as prices in purchasing info records, for flows with the setting `awards: info-records`. Each lot with a material
 * sets the price of one info record (API_INFORECORD_PROCESS_SRV) by a condition record with its validity
 * (API_PURGPRCGCONDITIONRECORD_SRV). SAP has one info record for a supplier, material, organization and plant, so a
 * repeated write finds it; its quotation number (SupplierQuotation, 10 characters) carries the mark of the award that has
 * set the price last, and its quotation date the first day of that price.
 *
 * A new info record makes a condition of its price by itself, from today to 9999-12-31, which would outlive the award's.
 * So a new one is read back before its price is set: that condition is deleted, and the award's is the only one.
 */
import {
  type AwardDocument,
  ConflictError,
  ConnectorError,
  DataError,
  type Kind,
  type Operation,
  timeFromMs,
} from 'sourcing-bridge/connector';
import type { Change } from './batch.ts';
import { dayAfter } from './contracts.ts';
import {
  type HeldCondition,
  type HeldOrganization,
  type HeldRecord,
  heldCondition,
  heldOrganization,
  heldRecord,
  heldValidity,
  isAutomatic,
  isOf,
  type Place,
  placeOf,
  validityOf,
} from './held-info-records.ts';
import {
  conditionBody,
  organizationBody,
  rateOf,
  shownPrice,
  standard,
  type Wanted,
  type WantedPrice,
  wantedOf,
} from './info-record-values.ts';
import { type Decision, type Deps, kindOfParts, nothingToDo, referenceOf } from './kind.ts';
import { shortMarker } from './markers.ts';
import { dayOfDate, equals, odataDate } from './odata.ts';
import { findSuppliers, type PartnerOf } from './partners.ts';
import { differing, isSameCode } from './sap-values.ts';

export const infoRecordService = 'API_INFORECORD_PROCESS_SRV';
export const conditionService = 'API_PURGPRCGCONDITIONRECORD_SRV';
const objectName = 'PurchasingInfoRecords';

interface Held {
  readonly records: readonly HeldRecord[];
  readonly conditions: readonly HeldCondition[];
  readonly partnerOf: PartnerOf;
}

interface Step {
  readonly service: string;
  readonly change: Change;
}

export function createInfoRecords(deps: Deps): Kind<'award'> {
  return kindOfParts<'award', Held>(
    {
      read: (operations, signal) => read(deps, operations, signal),
      decideOn: (operation, held) => decideOn(deps, operation, held),
      async lookup(documents, signal) {
        const marked = await findMarked(
          deps,
          documents.map(({ key }) => key),
          signal,
        );
        return documents.flatMap(({ key }) => {
          const mark = shortMarker(key);
          const isThere = marked.some(({ SupplierQuotation }) => SupplierQuotation.trimEnd() === mark);
          return isThere ? [{ key, reference: referenceOf(objectName, mark), contentHash: undefined }] : [];
        });
      },
    },
    deps,
  );
}

/** The info records with the marks of these awards, and those of their suppliers and materials, with their prices. */
async function read(deps: Deps, operations: readonly Operation<'award'>[], signal: AbortSignal): Promise<Held> {
  const { odata, settings } = deps;
  const written = operations.flatMap(({ action, document }) => (action === 'cancel' ? [] : [document]));
  const suppliers = written.map(({ supplier }) => supplier);
  const partnerOf = await findSuppliers(odata, suppliers, signal);
  const keys = operations.map(({ document }) => document.key);
  const marked = await findMarked(deps, keys, signal);
  const pairs = [
    ...marked.map(({ Supplier, Material }) => ({ supplier: Supplier, material: Material })),
    ...written.flatMap((document) => pairsOf(document, partnerOf)),
  ];
  const filterOf = ({ supplier, material }: { supplier: string; material: string }) =>
    `(${[...equals('Supplier', [supplier]), ...equals('Material', [material])].join(' and ')})`;
  const filters = [...new Set(pairs.map(filterOf))];
  const records = await odata.listAny(
    infoRecordService,
    'A_PurchasingInfoRecord',
    heldRecord,
    filters,
    { expand: ['to_PurgInfoRecdOrgPlantData'] },
    signal,
  );
  const [filter = ''] = equals('ConditionType', [settings.price_condition_type]);
  const valid = await odata.listAny(
    conditionService,
    'A_PurgPrcgCndnRecdValidity',
    heldValidity,
    filters,
    { filter, select: ['ConditionRecord'] },
    signal,
  );
  const numbers = [...new Set(valid.map(({ ConditionRecord }) => ConditionRecord))];
  const conditions = await odata.listAny(
    conditionService,
    'A_PurgPrcgConditionRecord',
    heldCondition,
    equals('ConditionRecord', numbers),
    { expand: ['to_PurgPrcgCndnRecdValidity', 'to_PurgPricingCndnRecdScale'] },
    signal,
  );
  return { records, conditions, partnerOf };
}

async function findMarked({ odata }: Deps, keys: readonly string[], signal: AbortSignal): Promise<HeldOrganization[]> {
  const filters = equals('SupplierQuotation', keys.map(shortMarker));
  return odata.listAny(infoRecordService, 'A_PurgInfoRecdOrgPlantData', heldOrganization, filters, {}, signal);
}

function pairsOf({ supplier, lines }: AwardDocument, partnerOf: PartnerOf): { supplier: string; material: string }[] {
  const { number } = partnerOf(supplier);
  return lines.flatMap(({ fields }) => {
    const material = fields?.['material'] ?? '';
    return material === '' ? [] : [{ supplier: number, material }];
  });
}

function decideOn(deps: Deps, { document, action }: Operation<'award'>, held: Held): Decision {
  const mark = shortMarker(document.key);
  const own = held.records
    .flatMap((record) => record.to_PurgInfoRecdOrgPlantData)
    .filter(({ SupplierQuotation }) => SupplierQuotation.trimEnd() === mark);
  const reference = referenceOf(objectName, mark);
  const removed = (organization: HeldOrganization) => removalSteps(organization, held);
  if (action === 'cancel') return decisionOf(deps, 'cancel', own.flatMap(removed), reference);
  const wanted = wantedOf(document, deps.settings);
  const { number: supplier } = held.partnerOf(document.supplier);
  const tasks = wanted.prices.map((price) => priceTaskOf(deps, { mark, supplier, wanted, price }, held));
  const kept = new Set(tasks.map(({ organization }) => organization));
  const steps = [
    ...tasks.flatMap((task) => priceSteps(deps, task)),
    ...own.filter((organization) => !kept.has(organization)).flatMap(removed),
  ];
  return decisionOf(deps, own.length === 0 ? 'create' : 'amend', steps, reference);
}

function decisionOf({ odata }: Deps, action: Decision['action'], steps: readonly Step[], reference: string): Decision {
  if (steps.length === 0) return nothingToDo(reference);
  return {
    action,
    steps: steps.map(({ change }) => change.what),
    reference,
    run: async (signal) => {
      for (const [index, { service, change }] of steps.entries())
        try {
          await odata.change(service, change, signal);
        } catch (error) {
          if (error instanceof ConnectorError) error.partial = index > 0;
          throw error;
        }
      return reference;
    },
  };
}

/** A price, and what SAP has at its place. */
interface PriceTask {
  readonly mark: string;
  readonly wanted: Wanted;
  readonly price: WantedPrice;
  readonly place: Place;
  readonly record: HeldRecord | undefined;
  readonly organization: HeldOrganization | undefined;
  readonly conditions: readonly HeldCondition[];
  /** The first day of the price that this award has set before. */
  readonly since: string | undefined;
  readonly from: string;
  readonly to: string;
}

function priceTaskOf(
  { clock, settings }: Deps,
  { mark, supplier, wanted, price }: { mark: string; supplier: string; wanted: Wanted; price: WantedPrice },
  held: Held,
): PriceTask {
  const place = { supplier, material: price.material, organization: wanted.organization, plant: price.plant };
  const records = held.records.filter(
    (record) => isSameCode(record.Supplier, supplier) && isSameCode(record.Material, price.material),
  );
  const [record, second] = records;
  if (second)
    throw new ConflictError(
      `SAP has several info records for supplier ${supplier} and material ${price.material}: ${records.map(({ PurchasingInfoRecord }) => PurchasingInfoRecord).join(', ')}`,
    );
  const organization = record?.to_PurgInfoRecdOrgPlantData.find(
    (entry) =>
      entry.PurchasingInfoRecordCategory === standard &&
      entry.PurchasingOrganization === wanted.organization &&
      isSameCode(entry.Plant, price.plant),
  );
  const isOwn = organization?.SupplierQuotation.trimEnd() === mark;
  const since = isOwn ? dayOfDate(organization.SupplierQuotationDate) : undefined;
  const conditions = held.conditions.filter((condition) => isOf(condition, place));
  const before = conditions.find(
    (condition) => since !== undefined && validityOf(condition).from === since && !isAutomatic(condition, organization),
  );
  const from = wanted.from ?? since ?? timeFromMs(clock.nowMs()).slice(0, 10);
  const to = wanted.to ?? (before ? validityOf(before).to : dayAfter(from, settings.validity_days));
  if (to < from) throw new DataError(`valid_to is ${to}, before the first day ${from} (ConditionValidityEndDate)`);
  return { mark, wanted, price, place, record, organization, conditions, since, from, to };
}

/**
 * A new info record alone, whose own condition is seen when it is read back; else its mark and its price. The prices of
 * other days go before the mark names the new first day: after it, a kill would leave them without their award.
 */
function priceSteps(deps: Deps, task: PriceTask): Step[] {
  const { organization } = task;
  if (!organization) return [newRecord(task)];
  const { superfluous, set } = conditionSteps(deps, task, organization);
  return [...superfluous, ...takeOver(task, organization), ...set];
}

function newRecord({ mark, wanted, price, place, record, from }: PriceTask): Step {
  const data = organizationBody(wanted, price, { mark, from });
  const { material, lot, unit } = price;
  if (record) {
    const { PurchasingInfoRecord: number } = record;
    const entity = { set: 'A_PurchasingInfoRecord', key: number, navigation: 'to_PurgInfoRecdOrgPlantData' };
    const what = `add organization ${wanted.organization} to the info record ${number} (${lot}), with the price ${shownPrice(wanted, price)}`;
    return { service: infoRecordService, change: { what, method: 'POST', ...entity, body: data } };
  }
  const body = {
    Supplier: place.supplier,
    Material: material,
    PurgDocOrderQuantityUnit: unit,
    to_PurgInfoRecdOrgPlantData: [data],
  };
  const what = `create the info record of supplier ${place.supplier} and material ${material} (${lot}), with the price ${shownPrice(wanted, price)}`;
  return { service: infoRecordService, change: { what, method: 'POST', set: 'A_PurchasingInfoRecord', body } };
}

/** The mark of the award that sets the price, and the first day of the price. */
function takeOver({ mark, price, from, since }: PriceTask, organization: HeldOrganization): Step[] {
  const isOwn = organization.SupplierQuotation.trimEnd() === mark;
  const body = {
    ...(isOwn ? {} : { SupplierQuotation: mark }),
    ...(since === from ? {} : { SupplierQuotationDate: odataDate(from, 'valid_from') }),
    ...(organization.IsMarkedForDeletion === true ? { IsMarkedForDeletion: false } : {}),
  };
  if (Object.keys(body).length === 0) return [];
  return [
    organizationChange(
      `take over the info record ${organization.PurchasingInfoRecord} (${price.lot})`,
      organization,
      body,
    ),
  ];
}

function organizationChange(what: string, organization: HeldOrganization, body: object): Step {
  const { PurchasingInfoRecord, PurchasingInfoRecordCategory, PurchasingOrganization, Plant, __metadata } =
    organization;
  const key = { PurchasingInfoRecord, PurchasingInfoRecordCategory, PurchasingOrganization, Plant };
  const entity = { set: 'A_PurgInfoRecdOrgPlantData', key, etag: __metadata?.etag };
  return { service: infoRecordService, change: { what, method: 'PATCH', ...entity, body } };
}

/** Exactly one condition of the award: one that a person has given scales is made anew. */
function conditionSteps(
  { settings }: Deps,
  task: PriceTask,
  organization: HeldOrganization,
): { superfluous: Step[]; set: Step[] } {
  const { wanted, price, place, conditions, since, from, to } = task;
  const isStill = (condition: HeldCondition) => validityOf(condition).from === from && validityOf(condition).to === to;
  const [current, ...twins] = conditions.filter(isStill);
  const isOwn = (condition: HeldCondition) => since !== undefined && validityOf(condition).from === since;
  const others = conditions.filter(
    (condition) =>
      !isStill(condition) &&
      (isOwn(condition) || isAutomatic(condition, since === undefined ? undefined : organization)),
  );
  const superfluous = [...others, ...twins].map((condition) => deletion(condition, price.material));
  if (current && isAsWanted(current, wanted, price)) return { superfluous, set: [] };
  const what = `set the price of ${price.material} (${price.lot}) to ${shownPrice(wanted, price)}, from ${from} to ${to}`;
  if (current && current.to_PurgPricingCndnRecdScale.length === 0) {
    const change = { what, method: 'PATCH', ...conditionEntity(current), body: rateOf(wanted, price) } as const;
    return { superfluous, set: [{ service: conditionService, change }] };
  }
  const body = conditionBody({ wanted, price, supplier: place.supplier, from, to }, settings);
  const set: Step = {
    service: conditionService,
    change: { what, method: 'POST', set: 'A_PurgPrcgConditionRecord', body },
  };
  return { superfluous, set: [...(current ? [deletion(current, price.material)] : []), set] };
}

function deletion(condition: HeldCondition, material: string): Step {
  const what = `delete the price of ${material} (condition record ${condition.ConditionRecord})`;
  return { service: conditionService, change: { what, method: 'DELETE', ...conditionEntity(condition) } };
}

function conditionEntity({ ConditionRecord, __metadata }: HeldCondition) {
  return { set: 'A_PurgPrcgConditionRecord', key: ConditionRecord, etag: __metadata?.etag };
}

/** The award's price goes, and its mark; the info record, which may have other prices, stays. */
function removalSteps(organization: HeldOrganization, { conditions }: Held): Step[] {
  const place = placeOf(organization);
  const since = dayOfDate(organization.SupplierQuotationDate);
  const own = conditions.filter(
    (condition) =>
      isOf(condition, place) && (validityOf(condition).from === since || isAutomatic(condition, organization)),
  );
  const body = { SupplierQuotation: '', SupplierQuotationDate: null };
  return [
    ...own.map((condition) => deletion(condition, organization.Material)),
    organizationChange(`release the info record ${organization.PurchasingInfoRecord}`, organization, body),
  ];
}

function isAsWanted(held: HeldCondition, wanted: Wanted, price: WantedPrice): boolean {
  return differing(rateOf(wanted, price), held).length === 0 && held.to_PurgPricingCndnRecdScale.length === 0;
}
