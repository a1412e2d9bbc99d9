/**
 * The guarantee that readers need: within a feed `modified` strictly increases in the order in which records become
 * visible. So a reader that asks for records after the last `modified` that it saw misses nothing, for any number of
 * writers.
 */
import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { type FeedName, feedNames } from '#contract/feed.ts';
import { timestampFromMs } from '#contract/timestamp.ts';
import type { Sql } from '#platform/database/sql.ts';
import { appendFeedRecords, hideFeedRecords } from '#service/feeds/append-feed-records.ts';
import { writtenChange } from '../../harness/feed-writer.ts';
import { createManualClock } from '../../harness/manual-clock.ts';
import { createEvent, createSuppliers, desk, eventPayload, readWholeFeed } from '../../harness/sourcing.ts';
import type { TestOrganisation } from '../../harness/test-organisation.ts';
import { startTestService, type TestService } from '../../harness/test-service.ts';

const feeds = ['sourcing-events', 'latest-bids', 'awards'] as const;
interface FeedRecord {
  id: string;
  modified: string;
}

interface Reader {
  /** The newest text seen of each record. */
  readonly held: Map<string, string>;
  /** Observations that break the guarantee. */
  readonly faults: string[];
  /** Reads once from its position; returns whether it saw anything new. */
  read(): Promise<boolean>;
}

/**
 * Follows only `modified_after` with the last `modified` that it saw (`stamp`), or `next` while there is one and then
 * the last `modified` (`next`).
 */
function createReader(
  organisation: TestOrganisation,
  feed: string,
  { pageSize, by }: { pageSize: number; by: 'stamp' | 'next' },
): Reader {
  const held = new Map<string, string>();
  const faults: string[] = [];
  let seen: string | undefined;
  let follow: string | undefined;
  const read = async () => {
    const after = seen === undefined ? '' : `&modified_after=${seen}`;
    const asked = follow ?? `/api/feeds/${feed}?page_size=${pageSize}${after}`;
    const { body } = await organisation.call('GET', asked);
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
    const next = body.next === null ? undefined : new URL(body.next);
    follow = by === 'next' && next ? next.pathname + next.search : undefined;
    return learnt || follow !== undefined;
  };
  return { held, faults, read };
}

const readerKinds = [
  { pageSize: 2, by: 'stamp' },
  { pageSize: 50, by: 'stamp' },
  { pageSize: 3, by: 'next' },
] as const;

/** Runs `write` with readers of every kind on these feeds; then each reader reads until it sees nothing new. */
async function readAlong(
  organisation: TestOrganisation,
  feeds: readonly string[],
  write: () => Promise<unknown>,
): Promise<{ feed: string; reader: Reader }[]> {
  const writing = new AbortController();
  const readers = feeds.flatMap((feed) =>
    readerKinds.map((kind) => ({ feed, reader: createReader(organisation, feed, kind) })),
  );
  const reading = readers.map(async ({ reader }) => {
    while (!writing.signal.aborted) await reader.read();
    // The last records are read after the last writer has ended.
    while (await reader.read());
  });
  await write().finally(() => writing.abort());
  await Promise.all(reading);
  return readers;
}

/** Every reader holds what the feed shows at the end, and no record appeared behind a reader's position. */
async function expectNothingMissed(
  organisation: TestOrganisation,
  readers: readonly { feed: string; reader: Reader }[],
): Promise<Record<string, FeedRecord[]>> {
  const wholes: Record<string, FeedRecord[]> = {};
  for (const { feed, reader } of readers) {
    expect({ feed, faults: reader.faults }).toEqual({ feed, faults: [] });
    const whole = (wholes[feed] ??= await readWholeFeed(organisation, feed));
    // A reader may still hold records that the feed hides now.
    const held = whole.map(({ id }) => reader.held.get(id));
    expect(held).toEqual(whole.map((record) => JSON.stringify(record)));
  }
  return wholes;
}

