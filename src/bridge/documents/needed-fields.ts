/**
 * Which fields of a feed's records the flows need: those without which no document can be made, and those that a mapping
 * shows. Pure. When a source takes such a field away, its documents become dead letters or lose a value.
 */
import { PathError, templateParts } from '#connector/document-paths.ts';
import type { DocumentKind } from '#connector/documents.ts';
import { type FeedName, feeds } from '#contract/feed.ts';
import { feedDocuments } from './document-keys.ts';
import type { MappingRule } from './mapping-rule.ts';
import type { MappingSettings } from './mapping-settings.ts';
import { type RecordSchema, recordSchema } from './record-schema.ts';

/** What is asked of a flow's settings. */
interface FlowNeeds {
  readonly name: string;
  readonly documents: readonly DocumentKind[];
  readonly mapping: MappingSettings;
  readonly quantity_column?: string | undefined;
  readonly unit_price_column?: string | undefined;
}

export interface NeededField {
  /** Its path in the record: `awards[].cost`, `tags[Cost Center]`. */
  readonly path: string;
  /** Who needs it: `flow erp, field CostCenter of award`. */
  readonly neededBy: string;
  /** Whether the record has the field; undefined where it has nothing that could have it, such as an empty list. */
  readonly isIn: (record: Readonly<Record<string, unknown>>) => boolean | undefined;
}

/** Returns the fields of the feed that these flows need, each once. */
export function neededFields(flows: readonly FlowNeeds[], feed: FeedName): NeededField[] {
  const needed = new Map<string, NeededField>();
  const add = (path: string, neededBy: string) => {
    if (!needed.has(path)) needed.set(path, { path, neededBy, isIn: readerOf(stepsOf(path)) });
  };
  for (const flow of flows) {
    for (const kind of flow.documents.filter((one) => kindsOf(feed).includes(one)))
      for (const path of requiredPaths(feed)) add(path, `flow ${flow.name}, every ${kind}`);
    for (const [kind, rules] of Object.entries(flow.mapping)) {
      if (!flow.documents.some((one) => one === kind)) continue;
      for (const [name, rule] of Object.entries({ ...rules?.fields, ...rules?.lines }))
        for (const path of recordPaths(feed, kind, pathsOf(rule)))
          add(path, `flow ${flow.name}, field ${name} of ${kind}`);
    }
    for (const column of [flow.quantity_column, flow.unit_price_column])
      if (column !== undefined && flow.documents.some((kind) => sheetOf[feed]?.kind === kind))
        add(`${sheetOf[feed]?.path}[${column}]`, `flow ${flow.name}, the bid sheet column ${column}`);
  }
  return [...needed.values()];
}

/** Where a feed's records hold the bid sheet's values, and the kind of document that shows them. */
const sheetOf: Partial<Record<FeedName, { kind: string; path: string }>> = {
  awards: { kind: 'award', path: 'awards[].bid_sheet_values' },
  'latest-bids': { kind: 'quotation', path: 'bid_sheet_values' },
};

/** The kinds that cannot be made without records of the feed. */
function kindsOf(feed: FeedName): readonly string[] {
  if (feed === 'sourcing-events') return ['sourcing-event', 'quotation', 'award', 'rfi-answers'];
  const { pair } = feedDocuments[feed];
  return pair === null ? [] : [pair.kind];
}

const required = new Map<FeedName, string[]>();

/** The members that a reader cannot do without. `modified` may be missing, and documents do not show it. */
function requiredPaths(feed: FeedName): string[] {
  const walk = (schema: RecordSchema, place: string): string[] =>
    schema.required.flatMap((name) => {
      const path = place === '' ? name : `${place}.${name}`;
      const items = schema.properties?.[name]?.items;
      return items?.properties === undefined ? [path] : [path, ...walk(items, `${path}[]`)];
    });
  const paths =
    required.get(feed) ??
    // The flow says which columns of the bid sheet it needs; empty lists may be left out.
    walk(recordSchema(feeds[feed].essentials), '').filter(
      (path) => path !== 'modified' && !/sheet_values|^bids/.test(path),
    );
  required.set(feed, paths);
  return paths;
}

