import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Liveness, startLiveness } from '#bridge/ledger/leases/liveness.ts';
import { resetFeed, setCheckpoint } from '#bridge/operate/control-feeds.ts';
import { makeWaitingFeedsDue } from '#bridge/pull/feed/checkpoint-store.ts';
import { addMicros, type Timestamp } from '#contract/timestamp.ts';
import { timestampNow } from '#platform/clock.ts';
import { AppError } from '#platform/errors.ts';
import { silentLogger } from '#platform/log.ts';
import { createTestDatabase, type TestDatabase } from '../../harness/test-database.ts';
import { testClock } from '../parts.ts';
import { ListSource } from './list-source.ts';
import { startReader } from './reader.ts';

let db: TestDatabase;
let liveness: Liveness;

beforeAll(async () => {
  db = await createTestDatabase();
  liveness = await startLiveness({ database: db.database, log: silentLogger });
});
afterAll(async () => {
  await liveness.close();
  await db.drop();
});

/** A feed with the rows a, b and c, ten seconds apart and minutes old, and a reader whose watermark has passed them. */
async function start(options: { caughtUp?: boolean; commitOrdered?: boolean; settings?: object } = {}) {
  const clock = testClock();
  const source = new ListSource(clock);
  source.commitOrdered = options.commitOrdered ?? false;
  source.put('a', 1, 300);
  source.put('b', 2, 290);
  source.put('c', 3, 280);
  const { settings = {} } = options;
  const reader = await startReader({ database: db.database, liveness, client: source.client, clock, settings });
  if (options.caughtUp ?? true) await reader.pullFor(80);
  return { clock, source, reader };
}

const noRows = { records: [], next: undefined };

describe('a version older than the one in the mirror', () => {
  test('is left out when a replica shows it soon after the newer one was read', async () => {
    const { clock, source, reader } = await start();
    const old = { id: 'a', ...source.rows.get('a') };
    source.put('a', 4);
    await reader.pullFor(20);
    await setCheckpoint(db.database, reader.feed, addMicros(old.modified ?? '', -1), timestampNow(clock));
    source.answer = () => ({ records: [old], next: undefined });
    await reader.pull();
    source.answer = () => undefined;
    expect((await reader.mirror()).get('a')).toBe(4);
    await reader.pullFor(100);
    expect((await reader.mirror()).get('a')).toBe(4);
    expect((await reader.checkpoint()).watermark).toBe(source.rows.get('a')?.modified);
  });

  test.each([false, true])(
    'is believed where the newer one was read longer ago than the lateness: the source was set back (commit-ordered: %s)',
    async (commitOrdered) => {
      const { clock, source, reader } = await start({ commitOrdered });
      const old = { ...source.rows.get('c'), value: 3 };
      source.put('c', 4);
      await reader.pullFor(80);
      expect((await reader.mirror()).get('c')).toBe(4);
      source.rows.set('c', old);
      await resetFeed(db.database, reader.feed, timestampNow(clock));
      await reader.pullFor(100);
      expect((await reader.mirror()).get('c')).toBe(3);
      expect((await reader.checkpoint()).watermark ?? '' >= (old.modified ?? '')).toBeTruthy();
    },
  );
});

describe('"200, no rows"', () => {
  test('does not advance the watermark over a range that may hold unknown records', async () => {
    const { clock, source, reader } = await start();
    const before = (await reader.checkpoint()).watermark;
    const missed = source.put('missed', 5);
    clock.advance(10_000);
    source.put('d', 6);
    // A notification asks for the news alone, of which the first page shows the newest record only.
    source.answer = () => ({ records: [{ id: 'd', ...source.rows.get('d') }], next: 'more' });
    await reader.pullFor(20);
    source.answer = () => noRows;
    await reader.pullFor(120);
    expect((await reader.checkpoint()).watermark).toBe(before);
    source.answer = () => undefined;
    await reader.pullFor(400);
    expect(await reader.mirror()).toEqual(source.state);
    expect((await reader.checkpoint()).watermark ?? '' > missed).toBeTruthy();
  });

  test('and answers that lack a record which the mirror holds are asked for again', async () => {
    const { clock, source, reader } = await start();
    const d = source.put('d', 6);
    const e = source.put('e', 7);
    await reader.pullFor(20);
    let partial = 2;
    // A part of the index is away.
    source.answer = () =>
      partial-- > 0 ? { records: [{ id: 'e', ...source.rows.get('e') }], next: undefined } : undefined;
    source.put('late', 8, 21);
    clock.advance(60_000);
    await reader.pull();
    expect(partial, 'two answers without it').toBeLessThanOrEqual(0);
    expect(await reader.mirror()).toEqual(source.state);
    expect((await reader.checkpoint()).watermark).toBe(e > d ? e : d);
    expect((await reader.checkpoint()).last_error).toBeNull();
  });
});

