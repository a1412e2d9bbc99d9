/**
 * Bids as supplier quotations of a request for quotation in SAP (API_QTN_PROCESS_SRV). The quotation is made by the
 * function CreateFromRFQ, which copies the items of the request; then its prices are changed item by item, and last, if
 * the settings say so, it is submitted. It is found by request and supplier, of which SAP has one quotation, and carries
 * the mark of the document's key as SupplierQuotationExternalID. After a kill the next write compares it again.
 */
import {
  ConflictError,
  DataError,
  type Operation,
  type Outcome,
  type QuotationDocument,
  type QuotationLine,
  timeFromMs,
  z,
} from 'sourcing-bridge/connector';
import { type Deps, type Kind, kindOfParts, nothingToDo, referenceOf, type Task } from './kind.ts';
import { fitted } from './limits.ts';
import { checkFields } from './mapping-fields.ts';
import { shortMarker } from './markers.ts';
import {
  anyOf,
  dateLiteral,
  decimalOrZero,
  entityPath,
  expanded,
  literal,
  metadataForm,
  odataDate,
  textOrEmpty,
} from './odata.ts';
import { plainCode } from './order-record.ts';
import { isSameNumber, netPrice, orderQuantity, type Price } from './prices.ts';

export const quotationService = 'API_QTN_PROCESS_SRV';
const objectName = 'SupplierQuotation';
/** QTNLifecycleStatus of a quotation that was not submitted yet. */
const inPreparation = '01';

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
  QTNLifecycleStatus: textOrEmpty,
  to_SupplierQuotationItem: expanded(heldItem),
  __metadata: metadataForm,
});
type HeldQuotation = z.output<typeof heldQuotation>;
const made = z.object({ SupplierQuotation: z.string().min(1) });

interface WantedItem {
  readonly lot: string;
  /** RequestForQuotationItem. */
  readonly item: string;
  readonly quantity: string | undefined;
  readonly price: Price;
}

interface Change {
  readonly what: string;
  readonly path: string;
  readonly body: object;
  readonly etag: string | undefined;
}

