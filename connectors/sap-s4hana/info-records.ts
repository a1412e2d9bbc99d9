/**
 * Awards as prices in purchasing info records, for flows with the setting `awards: info-records`. Each lot with a material
 * sets the price of one info record (API_INFORECORD_PROCESS_SRV) by a condition record with validity and scales
 * (API_PURGPRCGCONDITIONRECORD_SRV), which SAP takes as a whole. SAP has one info record for a supplier, material,
 * organization and plant, so a repeated write finds it; its quotation number (SupplierQuotation, 10 characters) carries
 * the mark of the award that has set the price last, and its quotation date the first day of that price.
 */
import {
  type AwardDocument,
  ConflictError,
  ConnectorError,
  DataError,
  type Found,
  type Operation,
  type Outcome,
  timeFromMs,
} from 'sourcing-bridge/connector';
import { dayAfter } from './contracts.ts';
import {
  type HeldCondition,
  type HeldOrganization,
  type HeldRecord,
  heldCondition,
  heldOrganization,
  heldRecord,
  heldValidity,
  isOf,
  validityOf,
} from './held-info-records.ts';
import { type Wanted, type WantedPrice, wantedOf } from './info-record-values.ts';
import { type Deps, type Kind, kindOfParts, referenceOf, type Task } from './kind.ts';
import { shortMarker } from './markers.ts';
import { anyOf, dayOfDate, entityPath, odataDate } from './odata.ts';
import { plainCode } from './order-record.ts';
import { isSameNumber } from './prices.ts';

export const infoRecordService = 'API_INFORECORD_PROCESS_SRV';
export const conditionService = 'API_PURGPRCGCONDITIONRECORD_SRV';
const objectName = 'PurchasingInfoRecords';
/** PurchasingInfoRecordCategory: standard. */
const standard = '0';
/** ConditionApplication: purchasing. */
const purchasing = 'M';

interface Held {
  readonly records: readonly HeldRecord[];
  readonly conditions: readonly HeldCondition[];
}

interface Step {
  readonly what: string;
  readonly send: (signal: AbortSignal) => Promise<unknown>;
}

