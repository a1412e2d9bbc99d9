/**
 * Finds contacts for suppliers that no contact has as its reference, as the setting `match` says. Only contacts of
 * Odoo without a reference count, and only a match that is the only one on both sides: else a person has to decide.
 */
import { bothForms, ConflictError, type SupplierDocument } from 'sourcing-bridge/connector';
import type { Odoo } from './odoo.ts';
import type { Settings } from './settings.ts';
import { anyOf, isSameText, oneLine } from './values.ts';
import { type HeldPartner, isStorable, searchPartners } from './vendors.ts';

type Rule = Settings['match'][number];

interface Match {
  readonly partner: HeldPartner;
  /** The rule in words, with the value. */
  readonly by: string;
  conflict?: ConflictError;
}

/** By the suppliers' keys; those that are not found are left out. */
export async function matchPartners(
  odoo: Odoo,
  rules: readonly Rule[],
  documents: readonly SupplierDocument[],
  signal: AbortSignal,
): Promise<ReadonlyMap<string, Match>> {
  const conditions = documents.flatMap((document) =>
    rules.flatMap((rule) =>
      // Odoo compares characters, and may hold the name in either form.
      valuesOf(document, rule).flatMap((value) => bothForms(value).map((form) => [rule, '=ilike', escaped(form)])),
    ),
  );
  if (conditions.length === 0) return new Map();
  const domain = [['ref', '=', false], ['parent_id', '=', false], ...anyOf(conditions)];
  const partners = await searchPartners(odoo, domain, signal);
  const matches = new Map(documents.flatMap((document) => matchOf(document, rules, partners) ?? []));
  for (const claims of Map.groupBy(matches, ([, { partner }]) => partner.id).values()) {
    if (claims.length < 2) continue;
    const keys = claims.map(([key]) => key).join(', ');
    for (const [, match] of claims)
      match.conflict = new ConflictError(
        `The contact "${match.partner.name}" (id ${match.partner.id}) is found by ${match.by} for the suppliers ${keys}: enter the reference of the right one in Odoo, and replay.`,
      );
  }
  return matches;
}

/** The first rule that finds something decides. */
function matchOf(
  document: SupplierDocument,
  rules: readonly Rule[],
  partners: readonly HeldPartner[],
): [[string, Match]] | undefined {
  for (const rule of rules)
    for (const value of valuesOf(document, rule)) {
      const found = partners.filter((partner) => isSameText(partner[rule], value));
      const [partner] = found;
      if (!partner) continue;
      const by = `its ${{ vat: 'tax number', name: 'name', email: 'e-mail address' }[rule]} "${value}"`;
      if (found.length === 1) return [[document.key, { partner, by }]];
      const conflict = new ConflictError(
        `Odoo has ${found.length} contacts without a reference for the supplier ${document.key}, found by ${by} (ids ${found.map(({ id }) => id).join(', ')}): enter the reference of the right one in Odoo, or merge them, and replay.`,
      );
      return [[document.key, { partner, by, conflict }]];
    }
  return undefined;
}

function valuesOf({ fields = {}, name, contacts }: SupplierDocument, rule: Rule): string[] {
  const values = {
    vat: [fields['vat'] ?? ''],
    name: [fields['name'] ?? name],
    email: [fields['email'] ?? '', ...contacts.map(({ email }) => email)],
  }[rule];
  return values.map(oneLine).filter(isStorable);
}

/** `=ilike` compares with a pattern. */
const escaped = (value: string) => value.replaceAll(/[\\%_]/gu, String.raw`\$&`);
