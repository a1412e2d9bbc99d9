/**
 * A record of each feed, and an object of each kind that pages include, with every member of the contract. The types
 * demand it: a member that the contract gets must be added here.
 */
import type { FeedName, FeedRecordContent } from '#contract/feed.ts';
import type { rfiQuestion } from '#contract/rfi.ts';
import type { includedSupplier, supplier } from '#contract/supplier.ts';
import type { Written } from '#contract/written.ts';

/** Every member, also those that the contract leaves optional. */
export type Complete<Value> = Value extends readonly (infer Item)[]
  ? readonly Complete<Item>[]
  : Value extends object
    ? { readonly [Name in keyof Value]-?: Complete<Exclude<Value[Name], undefined>> }
    : Value;

const id = (n: number) => `00000000-0000-4000-8000-${n.toString(16).padStart(12, '0')}`;

/** All records are of this event, this supplier and this question. */
export const completeIds = {
  event: id(1),
  supplier: id(2),
  externalId: 'V-1',
  question: id(3),
  request: id(4),
  answerFile: id(5),
  questionFile: id(6),
  award: id(7),
  bid: id(8),
  answer: 9,
} as const;

const { event, supplier: supplierId, externalId, question, request } = completeIds;
const time = (second: number) => `2030-01-01T00:00:0${second}.000000Z`;
const contact = { id: id(10), name: 'Ann', email: 'ann@acme.example' };
const user = { id: id(11), name: 'Bea Buyer', email: 'buyer@example.com' };
const bidSheetValues = [
  { column_name: 'Volume', value: '4', currency: 'EUR' },
  { column_name: 'Price', value: '2.50', currency: 'EUR' },
];

export const completeRecords: { readonly [Feed in FeedName]: Complete<FeedRecordContent<Feed>> } = {
  'sourcing-events': {
    id: event,
    name: 'Chairs',
    reference_id: 'R1',
    type: 'RFQ',
    status: 'CLOSED',
    primary_currency: 'EUR',
    secondary_currencies: [{ code: 'USD', exchange_rate: '0.9' }],
    tags: [{ name: 'Plant', value: '1000' }],
    bot: id(12),
    sourcing_requests: [request],
    roles: [{ role_type: 'ADMIN', user: [user] }],
    created: time(1),
    published: time(2),
    closed: time(3),
    created_by: user,
    rounds: [{ starts: time(2), ends: time(3), status: 'COMPLETE', awarded_cost: '10', awarded_lot_count: 1 }],
    event_contact: { name: 'Buyer', email: 'buyer@example.com' },
    columns: [{ name: 'Volume' }, { name: 'Price' }],
    lot_count: 1,
    scenario_count: 1,
    evaluated_scenario_count: 1,
    is_test: false,
    suppliers: [
      {
        id: supplierId,
        name: 'Acme',
        external_id: externalId,
        invite_count: 1,
        accepted: true,
        participated: true,
        last_successful_bid: time(2),
        last_failed_bid: time(2),
        last_accessed: time(2),
        contacts: [{ ...contact, supplier: supplierId }],
      },
    ],
    category: 'Furniture',
  },
  'latest-bids': {
    id: completeIds.bid,
    sourcing_event: event,
    sourcing_request: request,
    supplier: supplierId,
    lot_name: 'Lot',
    bids: [{ value: '10', volume: '4' }],
    bid_sheet_values: bidSheetValues,
  },
  awards: {
    id: completeIds.award,
    sourcing_event: event,
    sourcing_request: request,
    lot_name: 'Lot',
    scenario_name: 'Best',
    awards: [
      {
        supplier: supplierId,
        share_awarded: '1',
        cost: '10',
        savings: '2',
        historic_cost: '12',
        bid_sheet_values: bidSheetValues,
      },
    ],
  },
  'rfi-responses': {
    id: completeIds.answer,
    sourcing_event: event,
    sourcing_request: request,
    supplier: supplierId,
    question_uuid: question,
    value: 'yes',
    selected_options: [{ value: 'yes', satisfies_gating: true }],
    comment: 'of course',
    currency: 'EUR',
    document_file_uuids: [completeIds.answerFile],
  },
};

export const completeQuestion: Complete<Written<typeof rfiQuestion>> = {
  id: question,
  sourcing_event: event,
  identifier: '1.2',
  question_text: 'Are you certified?',
  description: 'By any authority',
  question_type: 'MANDATORY',
  input_type: 'TEXT',
  parent_question_uuid: id(13),
  categories: ['Legal'],
  options: [{ value: 'yes', satisfies_gating: true }],
  allow_comments: true,
  supporting_documents_enabled: true,
  currency: 'EUR',
  minimum_value: '0',
  maximum_value: '1',
  precision: 2,
  attachment_file_uuids: [completeIds.questionFile],
  modified: time(1),
};

/** As a page includes it. */
export const completeIncludedSupplier: Complete<Written<typeof includedSupplier>> = {
  id: supplierId,
  name: 'Acme',
  external_id: externalId,
  bidder_contacts: [{ name: contact.name, email: contact.email, invitation_state: 'SENT' }],
  contacts: [contact],
};

/** As the list of suppliers shows it. */
export const completeSupplier: Complete<Written<typeof supplier>> = {
  external_id: externalId,
  name: 'Acme',
  fields: { Rating: 'A' },
  archived: false,
  contacts: [{ name: contact.name, email: contact.email }],
};
