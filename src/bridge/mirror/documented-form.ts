/**
 * Whether a record is as the contract documents it. The schemas say what is wrong with a record. Every changed record
 * of every page is checked, so a faster check without the schemas finds the records with which nothing is wrong. A
 * property test proves that both checks agree.
 */
import type { z } from 'zod';
import { type FeedName, feeds, ofEachFeed } from '#contract/feed.ts';
import { pathText } from '#platform/input.ts';

/** Without `modified`: it was read before, and a record may have none. */
const schemas = ofEachFeed((feed): z.ZodType => {
  const { essentials }: { essentials: z.ZodObject } = feeds[feed];
  return essentials.omit({ modified: true });
});

/** Returns the first thing that is wrong with the record; undefined where the record is as documented. */
export function faultOfRecord(feed: FeedName, record: Readonly<Record<string, unknown>>): string | undefined {
  if (fastChecks[feed]?.(record)) return undefined;
  const [issue] = schemas[feed].safeParse(record).error?.issues ?? [];
  return issue && `${pathText(issue.path)} ${issue.message}`;
}

/** Whether a value has a certain form. */
type Check = (value: unknown) => boolean;

const uuidPattern = /^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$/;
const decimalPattern = /^-?\d+(\.\d+)?$/;

const text: Check = (value) => typeof value === 'string';
const flag: Check = (value) => typeof value === 'boolean';
const id: Check = (value) => typeof value === 'string' && uuidPattern.test(value);
const amount: Check = (value) => typeof value === 'string' && decimalPattern.test(value);

function optional(check: Check): Check {
  return (value) => value === undefined || check(value);
}

function listOf(check: Check): Check {
  return (value) => Array.isArray(value) && value.every(check);
}

function objectOf(members: Readonly<Record<string, Check>>): Check {
  const checks = Object.entries(members);
  return (value) =>
    typeof value === 'object' &&
    value !== null &&
    !Array.isArray(value) &&
    checks.every(([name, check]) => check((value as Readonly<Record<string, unknown>>)[name]));
}

const bidSheetValues = listOf(objectOf({ column_name: text, value: text, currency: optional(text) }));

/** For the feeds with the most records; records of other feeds are checked by their schema. */
const fastChecks: Readonly<Partial<Record<FeedName, Check>>> = {
  'sourcing-events': objectOf({
    id,
    name: text,
    reference_id: optional(text),
    type: text,
    status: text,
    primary_currency: text,
    secondary_currencies: optional(listOf(objectOf({ code: text, exchange_rate: amount }))),
    category: optional(text),
    columns: optional(listOf(objectOf({ name: text }))),
    suppliers: optional(listOf(objectOf({ id, name: optional(text), external_id: optional(text) }))),
    tags: optional(listOf(objectOf({ name: text, value: text }))),
    is_test: optional(flag),
  }),
  'latest-bids': objectOf({
    id,
    sourcing_event: id,
    sourcing_request: optional(id),
    supplier: id,
    lot_name: text,
    bids: listOf(objectOf({ value: amount, volume: optional(amount) })),
    bid_sheet_values: bidSheetValues,
  }),
  awards: objectOf({
    id,
    sourcing_event: id,
    sourcing_request: optional(id),
    lot_name: text,
    scenario_name: optional(text),
    awards: listOf(
      objectOf({
        supplier: id,
        share_awarded: amount,
        cost: amount,
        savings: optional(amount),
        historic_cost: optional(amount),
        bid_sheet_values: bidSheetValues,
      }),
    ),
  }),
};
