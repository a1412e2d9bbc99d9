/**
 * Documents: the state that a connector shall make true in its ERP, in the words of no particular ERP. A document holds
 * the whole state of its key. All text is as the sourcing service wrote it; unknown values are left out, never null.
 * Each member is described, with its unit, here and in the JSON Schema that `documentJsonSchema` returns.
 */
import { z } from 'zod';

/** Such as `12.50`: an optional minus, any number of digits, an optional fraction; never an exponent. */
const decimal = z.string().meta({ pattern: '^-?\\d+(\\.\\d+)?$' });
/** UTC with microseconds, such as `2030-12-31T23:59:59.000000Z`. */
const time = z.string().meta({ format: 'date-time' });
const fields = z.record(z.string(), z.string()).optional().describe("What the flow's mapping makes, by field name");

const value = z.strictObject({
  column: z.string(),
  value: z.string(),
  currency: z.string().optional().describe('ISO 4217, where the value is an amount that was given in a currency'),
});
const values = z.array(value).describe('The whole row of the bid sheet, in the order of its columns');

/** The members of an event that each of its documents shows. */
const eventHead = z.strictObject({
  id: z.string(),
  name: z.string(),
  reference_id: z.string().optional(),
  type: z.string().describe('RFQ, DUTCH or ENGLISH; others may come'),
  category: z.string().optional(),
  is_test: z.boolean(),
  tags: z.array(z.strictObject({ name: z.string(), value: z.string() })).describe('By name, then value'),
});

const supplierHead = z.strictObject({
  id: z.string().describe("The service's own id"),
  external_id: z.string().optional().describe("The client's id of it: what its `supplier` document is keyed by"),
  name: z.string(),
});

const currency = z.string().describe("ISO 4217: the event's primary currency");
const exchangeRates = z
  .array(
    z.strictObject({
      code: z.string().describe('ISO 4217'),
      exchange_rate: decimal.describe("Units of the document's currency for one unit"),
    }),
  )
  .describe('Of the secondary currencies, by code');
const pairKey = z.string().describe('<event id>/<supplier id>');
const sourcingRequest = z.string().optional().describe('The id of the sourcing request that the lot serves');

const awardLine = z.strictObject({
  lot: z.string().describe('Its name; unique within the event'),
  scenario: z.string().optional(),
  sourcing_request: sourcingRequest,
  requisition: z
    .strictObject({
      intake: z.string().describe('The intake that has read it from its ERP'),
      reference_id: z.string().describe("The ERP's number of the requisition"),
      line: z.string().optional().describe("The ERP's number of the line; left out where it is not known which it is"),
    })
    .optional()
    .describe('What the lot was made of; only where an intake of the bridge has made the event, or the request'),
  share: decimal.describe('"0.6" is 60 % of the lot'),
  quantity: decimal.optional().describe("The share of the lot's quantity; only where the flow names its column"),
  unit_price: decimal
    .optional()
    .describe(
      "In the document's currency, converted where it was given in another; only where the flow names its column",
    ),
  cost: decimal.describe("For the share, in the document's currency"),
  historic_cost: decimal.optional().describe("For the share, in the document's currency"),
  savings: decimal.optional().describe('historic_cost less cost'),
  values,
  fields,
});

const awardDocument = z
  .strictObject({
    kind: z.literal('award'),
    key: pairKey,
    event: eventHead,
    supplier: supplierHead,
    currency,
    exchange_rates: exchangeRates,
    total_cost: decimal.describe("The sum of the lines' cost, exact"),
    lines: z.array(awardLine).describe('By lot'),
    fields,
  })
  .describe('What one supplier won in one event; without lines nothing.');

const { lot: lotName, ...awardOfLot } = awardLine.shape;
const eventAwardsLine = z.strictObject({ lot: lotName, supplier: supplierHead, ...awardOfLot });

const eventAwardsDocument = z
  .strictObject({
    kind: z.literal('event-awards'),
    key: z.string().describe("The event's id"),
    event: eventHead,
    currency,
    exchange_rates: exchangeRates,
    total_cost: decimal.describe("The sum of all lines' cost, exact"),
    suppliers: z
      .array(
        z.strictObject({
          ...supplierHead.shape,
          total_cost: decimal.describe("The sum of the cost of this supplier's lines, exact"),
        }),
      )
      .describe('Those who won a lot, by id'),
    lines: z.array(eventAwardsLine).describe('By lot, then by the id of the supplier'),
    bid_sheet_csv: z
      .string()
      .describe(
        "The event's bid sheet as a CSV (RFC 4180, with a header): a row for each line, in their order. Its columns: lot, supplier, supplier_external_id, share, then those of the sheet in their order; after one whose cells name a currency the column `<name> (currency)`",
      ),
    fields,
  })
  .describe('All awards of a closed event, once all of them are known; without lines nothing.');