export function createQuotations(deps: Deps): Kind<'quotation'> {
  const { odata, settings, partners, clock } = deps;

  async function read(documents: readonly QuotationDocument[], signal: AbortSignal): Promise<HeldQuotation[]> {
    await partners.find(
      documents.map(({ supplier }) => supplier),
      signal,
    );
    const requests = [...new Set(documents.flatMap((document) => requestIn(document) ?? []))];
    const filters = [
      anyOf(
        'SupplierQuotationExternalID',
        documents.map(({ key }) => shortMarker(key)),
      ),
      ...(requests.length === 0 ? [] : [anyOf('RequestForQuotation', requests)]),
    ];
    const query = { filter: filters.join(' or '), expand: ['to_SupplierQuotationItem'] };
    return odata.list(quotationService, 'A_SupplierQuotation', heldQuotation, query, signal);
  }

  /** The quotation of this document; undefined for none. Throws ConflictError for several, and for one of a person. */
  function heldOf(document: QuotationDocument, all: readonly HeldQuotation[]): HeldQuotation | undefined {
    const mark = shortMarker(document.key);
    const marked = all.filter(({ SupplierQuotationExternalID: id }) => id === mark);
    if (marked.length > 1)
      throw new ConflictError(
        `SAP holds ${marked.length} supplier quotations for ${document.key}: ${marked.map(({ SupplierQuotation }) => SupplierQuotation).join(', ')}. Delete all but one of them in SAP.`,
      );
    return marked[0];
  }

  /** One that a kill has left without its mark. */
  function unmarkedOf(request: string, supplier: string, all: readonly HeldQuotation[]): HeldQuotation | undefined {
    const own = all.filter((held) => held.RequestForQuotation === request && held.Supplier === supplier);
    const [other] = own.filter(({ SupplierQuotationExternalID: id }) => id !== '');
    const named = (held: readonly HeldQuotation[]) => held.map(({ SupplierQuotation }) => SupplierQuotation).join(', ');
    if (other)
      throw new ConflictError(
        `the supplier has the quotation ${other.SupplierQuotation} for this request for quotation in SAP, with the number ${other.SupplierQuotationExternalID} (SupplierQuotationExternalID), which is another one's`,
      );
    if (own.length > 1)
      throw new ConflictError(`the supplier has several quotations for this request for quotation: ${named(own)}`);
    return own[0];
  }

  function taskOf({ document, action, reference }: Operation<'quotation'>, all: readonly HeldQuotation[]): Task {
    const own = heldOf(document, all);
    if (action === 'cancel' || document.lines.length === 0) return removal(own, reference);
    const supplier = partners.numberOf(document.supplier);
    const request = requestOf(document);
    if (own && (own.Supplier !== supplier || own.RequestForQuotation !== request))
      throw new ConflictError(
        `quotation ${own.SupplierQuotation} is of supplier ${own.Supplier} for the request ${own.RequestForQuotation}: delete it in SAP`,
      );
    const items = document.lines.map((line) => wantedItem(line, document.currency));
    const held = own ?? unmarkedOf(request, supplier, all);
    if (!held)
      return {
        action: 'create',
        steps: [`create a quotation of supplier ${supplier} for the request ${request}`, ...items.map(shownItem)],
        run: (signal) => create(document, { request, supplier, items }, signal),
      };
    const changes = changesOf(document, held, items);
    const isDue = changes.length > 0 || held.QTNLifecycleStatus === inPreparation;
    const submits = settings.quotation_state === 'submitted' && isDue;
    const ownReference = referenceOf(objectName, held.SupplierQuotation);
    if (changes.length === 0 && !submits) return nothingToDo(ownReference);
    return {
      action: own ? 'amend' : 'create',
      steps: [...changes.map(({ what }) => what), ...(submits ? ['submit the quotation'] : [])],
      run: async (signal): Promise<Outcome> => {
        await change(held.SupplierQuotation, changes, signal);
        return { status: own ? 'updated' : 'created', reference: ownReference };
      },
    };
  }

  function removal(held: HeldQuotation | undefined, reference: string | undefined): Task {
    if (!held)
      return {
        action: 'none',
        steps: [],
        run: async () => ({ status: 'cancelled', reference: reference ?? '' }),
      };
    const { SupplierQuotation: number, to_SupplierQuotationItem: items, __metadata } = held;
    const awarded = items.find(({ AwardedQuantity }) => !isSameNumber(AwardedQuantity, '0'));
    if (awarded)
      throw new ConflictError(
        `quotation ${number} was awarded in SAP (AwardedQuantity ${awarded.AwardedQuantity}), so it is not deleted`,
      );
    return {
      action: 'cancel',
      steps: [`delete the quotation ${number}`],
      run: async (signal): Promise<Outcome> => {
        const path = entityPath('A_SupplierQuotation', number);
        await odata.delete(quotationService, path, __metadata?.etag, signal);
        return { status: 'cancelled', reference: referenceOf(objectName, number) };
      },
    };
  }

  async function create(
    document: QuotationDocument,
    { request, supplier, items }: { request: string; supplier: string; items: readonly WantedItem[] },
    signal: AbortSignal,
  ): Promise<Outcome> {
    const day = document.fields?.['submission_date'] ?? timeFromMs(clock.nowMs()).slice(0, 10);
    odataDate(day, 'the field submission_date');
    const { SupplierQuotation: number } = await odata.call(
      quotationService,
      'CreateFromRFQ',
      made,
      {
        RequestForQuotation: literal(request),
        Supplier: literal(supplier),
        QuotationSubmissionDate: dateLiteral(day),
      },
      signal,
    );
    const filter = anyOf('SupplierQuotation', [number]);
    const query = { filter, expand: ['to_SupplierQuotationItem'] };
    const [held] = await odata.list(quotationService, 'A_SupplierQuotation', heldQuotation, query, signal);
    if (!held) throw new DataError(`SAP made the quotation ${number}, and does not show it`);
    await change(number, changesOf(document, held, items), signal);
    return { status: 'created', reference: referenceOf(objectName, number) };
  }

  /** First the mark, then each item, last the submission. */
  async function change(number: string, changes: readonly Change[], signal: AbortSignal): Promise<void> {
    for (const { path, body, etag } of changes) await odata.patch(quotationService, path, body, etag, signal);
    if (settings.quotation_state === 'submitted')
      await odata.call(quotationService, 'Submit', z.unknown(), { SupplierQuotation: literal(number) }, signal);
  }

  function changesOf(document: QuotationDocument, held: HeldQuotation, items: readonly WantedItem[]): Change[] {
    const { SupplierQuotation: number, __metadata } = held;
    const mark = shortMarker(document.key);
    const head = {
      ...(held.SupplierQuotationExternalID === mark ? {} : { SupplierQuotationExternalID: mark }),
      ...(held.DocumentCurrency === document.currency ? {} : { DocumentCurrency: document.currency }),
    };
    const changes: Change[] = [];
    if (Object.keys(head).length > 0)
      changes.push({
        what: `set ${Object.entries(head)
          .map(([name, value]) => `${name} to ${value}`)
          .join(', ')}`,
        path: entityPath('A_SupplierQuotation', number),
        body: head,
        etag: __metadata?.etag,
      });
    const byItem = new Map(
      held.to_SupplierQuotationItem.map((item) => [plainCode(item.RequestForQuotationItem), item]),
    );
    for (const wanted of items) {
      const item = byItem.get(plainCode(wanted.item));
      if (!item)
        throw new DataError(
          `lot "${wanted.lot}": the request for quotation ${held.RequestForQuotation} has no item ${wanted.item} (RequestForQuotationItem)`,
        );
      byItem.delete(plainCode(wanted.item));
      const body = changedItem(item, wanted);
      if (Object.keys(body).length > 0) changes.push(itemChange(number, item, body, `lot "${wanted.lot}"`));
    }
    // A lot without a bid, or without one any more, has no price.
    for (const item of byItem.values())
      if (!isSameNumber(item.NetPriceAmount, '0'))
        changes.push(itemChange(number, item, { NetPriceAmount: '0' }, 'no bid any more'));
    return changes;
  }

  return kindOfParts(
    {
      read: (operations, signal) =>
        read(
          operations.map(({ document }) => document),
          signal,
        ),
      taskOf,
      async lookup(documents, signal) {
        const all = await read(documents, signal);
        return documents.flatMap(({ key }) =>
          all
            .filter(({ SupplierQuotationExternalID: id }) => id === shortMarker(key))
            .map(({ SupplierQuotation }) => ({
              key,
              reference: referenceOf(objectName, SupplierQuotation),
              contentHash: undefined,
            })),
        );
      },
      refused: ({ document }) => partners.forget(document.supplier),
    },
    deps,
  );
}

