/**
 * Reads what has changed in Odoo, in the order of ids: vendors, as suppliers, and purchase agreements, as requisitions. A
 * change of a person or address of a vendor does not touch the vendor's own time, so their times count, too. Odoo keeps no
 * trace of a deletion.
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
import type { Odoo } from './odoo.ts';
import type { Settings } from './settings.ts';
import { fieldsOf, id, number, oneLine, plainOf, relation, text } from './values.ts';
import { contactRow } from './vendors.ts';

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
  const domain = [...needs, ['state', '=', openState]];
  const wanted = { model: agreementModel, rows: nameRows, fields: fieldsOf(nameRows), domain };
  const pageAfter = rowsAfter(odoo, wanted, settings.read_page);
  for await (const { rows } of pagesById(pageAfter, { pageSize: settings.read_page }, signal)) yield rows.map(numberOf);
}

/** Pages in the order of the ids, archived ones included. */
function rowsAfter<Row extends { id: number }>(
  odoo: Odoo,
  { model, rows, fields, domain }: Pick<Source<Row, ReadStream>, 'model' | 'rows' | 'fields' | 'domain'>,
  limit: number,
) {
  return (after: number, signal: AbortSignal) => {
    const page = { domain: [...domain, ['id', '>', after]], fields, order: 'id asc', limit };
    return odoo.ask(model, 'search_read', { ...page, context: { active_test: false } }, rows, signal);
  };
}

/** Returns the session's `read`. */
export function createReads({ odoo, settings }: { odoo: Odoo; settings: Settings }) {
  const { read_page } = settings;

  /** The server's time; undefined if it sends none. Any answer has it. */
  async function serverNowMs(signal: AbortSignal): Promise<number | undefined> {
    await odoo.ask('res.partner', 'search_count', { domain: [['id', '=', 0]] }, z.int(), signal);
    return odoo.serverMs();
  }

  const readStream = <Row extends { id: number }, Stream extends ReadStream>(
    source: Source<Row, Stream>,
    checkpoint: string | undefined,
    signal: AbortSignal,
  ) =>
    walkById<Row, Stream>(
      {
        connector: 'Odoo',
        nowMs: serverNowMs,
        overlapMs,
        pageSize: read_page,
        changedSince: (sinceMs) => {
          const changed = sinceMs === undefined ? [] : changedSince(sinceMs, source.children);
          return rowsAfter(odoo, { ...source, domain: [...source.domain, ...changed] }, read_page);
        },
        recordsOf: source.recordsOf,
      },
      checkpoint,
      signal,
    );

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
  const name = shortened(oneLine(row.name) || ref, 255);
  const fields = Object.entries({ vat, phone, website, street, street2, city, zip, country }).filter(
    ([, value]) => value !== '',
  );
  const own = email === '' || people.some((person) => person.email === email) ? [] : [{ name, email }];
  return {
    external_id: ref.slice(0, 255),
    name,
    archived: !active,
    fields: Object.fromEntries(fields.map(([field, value]) => [field, shortened(value, 10_000)])),
    contacts: [
      ...own,
      ...people.map((person) => ({
        name: shortened(oneLine(person.name) || person.email, 255),
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
    name: shortened(oneLine(row.reference) || `Purchase agreement ${row.name}`, 120),
    ...(description === '' ? {} : { description: shortened(description, 1_000) }),
    ...(row.user_id === undefined ? {} : { requested_by: shortened(row.user_id.name, 255) }),
    ...(row.date_start === '' ? {} : { needed_by: `${row.date_start}T00:00:00.000000Z` }),
    tags: [],
    items: lines.map((line) => ({
      line: String(line.id),
      name: shortened(
        oneLine(line.product_id?.name ?? '') || oneLine(line.product_description_variants) || 'Item',
        255,
      ),
      ...(line.product_description_variants === ''
        ? {}
        : { description: shortened(line.product_description_variants, 1_000) }),
      quantity: plainOf(line.product_qty),
      ...(line.product_uom_id === undefined ? {} : { unit: shortened(line.product_uom_id.name, 50) }),
      ...(line.price_unit === 0 ? {} : { target_price: plainOf(line.price_unit) }),
      ...(line.price_unit === 0 || currency === undefined ? {} : { currency }),
    })),
    open: row.state === openState,
  };
}
