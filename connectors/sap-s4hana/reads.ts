/**
 * Reads suppliers and purchase requisitions that have changed, in the order of SAP's numbers: suppliers by the day,
 * requisitions by the time of their last change.
 */
import {
  type RequisitionRecord,
  readDecimal,
  readFrom,
  roundTo,
  type SupplierRecord,
  timeFromMs,
  walkById,
  z,
} from 'sourcing-bridge/connector';
import { literal } from './batch.ts';
import { type HeldPartner, listPartners, nameOf } from './held-partners.ts';
import type { Deps } from './kind.ts';
import {
  dateLiteral,
  decimalOrZero,
  equals,
  expanded,
  flagOrFalse,
  metadataForm,
  msOfDate,
  textOrEmpty,
} from './odata.ts';
import { plainCode } from './sap-values.ts';

export const requisitionService = 'API_PURCHASEREQ_PROCESS_SRV';

/** Suppliers are read by the day, in the time zone of SAP. */
const overlapMs = 86_400_000;

const requisitionItem = z.object({
  PurchaseRequisition: z.string(),
  PurchaseRequisitionItem: z.string(),
  PurchaseRequisitionItemText: textOrEmpty,
  Material: textOrEmpty,
  MaterialGroup: textOrEmpty,
  Plant: textOrEmpty,
  PurchasingGroup: textOrEmpty,
  RequestedQuantity: decimalOrZero,
  OrderedQuantity: decimalOrZero,
  BaseUnit: textOrEmpty,
  PurchaseRequisitionPrice: decimalOrZero,
  PurReqnPriceQuantity: decimalOrZero,
  PurReqnItemCurrency: textOrEmpty,
  DeliveryDate: z.string().nullish(),
  RequisitionerName: textOrEmpty,
  CreatedByUser: textOrEmpty,
  IsDeleted: textOrEmpty,
  IsClosed: flagOrFalse,
  IsPurReqnBlocked: textOrEmpty,
  ReleaseIsNotCompleted: flagOrFalse,
});
export const requisitionText = z.object({
  DocumentText: z.string(),
  TechnicalObjectType: z.string(),
  Language: z.string(),
  NoteDescription: textOrEmpty,
  __metadata: metadataForm,
});
const requisition = z.object({
  PurchaseRequisition: z.string(),
  PurReqnDescription: textOrEmpty,
  to_PurchaseReqnItem: expanded(requisitionItem),
});
export const requisitionForms = {
  A_PurchaseRequisitionHeader: requisition,
  A_PurchaseRequisitionItem: requisitionItem,
  A_PurchaseReqnItemText: requisitionText,
};
type Item = z.output<typeof requisitionItem>;

/** What says whether an item is open. */
const openItem = requisitionItem.pick({
  PurchaseRequisition: true,
  PurchaseRequisitionItem: true,
  RequestedQuantity: true,
  OrderedQuantity: true,
  IsDeleted: true,
  IsClosed: true,
  IsPurReqnBlocked: true,
  ReleaseIsNotCompleted: true,
});
type OpenItem = z.output<typeof openItem>;

type Row = Readonly<{ id: string }>;

export function createReads(deps: Deps) {
  const { clock, settings } = deps;
  const walk = { connector: 'SAP', beforeFirst: '', overlapMs, pageSize: settings.read_page };
  const nowMs = async () => clock.nowMs();
  return readFrom({
    supplier: (checkpoint, signal) => {
      const changedSince = (sinceMs: number | undefined) => (after: string) =>
        partnersAfter(deps, after, sinceMs, signal);
      const recordsOf = async (rows: readonly (Row & { partner: HeldPartner })[]) =>
        rows.flatMap(({ partner }) => supplierOf(partner, settings.purchasing_organization));
      return walkById({ ...walk, nowMs, changedSince, recordsOf }, checkpoint, signal);
    },
    requisition: (checkpoint, signal) => {
      const changedSince = (sinceMs: number | undefined) => (after: string) =>
        changedItemsAfter(deps, after, sinceMs, signal);
      // The last requisition is complete, however many of its items the page has: they are read with it.
      const recordsOf = (rows: readonly Row[]) => requisitionsOf(deps, [...new Set(rows.map(({ id }) => id))], signal);
      return walkById({ ...walk, nowMs, changedSince, recordsOf }, checkpoint, signal);
    },
  });
}

