/**
 * Reads what has changed in Odoo: vendors, as suppliers, and purchase agreements, as requisitions.
 *
 * A read goes in the order of ids through all records that changed since the last read began, minus an overlap. So each
 * page is bounded, and a read that was interrupted continues after the last id. The next read starts at the time at
 * which this one began, by the server's clock. A change of a person or address of a vendor does not touch the vendor's
 * own time, so their times count, too. Odoo keeps no trace of a deletion.
 */
import {
  ConfigError,
  type ReadPage,
  type ReadStream,
  type RequisitionRecord,
  type SupplierRecord,
  z,
} from 'sourcing-bridge/connector';
import type { Odoo } from './odoo.ts';
import type { Settings } from './settings.ts';
import { fieldsOf, id, number, oneLine, plainOf, relation, text } from './values.ts';
import { contactRow } from './vendors.ts';

/** The bridge stores checkpoints as JSON: the member names stay as they are. Times are milliseconds since 1970. */
const checkpointSchema = z.object({
  /** All changes before this time were read; absent: none were. */
  since: z.int().optional(),
  /** An unfinished read: when it began, and the last id that was read. */
  walk: z.object({ began: z.int().optional(), after: z.int() }).optional(),
});
type Checkpoint = z.output<typeof checkpointSchema>;

const vendorRows = z.array(contactRow);
const personRows = z.array(z.object({ id, name: text, email: text, parent_id: relation }));
const countryRows = z.array(z.object({ id, code: text }));
const agreementRows = z.array(
  z.object({
    id,
    name: text,
    reference: text,
    state: z.string(),
    description: text,
    user_id: relation,
    date_start: text,
    currency_id: relation,
  }),
);
const lineRows = z.array(
  z.object({
    id,
    requisition_id: relation,
    product_id: relation,
    product_uom_id: relation,
    product_qty: number,
    price_unit: number,
    product_description_variants: text,
  }),
);

interface Source<Row extends { id: number }, Stream extends ReadStream> {
  readonly model: string;
  readonly rows: z.ZodType<Row[]>;
  readonly fields: readonly string[];
  readonly domain: readonly unknown[];
  /** The one2many whose times count, too. */
  readonly children: string;
  readonly recordsOf: (rows: readonly Row[], signal: AbortSignal) => Promise<ReadPage<Stream>['records']>;
}

/** How far a read looks back: longer than the longest transaction. */
const overlapMs = 600_000;

const agreementModel = 'purchase.requisition';
const nameRows = z.array(z.object({ id, name: text }));
/** Templates, and blanket orders that the connector has made of awards, are no needs. */
const needs = [
  ['requisition_type', '=', 'blanket_order'],
  '|',
  ['reference', '=', false],
  ['reference', 'not like', 'SB-'],
] as const;
const openState = 'draft';

/**
 * The numbers of all purchase agreements that `read` returns as open, in pages in the order of their ids. Throws
 * ConnectorErrors.
 */
export async function* openAgreements(
  { odoo, settings }: { odoo: Odoo; settings: Settings },
  signal: AbortSignal,
): AsyncGenerator<readonly string[]> {
  const limit = settings.read_page;
  for (let after = 0; ; ) {
    const args = {
      domain: [...needs, ['state', '=', openState], ['id', '>', after]],
      fields: fieldsOf(nameRows),
      order: 'id asc',
      limit,
      context: { active_test: false },
    };
    const rows = await odoo.ask(agreementModel, 'search_read', args, nameRows, signal);
    yield rows.map(numberOf);
    if (rows.length < limit) return;
    after = rows.at(-1)?.id ?? after;
  }
}

/** Returns the session's `read`. */
export function createReads({ odoo, settings }: { odoo: Odoo; settings: Settings }) {
  const { read_page } = settings;

  /** The server's time; undefined if it sends none. Any answer has it. */
  async function serverNowMs(signal: AbortSignal): Promise<number | undefined> {
    await odoo.ask('res.partner', 'search_count', { domain: [['id', '=', 0]] }, z.int(), signal);
    return odoo.serverMs();
  }

  async function* readStream<Row extends { id: number }, Stream extends ReadStream>(
    source: Source<Row, Stream>,
    checkpoint: string | undefined,
    signal: AbortSignal,
  ): AsyncIterable<ReadPage<Stream>> {
    const { since, walk } = checkpointOf(checkpoint);
    const began = walk ? walk.began : await serverNowMs(signal);
    const next: Checkpoint = began === undefined ? { since } : { since: began };
    const changed = since === undefined ? [] : changedSince(since - overlapMs, source.children);
    for (let after = walk?.after ?? 0; ; ) {
      const args = {
        domain: [...source.domain, ...changed, ['id', '>', after]],
        fields: source.fields,
        order: 'id asc',
        limit: read_page,
        context: { active_test: false },
      };
      const rows = await odoo.ask(source.model, 'search_read', args, source.rows, signal);
      const isLast = rows.length < read_page;
      after = rows.at(-1)?.id ?? after;
      const reached: Checkpoint = isLast ? next : { since, walk: { began, after } };
      yield { records: await source.recordsOf(rows, signal), checkpoint: JSON.stringify(reached) };
      if (isLast) return;
    }
  }

  const vendors: Source<z.output<typeof vendorRows>[number], 'supplier'> = {
    model: 'res.partner',
    rows: vendorRows,
    fields: fieldsOf(vendorRows),
    domain: [
      ['parent_id', '=', false],
      ['ref', '!=', false],
      ['supplier_rank', '>', 0],
    ],
    children: 'child_ids',
    async recordsOf(rows, signal) {
      const domain = [
        ['parent_id', 'in', rows.map((row) => row.id)],
        ['email', '!=', false],
      ];
      const personArgs = { domain, fields: fieldsOf(personRows), order: 'id asc' };
      const people =
        rows.length === 0 ? [] : await odoo.ask('res.partner', 'search_read', personArgs, personRows, signal);
      const countryIds = [...new Set(rows.flatMap(({ country_id }) => country_id?.id ?? []))];
      const countryArgs = { ids: countryIds, fields: ['code'] };
      const countries =
        countryIds.length === 0 ? [] : await odoo.ask('res.country', 'read', countryArgs, countryRows, signal);
      const codes = new Map(countries.map((country) => [country.id, country.code]));
      return rows.map((row) =>
        supplierOf(
          row,
          people.filter(({ parent_id }) => parent_id?.id === row.id),
          codes.get(row.country_id?.id ?? 0) ?? '',
        ),
      );
    },
  };

  const agreements: Source<z.output<typeof agreementRows>[number], 'requisition'> = {
    model: agreementModel,
    rows: agreementRows,
    fields: fieldsOf(agreementRows),
    domain: needs,
    children: 'line_ids',
    async recordsOf(rows, signal) {
      if (rows.length === 0) return [];
      const domain = [['requisition_id', 'in', rows.map((row) => row.id)]];
      const args = { domain, fields: fieldsOf(lineRows), order: 'id asc' };
      const lines = await odoo.ask('purchase.requisition.line', 'search_read', args, lineRows, signal);
      return rows.map((row) =>
        requisitionOf(
          row,
          lines.filter(({ requisition_id }) => requisition_id?.id === row.id),
        ),
      );
    },
  };

  return <Stream extends ReadStream>(stream: Stream, checkpoint: string | undefined, signal: AbortSignal) =>
    (stream === 'supplier'
      ? readStream(vendors, checkpoint, signal)
      : readStream(agreements, checkpoint, signal)) as AsyncIterable<ReadPage<Stream>>;
}

