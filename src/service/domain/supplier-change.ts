/**
 * Applying one entry of a supplier change submission to one supplier. Source: API document, rules 1 to 6 of
 * POST `/api/manage/supplier_changes`; decisions, "Suppliers".
 */
import type { SupplierChange } from '#contract/supplier.ts';

export interface SupplierState {
  readonly name: string;
  readonly fields: ReadonlyMap<string, string>;
  readonly archived: boolean;
  readonly contacts: readonly { readonly name: string; readonly email: string }[];
}

export type AppliedChange =
  | { ok: true; next: SupplierState; changed: boolean; header: string; messages: string[]; warnings: string[] }
  | { ok: false; errors: string[] };

/** The text by which e-mail addresses are compared: upper and lower case are the same. */
export function emailKey(email: string): string {
  return email.toLowerCase();
}

/** Returns the supplier's next state or, if there is any fault, all faults; then the supplier does not change. */
export function applySupplierChange(
  current: SupplierState | undefined,
  change: SupplierChange,
  attributes: ReadonlySet<string>,
): AppliedChange {
  const errors: string[] = [];
  const messages: string[] = [];
  const warnings: string[] = [];
  if (current === undefined && change.name === undefined) errors.push('a new supplier needs a name');
  const fields = new Map(current?.fields);
  for (const [name, value] of Object.entries(change.fields ?? {})) {
    if (!attributes.has(name)) errors.push(`there is no supplier attribute "${name}"`);
    else if (fields.get(name) !== value) messages.push(`${name} set`);
    fields.set(name, value);
  }
  const contacts = new Map((current?.contacts ?? []).map((contact) => [emailKey(contact.email), contact]));
  const seen = new Set<string>();
  for (const contact of change.contacts ?? []) {
    const key = emailKey(contact.email);
    if (seen.has(key)) errors.push(`the e-mail ${contact.email} stands twice`);
    seen.add(key);
    const known = contacts.get(key);
    if (contact.delete === true) {
      // Not an error: a submission that was applied and is sent again must not fail.
      if (known === undefined) warnings.push(`there is no contact ${contact.email} to delete`);
      else messages.push(`contact ${known.email} deleted`);
      contacts.delete(key);
    } else if (contact.name !== undefined && known?.name !== contact.name) {
      messages.push(`contact ${known?.email ?? contact.email} ${known ? 'renamed' : 'added'}`);
      contacts.set(key, { name: contact.name, email: known?.email ?? contact.email });
    }
  }
  if (errors.length > 0) return { ok: false, errors };
  const name = change.name ?? current?.name ?? '';
  const archived = change.archived ?? current?.archived ?? false;
  if (current && current.name !== name) messages.push('name changed');
  if (current && current.archived !== archived) messages.push(archived ? 'archived' : 'taken out of the archive');
  const changed = current === undefined || messages.length > 0;
  const what = !changed
    ? 'unchanged'
    : current === undefined
      ? 'created'
      : archived && !current.archived
        ? 'archived'
        : 'updated';
  return {
    ok: true,
    next: { name, fields, archived, contacts: [...contacts.values()] },
    changed,
    header: `Supplier ${change.external_id} ${what}`,
    messages,
    warnings,
  };
}
