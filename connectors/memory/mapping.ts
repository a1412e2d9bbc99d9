/**
 * The mapping: documents of the bridge become objects of the ERP, and records of the ERP become records for the
 * sourcing service. An author of a connector fills this part in. It does no I/O. Amounts stay text from end to end,
 * because a JavaScript number would lose digits.
 */
import {
  type AwardDocument,
  type AwardLine,
  type Document,
  fieldsOf,
  type ReadField,
  type RequisitionRecord,
  type SupplierRecord,
} from 'sourcing-bridge/connector';

/** An object of the ERP. `key` and `hash` are fields that were added to the ERP for the bridge. */
export interface ErpObject {
  readonly key: string;
  readonly hash: string;
  readonly title: string;
  readonly partner?: { readonly number: string; readonly name: string } | undefined;
  readonly currency?: string | undefined;
  readonly total?: string | undefined;
  readonly state?: string | undefined;
  readonly contacts?: readonly { readonly name: string; readonly email: string }[];
  readonly dates?: readonly { readonly from: string | undefined; readonly to: string | undefined }[];
  readonly lines?: readonly ErpLine[];
  /** The bid sheet as a CSV. */
  readonly sheet?: string | undefined;
  /** Of a job: the reference of what it makes, and the id of what it has made. */
  readonly reference?: string | undefined;
  readonly made?: string | undefined;
  /** Base64. */
  readonly content?: string | undefined;
}

interface ErpLine {
  readonly item: string;
  /** Of an object of several partners: the number of this line's. */
  readonly partner?: string | undefined;
  readonly quantity?: string | undefined;
  readonly price?: string | undefined;
  readonly amount?: string | undefined;
  readonly text?: string | undefined;
  readonly choices?: readonly string[];
  readonly remark?: string | undefined;
  /** What the line of an order was raised as. */
  readonly requisition?: { readonly number: string; readonly line?: string | undefined };
}

/** The object for a document; `bytes` are those of a file. */
export function toErpObject(document: Document, hash: string, bytes?: Uint8Array): ErpObject {
  const { key } = document;
  switch (document.kind) {
    case 'supplier': {
      const { name, archived, contacts } = document;
      // Left out when `archived` is unknown: then the partner keeps its state.
      const state = archived === undefined ? {} : { state: archived ? 'blocked' : 'active' };
      return { key, hash, title: name, ...state, contacts };
    }
    case 'sourcing-event': {
      const { event, status, currency, rounds } = document;
      const dates = rounds.map(({ starts, ends }) => ({ from: starts, to: ends }));
      return { key, hash, title: event.name, state: status, currency, dates };
    }
    case 'award': {
      const { event, currency, total_cost, lines } = document;
      const partner = partnerOf(document);
      return { key, hash, title: event.name, partner, currency, total: total_cost, lines: lines.map(orderLine) };
    }
    case 'event-awards': {
      const { event, currency, total_cost, lines, bid_sheet_csv: sheet } = document;
      const erpLines = lines.map((line) => ({ ...orderLine(line), partner: partnerOf(line).number }));
      return { key, hash, title: event.name, currency, total: total_cost, lines: erpLines, sheet };
    }
    case 'quotation': {
      const { event, currency, lines } = document;
      const erpLines = lines.map(({ lot, quantity, unit_price, bids }) => ({
        item: lot,
        quantity,
        price: unit_price,
        amount: bids[0]?.value,
      }));
      return { key, hash, title: event.name, partner: partnerOf(document), currency, lines: erpLines };
    }
    case 'rfi-answers': {
      const erpLines = document.lines.map(({ question, value, options, comment }) => ({
        item: question.id,
        text: value,
        choices: options.map((option) => option.value),
        remark: comment,
      }));
      return { key, hash, title: document.event.name, partner: partnerOf(document), lines: erpLines };
    }
    case 'file': {
      const content = bytes && Buffer.from(bytes).toString('base64');
      return { key, hash, title: document.question.text ?? document.question.id, content };
    }
    case 'job': {
      // Left out, a value would stay as it was.
      const { type, status, created_entity: made = '', reference_id: reference = '', errors } = document;
      const lines = errors.map(({ path, message }, index) => ({ item: `${index + 1}`, text: message, remark: path }));
      return { key, hash, title: type, state: status, reference, made, lines };
    }
  }
}

/**
 * What is written for the document beside what the ERP's object holds. The key and the hash are the bridge's own marks.
 * The bytes of a file are not in its document, so they cannot be compared.
 */
export function compared(document: Document, held: unknown): { fields: ReadField[]; notCompared?: string[] } {
  const { key: _key, hash: _hash, content: _content, ...expected } = toErpObject(document, '');
  const forms = { decimals: ['quantity', 'price', 'amount', 'total'], names: ['item', 'email'] };
  const fields = fieldsOf(expected, held, forms);
  return document.kind === 'file' ? { fields, notCompared: ['the bytes of the file'] } : { fields };
}

function orderLine({ lot, quantity, unit_price, cost, requisition }: AwardLine): ErpLine {
  return {
    item: lot,
    quantity,
    price: unit_price,
    amount: cost,
    ...(requisition && { requisition: { number: requisition.reference_id, line: requisition.line } }),
  };
}

/** The ERP's number of the partner, if the sourcing service knows it, else the service's id. */
function partnerOf({ supplier }: Pick<AwardDocument, 'supplier'>) {
  return { number: supplier.external_id ?? supplier.id, name: supplier.name };
}

/** A supplier or requisition as the ERP returns it. */
export interface ErpRecord {
  readonly number: string;
  readonly name: string;
  readonly closed: boolean;
  readonly category?: string | undefined;
  readonly plant?: string | undefined;
  /** UTC with microseconds. */
  readonly needed_by?: string | undefined;
  readonly items?: readonly {
    readonly line: string;
    readonly name: string;
    readonly quantity: string;
    readonly unit: string;
  }[];
  /** Each has base64, or a URL. */
  readonly files?: readonly {
    readonly file_name: string;
    readonly content?: string | undefined;
    readonly url?: string | undefined;
  }[];
}

export function toSupplierRecord({ number, name, closed }: ErpRecord): SupplierRecord {
  return { external_id: number, name, archived: closed, fields: {}, contacts: [] };
}

export function toRequisitionRecord(record: ErpRecord): RequisitionRecord {
  const { number, name, closed, category, plant, needed_by, items = [], files = [] } = record;
  return {
    reference_id: number,
    name,
    ...(category === undefined ? {} : { category }),
    ...(needed_by === undefined ? {} : { needed_by }),
    tags: plant === undefined ? [] : [{ name: 'Plant', value: plant }],
    items: [...items],
    ...(files.length === 0 ? {} : { files: [...files] }),
    open: !closed,
  };
}
