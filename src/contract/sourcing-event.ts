/**
 * Sourcing events: the payload that creates one, and its record in the feed. Source: API document,
 * "Create-sourcing-event payload" and "Sourcing event (feed record)"; value limits as published.
 */
import { z } from 'zod';
import { currencyCode } from './currency.ts';
import { questionList } from './rfi.ts';
import { decimal, decimalText, email, sameUnderBothNames, tagList, text, timestamp, uuid } from './scalars.ts';
import { externalId } from './supplier.ts';

const columnName = text(255, 1);

const inputColumn = z
  .strictObject({
    name: columnName,
    column_type: z.literal('INPUT'),
    input_by: z.enum(['BUYER_INPUT', 'SUPPLIER_INPUT']),
    input_type: z.enum(['TEXT', 'NUMBER', 'CURRENCY']),
    precision: z
      .int()
      .min(0)
      .max(10)
      .optional()
      .describe('Most decimals that a NUMBER or CURRENCY value may have. Left out: as many as it has.'),
    allow_negative: z.boolean().default(false).describe('Whether a NUMBER or CURRENCY value may be below 0.'),
    scope: z
      .enum(['LOT', 'EVENT'])
      .default('LOT')
      .describe('EVENT: one value for the whole event, copied into every lot.'),
  })
  .meta({ id: 'InputColumn' });

const formulaColumn = z
  .strictObject({
    name: columnName,
    column_type: z.literal('FORMULA'),
    formula: text(10_000, 1),
  })
  .meta({ id: 'FormulaColumn' });

export const column = z.discriminatedUnion('column_type', [inputColumn, formulaColumn]).meta({ id: 'Column' });
export type Column = z.infer<typeof column>;

/** A cell: text, or an amount in a currency of the event. */
export const cell = z
  .union([text(10_000), z.strictObject({ value: text(10_000), currency: currencyCode })])
  .meta({ id: 'Cell' });
export type Cell = z.infer<typeof cell>;

/** A cell in an answer: the currency as it was stored. */
export const shownCell = z
  .union([z.string(), z.looseObject({ value: z.string(), currency: z.string() })])
  .meta({ id: 'ShownCell' });

const columnValue = z
  .strictObject({ column: columnName, value: text(10_000), currency: currencyCode.optional() })
  .meta({ id: 'ColumnValue' });

const lot = z
  .strictObject({
    name: text(255, 1),
    values: z.array(columnValue).max(1_000).default([]),
    sourcing_request: uuid.optional().describe('The sourcing request that this lot serves. Left out: none of its own.'),
  })
  .meta({ id: 'Lot' });

const columnRoles = z
  .strictObject({
    lot_identifier: columnName.optional(),
    volume: columnName.optional(),
    historic_cost: columnName.optional(),
    description: columnName.optional(),
  })
  .meta({ id: 'ColumnRoles' });

const round = z
  .strictObject({
    starts: timestamp
      .optional()
      .describe('Left out: when the round before it has closed, or when the event is published.'),
    ends: timestamp.optional().describe('Left out: when the next round begins, or when it is closed.'),
  })
  .refine(({ starts, ends }) => starts === undefined || ends === undefined || starts < ends, {
    path: ['ends'],
    message: 'must be later than starts',
  })
  .meta({ id: 'RoundTimes' });

export const roundsMax = 100;
export const columnsMax = 500;

export const eventTypes = ['RFQ', 'DUTCH', 'ENGLISH'] as const;

/** In any case. Public pages call an auction that is not Dutch `AUCTION`. */
const eventType = z
  .string()
  .transform((type) => type.toUpperCase())
  .pipe(z.enum([...eventTypes, 'AUCTION']))
  .transform((type) => (type === 'AUCTION' ? 'ENGLISH' : type))
  .meta({ type: 'string', enum: [...eventTypes, 'AUCTION'], description: 'In any case. `AUCTION` is `ENGLISH`.' });

const eventContact = z.strictObject({ name: text(255).optional(), email: email.optional() });

const bidSheetMembers = {
  column_roles: columnRoles,
  columns: z.array(column).max(columnsMax),
  lots: z.array(lot).max(20_000),
  global_values: z.array(columnValue).max(columnsMax).describe("The buyer's values for columns of scope EVENT."),
};