test('with many writers at once, a reader that follows the last `modified` ends with the newest records', async () => {
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

  const playEvent = async (event: string, index: number) => {
    await desk(organisation, 'POST', `${event}/publish`);
    const bidInTurns = (from: number, to: number) =>
      Promise.all(
        suppliers.map(async (supplier, place) => {
          for (let turn = from; turn <= to; turn += 1)
            await desk(organisation, 'POST', `${event}/bids`, {
              supplier,
              lots: lots.map((lot) => ({ lot, values: { Price: `${place + 1}.${turn}0` } })),
            });
        }),
      );
    await bidInTurns(1, 3);
    if (index < 3) {
      // The bids vanish, and come back with a new `modified`.
      await desk(organisation, 'POST', `${event}/unpublish`);
      await desk(organisation, 'POST', `${event}/publish`);
    }
    await bidInTurns(4, 5);
    const awards = lots.map((lot) => ({ lot, supplier: 'S1', share_awarded: '1' }));
    await desk(organisation, 'PUT', `${event}/scenarios/best`, { awards });
    await desk(organisation, 'POST', `${event}/award`, { scenario: 'best' });
    await desk(organisation, 'POST', `${event}/close`);
    if (index === 0) await desk(organisation, 'POST', `${event}/delete`);
  };
  const draftMore = async () => {
    for (let index = 0; index < 5; index += 1) await createEvent(organisation, eventPayload({ name: `late ${index}` }));
  };
  const readers = await readAlong(organisation, feeds, () => Promise.all([...events.map(playEvent), draftMore()]));

  const wholes = await expectNothingMissed(organisation, readers);
  const sizes = Object.fromEntries(Object.entries(wholes).map(([feed, records]) => [feed, records.length]));
  // One of the five events was deleted: its bids and awards are not shown.
  expect(sizes).toEqual({ 'sourcing-events': 10, 'latest-bids': 48, awards: 12 });
});

test('a writer that has its `modified` and has not committed holds back later writers', async () => {
  const service = await startTestService();
  const organisation = await service.organisation();
  await createSuppliers(organisation, ['S1', 'S2']);
  const event = await createEvent(organisation, eventPayload({ lots: ['A'], suppliers: ['S1', 'S2'] }));
  await desk(organisation, 'POST', `${event}/publish`);
  const other = await createEvent(organisation, eventPayload({ lots: ['A'], suppliers: ['S1'] }));
  await desk(organisation, 'POST', `${other}/publish`);
  // A lock on the webhook stops the first writer at its last step, the notification.
  const hook = await organisation.call('POST', '/api/webhooks', {
    name: 'bids',
    url: 'https://localhost:1/',
    triggers: ['LATEST_BIDS_FEED_UPDATED'],
  });
  const bid = (to: string, price: string) =>
    desk(organisation, 'POST', `${to}/bids`, { supplier: 'S1', lots: [{ lot: 'A', values: { Price: price } }] });
  const waiting = await service.db.database.transaction(async (tx) => {
    await tx.query('select from service.webhooks where id = $1 for update', [hook.body.uuid]);
    const bids = [bid(event, '1'), bid(other, '2')];
    const waitedFor = async () => {
      const waits = await service.db.database.query<{ query: string }>(
        `select query from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`,
      );
      // The worker of rounds may wait for an event that a bid holds.
      const names = new Set(waits.map(({ query }) => /from service\.(\w+)/.exec(query)?.[1]));
      names.delete('sourcing_events');
      return names;
    };
    const both = new Set(['webhooks', 'feed_heads']);
    // One writer has its `modified` and waits for the webhook; the other has none yet.
    await expect.poll(waitedFor, { timeout: 10_000 }).toEqual(both);
    expect(await readWholeFeed(organisation, 'latest-bids')).toEqual([]);
    expect(await waitedFor()).toEqual(both);
    return bids;
  });
  await Promise.all(waiting);
  const records = (await readWholeFeed(organisation, 'latest-bids')) as FeedRecord[];
  expect(records).toHaveLength(2);
});