function pathsOf(rule: MappingRule): string[] {
  if (typeof rule === 'string') return [rule];
  if (rule.from !== undefined) return [rule.from].flat();
  if (rule.template === undefined) return [];
  try {
    return templateParts(rule.template).flatMap((part) => (typeof part === 'string' ? [] : [part.path]));
  } catch (error) {
    if (error instanceof PathError) return [];
    throw error;
  }
}

const ofEvent: readonly (readonly [RegExp, string])[] = [
  [/^(?:document\.)?event\.(name|type|category|reference_id|is_test)$/, '$1'],
  [/^(?:document\.)?event\.tags\[(.+)\]$/, 'tags[$1]'],
  [/^(?:document\.)?supplier\.(name|external_id)$/, 'suppliers[].$1'],
  [/^(?:document\.)?currency$/, 'primary_currency'],
];
const ofLine: Partial<Record<FeedName, { kind: string; paths: readonly (readonly [RegExp, string])[] }>> = {
  awards: {
    kind: 'award',
    paths: [
      [/^line\.lot$/, 'lot_name'],
      [/^line\.scenario$/, 'scenario_name'],
      [/^line\.sourcing_request$/, 'sourcing_request'],
      [/^line\.share$/, 'awards[].share_awarded'],
      [/^line\.(cost|historic_cost|savings)$/, 'awards[].$1'],
      [/^line\.values\[(.+)\]$/, 'awards[].bid_sheet_values[$1]'],
    ],
  },
  'latest-bids': {
    kind: 'quotation',
    paths: [
      [/^line\.lot$/, 'lot_name'],
      [/^line\.sourcing_request$/, 'sourcing_request'],
      [/^line\.values\[(.+)\]$/, 'bid_sheet_values[$1]'],
    ],
  },
};

/** The paths in the feed's records from which these paths of a document are made; others come from elsewhere. */
function recordPaths(feed: FeedName, kind: string, paths: readonly string[]): string[] {
  const line = ofLine[feed];
  const rules = feed === 'sourcing-events' ? ofEvent : line?.kind === kind ? line.paths : [];
  return paths.flatMap((path) => {
    const rule = rules.find(([form]) => form.test(path));
    // A name in quotation marks is the same name.
    return rule === undefined ? [] : [path.replace(rule[0], rule[1]).replace(/\["(.*)"\]$/, '[$1]')];
  });
}

/** A member, all items of a list (`items`), or the item of a list of names and values (`named`). */
type Step = { readonly member: string } | { readonly items: true } | { readonly named: string };

function stepsOf(path: string): Step[] {
  return [...path.matchAll(/([^.[\]]+)|\[\]|\[([^\]]+)\]/g)].map(([, member, named]) =>
    member !== undefined ? { member } : named !== undefined ? { named } : { items: true },
  );
}

function readerOf(steps: readonly Step[]): NeededField['isIn'] {
  return (record) => isThere(record, steps, 0);
}

function isThere(value: unknown, steps: readonly Step[], at: number): boolean | undefined {
  const step = steps[at];
  if (step === undefined) return value !== null && value !== undefined;
  if ('member' in step) {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, step.member)) return false;
    return isThere((value as Record<string, unknown>)[step.member], steps, at + 1);
  }
  if (!Array.isArray(value)) return false;
  if ('named' in step)
    return value.some((item: unknown) => {
      if (typeof item !== 'object' || item === null) return false;
      const { name, column_name: column } = item as Record<string, unknown>;
      return name === step.named || column === step.named;
    });
  if (value.length === 0) return undefined;
  return value.some((item) => isThere(item, steps, at + 1) !== false);
}
