/**
 * Bids as supplier quotations of a request for quotation in SAP (API_QTN_PROCESS_SRV). The quotation is made by the
 * function CreateFromRFQ, which copies the items of the request; then it gets its mark, and its prices item by item. It is
 * found by request and supplier, of which SAP has one quotation, and carries the mark of the document's key as
 * SupplierQuotationExternalID. After a kill the next write compares it again. It stays in preparation: SAP changes no
 * submitted one.
 */
import {
  ConflictError,
  DataError,
  type Kind,
  type Operation,
  type QuotationDocument,
  type QuotationLine,
  timeFromMs,
  z,
} from 'sourcing-bridge/connector';
import { type Change, literal } from './batch.ts';
import { type Decision, type Deps, kindOfParts, nothingToDo, referenceOf } from './kind.ts';
import { fitted } from './limits.ts';
import { checkFields } from './mapping-fields.ts';
import { shortMarker } from './markers.ts';
import {
  dateLiteral,
  decimalOrZero,
  equals,
  expanded,
  metadataForm,
  type OData,
  odataDate,
  textOrEmpty,
} from './odata.ts';
import { findSuppliers, type PartnerOf } from './partners.ts';
import { netPrice, orderQuantity } from './prices.ts';
import { changed, isSameCode, isSameNumber, plainCode, pricedTogether, shown } from './sap-values.ts';

export const quotationService = 'API_QTN_PROCESS_SRV';
const objectName = 'SupplierQuotation';

const heldItem = z.object({
  SupplierQuotationItem: z.string(),
  RequestForQuotationItem: textOrEmpty,
  ScheduleLineOrderQuantity: decimalOrZero,
  AwardedQuantity: decimalOrZero,
  NetPriceAmount: decimalOrZero,
  NetPriceQuantity: decimalOrZero,
  __metadata: metadataForm,
});
const heldQuotation = z.object({
  SupplierQuotation: z.string().min(1),
  RequestForQuotation: textOrEmpty,
  Supplier: textOrEmpty,
  DocumentCurrency: textOrEmpty,
  SupplierQuotationExternalID: textOrEmpty,
  to_SupplierQuotationItem: expanded(heldItem),
  __metadata: metadataForm,
});
type HeldItem = z.output<typeof heldItem>;
type HeldQuotation = z.output<typeof heldQuotation>;
export const quotationForms = { A_SupplierQuotation: heldQuotation, A_SupplierQuotationItem: heldItem };
const made = z.object({ SupplierQuotation: z.string().min(1) });

interface WantedItem {
  readonly lot: string;
  /** RequestForQuotationItem. */
  readonly item: string;
  /** Fields of A_SupplierQuotationItem. */
  readonly fields: Readonly<Record<string, string>>;
}

interface Held {
  readonly quotations: readonly HeldQuotation[];
  readonly partnerOf: PartnerOf;
}

export function createQuotations(deps: Deps): Kind<'quotation'> {
  const { odata } = deps;
  return kindOfParts<'quotation', Held>(
    {
      async read(operations, signal) {
        const documents = operations.map(({ document }) => document);
        const suppliers = documents.map(({ supplier }) => supplier);
        const partnerOf = await findSuppliers(odata, suppliers, signal);
        return { quotations: await find(odata, documents, signal), partnerOf };
      },
      decideOn: (operation, held) => decideOn(deps, operation, held),
      async lookup(documents, signal) {
        const all = await find(odata, documents, signal);
        return documents.flatMap(({ key }) =>
          markedBy(key, all).map((held) => ({ key, reference: numberOf(held), contentHash: undefined })),
        );
      },
    },
    deps,
  );
}

async function find(odata: OData, documents: readonly QuotationDocument[], signal: AbortSignal) {
  const marks = documents.map(({ key }) => shortMarker(key));
  const requests = [...new Set(documents.flatMap((document) => requestIn(document) ?? []))];
  const filters = [...equals('SupplierQuotationExternalID', marks), ...equals('RequestForQuotation', requests)];
  const query = { expand: ['to_SupplierQuotationItem'] };
  return odata.listAny(quotationService, 'A_SupplierQuotation', heldQuotation, filters, query, signal);
}

function markedBy(key: string, all: readonly HeldQuotation[]): HeldQuotation[] {
  return all.filter(({ SupplierQuotationExternalID: id }) => id.trimEnd() === shortMarker(key));
}