describe('records without a time', () => {
  test('are read by the first pull, which reads without a filter, and by no other where one page showed the feed', async () => {
    const { source, reader } = await start({ caughtUp: false });
    source.rows.set('untimed', { value: 9 });
    await reader.pull();
    expect((await reader.mirror()).get('untimed')).toBe(9);
    expect(await reader.lastOf('untimed')).toMatchObject({ finished: expect.any(String) });
    const asked = source.asked.length;
    await reader.pullFor(120);
    expect(source.asked.slice(asked).filter((at) => !('modifiedAfter' in at || 'modifiedBefore' in at))).toEqual([]);
    expect((await reader.checkpoint()).watermark).toBe(source.rows.get('c')?.modified);
  });

  test('are read to the end after a kill in the first read', async () => {
    const { source, reader, clock } = await start({ caughtUp: false, settings: { page_size: 2 } });
    for (const n of [1, 2, 3]) source.rows.set(`u${n}`, { value: n });
    const killed = new AbortController();
    source.answer = () => {
      if (source.asked.length === 2) killed.abort(new Error('killed'));
      return undefined;
    };
    await reader.pull(killed.signal);
    source.answer = () => undefined;
    expect(await reader.lastOf('untimed')).toBeUndefined();
    clock.advance(1_000);
    await reader.pull();
    await reader.audit();
    expect(await reader.mirror()).toEqual(source.state);
    expect(await reader.lastOf('untimed')).toMatchObject({ finished: expect.any(String) });
  });
});

test('a record of the first read that cannot be stored is stepped over for good by setting the checkpoint', async () => {
  const { clock, source, reader } = await start({ caughtUp: false });
  source.rows.set('bad', { modified: '1999-13-01', value: 0 });
  await reader.pull();
  expect((await reader.checkpoint()).last_error).toContain('bridge checkpoint set');
  await setCheckpoint(db.database, reader.feed, '2001-01-01T00:00:00.000000Z', timestampNow(clock));
  await reader.pullFor(120);
  expect((await reader.checkpoint()).last_error).toBeNull();
  expect([...(await reader.mirror()).keys()].sort()).toEqual(['a', 'b', 'c']);
  expect((await reader.checkpoint()).watermark).toBe(source.rows.get('c')?.modified);
});

test('pages that were read before a service declared its order do not advance the watermark', async () => {
  const { clock, source, reader } = await start({ caughtUp: false, settings: { page_size: 2 } });
  const killed = new AbortController();
  source.answer = () => {
    if (source.asked.length === 2) killed.abort(new Error('killed'));
    return undefined;
  };
  await reader.pull(killed.signal);
  source.answer = () => undefined;
  expect((await reader.mirror()).size, 'the first page').toBe(2);
  // Committed late, before the service kept the order that it declares now.
  source.put('late', 9, 295);
  source.commitOrdered = true;
  clock.advance(1_000);
  await reader.pull();
  await reader.pullFor(60);
  expect(await reader.mirror()).toEqual(source.state);
  expect((await reader.checkpoint()).watermark).toBe(source.rows.get('c')?.modified);
});

test('a stamp that holds more than a page is read by a long page, once, where the source shows one', async () => {
  const { source, reader } = await start({ settings: { page_size: 3 } });
  for (let n = 0; n < 10; n += 1) source.put(`tied-${n}`, n);
  await reader.pullFor(60, 10);
  expect((await reader.checkpoint()).watermark).toBe(source.rows.get('tied-0')?.modified);
  expect(await reader.mirror()).toEqual(source.state);
  expect(source.asked.some((at) => 'pageSize' in at && at.pageSize === 1_000)).toBe(true);
});