export function createInfoRecords(deps: Deps): Kind<'award'> {
  const { odata, settings, partners, clock } = deps;
  const today = () => timeFromMs(clock.nowMs()).slice(0, 10);

  /** The info records with the marks of these awards, and those of their suppliers and materials, with their prices. */
  async function read(operations: readonly Operation<'award'>[], signal: AbortSignal): Promise<Held> {
    const written = operations.filter(({ action }) => action !== 'cancel');
    await partners.find(
      written.map(({ document }) => document.supplier),
      signal,
    );
    const marked = await findMarked(
      operations.map(({ document }) => document.key),
      signal,
    );
    const named = written.flatMap(({ document }) => pairsOf(document));
    const filters = [...marked.map(({ Supplier, Material }) => ({ supplier: Supplier, material: Material })), ...named];
    const texts = [
      ...new Set(
        filters.map(
          ({ supplier, material }) => `(${anyOf('Supplier', [supplier])} and ${anyOf('Material', [material])})`,
        ),
      ),
    ];
    const records: HeldRecord[] = [];
    const conditions: HeldCondition[] = [];
    for (let begin = 0; begin < texts.length; begin += perRequest) {
      const filter = texts.slice(begin, begin + perRequest).join(' or ');
      const query = { filter, expand: ['to_PurgInfoRecdOrgPlantData'] };
      records.push(...(await odata.list(infoRecordService, 'A_PurchasingInfoRecord', heldRecord, query, signal)));
      const type = anyOf('ConditionType', [settings.price_condition_type]);
      const valid = await odata.list(
        conditionService,
        'A_PurgPrcgCndnRecdValidity',
        heldValidity,
        { filter: `${type} and (${filter})`, select: ['ConditionRecord'] },
        signal,
      );
      conditions.push(
        ...(await conditionsOf([...new Set(valid.map(({ ConditionRecord }) => ConditionRecord))], signal)),
      );
    }
    return { records, conditions };
  }

  async function conditionsOf(numbers: readonly string[], signal: AbortSignal): Promise<HeldCondition[]> {
    const found: HeldCondition[] = [];
    for (let begin = 0; begin < numbers.length; begin += perRequest) {
      const filter = anyOf('ConditionRecord', numbers.slice(begin, begin + perRequest));
      const query = { filter, expand: ['to_PurgPrcgCndnRecdValidity', 'to_PurgPricingCndnRecdScale'] };
      found.push(...(await odata.list(conditionService, 'A_PurgPrcgConditionRecord', heldCondition, query, signal)));
    }
    return found;
  }

  async function findMarked(keys: readonly string[], signal: AbortSignal): Promise<HeldOrganization[]> {
    const filter = anyOf('SupplierQuotation', keys.map(shortMarker));
    return odata.list(infoRecordService, 'A_PurgInfoRecdOrgPlantData', heldOrganization, { filter }, signal);
  }

  /** None where SAP does not have the supplier: `taskOf` says so. */
  function pairsOf({ supplier, lines }: AwardDocument): { supplier: string; material: string }[] {
    let number: string;
    try {
      number = partners.numberOf(supplier);
    } catch (error) {
      if (error instanceof ConnectorError) return [];
      throw error;
    }
    return lines.flatMap(({ fields }) => {
      const material = fields?.['material'] ?? '';
      return material === '' ? [] : [{ supplier: number, material }];
    });
  }

  function taskOf({ document, action }: Operation<'award'>, held: Held): Task {
    const { key } = document;
    const mark = shortMarker(key);
    const own = held.records.flatMap((record) =>
      record.to_PurgInfoRecdOrgPlantData.filter(({ SupplierQuotation }) => SupplierQuotation === mark),
    );
    const reference = referenceOf(objectName, mark);
    if (action === 'cancel' || document.lines.length === 0) {
      const steps = own.flatMap((organization) => removalSteps(organization, held));
      return taskFrom(steps, { action: 'cancel', status: 'cancelled', reference });
    }
    const supplier = partners.numberOf(document.supplier);
    const wanted = wantedOf(document, settings);
    const steps: Step[] = [];
    const kept = new Set<HeldOrganization>();
    for (const price of wanted.prices) {
      const records = held.records.filter(
        (record) => record.Supplier === supplier && plainCode(record.Material) === plainCode(price.material),
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
          entry.Plant === price.plant,
      );
      if (organization) kept.add(organization);
      const place = { supplier, material: price.material, organization: wanted.organization, plant: price.plant };
      const since =
        organization?.SupplierQuotation === mark ? dayOfDate(organization.SupplierQuotationDate) : undefined;
      const conditions = held.conditions.filter((condition) => isOf(condition, place));
      const before =
        since === undefined ? undefined : conditions.find((condition) => validityOf(condition).from === since);
      const from = wanted.from ?? since ?? today();
      const to = wanted.to ?? (before ? validityOf(before).to : dayAfter(from, settings.validity_days));
      if (to < from) throw new DataError(`valid_to is ${to}, before the first day ${from} (ConditionValidityEndDate)`);
      const isStill = (condition: HeldCondition) =>
        validityOf(condition).from === from && validityOf(condition).to === to;
      const own = { supplier, mark, wanted, price, record, organization, validity: { from, to } };
      // Its own price of another validity goes first: after the next step, the info record would not lead to it.
      if (before && !isStill(before)) steps.push(deletion(before, price.material));
      steps.push(...recordSteps(own), ...conditionSteps(own, conditions.find(isStill)));
    }
    for (const organization of own) if (!kept.has(organization)) steps.push(...removalSteps(organization, held));
    const isNew = own.length === 0;
    return taskFrom(steps, { action: isNew ? 'create' : 'amend', status: isNew ? 'created' : 'updated', reference });
  }

  /** The info record, its data for the organization and plant, and the mark. */
  function recordSteps({ supplier, mark, wanted, price, record, organization, validity }: PriceTask): Step[] {
    const { lot, material, plant, unit, fields } = price;
    const since = odataDate(validity.from, 'valid_from');
    const data = {
      PurchasingInfoRecordCategory: standard,
      PurchasingOrganization: wanted.organization,
      Plant: plant,
      ...fields,
      SupplierQuotation: mark,
      SupplierQuotationDate: since,
      Currency: wanted.currency,
      NetPriceAmount: price.price.amount,
      MaterialPriceUnitQty: price.price.per,
      PurchaseOrderPriceUnit: unit,
      StandardPurchaseOrderQuantity: price.quantity,
    };
    if (!record)
      return [
        {
          what: `create the info record of supplier ${supplier} and material ${material} (${lot})`,
          send: (signal) =>
            odata.post(
              infoRecordService,
              'A_PurchasingInfoRecord',
              {
                Supplier: supplier,
                Material: material,
                PurgDocOrderQuantityUnit: unit,
                to_PurgInfoRecdOrgPlantData: [data],
              },
              signal,
            ),
        },
      ];
    const path = entityPath('A_PurchasingInfoRecord', record.PurchasingInfoRecord);
    if (!organization)
      return [
        {
          what: `add organization ${wanted.organization} to the info record ${record.PurchasingInfoRecord} (${lot})`,
          send: (signal) => odata.post(infoRecordService, `${path}/to_PurgInfoRecdOrgPlantData`, data, signal),
        },
      ];
    const change = {
      ...(organization.SupplierQuotation === mark ? {} : { SupplierQuotation: mark }),
      ...(dayOfDate(organization.SupplierQuotationDate) === validity.from ? {} : { SupplierQuotationDate: since }),
      ...(organization.IsMarkedForDeletion === true ? { IsMarkedForDeletion: false } : {}),
    };
    if (Object.keys(change).length === 0) return [];
    return [
      {
        what: `take over the info record ${record.PurchasingInfoRecord} (${lot})`,
        send: (signal) =>
          odata.patch(infoRecordService, pathOf(organization), change, organization.__metadata?.etag, signal),
      },
    ];
  }

  /** The price with its scales; `condition` is what stands there for the same validity. */
  function conditionSteps(task: PriceTask, condition: HeldCondition | undefined): Step[] {
    const { wanted, price } = task;
    const shown = `${price.price.amount}/${price.price.per} ${wanted.currency}${price.scales.map(({ from, amount }) => `, from ${from} ${amount}`).join('')}`;
    if (condition && isAsWanted(condition, wanted, price)) return [];
    const make: Step = {
      what: `set the price of ${price.material} (${price.lot}) to ${shown}`,
      send: (signal) => odata.post(conditionService, 'A_PurgPrcgConditionRecord', conditionBody(task), signal),
    };
    if (!condition) return [make];
    const path = entityPath('A_PurgPrcgConditionRecord', condition.ConditionRecord);
    // Scales are added, changed and deleted one by one; as a whole they are right at any time.
    const isOnlyRate = price.scales.length === 0 && condition.to_PurgPricingCndnRecdScale.length === 0;
    if (isOnlyRate)
      return [
        {
          what: make.what,
          send: (signal) =>
            odata.patch(conditionService, path, rateOf(wanted, price), condition.__metadata?.etag, signal),
        },
      ];
    return [deletion(condition, price.material), make];
  }

  function deletion({ ConditionRecord, __metadata }: HeldCondition, material: string): Step {
    const path = entityPath('A_PurgPrcgConditionRecord', ConditionRecord);
    return {
      what: `delete the price of ${material} (condition record ${ConditionRecord})`,
      send: (signal) => odata.delete(conditionService, path, __metadata?.etag, signal),
    };
  }

  function conditionBody({ supplier, wanted, price, validity }: PriceTask): object {
    const dates = {
      ConditionValidityStartDate: odataDate(validity.from, 'valid_from'),
      ConditionValidityEndDate: odataDate(validity.to, 'valid_to'),
    };
    const type = { ConditionApplication: purchasing, ConditionType: settings.price_condition_type };
    return {
      // Prices of info records with and without a plant.
      ConditionTable: price.plant === '' ? '018' : '017',
      ConditionSequentialNumber: '1',
      ...type,
      ...dates,
      ...rateOf(wanted, price),
      // C: a rate for a quantity. A, C: from this quantity on.
      ConditionCalculationType: 'C',
      ...(price.scales.length === 0
        ? {}
        : { PricingScaleType: 'A', PricingScaleBasis: 'C', ConditionScaleQuantityUnit: price.unit }),
      to_PurgPrcgCndnRecdValidity: [
        {
          ...type,
          ...dates,
          Supplier: supplier,
          Material: price.material,
          PurchasingOrganization: wanted.organization,
          PurchasingInfoRecordCategory: standard,
          Plant: price.plant,
        },
      ],
      ...(price.scales.length === 0
        ? {}
        : {
            to_PurgPricingCndnRecdScale: price.scales.map(({ from, amount }, index) => ({
              ConditionSequentialNumber: '1',
              ConditionScaleLine: String(index + 1),
              ConditionScaleQuantity: from,
              ConditionScaleQuantityUnit: price.unit,
              ConditionRateValue: amount,
              ConditionRateValueUnit: wanted.currency,
            })),
          }),
    };
  }

  /** The award's price goes, and its mark; the info record, which may have other prices, stays. */
  function removalSteps(organization: HeldOrganization, held: Held): Step[] {
    const { PurchasingInfoRecord: number, Supplier, Material, PurchasingOrganization, Plant } = organization;
    const place = { supplier: Supplier, material: Material, organization: PurchasingOrganization, plant: Plant };
    const since = dayOfDate(organization.SupplierQuotationDate);
    const own = held.conditions.filter((condition) => isOf(condition, place) && validityOf(condition).from === since);
    return [
      ...own.map((condition) => deletion(condition, Material)),
      {
        what: `release the info record ${number}`,
        send: (signal) =>
          odata.patch(
            infoRecordService,
            pathOf(organization),
            { SupplierQuotation: '', SupplierQuotationDate: null },
            organization.__metadata?.etag,
            signal,
          ),
      },
    ];
  }

  return kindOfParts(
    {
      read,
      taskOf,
      async lookup(documents, signal) {
        const marked = await findMarked(
          documents.map(({ key }) => key),
          signal,
        );
        return documents.flatMap(({ key }): Found[] => {
          const mark = shortMarker(key);
          const isThere = marked.some(({ SupplierQuotation }) => SupplierQuotation === mark);
          return isThere ? [{ key, reference: referenceOf(objectName, mark), contentHash: undefined }] : [];
        });
      },
      refused: ({ document }) => partners.forget(document.supplier),
    },
    deps,
  );
}