function numberOf({ SupplierQuotation }: HeldQuotation): string {
  return referenceOf(objectName, SupplierQuotation);
}

/** The quotation with the document's mark; undefined for none. Throws ConflictError for several. */
function heldOf({ key }: QuotationDocument, all: readonly HeldQuotation[]): HeldQuotation | undefined {
  const marked = markedBy(key, all);
  if (marked.length > 1)
    throw new ConflictError(
      `SAP holds ${marked.length} supplier quotations for ${key}: ${marked.map(({ SupplierQuotation }) => SupplierQuotation).join(', ')}. Delete all but one of them in SAP.`,
    );
  return marked[0];
}

/** One that has no mark yet. Throws ConflictError for a person's. */
function unmarkedOf(request: string, supplier: string, all: readonly HeldQuotation[]): HeldQuotation | undefined {
  const own = all.filter(
    (held) => isSameCode(held.RequestForQuotation, request) && isSameCode(held.Supplier, supplier),
  );
  const [other] = own.filter(({ SupplierQuotationExternalID: id }) => id !== '');
  if (other)
    throw new ConflictError(
      `the supplier has the quotation ${other.SupplierQuotation} for this request for quotation in SAP, with the number ${other.SupplierQuotationExternalID} (SupplierQuotationExternalID), which is another one's`,
    );
  if (own.length > 1)
    throw new ConflictError(
      `the supplier has several quotations for this request for quotation: ${own.map(({ SupplierQuotation }) => SupplierQuotation).join(', ')}`,
    );
  return own[0];
}

function decideOn(
  deps: Deps,
  { document, action, reference }: Operation<'quotation'>,
  { quotations, partnerOf }: Held,
): Decision {
  const { odata } = deps;
  const own = heldOf(document, quotations);
  if (action === 'cancel') return own ? removal(deps, own) : nothingToDo(reference ?? '');
  const { number: supplier } = partnerOf(document.supplier);
  const request = requestOf(document);
  if (own && !(isSameCode(own.Supplier, supplier) && isSameCode(own.RequestForQuotation, request)))
    throw new ConflictError(
      `quotation ${own.SupplierQuotation} is of supplier ${own.Supplier} for the request ${own.RequestForQuotation}: delete it in SAP`,
    );
  const items = document.lines.map((line) => wantedItem(line, document.currency));
  const held = own ?? unmarkedOf(request, supplier, quotations);
  if (!held) return creation(deps, document, { request, supplier, items });
  const changes = changesOf(document, held, items);
  if (changes.length === 0) return nothingToDo(numberOf(held));
  return {
    action: own ? 'amend' : 'create',
    steps: changes.map(({ what }) => what),
    reference: numberOf(held),
    run: async (signal) => {
      await odata.changeEach(quotationService, changes, numberOf(held), signal);
      return numberOf(held);
    },
  };
}

function removal({ odata }: Deps, held: HeldQuotation): Decision {
  const { SupplierQuotation: number, to_SupplierQuotationItem: items, __metadata } = held;
  const awarded = items.find(({ AwardedQuantity }) => !isSameNumber(AwardedQuantity, '0'));
  if (awarded)
    throw new ConflictError(
      `quotation ${number} was awarded in SAP (AwardedQuantity ${awarded.AwardedQuantity}), so it is not deleted`,
    );
  const what = `delete the quotation ${number}`;
  const entity = { set: 'A_SupplierQuotation', key: number, etag: __metadata?.etag };
  return {
    action: 'cancel',
    steps: [what],
    reference: numberOf(held),
    run: async (signal) => {
      await odata.change(quotationService, { what, method: 'DELETE', ...entity }, signal);
      return numberOf(held);
    },
  };
}

/** The quotation as SAP makes it. Its mark and its prices follow when it is read back. */
function creation(
  { odata, clock }: Deps,
  { fields }: QuotationDocument,
  { request, supplier, items }: { request: string; supplier: string; items: readonly WantedItem[] },
): Decision {
  const day = fields?.['submission_date'] ?? timeFromMs(clock.nowMs()).slice(0, 10);
  odataDate(day, 'the field submission_date');
  return {
    action: 'create',
    steps: [
      `create a quotation of supplier ${supplier} for the request ${request}`,
      ...items.map(({ lot, item, fields: values }) => `${lot} (item ${item}): ${shown(values)}`),
    ],
    reference: '',
    run: async (signal) => {
      const given = {
        RequestForQuotation: literal(request),
        Supplier: literal(supplier),
        QuotationSubmissionDate: dateLiteral(day),
      };
      const { SupplierQuotation } = await odata.call(quotationService, 'CreateFromRFQ', made, given, signal);
      return referenceOf(objectName, SupplierQuotation);
    },
  };
}

