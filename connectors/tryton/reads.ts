/**
 * What has changed in Tryton: parties as suppliers, and purchase requisitions.
 *
 * A read walks by id over all that has changed since the last read began, less an overlap, so that a page is bounded and
 * a walk that breaks off goes on where it was. When it ends, the next one starts at the time this one began. Times are
 * the server's own (its Date header): a change that was not yet committed, or was stamped by a clock that is behind, is
 * found as long as that is no more than the overlap; what is within the overlap is read again. A deletion leaves no trace
 * in Tryton, and is not seen.
 */
import {
  ConfigError,
  type ReadPage,
  type ReadStream,
  type RequisitionRecord,
  type SupplierRecord,
  z,
} from 'sourcing-bridge/connector';
import type { Tryton } from './rpc.ts';
import type { Settings } from './settings.ts';
import { date, decimal, fieldNames, flag, id, momentOf, oneLine, plainDecimal, text } from './values.ts';

const checkpointForm = z.object({
  /** All that changed before is known; left out: nothing is. */
  since: z.int().optional(),
  /** A walk that goes on: when it began, and the id of the last that was read. */
  walk: z.object({ began: z.int().optional(), after: z.int() }).optional(),
});
type Checkpoint = z.output<typeof checkpointForm>;

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
  { lines: 'description quantity unit_price product.code product.rec_name unit.symbol' },
);

/** Approved, and not bought yet. */
const openStates: ReadonlySet<string> = new Set(['approved', 'processing']);

export function createReads({ tryton, settings }: { tryton: Tryton; settings: Settings }) {
  const { read_overlap_seconds, read_page } = settings;

  async function nowMs(signal: AbortSignal): Promise<number | undefined> {
    // Any answer shows the time.
    await tryton.ask('party.party.search_count', [[['id', '<', 0]]], z.unknown(), signal);
    return tryton.serverMs();
  }

  async function* walk<Row extends { id: number }, Stream extends ReadStream>(
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
  ): AsyncIterable<ReadPage<Stream>> {
    const { since, walk: going } = checkpointOf(checkpoint);
    const began = going ? going.began : await nowMs(signal);
    const next: Checkpoint = began === undefined ? { since } : { since: began };
    const changed = since === undefined ? [] : [changedSince(since - read_overlap_seconds * 1_000, source.children)];
    for (let after = going?.after ?? -1; ; ) {
      const params = [[...source.domain, ...changed, ['id', '>', after]], 0, read_page, [['id', 'ASC']], source.fields];
      const rows = await tryton.ask(`${source.model}.search_read`, params, source.rows, signal, { active_test: false });
      const isLast = rows.length < read_page;
      after = rows.at(-1)?.id ?? after;
      const kept: Checkpoint = isLast ? next : { since, walk: { began, after } };
      yield { records: rows.flatMap(source.recordsOf), checkpoint: JSON.stringify(kept) };
      if (isLast) return;
    }
  }

  const streams: Record<ReadStream, (checkpoint: string | undefined, signal: AbortSignal) => AsyncIterable<ReadPage>> =
    {
      supplier: (checkpoint, signal) =>
        walk(
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
        walk(
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

function checkpointOf(given: string | undefined): Checkpoint {
  if (given === undefined) return {};
  try {
    return checkpointForm.parse(JSON.parse(given));
  } catch (cause) {
    throw new ConfigError('The checkpoint is not one of the Tryton connector: start the read anew.', { cause });
  }
}

/** Also by what belongs to it: that leaves no stamp at the record itself. */
function changedSince(ms: number, children: readonly string[]): readonly unknown[] {
  const at = momentOf(ms);
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
  const address = addresses.find((one) => one.active);
  const live = mechanisms.filter((one) => one.active && one.value !== '');
  const fields = Object.entries({
    street: address?.street,
    postal_code: address?.postal_code,
    city: address?.city,
    country: address?.['country.']?.code,
    ...Object.fromEntries(live.filter(({ type }) => type !== 'email').map(({ type, value }) => [type, value])),
    ...Object.fromEntries(identifiers.map((one) => [`identifier_${one.type || 'other'}`, one.code])),
  }).filter((entry): entry is [string, string] => entry[1] !== undefined && entry[1] !== '');
  return [
    {
      external_id: code.slice(0, 255),
      name: name.slice(0, 255),
      archived: !active,
      fields: Object.fromEntries(fields.map(([field, value]) => [field, value.slice(0, 10_000)])),
      contacts: live
        .filter(({ type }) => type === 'email')
        .map((one) => ({ name: (oneLine(one.name) || name).slice(0, 255), email: one.value })),
    },
  ];
}

type RequisitionRow = z.output<typeof requisitionRows>[number];

function requisitionOf(row: RequisitionRow): RequisitionRecord[] {
  const { number, state, description, supply_date: due, 'lines.': lines } = row;
  if (number === '') return [];
  const requester = row['employee.']?.rec_name ?? '';
  const warehouse = row['warehouse.']?.name ?? '';
  const currency = row['currency.']?.code;
  return [
    {
      reference_id: number.slice(0, 255),
      name: (oneLine(description) || `Requisition ${number}`).slice(0, 120),
      ...(description === '' ? {} : { description: description.slice(0, 1_000) }),
      ...(requester === '' ? {} : { requested_by: requester.slice(0, 255) }),
      ...(due === null ? {} : { needed_by: `${due}T00:00:00.000000Z` }),
      tags: warehouse === '' ? [] : [{ name: 'Warehouse', value: warehouse }],
      items: lines.map((line) => ({
        name: (oneLine(line['product.']?.rec_name ?? '') || oneLine(line.description) || 'Item').slice(0, 255),
        ...(line.description === '' ? {} : { description: line.description.slice(0, 1_000) }),
        ...(line.quantity === null ? {} : { quantity: plainDecimal(String(line.quantity)) }),
        ...(line['unit.'] ? { unit: line['unit.'].symbol.slice(0, 50) } : {}),
        ...(line.unit_price === null ? {} : { target_price: line.unit_price }),
        ...(line.unit_price === null || currency === undefined ? {} : { currency }),
      })),
      open: openStates.has(state),
    },
  ];
}
