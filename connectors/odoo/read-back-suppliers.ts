/**
 * What Odoo holds of a supplier, field by field, beside what a write makes of it. People, addresses and values that are
 * only in Odoo are not compared: users add them.
 */
import {
  fieldsOf,
  type ReadBack,
  type ReadField,
  type SupplierDocument,
  type TakenDocument,
} from 'sourcing-bridge/connector';
import { isSameText, referenceTo } from './values.ts';
import { type HeldPartner, partnerModel } from './vendors.ts';

/** What a write makes of the document. */
export interface WantedPartner {
  readonly name: string;
  /** Only those that the mapping sets. */
  readonly texts: Readonly<Record<string, string>>;
  /** Undefined where the mapping sets none. */
  readonly country: { readonly id: number; readonly code: string } | undefined;
  readonly people: readonly Person[];
}

interface Person {
  readonly name: string;
  readonly email: string;
}

/** `held` are all contacts with the supplier's code, and the one of the reference. */
export function readSupplier(
  { document, reference }: TakenDocument<'supplier'>,
  wanted: WantedPartner,
  held: readonly HeldPartner[],
  peopleOf: (partner: HeldPartner) => readonly Person[],
): ReadBack {
  const { key } = document;
  const own = held.find(({ id }) => referenceTo(partnerModel, id) === reference);
  const byCode = held.filter(({ ref }) => ref === key);
  const partner = own ?? (byCode.length === 1 ? byCode[0] : undefined);
  if (partner)
    return {
      key,
      status: 'held',
      reference: referenceTo(partnerModel, partner.id),
      fields: partnerFields(document, wanted, partner, peopleOf(partner)),
    };
  return byCode.length > 1
    ? { key, status: 'unclear', reason: `Odoo has ${byCode.length} contacts with the reference "${key}": merge them` }
    : { key, status: 'missing' };
}

/** What a write makes of the document, beside what Odoo holds. */
export function partnerFields(
  { key, archived }: SupplierDocument,
  wanted: WantedPartner,
  partner: HeldPartner,
  held: readonly Person[],
): ReadField[] {
  const { name, texts, country, people } = wanted;
  const values = { ref: key, name, ...texts, country: country?.code, vendor: true, archived, contacts: people };
  return fieldsOf(values, heldValues(partner, held, wanted), { names: ['email'] });
}

function heldValues(partner: HeldPartner, held: readonly Person[], { texts, country, people }: WantedPartner) {
  const values: Readonly<Record<string, unknown>> = { ...partner };
  return {
    ref: partner.ref,
    name: partner.name,
    ...Object.fromEntries(Object.entries(texts).map(([field, text]) => [field, asWritten(field, text, values[field])])),
    country: country && partner.country_id?.id === country.id ? country.code : partner.country_id?.name,
    vendor: partner.supplier_rank > 0,
    archived: !partner.active,
    contacts: people.flatMap((person) => {
      // The vendor's own address is no person, but has this e-mail.
      if (isSameText(partner.email, person.email)) return [person];
      const found = held.filter((one) => isSameText(one.email, person.email));
      const [first] = found;
      // Of two people with one address Odoo may hold only one.
      const isKnown = people.some(
        (one) => isSameText(one.email, person.email) && found.some(({ name }) => name === one.name),
      );
      return first ? [{ name: isKnown ? person.name : first.name, email: person.email }] : [];
    }),
  };
}

/** Odoo writes some values in its own way, which is no change of a person: `example.com` becomes `http://example.com`. */
function asWritten(field: string, wanted: string, held: unknown): unknown {
  const plain = (text: string) => {
    if (field === 'website') return text.replace(/^http:\/\//u, '');
    return field === 'vat' ? text.replaceAll(/[^\p{L}\d]/gu, '').toUpperCase() : text;
  };
  return typeof held === 'string' && plain(held) === plain(wanted) ? wanted : held;
}