/** First the mark, then each item. A lot without a bid, or without one any more, has no price. */
function changesOf(document: QuotationDocument, held: HeldQuotation, items: readonly WantedItem[]): Change[] {
  const { SupplierQuotation, __metadata } = held;
  const wanted = { SupplierQuotationExternalID: shortMarker(document.key), DocumentCurrency: document.currency };
  const head = changed(wanted, held);
  const left = new Map(held.to_SupplierQuotationItem.map((item) => [plainCode(item.RequestForQuotationItem), item]));
  const changes = items.map(({ lot, item: number, fields }) => {
    const item = left.get(plainCode(number));
    if (!item)
      throw new DataError(
        `lot "${lot}": the request for quotation ${held.RequestForQuotation} has no item ${number} (RequestForQuotationItem)`,
      );
    left.delete(plainCode(number));
    return itemChange(held, item, pricedTogether(changed(fields, item), fields), `lot "${lot}"`);
  });
  const priced = [...left.values()].filter(({ NetPriceAmount }) => !isSameNumber(NetPriceAmount, '0'));
  const entity = { set: 'A_SupplierQuotation', key: SupplierQuotation, etag: __metadata?.etag };
  return [
    { what: `set ${shown(head)}`, method: 'PATCH' as const, ...entity, body: head },
    ...changes,
    ...priced.map((item) => itemChange(held, item, { NetPriceAmount: '0' }, 'no bid any more')),
  ].filter(({ body }) => Object.keys(body).length > 0);
}

function itemChange(
  { SupplierQuotation }: HeldQuotation,
  { SupplierQuotationItem, __metadata }: HeldItem,
  body: Readonly<Record<string, string>>,
  why: string,
) {
  const key = { SupplierQuotation, SupplierQuotationItem };
  const what = `change item ${SupplierQuotationItem} (${why}): ${shown(body)}`;
  return { what, method: 'PATCH' as const, set: 'A_SupplierQuotationItem', key, body, etag: __metadata?.etag };
}

/** Throws DataError for a bid that SAP cannot keep, with the names of the field and of the lot. */
function wantedItem(line: QuotationLine, currency: string): WantedItem {
  const { lot, quantity, unit_price: unitPrice } = line;
  const where = `lot "${lot}"`;
  checkFields(line.fields, 'lines of quotations');
  const item = line.fields?.['rfq_item'] ?? '';
  if (!/^\d{1,5}$/u.test(item))
    throw new DataError(
      `${where}: rfq_item is "${item.slice(0, 20)}", which is no item of a request for quotation (RequestForQuotationItem, at most 5 digits)`,
    );
  if (unitPrice === undefined)
    throw new DataError(
      `${where} has no unit_price, which SAP keeps for an item (NetPriceAmount): the flow has to name its column (unit_price_column)`,
    );
  const price = netPrice(unitPrice, currency, `${where}: unit_price`);
  const priced = { NetPriceAmount: price.amount, NetPriceQuantity: price.per };
  if (quantity === undefined) return { lot, item, fields: priced };
  const ScheduleLineOrderQuantity = orderQuantity(quantity, `${where}: quantity`);
  return { lot, item, fields: { ...priced, ScheduleLineOrderQuantity } };
}

/** Undefined where the mapping names none. */
function requestIn({ fields }: QuotationDocument): string | undefined {
  const request = fields?.['rfq'];
  return request === undefined || request === '' || request.length > 10 ? undefined : request;
}

function requestOf(document: QuotationDocument): string {
  checkFields(document.fields, 'quotations');
  const request = document.fields?.['rfq'] ?? '';
  if (request === '')
    throw new DataError(
      'the mapping names no request for quotation (rfq): SAP makes a supplier quotation only for one (RequestForQuotation)',
    );
  return fitted('RequestForQuotation', request, 'rfq');
}