async function partnersAfter(
  { odata, settings }: Deps,
  after: string,
  sinceMs: number | undefined,
  signal: AbortSignal,
) {
  // A partner that was never changed has no date of a change.
  const day = sinceMs === undefined ? undefined : dateLiteral(new Date(sinceMs).toISOString().slice(0, 10));
  const since = day === undefined ? [] : [`(LastChangeDate ge ${day} or CreationDate ge ${day})`];
  const filter = [`Supplier ne ''`, `BusinessPartner gt ${literal(after)}`, ...since].join(' and ');
  const query = { filter, orderby: 'BusinessPartner', top: settings.read_page };
  const partners = await listPartners(odata, query, signal);
  return partners.map((partner) => ({ id: partner.BusinessPartner, partner }));
}

async function changedItemsAfter(
  { odata, settings }: Deps,
  after: string,
  sinceMs: number | undefined,
  signal: AbortSignal,
): Promise<Row[]> {
  const time = sinceMs === undefined ? undefined : new Date(sinceMs).toISOString();
  const since =
    time === undefined
      ? []
      : [`(LastChangeDateTime ge datetimeoffset'${time}' or CreationDate ge ${dateLiteral(time.slice(0, 10))})`];
  const query = {
    filter: [`PurchaseRequisition gt ${literal(after)}`, ...since].join(' and '),
    select: ['PurchaseRequisition'],
    orderby: 'PurchaseRequisition',
    top: settings.read_page,
  };
  const form = z.object({ PurchaseRequisition: z.string() });
  const items = await odata.list(requisitionService, 'A_PurchaseRequisitionItem', form, query, signal);
  return items.map(({ PurchaseRequisition }) => ({ id: PurchaseRequisition }));
}

async function requisitionsOf(
  { odata }: Deps,
  numbers: readonly string[],
  signal: AbortSignal,
): Promise<RequisitionRecord[]> {
  const rows = await odata.listAny(
    requisitionService,
    'A_PurchaseRequisitionHeader',
    requisition,
    equals('PurchaseRequisition', numbers),
    { expand: ['to_PurchaseReqnItem'], orderby: 'PurchaseRequisition' },
    signal,
  );
  return rows.flatMap(requisitionOf);
}

/**
 * Returns the session's `openRequisitions`: a planning run (MRP) deletes requisitions that it has made, without a trace.
 * The pages go by item, so that one may end within a requisition.
 */
export function createOpenRequisitions({ odata, settings: { read_page: top } }: Deps) {
  return async function* openRequisitions(signal: AbortSignal): AsyncIterable<readonly string[]> {
    let after: OpenItem | undefined;
    for (;;) {
      const rows = await odata.list(
        requisitionService,
        'A_PurchaseRequisitionItem',
        openItem,
        {
          filter: [`IsDeleted ne 'X' and IsClosed ne true`, ...(after ? [behind(after)] : [])].join(' and '),
          select: Object.keys(openItem.shape),
          orderby: 'PurchaseRequisition,PurchaseRequisitionItem',
          top,
        },
        signal,
      );
      yield [...new Set(rows.filter(isOpen).map((item) => plainCode(item.PurchaseRequisition)))];
      if (rows.length < top) return;
      after = rows.at(-1);
    }
  };
}

function behind({ PurchaseRequisition: number, PurchaseRequisitionItem: item }: OpenItem): string {
  const [after, within] = [literal(number), literal(item)];
  return `(PurchaseRequisition gt ${after} or (PurchaseRequisition eq ${after} and PurchaseRequisitionItem gt ${within}))`;
}

/** A price for 3 pieces has no end of decimals for one. */
const pricePlaces = 6;

