/** An event in the answers of `/desk`: its live state, which the feeds may lag behind (operator API, "/desk"). */
import { z } from 'zod';
import { offer } from './desk.ts';
import { shownFile } from './file.ts';
import { rfiQuestion } from './rfi.ts';
import { decimalText, tag, timestamp, uuid } from './scalars.ts';
import { column, eventStatuses, eventTypes, roundStatuses, shownCell } from './sourcing-event.ts';

const time = timestamp.nullable();

/** The event after a step in its lifecycle. */
export const eventState = z.looseObject({ id: uuid, status: z.enum(eventStatuses) }).meta({ id: 'EventState' });

export const liveRound = z
  .looseObject({
    number: z.int(),
    starts: time,
    ends: time,
    status: z.enum(roundStatuses),
    awarded_cost: decimalText.nullable(),
    awarded_lot_count: z.int().nullable(),
    reopened: z.boolean().describe('It is, or was, open for the second time.'),
  })
  .meta({ id: 'LiveRound' });

const invitedSupplier = z
  .looseObject({
    id: uuid,
    external_id: z.string(),
    name: z.string(),
    invite_count: z.int(),
    accepted: z.boolean(),
    participated: z.boolean(),
    last_successful_bid: time,
    last_failed_bid: time,
    last_accessed: time,
    contacts: z.array(z.looseObject({ id: uuid, name: z.string(), email: z.string() })),
  })
  .meta({ id: 'LiveInvitation' });

export const invitationsResult = z.looseObject({ suppliers: z.array(invitedSupplier) });

export const eventSummary = z
  .looseObject({
    id: uuid,
    name: z.string(),
    reference_id: z.string().nullable(),
    type: z.enum(eventTypes),
    status: z.enum(eventStatuses),
    allowed: z.array(z.string()).describe('The commands that its state permits.'),
    is_template: z.boolean(),
    created: timestamp,
    published: time,
    closed: time,
  })
  .meta({ id: 'EventSummary' });

const cells = z.record(z.string(), shownCell);

export const liveEvent = z
  .looseObject({
    ...eventSummary.shape,
    description: z.string(),
    primary_currency: z.string(),
    secondary_currencies: z.array(z.looseObject({ code: z.string(), exchange_rate: decimalText })),
    tags: z.array(tag),
    category: z.string().nullable(),
    event_contact: z.looseObject({ name: z.string().optional(), email: z.string().optional() }).nullable(),
    settings: z.looseObject({ is_test: z.boolean(), is_template: z.boolean(), close_after_last_round: z.boolean() }),
    columns: z.array(column),
    column_roles: z.record(z.string(), z.string()),
    global_values: cells,
    primary_cost_calculation: z.string().nullable(),
    sourcing_requests: z.array(uuid),
    lots: z.array(z.looseObject({ id: uuid, name: z.string(), values: cells, sourcing_request: uuid.nullable() })),
    rounds: z.array(liveRound),
    suppliers: z.array(
      invitedSupplier.extend({
        global_values: cells,
      }),
    ),
    bids: z.array(
      z.looseObject({
        id: uuid,
        lot: z.string(),
        supplier: z.string(),
        cost: decimalText.nullable(),
        values: cells.nullable(),
        offers: z.array(offer).nullable(),
        draft: cells.nullable().describe('Entered since, and not complete.'),
        withdrawn: z.boolean(),
      }),
    ),
    scenarios: z.array(
      z.looseObject({
        name: z.string(),
        awarded: z.boolean(),
        awards: z.array(z.looseObject({ lot: z.string(), supplier: z.string(), share_awarded: decimalText })),
      }),
    ),
    questions: z.array(rfiQuestion),
    answers: z.array(
      z.looseObject({
        id: z.int(),
        supplier: z.string(),
        question_uuid: uuid,
        value: z.string().nullable(),
        selected_options: z.array(z.looseObject({ value: z.string(), satisfies_gating: z.boolean() })).nullable(),
        comment: z.string().nullable(),
        currency: z.string().nullable(),
        document_file_uuids: z.array(uuid),
      }),
    ),
    files: z.array(shownFile),
    history: z
      .array(z.looseObject({ time: timestamp, what: z.string(), why: z.string() }))
      .describe('What became of the event and its rounds, oldest first: the newest 500 entries.'),
  })
  .meta({ id: 'LiveEvent' });