test("where the source's clock is behind, the closed bound follows it, despite one stamp of our time", async () => {
  const { clock, source, reader } = await start();
  const behindSeconds = 300;
  source.answer = () => ({ sourceMs: clock.nowMs() - behindSeconds * 1_000 - 1_000 });
  source.put('ours', 4);
  await reader.pullFor(100);
  const modified = source.put('theirs', 5, behindSeconds);
  await reader.pullFor(100);
  expect((await reader.mirror()).get('theirs')).toBe(5);
  expect((await reader.checkpoint()).watermark ?? '').toSatisfy((watermark: string) => watermark >= modified);
});

test('a record stamped tomorrow is mirrored, but the watermark does not pass the records in between', async () => {
  const { clock, source, reader } = await start();
  source.rows.set('future', { modified: addMicros(timestampNow(clock), 86_400_000_000), value: 7 });
  await reader.pullFor(60);
  expect((await reader.mirror()).get('future')).toBe(7);
  const asked = source.asked.length;
  await reader.pullFor(600, 60);
  expect(source.asked.length - asked, 'one request for each poll').toBe(10);
  expect((await reader.checkpoint()).watermark).toBe(source.rows.get('c')?.modified);
  source.put('d', 8);
  await reader.pullFor(100);
  expect((await reader.mirror()).get('d')).toBe(8);
  expect((await reader.checkpoint()).watermark).toBe(source.rows.get('d')?.modified);
});

test('a version stamped tomorrow that the source takes back is replaced, even if no other record changes', async () => {
  const { clock, source, reader } = await start();
  source.rows.set('a', { modified: addMicros(timestampNow(clock), 86_400_000_000), value: 7 });
  await reader.pullFor(100);
  expect((await reader.mirror()).get('a')).toBe(7);
  const modified = source.put('a', 8);
  await reader.pullFor(200);
  expect((await reader.mirror()).get('a')).toBe(8);
  expect((await reader.checkpoint()).watermark).toBe(modified);
});

test('a version stamped the day after tomorrow is replaced by one stamped tomorrow, after the lateness', async () => {
  const day = 86_400_000_000;
  const { clock, source, reader } = await start();
  const before = (await reader.checkpoint()).watermark;
  source.rows.set('a', { modified: addMicros(timestampNow(clock), 2 * day), value: 7 });
  await reader.pullFor(20);
  source.rows.set('a', { modified: addMicros(timestampNow(clock), day), value: 8 });
  clock.advance(10_000);
  await reader.pull();
  expect((await reader.mirror()).get('a'), 'not at once').toBe(7);
  await reader.pullFor(60);
  expect((await reader.mirror()).get('a')).toBe(8);
  expect((await reader.checkpoint()).watermark, 'no other record is so new').toBe(before);
});

test('after our clock was a month ahead and is set right, nothing waits for a time of the wrong clock', async () => {
  const { clock, source, reader } = await start({ settings: { page_size: 3 } });
  const month = 30 * 86_400_000;
  source.put('a', 4);
  clock.advance(month);
  await reader.pullFor(60);
  clock.advance(-month);
  const modified = source.put('d', 8);
  // Every process does this at its start, and when it sees that its clock was set back.
  await makeWaitingFeedsDue(db.database, timestampNow(clock));
  await reader.pullFor(120);
  expect(await reader.mirror()).toEqual(source.state);
  expect((await reader.checkpoint()).watermark).toBe(modified);
});

test('a scan waits where the quota is spent, and comes to its end', async () => {
  const { clock, source, reader } = await start({ settings: { page_size: 4 } });
  for (let n = 0; n < 60; n += 1) source.put(`day-${n}`, n, 7_200 - n * 100);
  let left = 0;
  source.answer = (at) => {
    if (!('modifiedBefore' in at)) return undefined;
    // Three requests, and then none for a while.
    left = left === 0 ? 3 : left - 1;
    if (left === 0) throw new AppError('too-many', 'Later.', { recovery: { do: 'retry', afterMs: 20_000 } });
    return undefined;
  };
  await resetFeed(db.database, reader.feed, timestampNow(clock));
  await reader.pullFor(300);
  expect((await reader.mirror()).size).toBeGreaterThanOrEqual(60);
  // c is the newest record.
  expect((await reader.checkpoint()).watermark).toBe(source.rows.get('c')?.modified);
});

