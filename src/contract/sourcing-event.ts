/**
 * Sourcing events: the payload that creates one, and its record in the feed. Source: API document,
 * "Create-sourcing-event payload" and "Sourcing event (feed record)"; value limits as published.
 */
import { z } from 'zod';
import { currencyCode, decimal, email, tag, text, timestamp, uuid } from './scalars.ts';
import { externalId } from './supplier.ts';

const columnName = text(255, 1);

const inputColumn = z.strictObject({
  name: columnName,
  column_type: z.literal('INPUT'),
  input_by: z.enum(['BUYER_INPUT', 'SUPPLIER_INPUT']),
  input_type: z.enum(['TEXT', 'NUMBER', 'CURRENCY']),
  /** Most decimals that a NUMBER or CURRENCY value may have. */
  precision: z.int().min(0).max(10).optional(),
  /** EVENT: one value for the whole event, copied into every lot. */
  scope: z.enum(['LOT', 'EVENT']).default('LOT'),
});

const formulaColumn = z.strictObject({
  name: columnName,
  column_type: z.literal('FORMULA'),
  formula: text(10_000, 1),
});

export const column = z.discriminatedUnion('column_type', [inputColumn, formulaColumn]);
export type Column = z.infer<typeof column>;

/** A cell: text, or an amount in a currency of the event. */
export const cell = z.union([text(10_000), z.strictObject({ value: text(10_000), currency: currencyCode })]);
export type Cell = z.infer<typeof cell>;

const columnValue = z.strictObject({ column: columnName, value: text(10_000), currency: currencyCode.optional() });

const lot = z.strictObject({ name: text(255, 1), values: z.array(columnValue).max(1_000).default([]) });

const bidSheet = z.strictObject({
  column_roles: z
    .strictObject({
      lot_identifier: columnName.optional(),
      volume: columnName.optional(),
      historic_cost: columnName.optional(),
      description: columnName.optional(),
    })
    .default({}),
  columns: z.array(column).max(500).default([]),
  lots: z.array(lot).max(20_000).default([]),
  global_values: z.array(columnValue).max(500).default([]),
});

export const createSourcingEventPayload = z.strictObject({
  name: text(120, 1),
  description: text(1_000).default(''),
  reference_id: text(255).optional(),
  event_type: z.literal('RFQ').default('RFQ'),
  primary_currency: currencyCode.default('EUR'),
  secondary_currencies: z
    .array(z.strictObject({ code: currencyCode, exchange_rate: decimal }))
    .max(50)
    .default([]),
  tags: z.array(tag).max(100).default([]),
  category: text(255).optional(),
  event_contact: z.strictObject({ name: text(255).optional(), email: email.optional() }).optional(),
  suppliers: z
    .array(z.strictObject({ external_id: externalId, contacts: z.array(email).max(100).optional() }))
    .max(1_000)
    .default([]),
  bid_sheet: bidSheet.default({ column_roles: {}, columns: [], lots: [], global_values: [] }),
  primary_cost_calculation: text(10_000, 1).optional(),
  settings: z.strictObject({ is_test: z.boolean().default(false) }).default({ is_test: false }),
});

export type CreateSourcingEventPayload = z.infer<typeof createSourcingEventPayload>;

export const eventStatuses = ['DRAFT', 'OPEN', 'PAUSED', 'CLOSED', 'DELETED'] as const;
export type EventStatus = (typeof eventStatuses)[number];

export type RoundStatus = 'PENDING' | 'ACTIVE' | 'CLOSED' | 'COMPLETE';

/** The feed record as a client reads it: fields and enum values that it does not know are kept. */
export const sourcingEventRecord = z.looseObject({
  id: uuid,
  name: z.string(),
  reference_id: z.string().optional(),
  type: z.string(),
  status: z.string(),
  modified: timestamp,
  primary_currency: z.string(),
  columns: z.array(z.looseObject({ name: z.string() })).default([]),
  suppliers: z
    .array(z.looseObject({ id: uuid, name: z.string().default(''), external_id: z.string().optional() }))
    .default([]),
  tags: z.array(z.looseObject({ name: z.string(), value: z.string() })).default([]),
  is_test: z.boolean().optional(),
});

export type SourcingEventRecord = z.infer<typeof sourcingEventRecord>;
