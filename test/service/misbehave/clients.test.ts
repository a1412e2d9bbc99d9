/**
 * Two clients of a service that misbehaves, over HTTP, on one clock that the test moves: an obvious one, which loses
 * records under each of these quirks, and the bridge's own reading with its SQL, which loses none.
 */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Liveness, startLiveness } from '#bridge/ledger/leases/liveness.ts';
import { createSourceClient } from '#client/source-client.ts';
import { timestampFromMs } from '#contract/timestamp.ts';
import { silentLogger } from '#platform/log.ts';
import { appendFeedRecords } from '#service/feeds/append-feed-records.ts';
import { readMisbehaviour } from '#service/misbehave/misbehaviour.ts';
import { testClock } from '../../bridge/parts.ts';
import { startReader } from '../../bridge/pull/reader.ts';
import { writtenChange } from '../../harness/feed-writer.ts';
import { startMisbehavingServer } from '../../harness/misbehaving-server.ts';
import { testOutgoing } from '../../harness/test-certificates.ts';
import { createTestDatabase, type TestDatabase } from '../../harness/test-database.ts';
import { startTestService, type TestService } from '../../harness/test-service.ts';

const eventId = '4d1f6a52-7f0e-4a35-8a3e-0c2f6a1d9b70';
const idOf = (n: number) => `00000000-0000-4000-8000-${String(n).padStart(12, '0')}`;

let service: TestService;
let bridge: TestDatabase;
let liveness: Liveness;

beforeAll(async () => {
  service = await startTestService();
  bridge = await createTestDatabase();
  liveness = await startLiveness({ database: bridge.database, log: silentLogger });
});
afterAll(async () => {
  await liveness.close();
  await bridge.drop();
});

interface FeedRecordShown {
  readonly id: string;
  readonly modified?: string;
}

type Records = Map<string, FeedRecordShown>;

/** A service with these quirks, its awards, and a function that changes some of them now. */
async function startMisbehaving(list: string) {
  const clock = testClock();
  const { database } = service.db;
  const url = await startMisbehavingServer({ database, clock, misbehaviour: readMisbehaviour(list), seed: '7' });
  const { id: organisationId, key } = await service.organisation();
  let version = 0;
  const change = async (numbers: readonly number[]) => {
    version += 1;
    const records = numbers.map((n) => ({ id: idOf(n), event: eventId, requests: [], text: `lot ${n}, ${version}` }));
    const event = { id: eventId, organisationId, name: 'event', sourcingRequests: [] };
    const changes = [writtenChange('awards', records)];
    await database.transaction((tx) =>
      appendFeedRecords({ tx, wake: () => undefined }, { event, now: timestampFromMs(clock.nowMs()), changes }),
    );
  };
  const ask = (path: string, method = 'GET') =>
    fetch(new URL(path, url), { method, headers: { authorization: `Bearer ${key}` } });
  const truth = async (): Promise<Records> => {
    const page = (await (await ask('/misbehave/truth/awards?page_size=1000')).json()) as { data: FeedRecordShown[] };
    return new Map(page.data.map((record) => [record.id, record]));
  };
  const calm = () => ask('/misbehave/calm', 'POST');
  return { url, key, clock, change, ask, truth, calm };
}

type Misbehaving = Awaited<ReturnType<typeof startMisbehaving>>;

/** Undefined when the connection breaks. */
const readPage = (answer: Response) =>
  answer.json().then(
    (page) => page as { data: FeedRecordShown[]; next: string | null },
    () => undefined,
  );

/** Follows `next` until a page is empty, and asks from the newest `modified` on; it keeps what it has got so far. */
function createObviousClient({ ask }: Misbehaving) {
  const held: Records = new Map();
  let newest = '';
  return {
    held,
    poll: async (betweenPages: () => Promise<void>): Promise<void> => {
      let next: string | null = `/api/feeds/awards?page_size=5${newest === '' ? '' : `&modified_after=${newest}`}`;
      for (let pages = 0; next !== null && pages < 50; pages += 1) {
        const answer = await ask(next);
        if (answer.status !== 200) return;
        const page = await readPage(answer);
        if (page === undefined) return;
        for (const record of page.data) {
          held.set(record.id, record);
          if (record.modified !== undefined && record.modified > newest) newest = record.modified;
        }
        if (page.data.length === 0) return;
        next = page.next;
        if (pages === 0 && next !== null) await betweenPages();
      }
    },
  };
}

async function createBridgeReader({ url, key, clock }: Misbehaving) {
  const client = createSourceClient({
    settings: { baseUrl: url, apiKey: key, timeoutMs: 10_000, retries: 0 },
    fetch: testOutgoing().fetch,
    clock,
  });
  const { database } = bridge;
  const reader = await startReader({ database, liveness, client, clock, settings: { includes: false } });
  const held = async (): Promise<Records> => {
    const rows = await database.query<{ record_id: string; body: string }>(
      'select record_id, body from bridge.mirror where source = $1 and gone is null',
      [reader.feed.source],
    );
    return new Map(rows.map(({ record_id: id, body }) => [id, JSON.parse(body) as FeedRecordShown]));
  };
  return { pull: () => reader.pull(), held };
}

/** What a client lacks or holds in an older version. */
const lostBy = (held: Records, truth: Records): string[] =>
  [...truth].filter(([id, record]) => JSON.stringify(held.get(id)) !== JSON.stringify(record)).map(([id]) => id);

test.each([
  'late-commits=20',
  'offsets',
  'stamps-seconds,after-exclusive',
  'future-dated=0.2',
  'order-random-by-page',
  'unstable-ties,equal-stamps=60',
  'hidden-rows=4',
  'late-commits=20,page-numbers,server-errors=0.2,too-many-silent=0.2,cut=0.1',
])('%s: the obvious client loses records, the bridge none', async (list) => {
  const source = await startMisbehaving(list);
  const { clock, change, truth, calm } = source;
  await change(Array.from({ length: 12 }, (_, n) => n));
  const obvious = createObviousClient(source);
  const reader = await createBridgeReader(source);
  for (let round = 0; round < 10; round += 1) {
    clock.advance(5_000);
    await change([round % 5, 100 + 2 * round]);
    // A record of a page that has been read moves to the end while the next page is asked for.
    await obvious.poll(async () => {
      clock.advance(1);
      await change([1 + (round % 5)]);
    });
    await reader.pull();
    clock.advance(200);
    await change([101 + 2 * round]);
  }
  await calm();
  for (let round = 0; round < 8; round += 1) {
    clock.advance(20_000);
    await obvious.poll(() => Promise.resolve());
    await reader.pull();
  }
  const records = await truth();
  expect(records.size).toBe(32);
  expect(lostBy(obvious.held, records)).not.toEqual([]);
  expect(lostBy(await reader.held(), records)).toEqual([]);
});
