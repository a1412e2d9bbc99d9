/**
 * What has to change at the service for one supplier. Pure. Three states are compared, member by member: what the ERP
 * wants, what the service holds, and the base: what both last agreed on.
 *
 * Example: the ERP is master of the name, and the base is "Acme".
 *
 *     ERP "Acme Ltd", service "Acme Ltd"                      nothing is sent
 *     ERP "Acme Ltd", service "Acme"                          the ERP changed it: it is sent
 *     ERP "Acme",     service "ACME", no flow to this ERP     a user of the service changed it: it is set back
 *     ERP "Acme",     service "ACME", a flow of suppliers     the flow takes the change to the ERP: nothing is sent
 *     ERP "ACME",     service "ACME"                          it came back from the ERP: nothing is sent
 *     ERP "ACME",     service "Acme Ltd", a flow delivered
 *       "ACME" since the version before was read              an echo of the flow: nothing is sent
 *
 * So a change travels one way once, and two sides that are both edited cannot exchange their values for ever.
 */
import type { IntakeSettings } from '#bridge/settings/intake-settings.ts';
import { caseless, composed } from '#connector/human-text.ts';
import type { SupplierChange } from '#contract/supplier.ts';

/** A supplier as either side has it, or as the intake wants it. */
export interface SupplierView {
  readonly name: string;
  /** Attributes without a value are left out. */
  readonly fields: Readonly<Record<string, string>>;
  readonly archived: boolean;
  readonly contacts: readonly Contact[];
}

interface Contact {
  readonly name: string;
  readonly email: string;
}

export interface SupplierComparison {
  /** The supplier's external id at the service. */
  readonly key: string;
  readonly wanted: SupplierView;
  /** What the service holds; undefined for a supplier that it does not have. */
  readonly held: SupplierView | undefined;
  readonly base: SupplierView | undefined;
  /** What a flow has delivered to an ERP since the version before this one was read there. */
  readonly echo: SupplierView | undefined;
  /** Whether a change that was made at the service is set back: no flow takes it to the ERP. */
  readonly setsBack: boolean;
  readonly rules: Pick<IntakeSettings, 'owns' | 'contacts'>;
}

/** Returns the change; undefined when there is nothing to send. */
export function compareSupplier(comparison: SupplierComparison): SupplierChange | undefined {
  const { key, wanted, held, rules } = comparison;
  // A supplier that is blocked in the ERP and unknown at the service is nothing that anybody could use there.
  if (held === undefined) return wanted.archived && rules.owns.includes('archived') ? undefined : creation(comparison);
  const change: SupplierChange = { external_id: key };
  const travels: Travels = (is, was, echoed) => {
    const changedInErp = comparison.base === undefined || differ(is, was);
    return changedInErp ? comparison.echo === undefined || differ(is, echoed) : comparison.setsBack;
  };
  const { base, echo } = comparison;
  if (rules.owns.includes('name') && differ(wanted.name, held.name) && travels(wanted.name, base?.name, echo?.name))
    change.name = wanted.name;
  if (
    rules.owns.includes('archived') &&
    wanted.archived !== held.archived &&
    travels(wanted.archived, base?.archived, echo?.archived)
  )
    change.archived = wanted.archived;
  if (rules.owns.includes('fields')) {
    const fields = changedFields(comparison, travels);
    if (fields.length > 0) change.fields = Object.fromEntries(fields);
  }
  const contacts = changedContacts(comparison, travels);
  if (contacts.length > 0) change.contacts = contacts;
  return Object.keys(change).length > 1 ? change : undefined;
}

type Member = string | boolean | undefined;
type Travels = (is: Member, was: Member, echoed: Member) => boolean;

function differ(one: Member, other: Member): boolean {
  return typeof one === 'string' && typeof other === 'string' ? composed(one) !== composed(other) : one !== other;
}

function creation({ key, wanted, rules }: SupplierComparison): SupplierChange {
  return {
    external_id: key,
    name: wanted.name,
    ...(rules.owns.includes('fields') && Object.keys(wanted.fields).length > 0 ? { fields: { ...wanted.fields } } : {}),
    ...(rules.contacts !== 'leave' && wanted.contacts.length > 0 ? { contacts: wanted.contacts.map(copy) } : {}),
  };
}

/** An attribute that the ERP has no value for any more is emptied, if the ERP was where its value came from. */
function changedFields({ wanted, held, base, echo }: SupplierComparison, travels: Travels): [string, string][] {
  const names = new Set([...Object.keys(wanted.fields), ...Object.keys(base?.fields ?? {})]);
  return [...names].sort().flatMap((name): [string, string][] => {
    const is = own(wanted.fields, name);
    if (!differ(is, own(held?.fields, name))) return [];
    return travels(is, own(base?.fields, name), own(echo?.fields, name)) ? [[name, is]] : [];
  });
}

function changedContacts({ wanted, held, base, echo, rules, setsBack }: SupplierComparison, travels: Travels) {
  if (rules.contacts === 'leave') return [];
  const [is, has, was, echoed] = [wanted, held, base, echo].map((state) => byEmail(state?.contacts ?? []));
  const changes: NonNullable<SupplierChange['contacts']> = [];
  for (const [email, contact] of is ?? []) {
    const name = has?.get(email)?.name;
    if (differ(name, contact.name) && travels(contact.name, was?.get(email)?.name, echoed?.get(email)?.name))
      changes.push(copy(contact));
  }
  if (rules.contacts === 'replace')
    for (const [email, contact] of has ?? []) {
      if (is?.has(email)) continue;
      // A contact that a user of the service has added goes to the ERP by a flow, where there is one.
      const isOfErp = base === undefined || was?.has(email) === true;
      const isEcho = echo !== undefined && echoed?.has(email) === false;
      if (isOfErp ? !isEcho : setsBack) changes.push({ email: contact.email, delete: true });
    }
  return changes;
}

/** What the service holds once it has taken the change. */
export function withChange(held: SupplierView | undefined, change: SupplierChange): SupplierView {
  const fields = { ...held?.fields, ...change.fields };
  const contacts = byEmail(held?.contacts ?? []);
  for (const { name, email, delete: isDeleted } of change.contacts ?? []) {
    const key = caseless(email);
    if (isDeleted === true) contacts.delete(key);
    else contacts.set(key, { name: name ?? '', email: contacts.get(key)?.email ?? email });
  }
  return {
    name: change.name ?? held?.name ?? '',
    fields: Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== '')),
    archived: change.archived ?? held?.archived ?? false,
    contacts: [...contacts.values()],
  };
}

/** By e-mail; upper and lower case are the same, and the first entry of an e-mail counts. */
export function byEmail(contacts: readonly Contact[]): Map<string, Contact> {
  const found = new Map<string, Contact>();
  for (const contact of contacts) {
    const key = caseless(contact.email);
    if (!found.has(key)) found.set(key, contact);
  }
  return found;
}

function own(fields: Readonly<Record<string, string>> | undefined, name: string): string {
  return fields !== undefined && Object.hasOwn(fields, name) ? (fields[name] ?? '') : '';
}

function copy({ name, email }: Contact) {
  return { name, email };
}
