/**
 * Reads suppliers and purchase requisitions that have changed. A read asks for everything since the day (suppliers) or
 * the time (requisitions) of the checkpoint less the overlap, page by page in the order of SAP's numbers. A record that
 * changes during the read, behind the page, has a stamp after the read's beginning, where the next read begins.
 *
 *     no checkpoint                          everything, from the first number
 *     {"began":"…T10:00…","after":"1000123"} a page of that read: go on after the number
 *     {"since":"…T10:00…"}                   the read has ended: what has changed since 10:00, less the overlap
 */
import {
  type Clock,
  ConfigError,
  type ReadPage,
  type RequisitionRecord,
  readDecimal,
  readFrom,
  roundTo,
  type SupplierRecord,
  timeFromMs,
  z,
} from 'sourcing-bridge/connector';
import { type HeldPartner, listPartners, nameOf } from './held-partners.ts';
import type { Deps } from './kind.ts';
import { anyOf, decimalOrZero, expanded, flagOrFalse, literal, msOfDate, textOrEmpty } from './odata.ts';

export const requisitionService = 'API_PURCHASEREQ_PROCESS_SRV';

const checkpointForm = z.object({
  /** From when on; undefined: everything. */
  since: z.string().optional(),
  began: z.string().optional(),
  after: z.string().optional(),
});

const earliestMs = Date.parse('1900-01-01T00:00:00Z');

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
const requisition = z.object({
  PurchaseRequisition: z.string(),
  PurReqnDescription: textOrEmpty,
  to_PurchaseReqnItem: expanded(requisitionItem),
});
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

interface Window {
  /** Undefined: everything. */
  readonly sinceMs: number | undefined;
  readonly after: string;
  readonly top: number;
}

export function createReads({ odata, settings }: Deps, clock: Clock) {
  const { read_page, read_overlap_seconds } = settings;

  /** The pages of one read; `page` returns records and the last number that it has seen, undefined where none is left. */
  async function* readPages<R>(
    checkpoint: string | undefined,
    signal: AbortSignal,
    page: (window: Window) => Promise<{ records: R[]; last: string | undefined }>,
  ): AsyncGenerator<{ records: R[]; checkpoint: string }> {
    const stored = checkpoint === undefined ? {} : parseCheckpoint(checkpoint);
    const began = stored.began ?? timeFromMs(clock.nowMs());
    const sinceMs = stored.since === undefined ? undefined : Date.parse(stored.since) - read_overlap_seconds * 1_000;
    let { after = '' } = stored;
    while (!signal.aborted) {
      const { records, last } = await page({ sinceMs, after, top: read_page });
      // The end of a read is a page of its own, without records where there are none.
      if (last === undefined) {
        yield { records, checkpoint: JSON.stringify({ since: began }) };
        return;
      }
      after = last;
      yield {
        records,
        checkpoint: JSON.stringify({ ...(stored.since === undefined ? {} : { since: stored.since }), began, after }),
      };
    }
    signal.throwIfAborted();
  }

  async function partnersPage({ sinceMs, after, top }: Window, signal: AbortSignal) {
    // A partner that was never changed has no date of a change.
    const day =
      sinceMs === undefined ? undefined : `datetime'${new Date(sinceMs).toISOString().slice(0, 10)}T00:00:00'`;
    const since = day === undefined ? [] : [`(LastChangeDate ge ${day} or CreationDate ge ${day})`];
    const filter = [`Supplier ne ''`, ...(after === '' ? [] : [`BusinessPartner gt ${literal(after)}`]), ...since].join(
      ' and ',
    );
    const rows = await listPartners(odata, { filter, orderby: 'BusinessPartner', top }, signal);
    return {
      records: rows.flatMap((partner) => supplierOf(partner, settings.purchasing_organization)),
      last: rows.length < top ? undefined : rows.at(-1)?.BusinessPartner,
    };
  }

  async function requisitionsPage({ sinceMs, after, top }: Window, signal: AbortSignal) {
    const from = new Date(sinceMs ?? earliestMs).toISOString();
    const since =
      sinceMs === undefined
        ? []
        : [
            `(LastChangeDateTime ge datetimeoffset'${from}' or CreationDate ge datetime'${from.slice(0, 10)}T00:00:00')`,
          ];
    const filter = [...(after === '' ? [] : [`PurchaseRequisition gt ${literal(after)}`]), ...since].join(' and ');
    const changed = await odata.list(
      requisitionService,
      'A_PurchaseRequisitionItem',
      z.object({ PurchaseRequisition: z.string() }),
      { ...(filter === '' ? {} : { filter }), select: ['PurchaseRequisition'], orderby: 'PurchaseRequisition', top },
      signal,
    );
    const numbers = [...new Set(changed.map((item) => item.PurchaseRequisition))];
    const records: RequisitionRecord[] = [];
    for (let start = 0; start < numbers.length; start += perRequest) {
      const filter = anyOf('PurchaseRequisition', numbers.slice(start, start + perRequest));
      const rows = await odata.list(
        requisitionService,
        'A_PurchaseRequisitionHeader',
        requisition,
        { filter, expand: ['to_PurchaseReqnItem'], orderby: 'PurchaseRequisition' },
        signal,
      );
      records.push(...rows.flatMap(requisitionOf));
    }
    // The last requisition is complete, however many of its items the page has: they are read with it.
    return { records, last: changed.length < top ? undefined : numbers.at(-1) };
  }

  return readFrom({
    supplier: (checkpoint, signal): AsyncIterable<ReadPage<'supplier'>> =>
      readPages(checkpoint, signal, (window) => partnersPage(window, signal)),
    requisition: (checkpoint, signal): AsyncIterable<ReadPage<'requisition'>> =>
      readPages(checkpoint, signal, (window) => requisitionsPage(window, signal)),
  });
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
      yield [...new Set(rows.filter(isOpen).map((item) => item.PurchaseRequisition))];
      if (rows.length < top) return;
      after = rows.at(-1);
    }
  };
}

function behind({ PurchaseRequisition: number, PurchaseRequisitionItem: item }: OpenItem): string {
  const [after, within] = [literal(number), literal(item)];
  return `(PurchaseRequisition gt ${after} or (PurchaseRequisition eq ${after} and PurchaseRequisitionItem gt ${within}))`;
}

const perRequest = 20;
/** A price for 3 pieces has no end of decimals for one. */
const pricePlaces = 6;

function parseCheckpoint(text: string): z.output<typeof checkpointForm> {
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch {
    json = undefined;
  }
  const { data } = checkpointForm.safeParse(json);
  if (!data)
    throw new ConfigError(
      `The checkpoint ${text.slice(0, 100)} is not one of this connector: read from the beginning.`,
    );
  return data;
}

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
      external_id: external === '' || external.startsWith('SB-') ? number : external,
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
      reference_id: PurchaseRequisition,
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
    line: item.PurchaseRequisitionItem,
    name: name === '' ? `${item.PurchaseRequisition} ${item.PurchaseRequisitionItem}` : name,
    ...(item.Material === '' ? {} : { description: `Material ${item.Material}` }),
    quantity: readDecimal(item.RequestedQuantity, 'RequestedQuantity').toFixed(),
    ...(item.BaseUnit === '' ? {} : { unit: item.BaseUnit }),
    ...(isPriced
      ? { target_price: roundTo(price.toFixed(), pricePlaces, 'the price'), currency: item.PurReqnItemCurrency }
      : {}),
  };
}