const settingsMembers = {
  is_test: z.boolean(),
  is_template: z.boolean().describe('Other events can be created from it.'),
  close_after_last_round: z.boolean().describe('Close the event by itself when its last round has closed.'),
};

/** The members that describe an event, without defaults: an update, or an event made from a template, has a subset. */
const eventMembers = {
  name: text(120, 1),
  description: text(1_000),
  reference_id: text(255),
  event_type: eventType,
  primary_currency: currencyCode,
  secondary_currencies: z
    .array(z.strictObject({ code: currencyCode, exchange_rate: decimal }))
    .max(50)
    .describe('`exchange_rate`: units of the primary currency for one unit.'),
  tags: tagList,
  category: text(255),
  event_contact: eventContact,
  suppliers: z
    .array(
      z.strictObject({
        external_id: externalId,
        contacts: z.array(email).max(100).optional().describe('Left out: all of them.'),
      }),
    )
    .max(1_000),
  rounds: z
    .array(round)
    .max(roundsMax)
    .describe('Bidding rounds in their order; without any, publishing makes one that has no end.'),
  questions: questionList,
  sourcing_requests: z.array(uuid).max(1_000).describe('The sourcing requests that the event serves.'),
  primary_cost_calculation: text(10_000, 1).describe(
    'A formula over column names: `+ - * / ( )`, comparisons, `IF MIN MAX SUM ROUND ABS`: `Unit Price * Volume`. Brackets ' +
      'say where a name begins and ends: `[Unit Price] * [Volume]`. Left out: none; an event with lots needs one before it is published, unless ' +
      'it is a Dutch auction.',
  ),
};

/** Names of the public pages beside ours. What has no effect here is checked and then dropped. */
const publicMembers = {
  business_contact: z
    .union([eventContact, email.transform((address) => ({ email: address }))])
    .optional()
    .describe('Another name of `event_contact`. An e-mail address alone may stand for it. Left out: none.'),
  schedule: eventMembers.rounds.optional().describe('Another name of `rounds`. Left out: none.'),
  timezone: text(100, 1)
    .refine(isTimeZone, 'must be the name of a time zone, like Europe/Berlin')
    .optional()
    .describe('Without effect: times carry their own offset. Left out: none.'),
  roles: z
    .array(
      z.strictObject({
        role_type: text(50, 1),
        email: email.optional(),
        user: z
          .array(z.strictObject({ id: uuid.optional(), name: text(255).optional(), email: email.optional() }))
          .max(1_000)
          .optional(),
      }),
    )
    .max(100)
    .optional()
    .describe('Without effect: whoever has an API key of the organisation sees the event. Left out: none.'),
};

const createdBy = text(255, 1)
  .optional()
  .describe('Without effect: an event is created by the user of the API key, or by the key itself. Left out: none.');

function isTimeZone(name: string): boolean {
  try {
    new Intl.DateTimeFormat('en', { timeZone: name }).format();
    return true;
  } catch {
    return false;
  }
}

type PublicName = keyof typeof publicMembers | 'created_by';

interface SentEvent extends Readonly<Record<string, unknown>> {
  readonly rounds?: z.output<typeof eventMembers.rounds> | undefined;
  readonly schedule?: z.output<typeof eventMembers.rounds> | undefined;
  readonly event_contact?: z.output<typeof eventContact> | undefined;
  readonly business_contact?: z.output<typeof eventContact> | undefined;
}

const ourNames = {
  business_contact: 'event_contact',
  schedule: 'rounds',
  template_sourcing_event_id: 'template',
};

/** The schema of a payload that may use public names. Its output has ours alone. */
function inOurNames<Sent extends z.ZodType<SentEvent>>(schema: Sent) {
  return schema.superRefine(sameUnderBothNames(ourNames)).transform((sent): Omit<z.output<Sent>, PublicName> => {
    const { business_contact: contact, schedule, timezone: _zone, roles: _roles, created_by: _by, ...ours } = sent;
    return {
      ...ours,
      ...(contact && { event_contact: contact }),
      ...(schedule && { rounds: schedule }),
    };
  });
}