test('a day of changes is scanned with little more than one request for each full page', async () => {
  const { clock, source, reader } = await start({ settings: { page_size: 100 } });
  const day: Timestamp[] = [];
  for (let n = 0; n < 5_000; n += 1) day.push(source.put(`day-${n}`, n, 86_400 - n * 17));
  source.rows.clear();
  for (const [n, modified] of day.entries()) source.rows.set(`day-${n}`, { modified, value: n });
  await resetFeed(db.database, reader.feed, timestampNow(clock));
  const before = source.asked.length;
  await reader.pullFor(100);
  expect((await reader.checkpoint()).watermark ?? '').toSatisfy((watermark: string) => watermark >= (day.at(-1) ?? ''));
  const windows = source.asked.slice(before).filter((at) => 'modifiedBefore' in at).length;
  const news = source.asked.length - before - windows;
  expect(news, '50 full pages, and the news of each pull').toBeLessThanOrEqual(65);
  expect(windows, 'windows that fill a page to 85 per cent').toBeLessThanOrEqual(68);
});

describe('related objects', () => {
  const event = { id: 'e1', name: 'Office chairs' };

  test('are requested with each window, and stored', async () => {
    const { source, reader } = await start({ caughtUp: false });
    source.answer = () => ({ includes: { sourcing_events: [event], suppliers: [{ id: 's1', name: 'Seats Ltd' }] } });
    await reader.pull();
    expect(source.asked[0]).toMatchObject({ include: ['sourcing_events', 'suppliers'] });
    const kept = await reader.readRow<{ kinds: string[] }>(
      'select array_agg(kind order by kind) as kinds from bridge.resources where source = $1',
    );
    expect(kept?.kinds).toEqual(['sourcing-event', 'supplier']);
  });

  test('are not requested when the settings say so, nor again from a service that refused to show them', async () => {
    const without = await start({ settings: { includes: false } });
    expect(without.source.asked.filter((at) => 'include' in at)).toEqual([]);
    const { clock, source, reader } = await start({ caughtUp: false });
    source.answer = (at) => {
      if ('include' in at) throw new AppError('invalid', 'GET /api/feeds/awards was answered with 400.');
      return undefined;
    };
    await reader.pull();
    expect((await reader.mirror()).size).toBe(3);
    expect((await reader.checkpoint()).source_profile).toMatchObject({ includes: [] });
    const asked = source.asked.length;
    clock.advance(60_000);
    await reader.pull();
    expect(source.asked.slice(asked).filter((at) => 'include' in at)).toEqual([]);
  });
});

test('related objects that were refused for a moment only are requested again', async () => {
  const { clock, source, reader } = await start({ caughtUp: false });
  let refusals = 1;
  source.answer = (at) => {
    if ('include' in at && refusals-- > 0) throw new AppError('invalid', 'The answer of the awards feed is not valid.');
    return undefined;
  };
  await reader.pull();
  expect((await reader.mirror()).size).toBe(3);
  const asked = source.asked.length;
  clock.advance(60_000);
  await reader.pull();
  expect(source.asked[asked]).toMatchObject({ include: ['sourcing_events', 'suppliers'] });
});

test.each([true, false])(
  'after a page that is too large, smaller pages are requested (commit-ordered: %s)',
  async (commitOrdered) => {
    const { source, reader } = await start({ caughtUp: false, commitOrdered });
    for (let n = 0; n < 20; n += 1) source.put(`more-${n}`, n, 200 - n);
    const sizeOf = (at: object) =>
      ('pageSize' in at ? at.pageSize : JSON.parse((at as { next: string }).next).pageSize) as number;
    source.answer = (at) => {
      // The first page is small enough, those after it are not.
      if (sizeOf(at) > 2 && source.asked.length > 1)
        throw new AppError('too-large', 'too large', { recovery: { do: 'skip' } });
      return undefined;
    };
    await reader.pullFor(80);
    expect((await reader.checkpoint()).last_error).toBeNull();
    expect(await reader.mirror()).toEqual(source.state);
    source.answer = () => {
      throw new AppError('too-large', 'too large', { recovery: { do: 'skip' } });
    };
    await reader.pullFor(20);
    expect((await reader.checkpoint()).last_error).toContain('A single record');
  },
);