test('`modified` increases beyond the newest record, also when the clock is behind or stands still', async () => {
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

describe('an organisation that is older than a feed has no head for it, and', () => {
  const written = (feed: FeedName) => {
    const event = crypto.randomUUID();
    return { event, change: writtenChange(feed, [{ id: crypto.randomUUID(), event, requests: [] }]) };
  };
  const append = (
    tx: Sql,
    organisation: TestOrganisation,
    { event, change }: ReturnType<typeof written>,
    now: string,
  ) =>
    appendFeedRecords(
      { tx, wake: () => undefined },
      {
        event: { id: event, organisationId: organisation.id, name: 'event', sourcingRequests: [] },
        now,
        changes: [change],
      },
    );
  const forgetHeads = (service: TestService, organisation: TestOrganisation, gone: readonly FeedName[]) =>
    service.db.database.query('delete from service.feed_heads where organisation_id = $1 and feed = any($2)', [
      organisation.id,
      gone,
    ]);
  const earlier = '2030-01-01T00:00:00.000000Z';
  const later = '2030-06-01T00:00:00.000000Z';

  test('reads it as an empty feed; hiding its records is no error', async () => {
    const service = await startTestService();
    const organisation = await service.organisation();
    await forgetHeads(service, organisation, feedNames);
    expect(await readWholeFeed(organisation, 'awards')).toEqual([]);
    const event = { id: crypto.randomUUID(), organisationId: organisation.id };
    await service.db.database.transaction((tx) => hideFeedRecords({ tx, wake: () => undefined }, event, ['awards']));
    expect(await readWholeFeed(organisation, 'awards')).toEqual([]);
  });

  test.each([
    ['the heads of other feeds', ['awards']],
    ['no head at all', feedNames],
  ] as const)('with %s, two first appends at once keep the order of their commits', async (_, gone) => {
    const service = await startTestService();
    const organisation = await service.organisation();
    const { database } = service.db;
    await forgetHeads(service, organisation, gone);
    const [first, second] = [written('awards'), written('awards')];
    const waiting = await database.transaction(async (tx) => {
      await append(tx, organisation, first, later);
      let isDone = false;
      // Its clock is behind: without the head that the first writer made it would get the earlier time.
      const appending = database
        .transaction((own) => append(own, organisation, second, earlier))
        .then(() => {
          isDone = true;
        });
      const waits = async () => {
        const rows = await database.query<{ query: string }>(
          `select query from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`,
        );
        return rows.some(({ query }) => query.includes('service.feed_heads'));
      };
      await expect.poll(waits, { timeout: 10_000 }).toBe(true);
      expect(isDone).toBe(false);
      // In a list, so that the commit does not wait for it.
      return [appending];
    });
    await Promise.all(waiting);
    const records = (await readWholeFeed(organisation, 'awards')) as FeedRecord[];
    expect(records.map(({ id, modified }) => [id, modified])).toEqual([
      [first.change.records[0]?.id, later],
      [second.change.records[0]?.id, '2030-06-01T00:00:00.000001Z'],
    ]);
    const heads = await database.query(
      `select last_modified, changes from service.feed_heads where organisation_id = $1 and feed = 'awards'`,
      [organisation.id],
    );
    expect(heads).toEqual([{ last_modified: '2030-06-01T00:00:00.000001Z', changes: 2 }]);
  });
});

/** What a writer does in one transaction to the records of its event. */
interface Step {
  feeds: FeedName[];
  /** The records of the event to append (of three), and their version; undefined: all three are hidden. */
  append: { places: number[]; version: number } | undefined;
  /** How far the clock moves before the step, also backwards. */
  clockMs: number;
  /** How long the transaction stays open after the step. */
  heldMs: number;
  rollsBack: boolean;
}

const step: fc.Arbitrary<Step> = fc.record({
  feeds: fc.subarray([...feedNames], { minLength: 1 }),
  append: fc.option(
    fc.record({
      places: fc.uniqueArray(fc.nat(2), { minLength: 1 }),
      version: fc.nat(2),
    }),
    { nil: undefined, freq: 4 },
  ),
  clockMs: fc.integer({ min: -3_000, max: 3_000 }),
  heldMs: fc.nat(4),
  rollsBack: fc.integer({ min: 0, max: 4 }).map((dice) => dice === 0),
});
const script = fc.array(fc.array(step, { minLength: 1, maxLength: 10 }), { minLength: 2, maxLength: 5 });

let responses = 0;

/** Makes the ids of a writer's records in each feed; in the RFI responses feed they are numbers. */
function createIds(): (feed: FeedName, place: number) => string {
  const ids = new Map<string, string>();
  return (feed, place) => {
    const key = `${feed} ${place}`;
    const id = ids.get(key) ?? (feed === 'rfi-responses' ? String((responses += 1)) : crypto.randomUUID());
    ids.set(key, id);
    return id;
  };
}

/** Plays one writer's steps; returns the final version of each record of its event, and the number of changes. */
async function play(service: TestService, organisation: TestOrganisation, nowMs: { value: number }, steps: Step[]) {
  const event = { id: crypto.randomUUID(), organisationId: organisation.id, name: 'event', sourcingRequests: [] };
  const idOf = createIds();
  const shown = new Map<string, number>();
  let changes = 0;
  class RollBack extends Error {}
  for (const { feeds, append, clockMs, heldMs, rollsBack } of steps) {
    nowMs.value += clockMs;
    const now = timestampFromMs(nowMs.value);
    const changeOf = (feed: FeedName, { places, version }: NonNullable<Step['append']>) =>
      writtenChange(
        feed,
        places.map((place) => ({ id: idOf(feed, place), event: event.id, requests: [], text: `version ${version}` })),
      );
    await service.db.database
      .transaction(async (tx) => {
        const unit = { tx, wake: () => undefined };
        if (append) {
          const appended = feeds.map((feed) => changeOf(feed, append));
          await appendFeedRecords(unit, { event, now, changes: appended });
        } else await hideFeedRecords(unit, event, feeds);
        await tx.query('select pg_sleep($1 / 1000.0)', [heldMs]);
        if (rollsBack) throw new RollBack();
      })
      .catch((error: unknown) => {
        if (!(error instanceof RollBack)) throw error;
      });
    if (rollsBack) continue;
    for (const feed of feeds)
      for (const place of append?.places ?? [0, 1, 2]) {
        const key = `${feed} ${idOf(feed, place)}`;
        const before = shown.get(key);
        if (before === append?.version) continue;
        changes += 1;
        if (append) shown.set(key, append.version);
        else shown.delete(key);
      }
  }
  return { shown, changes };
}

test('no reader misses anything, whatever writers append, hide and roll back, however the clock moves', async () => {
  const service = await startTestService();
  // The feeds that are younger than the organisation: the first append makes their heads.
  const lacking = fc.subarray([...feedNames]);
  await fc.assert(
    fc.asyncProperty(script, lacking, async (writers, newer) => {
      const organisation = await service.organisation();
      await service.db.database.query('delete from service.feed_heads where organisation_id = $1 and feed = any($2)', [
        organisation.id,
        newer,
      ]);
      const nowMs = { value: Date.UTC(2030, 0, 1) };
      let played: Awaited<ReturnType<typeof play>>[] = [];
      const readers = await readAlong(organisation, feedNames, async () => {
        played = await Promise.all(writers.map((steps) => play(service, organisation, nowMs, steps)));
      });
      const wholes = await expectNothingMissed(organisation, readers);
      const shown = Object.entries(wholes).flatMap(([feed, records]) =>
        records.map((record) => [`${feed} ${record.id}`, Number(/version (\d)/.exec(JSON.stringify(record))?.[1])]),
      );
      const expected = played.flatMap((one) => [...one.shown]);
      expect(Object.fromEntries(shown)).toEqual(Object.fromEntries(expected));
      // Each record that a feed shows in another version, or no longer shows, is one change.
      const [counted] = await service.db.database.query<{ changes: number }>(
        'select sum(changes)::int as changes from service.feed_heads where organisation_id = $1',
        [organisation.id],
      );
      expect(counted?.changes).toBe(played.reduce((sum, { changes }) => sum + changes, 0));
    }),
    { numRuns: 2, endOnFailure: true },
  );
}, 60_000);
