/**
 * The `supplier` document: master data of a supplier. Its key is the external id, or the service's own id when there is
 * none. It is made of the supplier list; for a supplier that is not in the list, of what a page included; else of the
 * event that named the supplier last. It is never withdrawn: a supplier that no source names any more stays as it was,
 * and so does the document under the old key of a supplier that gets an external id.
 */
import { z } from 'zod';
import type { SupplierDocument } from '#connector/documents.ts';
import { uuid } from '#contract/scalars.ts';
import { externalIdText, supplierKey } from './document-keys.ts';
import { type MadeDocument, making, readRecord, Unmade } from './made-document.ts';
import { compareEntries, compareText } from './text-order.ts';

const contacts = z
  .array(z.looseObject({ name: z.string().default(''), email: z.string() }))
  .default([])
  .transform((list) =>
    list
      .map(({ name, email }) => ({ name, email }))
      .sort((a, b) => compareText(a.email, b.email) || compareText(a.name, b.name)),
  );

const masterForm = z.looseObject({
  external_id: z.string(),
  name: z.string(),
  archived: z.boolean().default(false),
  fields: z.record(z.string(), z.string()).default({}),
  contacts,
});

const namedForm = z.looseObject({
  id: uuid,
  name: z.string().default(''),
  external_id: externalIdText.optional(),
  contacts,
});

export interface SupplierSources {
  /** The entry of the supplier list whose external id is the key. */
  readonly master?: unknown;
  /** Suppliers that pages included and that have the key as their external id or their id, in any order. */
  readonly included: readonly unknown[];
  /** The record of the newest event that names a supplier with the key as its external id or its id. */
  readonly event?: unknown;
}

/** Makes the document of a supplier; on hold when no source names the supplier any more, or it has another key now. */
export function makeSupplierDocument(input: { key: string; sources: SupplierSources }): MadeDocument<SupplierDocument> {
  const { key, sources } = input;
  return making(() => {
    const named = namedSupplier(key, sources);
    if (sources.master !== undefined) {
      const master = readRecord(masterForm, sources.master, "the supplier's entry in the list of suppliers");
      const attributes = Object.entries(master.fields)
        .map(([name, value]) => ({ name, value }))
        .sort((a, b) => compareText(a.name, b.name));
      return documentOf(key, { ...master, id: named?.id, attributes });
    }
    if (named === undefined) throw new Unmade('held', 'no record names this supplier any more: it stays as it is');
    if (supplierKey(named.id, named.external_id) !== key)
      throw new Unmade('held', 'the supplier has an external id now, and another document: this one stays as it is');
    return documentOf(key, { ...named, archived: undefined, attributes: [] });
  });
}

/**
 * Returns the supplier with this key: from pages, which are newer than an event that was written with the supplier's
 * data of that time. Of several suppliers the first by id counts.
 */
function namedSupplier(key: string, { included, event }: SupplierSources) {
  const candidates = [included, entriesOf(event)]
    .map((list) => list.filter((entry) => isNamed(entry, key)))
    .find((list) => list.length > 0);
  if (candidates === undefined) return undefined;
  const read = candidates.map((entry) => readRecord(namedForm, entry, "the supplier's entry"));
  // A supplier whose key this is now comes before one that had it once.
  const own = read.filter((entry) => supplierKey(entry.id, entry.external_id) === key);
  return (own.length > 0 ? own : read).sort(compareEntries)[0];
}

function isNamed(entry: unknown, key: string): boolean {
  if (typeof entry !== 'object' || entry === null) return false;
  const { id, external_id: externalId } = entry as { id?: unknown; external_id?: unknown };
  const ownId = typeof id === 'string' ? id.toLowerCase() : undefined;
  return supplierKey(undefined, externalId) === key || supplierKey(ownId, undefined) === key;
}

function entriesOf(event: unknown): readonly unknown[] {
  if (typeof event !== 'object' || event === null) return [];
  const { suppliers } = event as { suppliers?: unknown };
  return Array.isArray(suppliers) ? suppliers : [];
}

function documentOf(
  key: string,
  supplier: Pick<SupplierDocument, 'name' | 'attributes' | 'contacts'> & {
    archived: boolean | undefined;
    id?: string | undefined;
    external_id?: string | undefined;
  },
): MadeDocument<SupplierDocument> {
  const { id, external_id: externalId, name, archived, attributes, contacts: people } = supplier;
  return {
    made: 'document',
    wanted: true,
    document: {
      kind: 'supplier',
      key,
      ...(id === undefined ? {} : { id }),
      ...(externalId === undefined ? {} : { external_id: externalId }),
      name,
      ...(archived === undefined ? {} : { archived }),
      attributes,
      contacts: people,
    },
  };
}