describe('a notification', () => {
  const announce = (reader: Awaited<ReturnType<typeof start>>['reader'], feedModified: string) =>
    db.database.query(
      `insert into bridge.inbox (source, trigger, feed, body, received) values ($1, 'X', 'awards', $2, now())`,
      [
        reader.feed.source,
        JSON.stringify({ trigger: 'AWARDS_FEED_UPDATED', payload: { feed_modified: feedModified } }),
      ],
    );
  const waiting = async (reader: Awaited<ReturnType<typeof start>>['reader']) =>
    (
      await reader.readRow<{ n: number }>(
        `select count(*)::int as n from bridge.inbox join bridge.checkpoints using (source, feed)
         where source = $1 and id > answered`,
      )
    )?.n;

  test('that came while others were being stored is answered', async () => {
    const { source, reader } = await start({ commitOrdered: true });
    const asked = source.asked.length;
    await announce(reader, source.rows.get('c')?.modified ?? '');
    await reader.pull();
    expect(source.asked).toHaveLength(asked + 1);
    expect(await waiting(reader)).toBe(0);
  });

  test('leaves the schedule as it is in a feed that does not declare its order', async () => {
    const { clock, source, reader } = await start({ settings: { poll_seconds: 600 } });
    const { next_pull: next, watermark } = await reader.checkpoint();
    source.put('news', 7);
    clock.advance(5_000);
    await announce(reader, source.rows.get('news')?.modified ?? '');
    await reader.pull();
    expect((await reader.mirror()).get('news')).toBe(7);
    const after = await reader.checkpoint();
    expect(after.watermark, 'a notification proves nothing').toBe(watermark);
    expect(after.next_pull <= next, 'the windows come no later').toBe(true);
  });

  test('costs a request in a feed that does not declare its order', async () => {
    const { source, reader } = await start();
    const asked = source.asked.length;
    await announce(reader, source.rows.get('a')?.modified ?? '');
    await reader.pull();
    expect(source.asked.length).toBeGreaterThan(asked);
  });
});

