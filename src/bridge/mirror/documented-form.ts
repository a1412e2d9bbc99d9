/**
 * Whether a record reads as the contract says. The schemas say what is wrong; that nothing is, is found without them,
 * since every changed record of every page is looked at. Both are the same (a property test compares them).
 */
import type { z } from 'zod';
import { lotAward } from '#contract/award.ts';
import { supplierLotBid } from '#contract/bid.ts';
import type { FeedName } from '#contract/feed.ts';
import { supplierQuestionResponse } from '#contract/rfi.ts';
import { sourcingEventEssentials } from '#contract/sourcing-event.ts';
import { pathText } from '#platform/input.ts';

/** The time has been read already: a record may have none. */
const schemas: Readonly<Record<FeedName, z.ZodType>> = {
  'sourcing-events': sourcingEventEssentials.omit({ modified: true }),
  'latest-bids': supplierLotBid.omit({ modified: true }),
  awards: lotAward.omit({ modified: true }),
  'rfi-responses': supplierQuestionResponse.omit({ modified: true }),
};

/** What is wrong with it, first of all; undefined where it is as documented. */
export function faultOfRecord(feed: FeedName, record: Readonly<Record<string, unknown>>): string | undefined {
  if (forms[feed]?.(record)) return undefined;
  const [issue] = schemas[feed].safeParse(record).error?.issues ?? [];
  return issue && `${pathText(issue.path)} ${issue.message}`;
}

type Form = (value: unknown) => boolean;

const uuidForm = /^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$/;
const decimalForm = /^-?\d+(\.\d+)?$/;

const text: Form = (value) => typeof value === 'string';
const flag: Form = (value) => typeof value === 'boolean';
const id: Form = (value) => typeof value === 'string' && uuidForm.test(value);
const amount: Form = (value) => typeof value === 'string' && decimalForm.test(value);

function optional(form: Form): Form {
  return (value) => value === undefined || form(value);
}

function listOf(form: Form): Form {
  return (value) => Array.isArray(value) && value.every(form);
}

function objectOf(members: Readonly<Record<string, Form>>): Form {
  const list = Object.entries(members);
  return (value) =>
    typeof value === 'object' &&
    value !== null &&
    !Array.isArray(value) &&
    list.every(([name, form]) => form((value as Readonly<Record<string, unknown>>)[name]));
}

const bidSheetValues = listOf(objectOf({ column_name: text, value: text, currency: optional(text) }));

/** Of the feeds that hold most. */
const forms: Readonly<Partial<Record<FeedName, Form>>> = {
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