const perRequest = 20;

function taskFrom(
  steps: readonly Step[],
  {
    action,
    status,
    reference,
  }: { action: Task['action']; status: 'created' | 'updated' | 'cancelled'; reference: string },
): Task {
  const isNothing = steps.length === 0;
  return {
    action: isNothing ? 'none' : action,
    steps: steps.map(({ what }) => what),
    run: async (signal): Promise<Outcome> => {
      for (const { send } of steps) await send(signal);
      return { status: isNothing && status !== 'cancelled' ? 'unchanged' : status, reference };
    },
  };
}

function pathOf(organization: HeldOrganization): string {
  const { PurchasingInfoRecord, PurchasingInfoRecordCategory, PurchasingOrganization, Plant } = organization;
  return entityPath('A_PurgInfoRecdOrgPlantData', {
    PurchasingInfoRecord,
    PurchasingInfoRecordCategory,
    PurchasingOrganization,
    Plant,
  });
}

interface PriceTask {
  readonly supplier: string;
  readonly mark: string;
  readonly wanted: Wanted;
  readonly price: WantedPrice;
  readonly record: HeldRecord | undefined;
  readonly organization: HeldOrganization | undefined;
  readonly validity: { readonly from: string; readonly to: string };
}

function rateOf({ currency }: Wanted, { price, unit }: WantedPrice): Record<string, string> {
  return {
    ConditionRateValue: price.amount,
    ConditionRateValueUnit: currency,
    ConditionQuantity: price.per,
    ConditionQuantityUnit: unit,
  };
}

function isAsWanted(held: HeldCondition, wanted: Wanted, price: WantedPrice): boolean {
  const scales = held.to_PurgPricingCndnRecdScale;
  return (
    isSameNumber(held.ConditionRateValue, price.price.amount) &&
    isSameNumber(held.ConditionQuantity, price.price.per) &&
    held.ConditionRateValueUnit === wanted.currency &&
    held.ConditionQuantityUnit === price.unit &&
    scales.length === price.scales.length &&
    price.scales.every(({ from, amount }) =>
      scales.some(
        (scale) => isSameNumber(scale.ConditionScaleQuantity, from) && isSameNumber(scale.ConditionRateValue, amount),
      ),
    )
  );
}