function itemChange(number: string, held: z.output<typeof heldItem>, body: object, why: string): Change {
  const { SupplierQuotationItem, __metadata } = held;
  const values = Object.entries(body).map(([name, value]) => `${name} to ${value}`);
  return {
    what: `change item ${SupplierQuotationItem} (${why}): ${values.join(', ')}`,
    path: entityPath('A_SupplierQuotationItem', { SupplierQuotation: number, SupplierQuotationItem }),
    body,
    etag: __metadata?.etag,
  };
}

function changedItem(held: z.output<typeof heldItem>, { price, quantity }: WantedItem): Record<string, string> {
  const isSamePrice = isSameNumber(price.amount, held.NetPriceAmount) && isSameNumber(price.per, held.NetPriceQuantity);
  return {
    ...(isSamePrice ? {} : { NetPriceAmount: price.amount, NetPriceQuantity: price.per }),
    ...(quantity === undefined || isSameNumber(quantity, held.ScheduleLineOrderQuantity)
      ? {}
      : { ScheduleLineOrderQuantity: quantity }),
  };
}

function shownItem({ lot, item, quantity, price }: WantedItem): string {
  return `${lot} (item ${item}): ${quantity ?? 'the requested quantity'} at ${price.amount}/${price.per}`;
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
  return {
    lot,
    item,
    quantity: quantity === undefined ? undefined : orderQuantity(quantity, `${where}: quantity`),
    price: netPrice(unitPrice, currency, `${where}: unit_price`),
  };
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
