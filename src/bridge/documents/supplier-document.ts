/**
 * The `supplier` document: master data under the external id, else under the service's own id. Made of the list of
 * suppliers; of a supplier that is not in it, of what a page included; else of the event that named it last. It is never
 * withdrawn: what nothing knows any more stays as it was, and so does the old key of a supplier that gets an external id.
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
  /** From the list of suppliers: the one whose external id is the key. */
  readonly master?: unknown;
  /** As pages included them: those that have the key as their external id or as their id. In any order. */
  readonly included: readonly unknown[];
  /** The record of the newest event that names one with the key as its external id or as its id. */
  readonly event?: unknown;
}

export function makeSupplierDocument(input: { key: string; sources: SupplierSources }): MadeDocument<SupplierDocument> {
  const { key, sources } = input;
  return making(() => {
    const named = namedSupplier(key, sources);
    if (sources.master !== undefined) {
      const master = readRecord(masterForm, sources.master, "the supplier's entry in the list of suppliers");
      const attributes = Object.entries(master.fields)
        .map(([name, value]) => ({ name, value }))
        .sort((a, b) => compareText(a.name, b.name));
      return made(key, { ...master, id: named?.id, attributes });
    }
    if (named === undefined) throw new Unmade('held', 'nothing names this supplier any more: it stays as it is');
    if (supplierKey(named.id, named.external_id) !== key)
      throw new Unmade('held', 'the supplier has an external id now, and another document: this one stays as it is');
    return made(key, { ...named, archived: undefined, attributes: [] });
  });
}

/** What pages included goes before what an event named when it was written. Of several the first by id counts. */
function namedSupplier(key: string, { included, event }: SupplierSources) {
  const candidates = [included, entriesOf(event)]
    .map((list) => list.filter((entry) => isNamed(entry, key)))
    .find((list) => list.length > 0);
  if (candidates === undefined) return undefined;
  const read = candidates.map((entry) => readRecord(namedForm, entry, "the supplier's entry"));
  // One whose key this is goes before one that had it once.
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

function made(
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
