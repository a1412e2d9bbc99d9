/**
 * A small world of events, suppliers, questions and files whose every change is a value: property tests store changes
 * in some order and ask what documents they make.
 */
import * as fc from 'fast-check';
import type { ResourceKind } from '#bridge/documents/document-keys.ts';
import { makeDocuments } from '#bridge/mirror/assemble/make-documents.ts';
import { markEverything } from '#bridge/mirror/due/mark-everything.ts';
import { lockSources } from '#bridge/mirror/due/source-lock.ts';
import { storeRecords } from '#bridge/mirror/store-records.ts';
import { storeResources } from '#bridge/mirror/store-resources.ts';
import type { FlowSettings } from '#bridge/settings/settings.ts';
import { type DocumentKind, documentKinds } from '#connector/documents.ts';
import type { FeedName } from '#contract/feed.ts';
import { timestampFromMs } from '#contract/timestamp.ts';
import type { TestDatabase } from '../../harness/test-database.ts';
import { flowOf, idOf } from '../parts.ts';

export const events = [idOf(1), idOf(2)];
export const suppliers = [idOf(11), idOf(12)];
export const externalIds = ['V-1', 'V-2'];
export const questions = [idOf(31), idOf(32)];
export const files = [idOf(41), idOf(42)];
const jobs = [idOf(43), idOf(44)];

/** Every key that anything in this world can have. */
export const allKeys: readonly { kind: DocumentKind; key: string }[] = [
  ...[...suppliers, ...externalIds].map((key) => ({ kind: 'supplier' as const, key })),
  ...jobs.map((key) => ({ kind: 'job' as const, key })),
  ...(['sourcing-event', 'event-awards'] as const).flatMap((kind) => events.map((key) => ({ kind, key }))),
  ...(['quotation', 'award', 'rfi-answers'] as const).flatMap((kind) =>
    events.flatMap((event) => suppliers.map((supplier) => ({ kind, key: `${event}/${supplier}` }))),
  ),
  ...files.map((key) => ({ kind: 'file' as const, key })),
];

/** A version of a record or of a resource; `at` is when it was made, in seconds, and differs for each version. */
export type Change =
  | { readonly feed: FeedName; readonly content: Record<string, unknown>; readonly at: number }
  | { readonly resource: ResourceKind; readonly content: Record<string, unknown>; readonly at: number };

const oneOf = <T>(values: readonly T[]) => fc.constantFrom(...values);
const some = <T>(values: readonly T[]) => fc.subarray([...values]);
const nth = fc.nat({ max: 1 });
const number = fc.integer({ min: 1, max: 9 }).map(String);

const entry = fc.record(
  { id: oneOf(suppliers), name: oneOf(['Ärmel', 'Bolt']), external_id: oneOf(externalIds) },
  { requiredKeys: ['id', 'name'] },
);
const entries = fc.uniqueArray(entry, { maxLength: 2, selector: ({ id }) => id });

const eventContent = fc.record(
  {
    id: oneOf(events),
    name: oneOf(['Chairs', 'Desks']),
    type: fc.constant('RFQ'),
    status: oneOf(['DRAFT', 'OPEN', 'CLOSED', 'DELETED', 'PONDERED']),
    primary_currency: oneOf(['EUR', 'USD']),
    is_test: fc.boolean(),
    tags: oneOf([[], [{ name: 'Plant', value: '1000' }]]),
    suppliers: entries,
  },
  { requiredKeys: ['id', 'name', 'type', 'status', 'primary_currency', 'suppliers'] },
);

const content: Record<string, fc.Arbitrary<Record<string, unknown>>> = {
  'sourcing-events': eventContent,
  'latest-bids': fc
    .record({ n: nth, event: oneOf(events), supplier: oneOf(suppliers), cost: fc.option(number) })
    .map(({ n, event, supplier, cost }) => ({
      id: idOf(50 + n),
      sourcing_event: event,
      supplier,
      lot_name: `Lot ${n}`,
      bids: cost === null ? [] : [{ value: cost }],
      bid_sheet_values: cost === null ? [] : [{ column_name: 'Volume', value: cost }],
    })),
  awards: fc
    .record({
      n: nth,
      event: oneOf(events),
      winners: fc.array(fc.record({ supplier: oneOf(suppliers), cost: number }), { maxLength: 2 }),
    })
    .map(({ n, event, winners }) => ({
      id: idOf(60 + n),
      sourcing_event: event,
      lot_name: `Lot ${n}`,
      awards: winners.map(({ supplier, cost }) => ({ supplier, cost, share_awarded: '0.5', bid_sheet_values: [] })),
    })),
  'rfi-responses': fc
    .record({
      n: nth,
      event: oneOf(events),
      supplier: oneOf(suppliers),
      question: oneOf(questions),
      value: fc.option(number),
      documents: some(files),
    })
    .map(({ n, event, supplier, question, value, documents }) => ({
      id: 70 + n,
      sourcing_event: event,
      supplier,
      question_uuid: question,
      ...(value === null ? {} : { value }),
      document_file_uuids: documents,
    })),
};

