/**
 * Suppliers as contacts (`res.partner`) in Odoo. A supplier's contact has the supplier's external id, else the id of the
 * sourcing service, as its reference (`ref`). Odoo lets several contacts have the same one: then the connector writes to
 * none of them.
 */
import { ConflictError, DataError, LockedError, type SupplierHead, z } from 'sourcing-bridge/connector';
import { externalId } from './external-ids.ts';
import { loadRecords } from './load.ts';
import type { Odoo } from './odoo.ts';
import type { Settings } from './settings.ts';
import { fieldsOf, id, oneLine, relation, text } from './values.ts';

export const partnerModel = 'res.partner';

/** What the connector reads of any contact. */
export const contactRow = z.object({
  id,
  name: text,
  ref: text,
  active: z.boolean(),
  vat: text,
  email: text,
  phone: text,
  website: text,
  street: text,
  street2: text,
  city: text,
  zip: text,
  country_id: relation,
});
const partnerRows = z.array(
  contactRow.extend({
    supplier_rank: z.number(),
    write_uid: relation,
    /** The ids of its people and addresses. */
    child_ids: z.array(id),
  }),
);
export type HeldPartner = z.output<typeof partnerRows>[number];

const partnerFields = fieldsOf(partnerRows);

/** The code by which Odoo and the sourcing service know the supplier. */
export function codeOf({ external_id, id: own }: SupplierHead): string {
  return external_id ?? own;
}

/** Contacts with these references, archived ones included, by reference. */
export async function readPartners(
  odoo: Odoo,
  codes: readonly string[],
  signal: AbortSignal,
): Promise<ReadonlyMap<string, HeldPartner[]>> {
  return Map.groupBy(await listPartners(odoo, { codes, ids: [] }, signal), ({ ref }) => ref);
}

/** Contacts with these references or these ids, archived ones included. */
export async function listPartners(
  odoo: Odoo,
  { codes, ids }: { codes: readonly string[]; ids: readonly number[] },
  signal: AbortSignal,
): Promise<HeldPartner[]> {
  const wanted = [...new Set(codes)].filter((code) => isStorable(code));
  if (wanted.length === 0 && ids.length === 0) return [];
  const byCode = ['&', ['ref', 'in', wanted], ['parent_id', '=', false]];
  const domain = ids.length === 0 ? byCode : ['|', ['id', 'in', ids], ...byCode];
  return searchPartners(odoo, domain, signal);
}

/** Archived ones included. */
export function searchPartners(odoo: Odoo, domain: readonly unknown[], signal: AbortSignal): Promise<HeldPartner[]> {
  const args = { domain, fields: partnerFields, order: 'id asc', context: { active_test: false } };
  return odoo.ask(partnerModel, 'search_read', args, partnerRows, signal);
}

/** PostgreSQL holds no NUL, and one would make Odoo refuse the whole call. */
export function isStorable(value: string): boolean {
  return value !== '' && !value.includes('\0');
}

/** The only contact with the code; undefined if there is none. Throws ConflictError for several, and DataError for a code that Odoo cannot hold. */
export function singlePartner(code: string, found: readonly HeldPartner[] = []): HeldPartner | undefined {
  if (!isStorable(code)) throw new DataError(`The supplier's code ${JSON.stringify(code)} cannot be kept in Odoo.`);
  if (found.length > 1)
    throw new ConflictError(
      `Odoo has ${found.length} contacts with the reference "${code}" (ids ${found.map(({ id: partner }) => partner).join(', ')}): merge them, or give the wrong ones another reference, and replay.`,
    );
  return found[0];
}

/** The vendor that an order goes to. */
export interface Vendor {
  /** Undefined until it is created. */
  id: number | undefined;
  readonly code: string;
  readonly name: string;
}

/** Of a document that is withdrawn, whose vendor Odoo is not asked for. */
export const noVendor: Vendor = { id: undefined, code: '', name: '' };

export type Vendors = ReturnType<typeof createVendors>;

export function createVendors(odoo: Odoo, settings: Settings) {
  return {
    /** In one call. Returns the function that finds one of them, and throws DataError or ConflictError where none can be used. */
    async find(heads: readonly SupplierHead[], signal: AbortSignal): Promise<(head: SupplierHead) => Vendor> {
      const partners = await readPartners(odoo, heads.map(codeOf), signal);
      return (head) => {
        const code = codeOf(head);
        const partner = singlePartner(code, partners.get(code));
        // Odoo takes orders for archived vendors without a word.
        if (partner && !partner.active)
          throw new DataError(
            `The vendor ${code} "${partner.name}" is archived in Odoo: unarchive it there, or award to another one, and replay.`,
          );
        return { id: partner?.id, code, name: partner?.name ?? oneLine(head.name) };
      };
    },
    /** For a vendor that Odoo does not have: the document waits, or a step is added that creates it, as the settings say. */
    planMissing(vendor: Vendor, steps: string[]): void {
      if (vendor.id !== undefined) return;
      if (settings.missing_supplier === 'wait')
        throw new LockedError(
          `Waits until Odoo has a contact with the reference "${vendor.code}" (${vendor.name}): let the flow deliver suppliers, or make it there, with its country. With settings.missing_supplier: create the flow makes it without one.`,
        );
      steps.push(`Make the vendor ${vendor.code} "${vendor.name}", with its reference and name only.`);
    },
    /** Creates, in one call, those that Odoo does not have. A task whose vendor is refused fails. */
    async createMissing(
      tasks: readonly { readonly vendor: Vendor; error: Error | undefined }[],
      signal: AbortSignal,
    ): Promise<void> {
      const waiting = tasks.filter(({ vendor, error }) => vendor.id === undefined && error === undefined);
      const missing = [...new Map(waiting.map(({ vendor }) => [vendor.code, vendor])).values()];
      const records = missing.map(({ code, name }) => ({
        cells: { id: externalId('vendor', code), name: name || code, ref: code, supplier_rank: '1', is_company: '1' },
      }));
      const results = await loadRecords(odoo, partnerModel, records, signal);
      const byCode = new Map(missing.map(({ code }, index) => [code, results[index]]));
      for (const task of waiting) {
        const result = byCode.get(task.vendor.code);
        if (typeof result === 'number') task.vendor.id = result;
        else task.error = result;
      }
    },
  };
}