/** A create payload as it is sent. */
export const sentSourcingEvent = z
  .strictObject({
    ...eventMembers,
    description: eventMembers.description.default(''),
    reference_id: eventMembers.reference_id.optional().describe('Left out: none.'),
    event_type: eventMembers.event_type.default('RFQ'),
    primary_currency: eventMembers.primary_currency.default('EUR'),
    secondary_currencies: eventMembers.secondary_currencies.default([]),
    tags: eventMembers.tags.default([]),
    category: eventMembers.category.optional().describe('Left out: none.'),
    event_contact: eventMembers.event_contact.optional().describe('Left out: none.'),
    suppliers: eventMembers.suppliers.default([]),
    rounds: eventMembers.rounds.default([]),
    questions: eventMembers.questions.default([]),
    sourcing_requests: eventMembers.sourcing_requests.default([]),
    primary_cost_calculation: eventMembers.primary_cost_calculation.optional(),
    bid_sheet: z
      .strictObject({
        column_roles: bidSheetMembers.column_roles.default({}),
        columns: bidSheetMembers.columns.default([]),
        lots: bidSheetMembers.lots.default([]),
        global_values: bidSheetMembers.global_values.default([]),
      })
      .prefault({}),
    settings: z
      .strictObject({
        is_test: settingsMembers.is_test.default(false),
        is_template: settingsMembers.is_template.default(false),
        close_after_last_round: settingsMembers.close_after_last_round.default(false),
      })
      .prefault({}),
    ...publicMembers,
    created_by: createdBy,
  })
  .meta({ id: 'CreateSourcingEvent' });

/** Reads a create payload in our names; `Sent` is `sentSourcingEvent`, or has more members. */
export function asEventPayload<Sent extends z.ZodType<z.output<typeof sentSourcingEvent>>>(schema: Sent) {
  return inOurNames(schema);
}

export const createSourcingEventPayload = asEventPayload(sentSourcingEvent);

export type CreateSourcingEventPayload = z.output<typeof createSourcingEventPayload>;

/** Any subset of the create payload. A given member replaces the event's, also inside bid_sheet and settings. */
export const eventChanges = z
  .strictObject({
    ...eventMembers,
    bid_sheet: z.strictObject(bidSheetMembers).partial(),
    settings: z.strictObject(settingsMembers).partial(),
  })
  .partial();

export type EventChanges = z.infer<typeof eventChanges>;

/** The payload of an update as it is sent. */
export const sentEventUpdate = eventChanges
  .extend({ ...publicMembers, sourcing_event: uuid })
  .meta({ id: 'UpdateSourcingEvent' });

/** The payload of an event from a template as it is sent. */
export const sentEventFromTemplate = eventChanges
  .extend({
    ...publicMembers,
    created_by: createdBy,
    template: uuid.optional().describe('An event whose `settings.is_template` is true.'),
    template_sourcing_event_id: uuid.optional().describe('Instead of `template`: any event that is not deleted.'),
  })
  .meta({
    id: 'CreateSourcingEventFromTemplate',
    anyOf: [{ required: ['template'] }, { required: ['template_sourcing_event_id'] }],
  });

/** Reads an update in our names; `Sent` is `sentEventUpdate`, or has more members. */
export function asUpdatePayload<Sent extends z.ZodType<z.output<typeof sentEventUpdate>>>(schema: Sent) {
  return inOurNames(schema);
}

/** Reads an event from a template in our names; `Sent` is `sentEventFromTemplate`, or has more members. */
export function asTemplatePayload<Sent extends z.ZodType<z.output<typeof sentEventFromTemplate>>>(schema: Sent) {
  return inOurNames(schema).transform((payload, context) => {
    if (payload.template === undefined && payload.template_sourcing_event_id === undefined)
      context.addIssue({ code: 'custom', path: ['template'], message: 'is missing' });
    return payload;
  });
}

export const eventStatuses = ['DRAFT', 'OPEN', 'PAUSED', 'CLOSED', 'DELETED'] as const;
export type EventStatus = (typeof eventStatuses)[number];