const quotationLine = z.strictObject({
  lot: z.string().describe('Its name; unique within the event'),
  sourcing_request: sourcingRequest,
  quantity: decimal.optional().describe("The lot's quantity; only where the flow names its column"),
  unit_price: decimal
    .optional()
    .describe(
      "In the document's currency, converted where it was given in another; only where the flow names its column",
    ),
  bids: z
    .array(z.strictObject({ value: decimal, volume: decimal.optional() }))
    .describe(
      "RFQ and English auction: one, the lot's cost in the document's currency. Dutch auction: each price with its volume",
    ),
  values,
  fields,
});

const quotationDocument = z
  .strictObject({
    kind: z.literal('quotation'),
    key: pairKey,
    event: eventHead,
    supplier: supplierHead,
    currency,
    exchange_rates: exchangeRates,
    lines: z.array(quotationLine).describe('By lot'),
    fields,
  })
  .describe('What one supplier bids in one event; without lines nothing, or nothing any more.');

const supplierDocument = z
  .strictObject({
    kind: z.literal('supplier'),
    key: z.string().describe('The external id, else the id'),
    id: z.string().optional().describe("The service's own id; unknown of a supplier that was in no event yet"),
    external_id: z.string().optional(),
    name: z.string(),
    archived: z.boolean().optional().describe('Known from the list of suppliers only'),
    attributes: z
      .array(z.strictObject({ name: z.string(), value: z.string() }))
      .describe('By name; known from the list of suppliers only'),
    contacts: z.array(z.strictObject({ name: z.string(), email: z.string() })).describe('By e-mail address'),
    fields,
  })
  .describe("A supplier's master data. Never withdrawn: `archived` is a state.");

const sourcingEventDocument = z
  .strictObject({
    kind: z.literal('sourcing-event'),
    key: z.string().describe("The event's id"),
    event: eventHead,
    status: z.string().describe('DRAFT, OPEN, PAUSED, CLOSED or DELETED; others may come'),
    currency,
    exchange_rates: exchangeRates,
    created: time.optional(),
    published: time.optional().describe('When it was published last'),
    closed: time.optional().describe('When it was closed last'),
    rounds: z
      .array(
        z.strictObject({
          status: z.string().describe('PENDING, ACTIVE, CLOSED or COMPLETE; others may come'),
          starts: time.optional(),
          ends: time.optional(),
          awarded_cost: decimal.optional().describe("In the document's currency"),
          awarded_lot_count: z.int().optional(),
        }),
      )
      .describe('In their order'),
    lot_count: z.int().optional(),
    contact: z.strictObject({ name: z.string().optional(), email: z.string().optional() }).optional(),
    columns: z.array(z.string()).describe("The bid sheet's columns, in their order"),
    sourcing_requests: z.array(z.string()).describe('The ids of the sourcing requests that it serves'),
    suppliers: z
      .array(
        z.strictObject({
          ...supplierHead.shape,
          accepted: z.boolean().optional(),
          participated: z.boolean().optional(),
        }),
      )
      .describe('Those who are invited, by id'),
    fields,
  })
  .describe('An event as its feed shows it. Withdrawn when it is deleted.');

const questionHead = z.strictObject({
  id: z.string(),
  identifier: z
    .string()
    .optional()
    .describe('A label as 1.2; left out, as what follows, while the question is unknown'),
  text: z.string().optional(),
  type: z.string().optional().describe('GATING, EVENT_GATING, MANDATORY or OPTIONAL; others may come'),
  input_type: z
    .string()
    .optional()
    .describe('TEXT, NUMBER, CURRENCY, SINGLE_CHOICE, MULTIPLE_CHOICE, DATE or FILE; others may come'),
  parent: z.string().optional().describe('The id of the question that it belongs to'),
  categories: z.array(z.string()),
});

const rfiAnswer = z.strictObject({
  question: questionHead,
  value: z.string().optional().describe('As the input type has it; a date is its day in UTC'),
  options: z
    .array(z.strictObject({ value: z.string(), satisfies_gating: z.boolean().optional() }))
    .describe('Those that were chosen'),
  comment: z.string().optional(),
  currency: z.string().optional().describe('ISO 4217, of an amount'),
  files: z.array(z.string()).describe('Ids, in their order; each is a `file` document of its own'),
  fields,
});

