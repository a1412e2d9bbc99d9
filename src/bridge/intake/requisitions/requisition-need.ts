/** Makes of a requisition what the intake wants of the service for it. Pure. */
import { type CompiledField, FieldFault } from '#bridge/documents/compile-field.ts';
import type { MappingRule } from '#bridge/documents/mapping-rule.ts';
import { defaultColumns } from '#bridge/settings/default-bid-sheet.ts';
import type { IntakeSettings } from '#bridge/settings/intake-settings.ts';
import { compileRequisitionField, isChosen } from '#bridge/settings/record-mapping.ts';
import type { Dialect } from '#client/dialect.ts';
import { shortened } from '#connector/human-text.ts';
import type { RequisitionRecord } from '#connector/records.ts';
import { sha256 } from '#platform/sha256.ts';

/** What one line of a requisition asks for. */
export interface NeededLot {
  readonly line: string;
  /** Other lots of the event may have the same name: then it is completed. */
  readonly name: string;
  readonly values: readonly { readonly column: string; readonly value: string }[];
}

/** What a requisition adds to an event. */
export interface Need {
  readonly reference: string;
  /** Of the event, while the requisition is its first. */
  readonly head: {
    readonly name: string;
    /** The settings say the name; it is the same for any number of requisitions. */
    readonly isNamed: boolean;
    readonly description?: string;
    readonly category?: string;
    readonly currency?: string;
    /** Of a request in the dialect public. */
    readonly deadline?: string;
  };
  readonly tags: readonly { readonly name: string; readonly value: string }[];
  readonly suppliers: readonly string[];
  readonly lots: readonly NeededLot[];
}

export type Wish =
  | { readonly is: 'wanted'; readonly groupKey: string; readonly need: Need; readonly hash: Buffer }
  /** It is not open any more, has no items, or the settings leave it out. */
  | { readonly is: 'withdrawn'; readonly why: string }
  | { readonly is: 'refused'; readonly why: string };

export type WishOf = (record: RequisitionRecord) => Wish;

/** The API's limits on values. */
const nameMax = 120;
const descriptionMax = 1_000;
const lotNameMax = 255;

/** Compiles an intake's rules. The settings have been checked. */
export function createWishOf(
  { name: intake, only, mapping, make, group }: IntakeSettings,
  source: { readonly dialect: Dialect['name'] } | undefined,
): WishOf {
  const { event, lots, request } = mapping;
  const field = (rule: MappingRule | undefined, inLine = false) =>
    rule === undefined ? undefined : compiled(intake, rule, inLine);
  const fieldsOf = (rules: Readonly<Record<string, MappingRule>>, inLine: boolean) =>
    Object.entries(rules).map(([name, rule]) => ({ ...compiled(intake, rule, inLine), name }));
  const named = field(event?.name);
  const [description, category, currency] = [field(event?.description), field(event?.category), field(event?.currency)];
  const tags = event?.tags && fieldsOf(event.tags, false);
  const suppliers = (event?.suppliers ?? []).map((rule) => compiled(intake, rule, false));
  const lotName = field(lots?.name, true);
  const columns = fieldsOf(request?.item_fields ?? lots?.columns ?? defaultColumns, true);
  const deadline = field(request?.bidding_deadline);
  const groupBy = field(group && { template: group.by, type: 'text', required: false });

  const lotOf = (record: RequisitionRecord, item: RequisitionRecord['items'][number]): NeededLot => ({
    line: item.line,
    name: shortened(((lotName && textOf(lotName, record, item)) || item.name).trim(), lotNameMax) || item.line,
    values: columns.flatMap((column) => {
      const value = textOf(column, record, item);
      return value === '' ? [] : [{ column: column.name, value }];
    }),
  });

  function needOf(record: RequisitionRecord): Need {
    const of = (rule: CompiledField | undefined, fallback: string | undefined) =>
      rule ? textOf(rule, record) || undefined : fallback;
    // The pages of the public service show neither a category nor a currency of a new event.
    const isShown = source?.dialect !== 'public';
    const about = of(description, record.description);
    const head = {
      description: about === undefined ? undefined : shortened(about, descriptionMax),
      category: of(category, isShown ? record.category : undefined),
      currency: of(currency, isShown ? record.items.find((item) => item.currency !== undefined)?.currency : undefined),
      deadline: of(deadline, undefined),
    };
    const name = (named && textOf(named, record)) || record.name;
    return {
      reference: record.reference_id,
      head: {
        name: shortened(name, nameMax),
        isNamed: named !== undefined,
        ...Object.fromEntries(Object.entries(head).filter(([, value]) => value !== undefined)),
      },
      tags: tags
        ? tags.flatMap((tag) => ({ name: tag.name, value: textOf(tag, record) })).filter(({ value }) => value !== '')
        : record.tags.map((tag) => ({ name: tag.name, value: tag.value })),
      suppliers: suppliers.map((rule) => textOf(rule, record)).filter((id) => id !== ''),
      lots: record.items.map((item) => lotOf(record, item)),
    };
  }

  return (record) => {
    if (!record.open) return { is: 'withdrawn', why: 'it is not open in the ERP any more' };
    if (!isChosen(only, record.reference_id, (field) => choiceOf(record, field)))
      return { is: 'withdrawn', why: 'the settings of the intake leave it out' };
    if (record.items.length === 0 && make !== 'request') return { is: 'withdrawn', why: 'it has no lines' };
    try {
      const need = needOf(record);
      // One without a value for a path of `group.by` has an event of its own.
      const groupKey = (groupBy && textOf(groupBy, record)) || record.reference_id;
      // A request holds the record itself.
      const sent = make === 'request' ? { ...record, open: true } : need;
      return { is: 'wanted', groupKey, need, hash: sha256(JSON.stringify(sent)) };
    } catch (error) {
      if (!(error instanceof FieldFault)) throw error;
      return { is: 'refused', why: `intake "${intake}": a field ${error.message}` };
    }
  };
}

/** The value by which the settings choose: of a tag, or the category. */
function choiceOf({ tags, category = '' }: RequisitionRecord, field: string): string {
  return tags.find((tag) => tag.name === field)?.value ?? (field === 'category' ? category : '');
}

function compiled(intake: string, rule: MappingRule, inLine: boolean): CompiledField {
  const field = compileRequisitionField('', rule, inLine);
  if ('fault' in field) throw new TypeError(`a rule of ${intake} was not checked: ${field.fault}`);
  return field;
}

function textOf(field: CompiledField, record: RequisitionRecord, item?: unknown): string {
  return field.make(record, item) ?? '';
}
