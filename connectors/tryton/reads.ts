/**
 * Reads what has changed in Tryton, in the order of ids: parties, as suppliers, and purchase requisitions. Times come from
 * the server (its Date header). Tryton keeps no trace of a deletion, so a read does not see it.
 */
import {
  pagesById,
  type ReadPage,
  type ReadStream,
  type RequisitionRecord,
  type SupplierRecord,
  shortened,
  walkById,
  z,
} from 'sourcing-bridge/connector';
import type { Tryton } from './rpc.ts';
import type { Settings } from './settings.ts';
import { date, datetimeOf, decimal, fieldNames, flag, id, oneLine, plainDecimal, text } from './values.ts';

const partyRows = z.array(
  z.object({
    id,
    code: text,
    name: text,
    active: flag,
    'identifiers.': z.array(z.object({ type: text, code: text })),
    'addresses.': z.array(
      z.object({
        active: flag,
        street: text,
        postal_code: text,
        city: text,
        'country.': z.object({ code: text }).nullish(),
      }),
    ),
    'contact_mechanisms.': z.array(z.object({ active: flag, type: z.string(), name: text, value: text })),
  }),
);
const partyFields = fieldNames('code name active', {
  identifiers: 'type code',
  addresses: 'active street postal_code city country.code',
  contact_mechanisms: 'active type name value',
});

const requisitionRows = z.array(
  z.object({
    id,
    number: text,
    state: z.string(),
    description: text,
    supply_date: date.nullable(),
    'employee.': z.object({ rec_name: text }).nullish(),
    'currency.': z.object({ code: text }).nullish(),
    'warehouse.': z.object({ name: text }).nullish(),
    'lines.': z.array(
      z.object({
        id,
        purchase_requests: z.array(id),
        description: text,
        quantity: z.number().nullable(),
        unit_price: decimal.nullable(),
        'product.': z.object({ code: text, rec_name: text }).nullish(),
        'unit.': z.object({ symbol: text }).nullish(),
      }),
    ),
  }),
);
const requisitionFields = fieldNames(
  'number state description supply_date employee.rec_name currency.code warehouse.name',
  { lines: 'purchase_requests description quantity unit_price product.code product.rec_name unit.symbol' },
);

/** Approved, and not purchased yet. While one is processing, a line without a purchase request was withdrawn. */
const openStates = ['approved', 'processing'];

const openRows = z.array(z.object({ id, number: text }));

/**
 * Returns the session's `openRequisitions`: Tryton deletes the purchase request of what is withdrawn, which changes
 * nothing that a read could see.
 */
export function createOpenRequisitions({ tryton, settings }: { tryton: Tryton; settings: Settings }) {
  return async function* openRequisitions(signal: AbortSignal): AsyncIterable<readonly string[]> {
    const isOpen = [
      'OR',
      ['state', '=', 'approved'],
      [
        ['state', '=', 'processing'],
        ['lines.purchase_requests.id', '>', 0],
      ],
    ];
    const pageAfter = (after: number) => {
      const params = [[isOpen, ['id', '>', after]], 0, settings.read_page, [['id', 'ASC']], ['number']];
      return tryton.ask('purchase.requisition.search_read', params, openRows, signal);
    };
    for await (const { rows } of pagesById(pageAfter, { pageSize: settings.read_page }, signal))
      yield rows.map(({ number }) => number).filter((number) => number !== '');
  };
}

/** Returns the session's `read`. */
export function createReads({ tryton, settings }: { tryton: Tryton; settings: Settings }) {
  const { read_overlap_seconds, read_page } = settings;

  /** The server's time; undefined if it sends none. */
  async function serverNowMs(signal: AbortSignal): Promise<number | undefined> {
    // Any answer has the Date header.
    await tryton.ask('party.party.search_count', [[['id', '<', 0]]], z.unknown(), signal);
    return tryton.serverMs();
  }

  const readStream = <Row extends { id: number }, Stream extends ReadStream>(
    source: {
      model: string;
      fields: readonly string[];
      rows: z.ZodType<Row[]>;
      domain: readonly unknown[];
      children: readonly string[];
      recordsOf: (row: Row) => ReadPage<Stream>['records'];
    },
    checkpoint: string | undefined,
    signal: AbortSignal,
  ) =>
    walkById<Row, Stream>(
      {
        connector: 'Tryton',
        nowMs: serverNowMs,
        overlapMs: read_overlap_seconds * 1_000,
        pageSize: read_page,
        changedSince: (sinceMs) => {
          const changed = sinceMs === undefined ? [] : [changedSince(sinceMs, source.children)];
          return (after, signalOfPage) => {
            const domain = [...source.domain, ...changed, ['id', '>', after]];
            const params = [domain, 0, read_page, [['id', 'ASC']], source.fields];
            const context = { active_test: false };
            return tryton.ask(`${source.model}.search_read`, params, source.rows, signalOfPage, context);
          };
        },
        recordsOf: async (rows) => rows.flatMap(source.recordsOf),
      },
      checkpoint,
      signal,
    );

  const streams: Record<ReadStream, (checkpoint: string | undefined, signal: AbortSignal) => AsyncIterable<ReadPage>> =
    {
      supplier: (checkpoint, signal) =>
        readStream(
          {
            model: 'party.party',
            fields: partyFields,
            rows: partyRows,
            domain:
              settings.supplier_category === undefined ? [] : [['categories.name', '=', settings.supplier_category]],
            children: ['addresses', 'contact_mechanisms', 'identifiers'],
            recordsOf: supplierOf,
          },
          checkpoint,
          signal,
        ),
      requisition: (checkpoint, signal) =>
        readStream(
          {
            model: 'purchase.requisition',
            fields: requisitionFields,
            rows: requisitionRows,
            domain: [],
            children: ['lines'],
            recordsOf: requisitionOf,
          },
          checkpoint,
          signal,
        ),
    };

  return <Stream extends ReadStream>(stream: Stream, checkpoint: string | undefined, signal: AbortSignal) =>
    streams[stream](checkpoint, signal) as AsyncIterable<ReadPage<Stream>>;
}