const resourceContent: Record<ResourceKind, fc.Arbitrary<Record<string, unknown>>> = {
  'sourcing-event': eventContent,
  supplier: entry.map((given) => ({ ...given, contacts: [] })),
  'supplier-master': fc.record({
    external_id: oneOf(externalIds),
    name: oneOf(['Ärmel', 'Bolt']),
    archived: fc.boolean(),
    fields: fc.constant({ City: 'Łódź' }),
    contacts: fc.constant([]),
  }),
  question: fc
    .record({ n: nth, event: oneOf(events), identifier: oneOf(['1.2', '1.10']), documents: some(files) })
    .map(({ n, event, identifier, documents }) => ({
      id: questions[n],
      sourcing_event: event,
      identifier,
      question_text: 'Why?',
      attachment_file_uuids: documents,
    })),
  job: fc.record({
    id: oneOf(jobs),
    type: oneOf(['CREATE_SOURCING_EVENT', 'GENERATE_FILE_DOWNLOAD_LINKS']),
    status: oneOf(['PENDING', 'COMPLETED', 'FAILED']),
  }),
};

const feedChange = oneOf(['sourcing-events', 'latest-bids', 'awards', 'rfi-responses'] as const).chain((feed) =>
  (content[feed] ?? fc.constant({})).map((made) => ({ feed, content: made })),
);
const resourceChange = oneOf(['sourcing-event', 'supplier', 'supplier-master', 'question', 'job'] as const).chain(
  (resource) => resourceContent[resource].map((made) => ({ resource, content: made })),
);

export function changes(maxLength: number): fc.Arbitrary<Change[]> {
  return fc
    .array(fc.oneof({ weight: 3, arbitrary: feedChange }, { weight: 1, arbitrary: resourceChange }), {
      minLength: 1,
      maxLength,
    })
    .map((list) => list.map((one, at) => ({ ...one, at })));
}

const secondsToTime = (seconds: number) => timestampFromMs(Date.UTC(2029, 0, 1) + seconds * 1_000);
const now = '2030-01-01T00:00:00.000000Z';

export interface World {
  /** Registers the flow, or deletes it. It is registered from the start. */
  register(): Promise<void>;
  forget(): Promise<void>;
  store(...list: readonly Change[]): Promise<void>;
  /** The document of each key as text; `nothing` for one that is not wanted; documents on hold are left out. */
  documents(): Promise<Map<string, string>>;
  /** How often each document was marked. */
  marks(): Promise<Map<string, number>>;
}

/** Stands for a document that is not wanted: it is withdrawn if it was delivered. */
export const nothing = 'nothing';

let worlds = 0;

/** Creates a source of its own in this database, and a flow of all kinds that reads it. */
export async function createWorld(db: TestDatabase, given: Partial<FlowSettings> = {}): Promise<World> {
  worlds += 1;
  const name = `world-${worlds}`;
  const flow = flowOf({ documents: [...documentKinds], test_events: true, ...given, name, source: name });
  // registerFlows cannot be used: it would treat the flows of other worlds as no longer configured.
  const register = () =>
    db.database.transaction(async (tx) => {
      await lockSources(tx, [name]);
      await tx.query('insert into bridge.flows (name, source, kinds) values ($1, $1, $2)', [name, flow.documents]);
      await markEverything(tx, [flow], now);
    });
  await db.database.query(
    `insert into bridge.checkpoints (source, feed, next_pull, watermark, last_pull) values ($1, 'awards', $2, $2, $2)`,
    [name, now],
  );
  await register();
  const storeOne = (change: Change) =>
    db.database.transaction(async (tx) => {
      const time = secondsToTime(change.at);
      if ('feed' in change) {
        const records = [{ ...change.content, modified: time }];
        await storeRecords(tx, { source: name, feed: change.feed, records, now });
      } else {
        // A question is the only one of them that says when it was changed.
        const objects = [change.resource === 'question' ? { ...change.content, modified: time } : change.content];
        await storeResources(tx, { source: name, kind: change.resource, objects, observed: time, now });
      }
    });
  return {
    register,
    forget: async () => {
      await db.database.query('delete from bridge.flows where name = $1', [name]);
    },
    store: async (...list) => {
      for (const change of list) await storeOne(change);
    },
    documents: async () => {
      const made = await makeDocuments(db.database, flow, allKeys);
      return new Map(
        [...made].flatMap(([place, result]) => {
          if (result.made === 'document') return [[place, result.wanted ? JSON.stringify(result.document) : nothing]];
          return result.made === 'rejected' ? [[place, `rejected: ${result.reason}`]] : [];
        }),
      );
    },
    marks: async () => {
      const rows = await db.database.query<{ place: string; wanted: number }>(
        `select kind || ' ' || key as place, wanted from bridge.flow_documents where flow = $1`,
        [name],
      );
      return new Map(rows.map(({ place, wanted }) => [place, wanted]));
    },
  };
}
