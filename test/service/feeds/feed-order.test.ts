/**
 * The promise that readers build on: within a feed `modified` is strictly increasing in the order in which records
 * become visible. So a reader that asks for what came after the last stamp it saw misses nothing, however many write.
 */
import { expect, test } from 'vitest';
import { createManualClock } from '../../harness/manual-clock.ts';
import { startTestService, type TestOrganisation } from '../../harness/programs.ts';
import { createEvent, createSuppliers, desk, eventPayload, readWholeFeed } from '../../harness/sourcing.ts';

const feeds = ['sourcing-events', 'latest-bids', 'awards'] as const;
type FeedName = (typeof feeds)[number];

interface FeedRecord {
  id: string;
  modified: string;
}

interface Reader {
  /** The newest text seen of each record. */
  readonly held: Map<string, string>;
  /** What it saw that may not be. */
  readonly faults: string[];
  /** Reads once from where it stands; gives whether it learnt anything. */
  read(): Promise<boolean>;
}

/** Follows nothing but `modified_after` = the last stamp it has seen. */
function createReader(organisation: TestOrganisation, feed: FeedName, pageSize: number): Reader {
  const held = new Map<string, string>();
  const faults: string[] = [];
  let seen: string | undefined;
  const read = async () => {
    const after = seen === undefined ? '' : `&modified_after=${seen}`;
    const { body } = await organisation.call('GET', `/api/feeds/${feed}?page_size=${pageSize}${after}`);
    const records = body.data as FeedRecord[];
    let learnt = false;
    let previous = '';
    for (const record of records) {
      if (record.modified <= previous) faults.push(`${record.modified} stands behind ${previous}`);
      previous = record.modified;
      const text = JSON.stringify(record);
      const known = held.get(record.id);
      if (known === text) continue;
      if (seen !== undefined && record.modified <= seen) faults.push(`${record.modified} came up behind ${seen}`);
      held.set(record.id, text);
      learnt = true;
    }
    seen = records.at(-1)?.modified ?? seen;
    return learnt;
  };
  return { held, faults, read };
}

test('many writers at once, and readers that only follow the last stamp: every reader ends with the last state of all', async () => {
  const service = await startTestService();
  const organisation = await service.organisation();
  const suppliers = ['S1', 'S2', 'S3', 'S4'];
  const lots = ['A', 'B', 'C'];
  await createSuppliers(organisation, suppliers);
  const events = await Promise.all(
    Array.from({ length: 5 }, (_, index) =>
      createEvent(organisation, eventPayload({ name: `event ${index}`, lots, suppliers })),
    ),
  );

  const writing = new AbortController();
  const readers = feeds.flatMap((feed) =>
    [2, 50].map((pageSize) => ({ feed, reader: createReader(organisation, feed, pageSize) })),
  );
  const reading = readers.map(async ({ reader }) => {
    while (!writing.signal.aborted) await reader.read();
    // What was written last is read after the last writer has ended.
    while (await reader.read());
  });

  const playEvent = async (event: string) => {
    await desk(organisation, 'POST', `${event}/publish`);
    await Promise.all(
      suppliers.map(async (supplier, place) => {
        for (let turn = 1; turn <= 5; turn += 1)
          await desk(organisation, 'POST', `${event}/bids`, {
            supplier,
            lots: lots.map((lot) => ({ lot, values: { Price: `${place + 1}.${turn}0` } })),
          });
      }),
    );
    const awards = lots.map((lot) => ({ lot, supplier: 'S1', share_awarded: '1' }));
    await desk(organisation, 'PUT', `${event}/scenarios/best`, { awards });
    await desk(organisation, 'POST', `${event}/award`, { scenario: 'best' });
    await desk(organisation, 'POST', `${event}/close`);
  };
  const draftMore = async () => {
    for (let index = 0; index < 5; index += 1) await createEvent(organisation, eventPayload({ name: `late ${index}` }));
  };
  await Promise.all([...events.map(playEvent), draftMore()]);
  writing.abort();
  await Promise.all(reading);

  for (const { feed, reader } of readers) {
    expect({ feed, faults: reader.faults }).toEqual({ feed, faults: [] });
    const records = (await readWholeFeed(organisation, feed)) as FeedRecord[];
    const truth = new Map(records.map((record) => [record.id, JSON.stringify(record)]));
    expect(truth.size).toBe({ 'sourcing-events': 10, 'latest-bids': 60, awards: 15 }[feed]);
    expect(Object.fromEntries(reader.held)).toEqual(Object.fromEntries(truth));
  }
});

test('a writer that has its stamp and has not committed holds back those after it', async () => {
  const service = await startTestService();
  const organisation = await service.organisation();
  await createSuppliers(organisation, ['S1', 'S2']);
  const event = await createEvent(organisation, eventPayload({ lots: ['A'], suppliers: ['S1', 'S2'] }));
  await desk(organisation, 'POST', `${event}/publish`);
  const other = await createEvent(organisation, eventPayload({ lots: ['A'], suppliers: ['S1'] }));
  await desk(organisation, 'POST', `${other}/publish`);
  // The first writer is stopped at its very end, by a lock on the webhook that it wants to tell.
  const hook = await organisation.call('POST', '/api/webhooks', {
    name: 'bids',
    url: 'https://localhost:1/',
    triggers: ['LATEST_BIDS_FEED_UPDATED'],
  });
  const bid = (to: string, price: string) =>
    desk(organisation, 'POST', `${to}/bids`, { supplier: 'S1', lots: [{ lot: 'A', values: { Price: price } }] });
  const waiting = await service.db.database.transaction(async (tx) => {
    await tx.query('select from service.webhooks where id = $1 for update', [hook.body.uuid]);
    const both = [bid(event, '1'), bid(other, '2')];
    const blocked = async () => {
      const [row] = await service.db.database.query<{ count: number }>(
        `select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`,
      );
      return row?.count ?? 0;
    };
    await expect.poll(blocked).toBe(2);
    expect(await readWholeFeed(organisation, 'latest-bids')).toEqual([]);
    const waits = await service.db.database.query<{ query: string }>(
      `select query from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`,
    );
    // One waits for the webhook with its stamp in hand; the other has not got one yet.
    const waitedFor = waits.map(({ query }) => /from service\.(\w+)/.exec(query)?.[1]);
    expect(new Set(waitedFor)).toEqual(new Set(['webhooks', 'feed_heads']));
    return both;
  });
  await Promise.all(waiting);
  const records = (await readWholeFeed(organisation, 'latest-bids')) as FeedRecord[];
  expect(records).toHaveLength(2);
});

test('stamps go on from the feed, also when the clock is behind or stands still', async () => {
  const clock = createManualClock(Date.UTC(2030, 5, 1));
  const service = await startTestService({ clock });
  const organisation = await service.organisation();
  await createEvent(organisation, eventPayload());
  await createEvent(organisation, eventPayload());
  clock.advance(-3_600_000);
  await createEvent(organisation, eventPayload());
  const records = (await readWholeFeed(organisation, 'sourcing-events')) as FeedRecord[];
  expect(records.map(({ modified }) => modified)).toEqual([
    '2030-06-01T00:00:00.000000Z',
    '2030-06-01T00:00:00.000001Z',
    '2030-06-01T00:00:00.000002Z',
  ]);
});