export const roundStatuses = ['PENDING', 'ACTIVE', 'CLOSED', 'COMPLETE'] as const;
export type RoundStatus = (typeof roundStatuses)[number];

/**
 * The members that readers of the feed use. All other members are accepted as they are: another service may write them
 * in its own way, and a reader does not refuse a record because of a member that it does not use.
 */
export const sourcingEventEssentials = z.looseObject({
  id: uuid,
  name: z.string(),
  reference_id: z.string().optional(),
  type: z.string(),
  status: z.string(),
  modified: timestamp,
  primary_currency: z.string(),
  secondary_currencies: z.array(z.looseObject({ code: z.string(), exchange_rate: decimalText })).default([]),
  category: z.string().optional(),
  columns: z.array(z.looseObject({ name: z.string() })).default([]),
  suppliers: z
    .array(z.looseObject({ id: uuid, name: z.string().default(''), external_id: z.string().optional() }))
    .default([]),
  tags: z.array(z.looseObject({ name: z.string(), value: z.string() })).default([]),
  is_test: z.boolean().optional(),
});

const user = z
  .looseObject({ id: uuid, name: z.string().optional(), email: z.string().optional() })
  .meta({ id: 'User' });
const time = timestamp.optional();

const roundOfRecord = z
  .looseObject({
    starts: time,
    ends: time,
    status: z.string(),
    awarded_cost: decimalText.optional().describe('Of a round that is `COMPLETE`, in the primary currency.'),
    awarded_lot_count: z.int().optional(),
  })
  .meta({ id: 'Round' });

const supplierOfRecord = z
  .looseObject({
    id: uuid,
    name: z.string(),
    invite_count: z.int(),
    accepted: z.boolean(),
    participated: z.boolean(),
    external_id: z.string().optional(),
    last_successful_bid: time,
    last_failed_bid: time,
    last_accessed: time,
    contacts: z.array(z.looseObject({ id: uuid, name: z.string(), email: z.string(), supplier: uuid })),
  })
  .meta({ id: 'InvitedSupplier' });

/** The members of a feed record that `include=sourcing_events` also shows. */
const includedMembers = {
  id: uuid,
  name: z.string(),
  type: z.string(),
  status: z.string(),
  primary_currency: z.string(),
  secondary_currencies: z.array(z.looseObject({ code: z.string(), exchange_rate: decimalText })),
  tags: z.array(z.looseObject({ name: z.string(), value: z.string() })),
  bot: uuid.optional(),
  sourcing_requests: z.array(uuid).optional(),
};

/** The feed record with every member of the document. Enum values that a reader does not know may occur. */
export const sourcingEventRecord = z
  .looseObject({
    ...includedMembers,
    reference_id: z.string().optional(),
    roles: z.array(z.looseObject({ role_type: z.string(), user: z.array(user) })),
    created: timestamp,
    published: time.describe('When it was published last.'),
    closed: time.describe('When it was closed last.'),
    modified: timestamp,
    created_by: user,
    rounds: z.array(roundOfRecord),
    event_contact: z.looseObject({ name: z.string().optional(), email: z.string().optional() }).optional(),
    columns: z.array(z.looseObject({ name: z.string() })),
    lot_count: z.int(),
    scenario_count: z.int(),
    evaluated_scenario_count: z.int(),
    is_test: z.boolean(),
    suppliers: z.array(supplierOfRecord),
    category: z.string().optional(),
  })
  .meta({ id: 'SourcingEvent' });

export const includedSourcingEvent = z.looseObject(includedMembers).meta({ id: 'IncludedSourcingEvent' });
export const includedSourcingEventMembers = Object.keys(includedMembers);

/** A bid sheet column as `include=columns` shows it: as in the create payload, with the id of its event. */
export const includedColumn = z
  .looseObject({
    sourcing_event: uuid,
    name: z.string(),
    column_type: z.string(),
    input_by: z.string().optional(),
    input_type: z.string().optional(),
    precision: z.int().optional(),
    allow_negative: z.boolean().optional(),
    scope: z.string().optional(),
    formula: z.string().optional(),
  })
  .meta({ id: 'IncludedColumn' });