describe('a checkpoint that an operator sets', () => {
  test('back: everything after it is read again; a time in the future is refused', async () => {
    for (const commitOrdered of [true, false]) {
      const { clock, source, reader } = await start({ commitOrdered });
      await db.database.query('delete from bridge.mirror where source = $1', [reader.feed.source]);
      const answer = await setCheckpoint(
        db.database,
        reader.feed,
        source.rows.get('b')?.modified ?? '',
        timestampNow(clock),
      );
      expect(answer).toContain('read again from');
      await reader.pullFor(80);
      expect([...(await reader.mirror()).keys()]).toEqual(expect.arrayContaining(['b', 'c']));
      const future = addMicros(timestampNow(clock), 1);
      await expect(setCheckpoint(db.database, reader.feed, future, timestampNow(clock))).rejects.toThrow(
        'cannot be set',
      );
    }
  });

  test('forward: the records in between are not read', async () => {
    const { clock, source, reader } = await start({ commitOrdered: true });
    source.put('skipped', 8);
    clock.advance(10_000);
    const answer = await setCheckpoint(db.database, reader.feed, timestampNow(clock), timestampNow(clock));
    expect(answer).toContain('is not read');
    clock.advance(1_000);
    source.put('d', 9);
    await reader.pull();
    const held = await reader.mirror();
    expect(held.get('d')).toBe(9);
    expect(held.has('skipped')).toBe(false);
  });

  test.each([true, false])(
    'during a pull: the pull stores nothing of what it read from the old checkpoint (commit-ordered: %s)',
    async (commitOrdered) => {
      const { clock, source, reader } = await start({ commitOrdered });
      source.put('d', 4);
      const target = source.rows.get('a')?.modified ?? '';
      let set = false;
      source.answer = async () => {
        if (!set) {
          set = true;
          await setCheckpoint(db.database, reader.feed, target, timestampNow(clock));
          // Records where the checkpoint stands before the pull begins again.
          source.answer = async () => {
            seen.push((await reader.checkpoint()).watermark);
            source.answer = () => undefined;
            return undefined;
          };
        }
        return undefined;
      };
      const seen: (string | null)[] = [];
      clock.advance(60_000);
      await reader.pull();
      expect(seen).toEqual([target]);
      await reader.pullFor(80);
      expect(await reader.mirror()).toEqual(source.state);
      expect((await reader.checkpoint()).watermark).toBe(source.rows.get('d')?.modified);
    },
  );

  test('while a pull fails: the feed is read from there at once, and no failure is stored', async () => {
    const { clock, source, reader } = await start();
    clock.advance(60_000);
    source.answer = async () => {
      source.answer = () => undefined;
      await setCheckpoint(db.database, reader.feed, source.rows.get('a')?.modified ?? '', timestampNow(clock));
      throw new AppError('unavailable', 'GET /api/feeds/awards was answered with 503.');
    };
    const asked = source.asked.length;
    await reader.pull();
    expect(await reader.checkpoint()).toMatchObject({ failures: 0, last_error: null });
    expect(source.asked.length - asked).toBeGreaterThan(1);
  });

  test('of a feed that was never read is refused by its name', async () => {
    const nowhere = { source: 'nowhere', feed: 'awards' };
    await expect(resetFeed(db.database, nowhere, '2030-01-01T00:00:00.000000Z')).rejects.toThrow('nowhere/awards');
  });
});

test('a reset reads everything again and stores no second version of a record', async () => {
  const { clock, source, reader } = await start({ commitOrdered: true });
  const asked = source.asked.length;
  await resetFeed(db.database, reader.feed, timestampNow(clock));
  expect((await reader.checkpoint()).watermark).toBeNull();
  await reader.pull();
  expect(source.asked.slice(asked).some((at) => !('modifiedAfter' in at))).toBe(true);
  expect((await reader.checkpoint()).watermark).toBe(source.rows.get('c')?.modified);
  const history = await reader.readRow<{ n: number }>(
    'select count(*)::int as n from bridge.mirror_history where source = $1',
  );
  expect(history?.n).toBe(0);
});

test('the example at the head of advance-watermark.ts is true', async () => {
  const clock = testClock();
  clock.advance(10 * 3_600_000);
  const source = new ListSource(clock);
  const settings = { poll_seconds: 600 };
  const reader = await startReader({ database: db.database, liveness, client: source.client, clock, settings });
  const secondOf = (time: string | null | undefined) => time?.slice(11, 19) ?? null;
  const seen: unknown[] = [];
  const pullAt = async (advanceSeconds: number, newest?: { id: string; agoSeconds: number }) => {
    clock.advance(advanceSeconds * 1_000);
    if (newest) source.put(newest.id, 1, newest.agoSeconds);
    const { next_pull: due } = await reader.checkpoint();
    await reader.pull();
    const row = await reader.readRow<{ bound: string | null }>(
      "select first_seen ->> 'bound' as bound from bridge.checkpoints where source = $1",
    );
    const { watermark } = await reader.checkpoint();
    seen.push([secondOf(timestampNow(clock)), due <= timestampNow(clock), secondOf(row?.bound), secondOf(watermark)]);
  };
  await pullAt(0, { id: 'a', agoSeconds: 2 });
  await pullAt(15, { id: 'b', agoSeconds: 0 });
  await pullAt(15, { id: 'c', agoSeconds: 2 });
  await pullAt(15);
  await pullAt(15, { id: 'd', agoSeconds: 2 });
  expect(seen).toEqual([
    ['10:00:00', true, null, null],
    ['10:00:15', true, null, null],
    ['10:00:30', true, '09:59:58', '09:59:58'],
    ['10:00:45', true, '09:59:58', '09:59:58'],
    ['10:01:00', true, '10:00:28', '10:00:28'],
  ]);
});