function checkpointOf(stored: string | undefined): Checkpoint {
  if (stored === undefined) return {};
  try {
    return checkpointSchema.parse(JSON.parse(stored));
  } catch (cause) {
    throw new ConfigError('The checkpoint was not written by the Odoo connector: start this read from the beginning.', {
      cause,
    });
  }
}

/** Odoo keeps microseconds and shows seconds: `>=` at the beginning of the second finds the record again. */
function changedSince(ms: number, children: string): unknown[] {
  const at = new Date(ms).toISOString().slice(0, 19).replace('T', ' ');
  return ['|', ['write_date', '>=', at], [`${children}.write_date`, '>=', at]];
}

function supplierOf(
  row: z.output<typeof vendorRows>[number],
  people: readonly { name: string; email: string }[],
  country: string,
): SupplierRecord {
  const { ref, active, vat, phone, website, street, street2, city, zip, email } = row;
  const name = (oneLine(row.name) || ref).slice(0, 255);
  const fields = Object.entries({ vat, phone, website, street, street2, city, zip, country }).filter(
    ([, value]) => value !== '',
  );
  const own = email === '' || people.some((person) => person.email === email) ? [] : [{ name, email }];
  return {
    external_id: ref.slice(0, 255),
    name,
    archived: !active,
    fields: Object.fromEntries(fields.map(([field, value]) => [field, value.slice(0, 10_000)])),
    contacts: [
      ...own,
      ...people.map((person) => ({
        name: (oneLine(person.name) || person.email).slice(0, 255),
        email: person.email,
      })),
    ],
  };
}

/** The number of a requisition. */
function numberOf({ name }: { name: string }): string {
  return name.slice(0, 255);
}

const entities: Readonly<Record<string, string>> = {
  amp: '&',
  lt: '<',
  gt: '>',
  quot: '"',
  '#34': '"',
  '#39': "'",
  nbsp: ' ',
};

/** On one line, without tags and entities. */
function textOfHtml(html: string): string {
  const plain = html
    .replaceAll(/<[^<>]*>/gu, ' ')
    .replaceAll(/&(#?\w+);/gu, (all, name: string) => entities[name] ?? all);
  return oneLine(plain).replaceAll(/\s+/gu, ' ');
}

function requisitionOf(
  row: z.output<typeof agreementRows>[number],
  lines: readonly z.output<typeof lineRows>[number][],
): RequisitionRecord {
  const description = textOfHtml(row.description);
  const currency = row.currency_id?.name;
  return {
    reference_id: numberOf(row),
    name: (oneLine(row.reference) || `Purchase agreement ${row.name}`).slice(0, 120),
    ...(description === '' ? {} : { description: description.slice(0, 1_000) }),
    ...(row.user_id === undefined ? {} : { requested_by: row.user_id.name.slice(0, 255) }),
    ...(row.date_start === '' ? {} : { needed_by: `${row.date_start}T00:00:00.000000Z` }),
    tags: [],
    items: lines.map((line) => ({
      line: String(line.id),
      name: (oneLine(line.product_id?.name ?? '') || oneLine(line.product_description_variants) || 'Item').slice(
        0,
        255,
      ),
      ...(line.product_description_variants === ''
        ? {}
        : { description: line.product_description_variants.slice(0, 1_000) }),
      quantity: plainOf(line.product_qty),
      ...(line.product_uom_id === undefined ? {} : { unit: line.product_uom_id.name.slice(0, 50) }),
      ...(line.price_unit === 0 ? {} : { target_price: plainOf(line.price_unit) }),
      ...(line.price_unit === 0 || currency === undefined ? {} : { currency }),
    })),
    open: row.state === openState,
  };
}