const rfiAnswersDocument = z
  .strictObject({
    kind: z.literal('rfi-answers'),
    key: pairKey,
    event: eventHead,
    supplier: supplierHead,
    lines: z
      .array(rfiAnswer)
      .describe('By the identifiers of their questions, numbers in them by value: 1.2 before 1.10'),
    fields,
  })
  .describe('What one supplier answered to the questions of one event; without lines nothing.');

const fileDocument = z
  .strictObject({
    kind: z.literal('file'),
    key: z.string().describe("The file's id: the same id is always the same bytes"),
    event: eventHead,
    supplier: supplierHead
      .optional()
      .describe('Whose answer it is attached to; left out: it is attached to the question'),
    question: questionHead,
    fields,
  })
  .describe(
    'A file that is attached to an answer or to a question. Its bytes come with the operation. Where several name it, the document shows the one of the event whose id comes first.',
  );

const jobDocument = z
  .strictObject({
    kind: z.literal('job'),
    key: z.string().describe("The job's id"),
    type: z.string().describe('CREATE_SOURCING_EVENT, UPDATE_SOURCING_EVENT and so on; others may come'),
    status: z.string().describe('PENDING or RUNNING, then COMPLETED or FAILED; others may come'),
    created: time.optional().describe('When it was submitted'),
    created_entity: z
      .string()
      .optional()
      .describe('Of a job that creates: the id of the event or the sourcing request that it has made'),
    reference_id: z
      .string()
      .optional()
      .describe(
        'Of the event or the sourcing request that it makes; only where an intake of the bridge has sent the job',
      ),
    errors: z
      .array(
        z.strictObject({
          path: z.string().optional().describe('The place in what was sent, or the name of a file'),
          message: z.string(),
        }),
      )
      .describe("Why it failed, or which files it left out, in the service's words"),
    fields,
  })
  .describe('What became of a job: whether the service has made what it was asked for.');

/**
 * The kinds of documents, in the order in which an ERP needs them, with the schema of each. This is the only list of
 * kinds: types, tables and settings are derived from it.
 */
export const documentSchemas = {
  supplier: supplierDocument,
  'sourcing-event': sourcingEventDocument,
  quotation: quotationDocument,
  award: awardDocument,
  'event-awards': eventAwardsDocument,
  'rfi-answers': rfiAnswersDocument,
  file: fileDocument,
  job: jobDocument,
} as const satisfies Record<string, z.ZodObject>;

export type DocumentKind = keyof typeof documentSchemas;
export const documentKinds: readonly [DocumentKind, ...DocumentKind[]] = Object.keys(documentSchemas) as [
  DocumentKind,
  ...DocumentKind[],
];

type DocumentSchema = (typeof documentSchemas)[DocumentKind];

/** A document of any kind. */
export const documentSchema = z.discriminatedUnion(
  'kind',
  Object.values(documentSchemas) as [DocumentSchema, ...DocumentSchema[]],
);

export type Document = z.infer<DocumentSchema>;
export type DocumentOf<Kind extends DocumentKind> = Extract<Document, { kind: Kind }>;

export type AwardLine = z.infer<typeof awardLine>;
export type AwardDocument = z.infer<typeof awardDocument>;
export type EventAwardsLine = z.infer<typeof eventAwardsLine>;
export type EventAwardsDocument = z.infer<typeof eventAwardsDocument>;
export type QuotationLine = z.infer<typeof quotationLine>;
export type QuotationDocument = z.infer<typeof quotationDocument>;
export type SupplierDocument = z.infer<typeof supplierDocument>;
export type SourcingEventDocument = z.infer<typeof sourcingEventDocument>;
export type RfiAnswer = z.infer<typeof rfiAnswer>;
export type RfiAnswersDocument = z.infer<typeof rfiAnswersDocument>;
export type FileDocument = z.infer<typeof fileDocument>;
export type JobDocument = z.infer<typeof jobDocument>;
export type EventHead = z.infer<typeof eventHead>;
export type SupplierHead = z.infer<typeof supplierHead>;
export type QuestionHead = z.infer<typeof questionHead>;
export type BidSheetRow = z.infer<typeof values>;

/** The JSON Schema (draft 2020-12) of one kind of documents, or, without `kind`, of all kinds. */
export function documentJsonSchema(kind?: DocumentKind): Record<string, unknown> {
  return { ...z.toJSONSchema(kind === undefined ? documentSchema : documentSchemas[kind]) };
}
