/**
 * Finds the supplier of the service that an ERP's record is about, besides by its external id: by name, e-mail or an
 * attribute, as the settings say. Only a match that is the only one in both directions counts; any other is listed for a
 * person.
 *
 * Example, matched by name: the ERP has 4711 "Acme GmbH" and 4712 "Beta", the service has A-1 "ACME GmbH", and B-1 and
 * B-2, both "Beta". 4711 is A-1. 4712 is held for a person: it may be B-1 or B-2.
 */
import { caseless } from '#connector/human-text.ts';
import type { Sql } from '#platform/database/sql.ts';
import type { SupplierView } from './compare-supplier.ts';
import { heldBySource } from './record-store.ts';
import type { Wanted } from './wanted-supplier.ts';

/** Returns the values by which a record is matched, strongest rule first: `name:acme gmbh`. */
export function matchValuesOf(wanted: Wanted, rules: readonly string[]): string[] {
  return wanted.is === 'wanted' ? valuesOf(wanted.state, rules) : [];
}

function valuesOf({ name, contacts, fields }: SupplierView, rules: readonly string[]): string[] {
  return rules.flatMap((rule) => {
    const texts =
      rule === 'name'
        ? [name]
        : rule === 'email'
          ? contacts.map(({ email }) => email)
          : [fields[rule.slice('fields.'.length)] ?? ''];
    return [...new Set(texts.map(folded))].filter((text) => text !== '').map((text) => `${rule}:${text}`);
  });
}

function folded(text: string): string {
  // The database cannot hold half a character, which a cut may leave, here or in the ERP.
  return caseless(text.trim().replaceAll(/\s+/g, ' ')).slice(0, 300).toWellFormed();
}

export type Match =
  | { readonly is: 'none' }
  | { readonly is: 'one'; readonly key: string }
  | { readonly is: 'ambiguous'; readonly why: string };

/**
 * Decides the match of one record. `candidates`: suppliers of the service by value; `rivals`: how many records of the
 * intake have this value; `isTaken`: another record writes this supplier already.
 */
export function decideMatch(
  values: readonly string[],
  candidates: ReadonlyMap<string, readonly string[]>,
  rivals: ReadonlyMap<string, number>,
  isTaken: (key: string) => boolean,
): Match {
  for (const value of values) {
    const found = candidates.get(value) ?? [];
    const [key] = found;
    if (key === undefined) continue;
    if (found.length > 1)
      return { is: 'ambiguous', why: `the service has several suppliers with ${shown(value)}: ${listed(found)}` };
    if ((rivals.get(value) ?? 1) > 1)
      return { is: 'ambiguous', why: `several suppliers of the ERP have ${shown(value)}, and the service has ${key}` };
    if (isTaken(key))
      return {
        is: 'ambiguous',
        why: `the supplier ${key} of the service has ${shown(value)}, and another one of the ERP is it`,
      };
    return { is: 'one', key };
  }
  return { is: 'none' };
}

function shown(value: string): string {
  const at = value.indexOf(':');
  return `the ${value.slice(0, at)} "${value.slice(at + 1)}"`;
}

const listedMost = 5;

function listed(keys: readonly string[]): string {
  const first = keys.slice(0, listedMost).join(', ');
  return keys.length > listedMost ? `${first} and others` : first;
}

const scanRows = 1_000;

/**
 * Returns the suppliers of the source's list that have one of these values, by value. Reads the list once, in pieces.
 */
export async function readCandidates(
  sql: Sql,
  source: string,
  rules: readonly string[],
  values: ReadonlySet<string>,
): Promise<Map<string, string[]>> {
  const found = new Map<string, string[]>();
  for (let after = ''; ; ) {
    const rows = await sql.query<{ id: string; body: string }>(
      `select id, body from bridge.resources where source = $1 and kind = 'supplier-master' and id > $2
       order by id limit ${scanRows}`,
      [source, after],
    );
    for (const { id, body } of rows) {
      const state = heldBySource({ held: null, heldAt: null, master: body, observed: null });
      for (const value of state ? valuesOf(state, rules) : []) {
        if (!values.has(value)) continue;
        const keys = found.get(value) ?? [];
        if (!keys.includes(id) && keys.length <= listedMost) keys.push(id);
        found.set(value, keys);
      }
    }
    const last = rows.at(-1);
    if (rows.length < scanRows || !last) return found;
    after = last.id;
  }
}

/** Returns how many records of the intake have each of these values. */
export async function countRivals(sql: Sql, intake: string, values: readonly string[]): Promise<Map<string, number>> {
  const rows = await sql.query<{ value: string; count: number }>(
    `select v.value, count(*)::int as count from bridge.intake_records r
     cross join lateral unnest(r.match_values) as v (value)
     where r.intake = $1 and r.match_values && $2::text[] and v.value = any($2) group by v.value`,
    [intake, values],
  );
  return new Map(rows.map(({ value, count }) => [value, count]));
}
