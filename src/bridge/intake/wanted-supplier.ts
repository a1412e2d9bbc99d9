/** Makes of an ERP's record what the intake wants the service to hold. Pure. */
import { FieldFault } from '#bridge/documents/compile-field.ts';
import { compareText } from '#bridge/documents/text-order.ts';
import type { IntakeSettings } from '#bridge/settings/intake-settings.ts';
import { compileRecordField, isChosen } from '#bridge/settings/record-mapping.ts';
import type { SupplierRecord } from '#connector/records.ts';
import { type SupplierChange, supplierChangeRequest } from '#contract/supplier.ts';
import { byEmail, type SupplierView } from './compare-supplier.ts';

export type Wanted =
  | { readonly is: 'wanted'; readonly state: SupplierView }
  /** The settings leave it out: what the service holds stays as it is. */
  | { readonly is: 'left-out' }
  | { readonly is: 'refused'; readonly why: string };

/** Compiles an intake's rules. The settings have been checked. */
export function createWanted({ name: intake, only, mapping }: IntakeSettings): (record: SupplierRecord) => Wanted {
  const rules = mapping.supplier && Object.entries(mapping.supplier.fields).sort(([a], [b]) => compareText(a, b));
  const fields = rules?.map(([name, rule]) => {
    const compiled = compileRecordField(name, rule);
    if ('fault' in compiled) throw new TypeError(`the field "${name}" of ${intake} was not checked: ${compiled.fault}`);
    return compiled;
  });
  return (record) => {
    if (!isChosen(only, record.external_id, (field) => valueOf(record.fields, field))) return { is: 'left-out' };
    const made: [string, string][] = [];
    try {
      for (const { name, make } of fields ?? []) made.push([name, make(record, undefined) ?? '']);
    } catch (error) {
      if (!(error instanceof FieldFault)) throw error;
      return { is: 'refused', why: `intake "${intake}": a field ${error.message}` };
    }
    const values = (fields ? made : Object.entries(record.fields)).filter(([, value]) => value !== '');
    values.sort(([a], [b]) => compareText(a, b));
    const contacts = [...byEmail(record.contacts).values()].sort((a, b) => compareText(a.email, b.email));
    const { name, archived } = record;
    return { is: 'wanted', state: { name, fields: Object.fromEntries(values), archived, contacts } };
  };
}

function valueOf(fields: Readonly<Record<string, string>>, name: string): string {
  return Object.hasOwn(fields, name) ? (fields[name] ?? '') : '';
}

/** Returns in words what the API cannot take of this change; undefined when it can take it. */
export function faultOfChange(change: SupplierChange): string | undefined {
  const checked = supplierChangeRequest.safeParse({ change_data: { suppliers: [change] } });
  const issue = checked.error?.issues[0];
  if (!issue) return undefined;
  const path = issue.path.slice(3).join('.');
  return `the service's API cannot take it: ${path} ${issue.message}; correct it in the ERP`;
}
