/**
 * Makes the bodies of jobs of requisitions: for a new event or request, and for the update of an event. Pure; the same
 * requisitions always make the same body.
 */
import { defaultMembers } from '#bridge/settings/default-bid-sheet.ts';
import type { IntakeSettings } from '#bridge/settings/intake-settings.ts';
import { shortened } from '#connector/human-text.ts';
import { type RequisitionRecord, recordSchemas } from '#connector/records.ts';
import type { Need, NeededLot } from './requisition-need.ts';

/** Which line of a requisition a lot is made of. */
export interface LotOrigin {
  readonly lot: string;
  readonly erpKey: string;
  readonly line: string;
}

export interface EventContent {
  readonly name: string;
  /** By what the event is found at the service. */
  readonly reference: string;
  readonly lots: readonly LotOrigin[];
  readonly members: Readonly<Record<string, unknown>>;
}

const nameMax = 120;
const lotNameMax = 255;
/** The API takes 255. */
const referenceMax = 250;

/** Makes what an event has of its requisitions, in their order. `make` is not `request`. */
export function eventContent({ mapping, make }: Pick<IntakeSettings, 'mapping' | 'make'>, needs: readonly Need[]) {
  const [first] = needs;
  const more = needs.length - 1;
  const head = first?.head;
  const suffix = more > 0 && head?.isNamed !== true ? ` and ${more} more` : '';
  const name = `${shortened(head?.name ?? '', nameMax - suffix.length)}${suffix}`;
  const named = namedLots(needs);
  const given: Readonly<Record<string, unknown>> = mapping.event?.with ?? {};
  const sheet = (given['bid_sheet'] as Record<string, unknown> | undefined) ?? {};
  const withColumns = make === 'event' && sheet['columns'] === undefined;
  const tags = new Map(needs.flatMap((need) => need.tags.map((tag) => [`${tag.name}\0${tag.value}`, tag])));
  const suppliers = [...new Set(needs.flatMap((need) => need.suppliers))];
  const content: EventContent = {
    name,
    reference: referenceOf(needs.map(({ reference }) => reference)),
    lots: named.map(({ name: lot, erpKey, of }) => ({ lot, erpKey, line: of.line })),
    members: {
      ...(withColumns ? { primary_cost_calculation: defaultMembers.primary_cost_calculation } : {}),
      ...given,
      name,
      ...(head?.description === undefined ? {} : { description: head.description }),
      ...(head?.category === undefined ? {} : { category: head.category }),
      ...(head?.currency === undefined || given['primary_currency'] !== undefined
        ? {}
        : { primary_currency: head.currency }),
      tags: [...(((given['tags'] as unknown[] | undefined) ?? []) as Need['tags']), ...tags.values()].slice(0, 100),
      ...(suppliers.length === 0 ? {} : { suppliers: suppliers.map((id) => ({ external_id: id })) }),
      bid_sheet: {
        ...(withColumns ? defaultMembers.bid_sheet : {}),
        ...sheet,
        lots: named.map(({ name: lot, of }) => ({ name: lot, values: of.values })),
      },
    },
  };
  return content;
}

/** The body of the job that creates the event. */
function createBody({ template }: Pick<IntakeSettings, 'template'>, content: EventContent) {
  const body = { ...content.members, reference_id: content.reference };
  return template === undefined ? body : { template, ...body };
}

/**
 * The body of the job that updates it. What a buyer may have changed in the event is not sent: columns, formula, rounds,
 * invitations, and whatever else stands in the settings for the creation.
 */
export function updateBody(entity: string, { members }: EventContent) {
  const { name, description, category, tags } = members;
  const { lots } = members['bid_sheet'] as { lots: unknown };
  return {
    sourcing_event: entity,
    name,
    ...(description === undefined ? {} : { description }),
    ...(category === undefined ? {} : { category }),
    tags,
    bid_sheet: { lots },
  };
}

/** The body of the job that creates a sourcing request. */
function requestBody(record: RequisitionRecord) {
  const { open: _open, files: _files, items, ...members } = record;
  return { ...members, items: items.map(({ line: _line, needed_by: _needed, ...item }) => item) };
}

/**
 * The same in the public form. It has no reference, so the description begins with it: by that a person knows what the
 * request is for.
 */
function publicRequestBody(
  record: RequisitionRecord,
  { head, lots }: Need,
  { with: members }: NonNullable<IntakeSettings['mapping']['request']>,
) {
  const { reference_id: reference, name, description } = record;
  return {
    ...members,
    description: [`${reference}: ${name}`, description].filter((text) => text !== undefined && text !== '').join('\n'),
    ...(head.deadline === undefined ? {} : { bidding_deadline: head.deadline }),
    item_fields: lots.map(({ values }) => values.map(({ column, value }) => ({ name: column, value }))),
  };
}

/** Makes the body of the job that creates, of the requisitions of an event. */
export function bodyOf({ intake }: { intake: IntakeSettings }, wanted: readonly { body: string; need: Need }[]) {
  const [first] = wanted;
  if (intake.make === 'request' && first) {
    const record = recordSchemas.requisition.parse(JSON.parse(first.body));
    // An item is known again by its name, if no other has it.
    const lots = record.items
      .filter(({ name }) => record.items.filter((item) => item.name === name).length === 1)
      .map(({ name, line }) => ({ lot: name, erpKey: record.reference_id, line }));
    const { request } = intake.mapping;
    const body = request === undefined ? requestBody(record) : publicRequestBody(record, first.need, request);
    return { body, content: { name: record.name, reference: record.reference_id, lots } };
  }
  const content = eventContent(
    intake,
    wanted.map(({ need }) => need),
  );
  return { body: createBody(intake, content), content };
}

/** `PR-1, PR-2 and 3 more`: the requisitions of an event; a requisition is in one event only. */
function referenceOf(references: readonly string[]): string {
  for (let shown = references.length; shown > 1; shown -= 1) {
    const more = references.length - shown;
    const text = `${references.slice(0, shown).join(', ')}${more === 0 ? '' : ` and ${more} more`}`;
    if (text.length <= referenceMax) return text;
  }
  const [first = ''] = references;
  return references.length > 1 ? `${shortened(first, referenceMax - 20)} and ${references.length - 1} more` : first;
}

/** Lot names are unique in an event: one that stands twice gets its requisition and line. */
function namedLots(needs: readonly Need[]): { name: string; erpKey: string; of: NeededLot }[] {
  const all = needs.flatMap(({ reference, lots }) => lots.map((of) => ({ erpKey: reference, of })));
  const count = new Map<string, number>();
  for (const { of } of all) count.set(of.name, (count.get(of.name) ?? 0) + 1);
  const used = new Set<string>();
  return all.map(({ erpKey, of }) => {
    const suffix = ` (${erpKey}/${of.line})`;
    const full = `${shortened(of.name, lotNameMax - suffix.length)}${suffix}`;
    const isFree = (name: string) => !used.has(name);
    const name = count.get(of.name) === 1 && isFree(of.name) ? of.name : full;
    let unique = name;
    for (let n = 2; !isFree(unique); n += 1) unique = `${shortened(name, lotNameMax - 6)} #${n}`;
    used.add(unique);
    return { name: unique, erpKey, of };
  });
}