/** None for a partner without a name. */
function supplierOf(partner: HeldPartner, organization: string): SupplierRecord[] {
  const { BusinessPartnerIDByExtSystem: external, Supplier: number, to_Supplier: supplier } = partner;
  const name = nameOf(partner);
  if (name === '') return [];
  const [address] = partner.to_BusinessPartnerAddress;
  const isBlockedHere = supplier?.to_SupplierPurchasingOrg.some(
    (entry) => entry.PurchasingOrganization === organization && entry.PurchasingIsBlockedForSupplier,
  );
  const fields: Record<string, string> = {};
  for (const field of ['StreetName', 'HouseNumber', 'PostalCode', 'CityName', 'Region', 'Country'] as const)
    if (address && address[field] !== '') fields[field] = address[field];
  for (const { BPTaxType, BPTaxNumber } of partner.to_BusinessPartnerTax)
    if (BPTaxNumber !== '') fields[`BPTaxNumber ${BPTaxType}`] = BPTaxNumber;
  return [
    {
      // A hash is no number that a person knows.
      external_id: external === '' || external.startsWith('SB-') ? plainCode(number) : external,
      name,
      archived:
        partner.IsMarkedForArchiving ||
        partner.BusinessPartnerIsBlocked ||
        supplier?.PurchasingIsBlocked === true ||
        supplier?.DeletionIndicator === true ||
        isBlockedHere === true,
      fields,
      contacts: partner.to_BusinessPartnerAddress.flatMap((entry) =>
        entry.to_EmailAddress
          .filter(({ EmailAddress }) => EmailAddress !== '')
          .map(({ EmailAddress, AddressCommunicationRemarkText: remark }) => ({
            name: remark === '' ? EmailAddress : remark,
            email: EmailAddress,
          })),
      ),
    },
  ];
}

/** None for a requisition without items. */
function requisitionOf({
  PurchaseRequisition,
  PurReqnDescription,
  to_PurchaseReqnItem: all,
}: z.output<typeof requisition>): RequisitionRecord[] {
  const wanted = all.filter(isOpen);
  const items = wanted.length > 0 ? wanted : all;
  const [first] = items;
  if (!first) return [];
  const days = items.flatMap(({ DeliveryDate }) => msOfDate(DeliveryDate) ?? []);
  const requester = first.RequisitionerName === '' ? first.CreatedByUser : first.RequisitionerName;
  const tags = [
    { name: 'Plant', value: first.Plant },
    { name: 'Purchasing Group', value: first.PurchasingGroup },
  ].filter(({ value }) => value !== '');
  const name = PurReqnDescription === '' ? first.PurchaseRequisitionItemText : PurReqnDescription;
  return [
    {
      reference_id: plainCode(PurchaseRequisition),
      name: name === '' ? PurchaseRequisition : name,
      ...(requester === '' ? {} : { requested_by: requester }),
      ...(days.length === 0 ? {} : { needed_by: timeFromMs(Math.min(...days)) }),
      ...(first.MaterialGroup === '' ? {} : { category: first.MaterialGroup }),
      tags,
      items: items.map(itemOf),
      open: wanted.length > 0,
    },
  ];
}

/** Still to be sourced: released, not deleted, closed or blocked, and not ordered as a whole. */
function isOpen(item: OpenItem): boolean {
  const isGone = item.IsDeleted !== '' || item.IsClosed || item.IsPurReqnBlocked !== '' || item.ReleaseIsNotCompleted;
  return !isGone && readDecimal(item.RequestedQuantity, 'RequestedQuantity').greaterThan(item.OrderedQuantity);
}

function itemOf(item: Item): RequisitionRecord['items'][number] {
  const per = readDecimal(item.PurReqnPriceQuantity, 'PurReqnPriceQuantity');
  const price = readDecimal(item.PurchaseRequisitionPrice, 'PurchaseRequisitionPrice').dividedBy(
    per.isZero() ? 1 : per,
  );
  const name = item.PurchaseRequisitionItemText === '' ? item.Material : item.PurchaseRequisitionItemText;
  const isPriced = !price.isZero() && item.PurReqnItemCurrency !== '';
  return {
    line: plainCode(item.PurchaseRequisitionItem),
    name: name === '' ? `${item.PurchaseRequisition} ${item.PurchaseRequisitionItem}` : name,
    ...(item.Material === '' ? {} : { description: `Material ${plainCode(item.Material)}` }),
    quantity: readDecimal(item.RequestedQuantity, 'RequestedQuantity').toFixed(),
    ...(item.BaseUnit === '' ? {} : { unit: item.BaseUnit }),
    ...(isPriced
      ? { target_price: roundTo(price.toFixed(), pricePlaces, 'the price'), currency: item.PurReqnItemCurrency }
      : {}),
  };
}