/** Includes the children's times: a change of a child does not change the times of the record itself. */
function changedSince(ms: number, children: readonly string[]): readonly unknown[] {
  const at = datetimeOf(ms);
  const clauses = ['', ...children.map((child) => `${child}.`)].flatMap((prefix) => [
    [`${prefix}write_date`, '>=', at],
    [`${prefix}create_date`, '>=', at],
  ]);
  return ['OR', ...clauses];
}

type PartyRow = z.output<typeof partyRows>[number];

function supplierOf(row: PartyRow): SupplierRecord[] {
  const { code, active, 'identifiers.': identifiers, 'addresses.': addresses, 'contact_mechanisms.': mechanisms } = row;
  const name = oneLine(row.name) || code;
  if (code === '') return [];
  const address = addresses.find(({ active }) => active);
  const live = mechanisms.filter((mechanism) => mechanism.active && mechanism.value !== '');
  const fields = Object.entries({
    street: address?.street,
    postal_code: address?.postal_code,
    city: address?.city,
    country: address?.['country.']?.code,
    ...Object.fromEntries(live.filter(({ type }) => type !== 'email').map(({ type, value }) => [type, value])),
    ...Object.fromEntries(
      identifiers.map((identifier) => [`identifier_${identifier.type || 'other'}`, identifier.code]),
    ),
  }).filter((entry): entry is [string, string] => entry[1] !== undefined && entry[1] !== '');
  return [
    {
      external_id: code.slice(0, 255),
      name: shortened(name, 255),
      archived: !active,
      fields: Object.fromEntries(fields.map(([field, value]) => [field, shortened(value, 10_000)])),
      contacts: live
        .filter(({ type }) => type === 'email')
        .map((mechanism) => ({ name: shortened(oneLine(mechanism.name) || name, 255), email: mechanism.value })),
    },
  ];
}

type RequisitionRow = z.output<typeof requisitionRows>[number];

function requisitionOf(row: RequisitionRow): RequisitionRecord[] {
  const { number, state, description, supply_date: due, 'lines.': all } = row;
  if (number === '') return [];
  const lines = state === 'processing' ? all.filter((line) => line.purchase_requests.length > 0) : all;
  const requester = row['employee.']?.rec_name ?? '';
  const warehouse = row['warehouse.']?.name ?? '';
  const currency = row['currency.']?.code;
  return [
    {
      reference_id: number.slice(0, 255),
      name: shortened(oneLine(description) || `Requisition ${number}`, 120),
      ...(description === '' ? {} : { description: shortened(description, 1_000) }),
      ...(requester === '' ? {} : { requested_by: shortened(requester, 255) }),
      ...(due === null ? {} : { needed_by: `${due}T00:00:00.000000Z` }),
      tags: warehouse === '' ? [] : [{ name: 'Warehouse', value: warehouse }],
      items: lines.map((line) => ({
        line: String(line.id),
        name: shortened(oneLine(line['product.']?.rec_name ?? '') || oneLine(line.description) || 'Item', 255),
        ...(line.description === '' ? {} : { description: shortened(line.description, 1_000) }),
        ...(line.quantity === null ? {} : { quantity: plainDecimal(String(line.quantity)) }),
        ...(line['unit.'] ? { unit: shortened(line['unit.'].symbol, 50) } : {}),
        ...(line.unit_price === null ? {} : { target_price: line.unit_price }),
        ...(line.unit_price === null || currency === undefined ? {} : { currency }),
      })),
      open: openStates.includes(state) && (state === 'approved' || lines.length > 0),
    },
  ];
}
