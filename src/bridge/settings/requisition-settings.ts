/** The settings of an intake of requisitions: what is made of them at the service, and how they are grouped. */
import { z } from 'zod';
import { type MappingRule, mappingRule } from '#bridge/documents/mapping-rule.ts';
import { compileRequisitionField } from './record-mapping.ts';

const rules = z.record(z.string().min(1), mappingRule);

export const eventMapping = z.strictObject({
  name: mappingRule.optional(),
  description: mappingRule.optional(),
  category: mappingRule.optional(),
  currency: mappingRule.optional().describe('The primary currency; left out: the one of `with`, or of the items'),
  tags: rules.optional().describe("Left out: the requisition's own tags"),
  suppliers: z.array(mappingRule).default([]).describe('External ids of suppliers to invite, a rule each'),
  with: z
    .record(z.string(), z.unknown())
    .default({})
    .describe("Further members of the API's payload, as they stand: bid sheet, formula, rounds, questions"),
});

export const lotsMapping = z.strictObject({
  name: mappingRule.optional().describe("Left out: the item's name"),
  columns: rules.optional().describe("The buyer's columns of the bid sheet, each with a path or a rule"),
});

export const requestMapping = z.strictObject({
  item_fields: rules
    .refine((fields) => Object.keys(fields).length > 0, 'must have a field')
    .describe("The fields of each item as the service's bot names them, each with a path or a rule"),
  bidding_deadline: mappingRule.optional(),
  with: z
    .record(z.string(), z.unknown())
    .default({})
    .describe("Further members of the service's payload, as they stand: bot"),
});

export const grouping = z.strictObject({
  by: z.string().min(1).describe('A text with paths in braces: requisitions with the same text share an event'),
  most: z.int().min(1).max(10_000).default(50).describe('Lots in one event at most; a requisition is never divided'),
  wait_minutes: z.number().min(0).max(10_080).default(30).describe('So long the first requisition waits for others'),
});

export const makes = ['event', 'request', 'event-from-template'] as const;
export type Make = (typeof makes)[number];

export interface RequisitionMapping {
  readonly event: z.output<typeof eventMapping>;
  readonly lots: z.output<typeof lotsMapping>;
  readonly request: z.output<typeof requestMapping>;
}

export interface IntakeFault {
  readonly path: (string | number)[];
  readonly message: string;
}

/** What the schema alone cannot see in the settings of an intake of requisitions. */
export function faultsOfRequisitions(given: {
  make: Make | undefined;
  template: string | undefined;
  group: z.output<typeof grouping> | undefined;
  mapping: Partial<RequisitionMapping>;
}): IntakeFault[] {
  const { make, template, group, mapping } = given;
  const faults: IntakeFault[] = [];
  if (make === undefined) faults.push({ path: ['make'], message: `must be one of ${makes.join(', ')}` });
  if ((make === 'event-from-template') !== (template !== undefined))
    faults.push({ path: ['template'], message: 'goes with make: event-from-template, and with nothing else' });
  if (make === 'request' && (group || mapping.event || mapping.lots))
    faults.push({
      path: ['make'],
      message: 'is request: each requisition becomes one, without group, mapping.event and mapping.lots',
    });
  if (make !== 'request' && mapping.request)
    faults.push({ path: ['mapping', 'request'], message: 'goes with make: request' });
  const check = (path: string[], rule: MappingRule | undefined, inLine: boolean) => {
    if (rule === undefined) return;
    const compiled = compileRequisitionField(path.at(-1) ?? '', rule, inLine);
    if ('fault' in compiled) faults.push({ path: [...path, ...compiled.at], message: compiled.fault });
  };
  if (group) check(['group', 'by'], { template: group.by, type: 'text', required: false }, false);
  const { name, description, category, currency, tags = {}, suppliers = [], with: members = {} } = mapping.event ?? {};
  for (const [member, rule] of Object.entries({ name, description, category, currency }))
    check(['mapping', 'event', member], rule, false);
  for (const [tag, rule] of Object.entries(tags)) check(['mapping', 'event', 'tags', tag], rule, false);
  for (const [index, rule] of suppliers.entries()) check(['mapping', 'event', 'suppliers', String(index)], rule, false);
  const { name: lotName, columns = {} } = mapping.lots ?? {};
  check(['mapping', 'lots', 'name'], lotName, true);
  for (const [column, rule] of Object.entries(columns)) check(['mapping', 'lots', 'columns', column], rule, true);
  const { item_fields: itemFields = {}, bidding_deadline: deadline, with: ofRequest = {} } = mapping.request ?? {};
  for (const [field, rule] of Object.entries(itemFields))
    check(['mapping', 'request', 'item_fields', field], rule, true);
  check(['mapping', 'request', 'bidding_deadline'], deadline, false);
  for (const member of ['description', 'bidding_deadline', 'item_fields'])
    if (Object.hasOwn(ofRequest, member))
      faults.push({ path: ['mapping', 'request', 'with', member], message: 'is made of the requisition' });
  faults.push(...faultsOfPayload(members, mapping.lots?.columns, make));
  return faults;
}

/** What of a bid sheet is looked at here: the rest depends on the dialect of the source. */
const sheetForm = z.looseObject({
  columns: z.array(z.looseObject({ name: z.string() })).optional(),
  lots: z.unknown().optional(),
});

/** Members that the intake makes of the requisitions, which stand elsewhere in the settings. */
const ownMembers = ['name', 'reference_id', 'suppliers', 'sourcing_requests'];

function faultsOfPayload(
  members: Readonly<Record<string, unknown>>,
  columns: Readonly<Record<string, MappingRule>> | undefined,
  make: Make | undefined,
): IntakeFault[] {
  const path = ['mapping', 'event', 'with'];
  const faults = ownMembers.flatMap((member): IntakeFault[] =>
    Object.hasOwn(members, member) ? [{ path: [...path, member], message: 'is made of the requisitions' }] : [],
  );
  const sheet = sheetForm.safeParse(members['bid_sheet']).data;
  if (sheet?.lots) faults.push({ path: [...path, 'bid_sheet', 'lots'], message: 'are made of the requisitions' });
  if (make !== 'event') return faults;
  if (sheet?.columns && !columns)
    faults.push({ path: ['mapping', 'lots', 'columns'], message: 'must fill the columns of mapping.event.with' });
  const known = new Set((sheet?.columns ?? []).map(({ name }) => name));
  for (const column of Object.keys(columns ?? {}))
    if (!known.has(column))
      faults.push({
        path: ['mapping', 'lots', 'columns', column],
        message: 'is no column of mapping.event.with.bid_sheet.columns',
      });
  return faults;
}
