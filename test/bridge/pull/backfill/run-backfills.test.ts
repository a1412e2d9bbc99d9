import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { type Liveness, startLiveness } from '#bridge/ledger/leases/liveness.ts';
import { cancelBackfill, readBackfills, requestAudit, startBackfill } from '#bridge/operate/control-feeds.ts';
import { openDueAudits } from '#bridge/pull/backfill/audit-store.ts';
import { failBackfill } from '#bridge/pull/backfill/backfill-store.ts';
import { addMicros, timestampFromMs } from '#contract/timestamp.ts';
import { timestampNow } from '#platform/clock.ts';
import { AppError } from '#platform/errors.ts';
import { silentLogger } from '#platform/log.ts';
import { createTestDatabase, type TestDatabase } from '../../../harness/test-database.ts';
import { testClock } from '../../parts.ts';
import { ListSource } from '../list-source.ts';
import { startReader } from '../reader.ts';

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

const hourMs = 3_600_000;

/** A feed of `count` rows, a minute apart, the newest an hour old; and a reader that has read all of it, also without a filter. */
async function start(count = 40, settings = {}, leases: { renewEveryMs?: number } = {}) {
  const clock = testClock();
  const source = new ListSource(clock);
  for (let n = 0; n < count; n += 1) source.put(`r${n}`, n, 3_600 + (count - n) * 60);
  const reader = await startReader({
    database: db.database,
    liveness,
    client: source.client,
    clock,
    settings: { page_size: 10, ...settings },
    ...leases,
  });
  await reader.pullFor(80);
  await reader.backfill();
  const forget = (...ids: string[]) =>
    db.database.query('delete from bridge.mirror where source = $1 and record_id = any($2)', [reader.feed.source, ids]);
  const ask = (fromHoursAgo: number, toHoursAgo: number) => {
    const [from, to] = [fromHoursAgo, toHoursAgo].map((hours) => timestampFromMs(clock.nowMs() - hours * hourMs));
    return startBackfill(db.database, { ...reader.feed, from: from ?? '', to: to ?? '' }, timestampNow(clock));
  };
  const read = async (id: number) => {
    const [backfill] = await readBackfills(db.database, [id]);
    if (!backfill) throw new Error('no backfill');
    return backfill;
  };
  return { clock, source, reader, forget, ask, read };
}

describe('a backfill', () => {
  test('reads its range again, no other, and does not touch the checkpoint', async () => {
    const { source, reader, forget, ask, read } = await start();
    await forget('r0', 'r20', 'r21', 'r39');
    const before = await reader.checkpoint();
    // r20 and r21 are 80 and 79 minutes old; r0 is 100 and r39 is 61.
    const id = await ask(1.4, 1.25);
    await reader.backfill();
    const held = await reader.mirror();
    expect([held.get('r20'), held.get('r21')]).toEqual([20, 21]);
    expect([held.has('r0'), held.has('r39')]).toEqual([false, false]);
    expect(await reader.checkpoint()).toEqual(before);
    expect(await read(id)).toMatchObject({ kind: 'range', changed: 2, lastError: null, lateArrivals: 0 });
    expect((await read(id)).finished).not.toBeNull();
    expect(source.state.size).toBe(40);
  });

  test('goes on after a kill from its position; several backfills take turns', async () => {
    const { clock, source, reader, forget, ask, read } = await start();
    await forget(...source.rows.keys());
    const [first, second] = [await ask(3, 0), await ask(2, 1)];
    const killed = new AbortController();
    const asked = source.asked.length;
    source.answer = () => {
      if (source.asked.length - asked === 6) killed.abort(new Error('killed'));
      return undefined;
    };
    await reader.backfill(killed.signal);
    source.answer = () => undefined;
    const positions = [(await read(first)).position, (await read(second)).position];
    expect(
      positions.every((position) => position !== null),
      'both were under way',
    ).toBe(true);
    const resumed = source.asked.length;
    clock.advance(1_000);
    await reader.backfill();
    const [again] = source.asked.slice(resumed);
    // The newest record before the position is shown again; a second is the granularity that is assumed.
    const readBefore = [...source.rows.values()]
      .map(({ modified = '' }) => modified)
      .filter((at) => at <= (positions[0] ?? ''));
    expect(again).toMatchObject({ modifiedAfter: addMicros(readBefore.toSorted().at(-1) ?? '', -1_000_000) });
    expect(await reader.mirror()).toEqual(source.state);
    expect([(await read(first)).finished, (await read(second)).finished]).not.toContain(null);
  });

  test('that is cancelled while a request is under way stores nothing of its answer', async () => {
    const { clock, source, reader, forget, ask, read } = await start();
    await forget(...source.rows.keys());
    const id = await ask(3, 0);
    source.answer = async () => {
      await cancelBackfill(db.database, id, timestampNow(clock));
      return undefined;
    };
    await reader.backfill();
    expect((await reader.mirror()).size).toBe(0);
    expect(await read(id)).toMatchObject({ finished: null, records: 0 });
    expect((await read(id)).cancelled).not.toBeNull();
  });

  test.each([
    ['keeps the newer version where it was stored within the lateness bound: a replica may lag', 20, 500],
    ['takes the older version where the newer one was stored long before: the source was set back', 60, 5],
  ] as const)('that is shown an older version %s', async (_what, seconds, expected) => {
    const { clock, source, reader, ask } = await start();
    const old = { id: 'r5', ...source.rows.get('r5') };
    clock.advance(20_000);
    source.put('r5', 500);
    await reader.pull();
    expect((await reader.mirror()).get('r5')).toBe(500);
    clock.advance(seconds * 1_000);
    source.answer = (at) => ('modifiedBefore' in at ? { records: [old], next: undefined } : undefined);
    await ask(3, 1);
    await reader.backfill();
    expect((await reader.mirror()).get('r5')).toBe(expected);
  });

  test('that fails keeps what it has stored, says why, waits, and goes on', async () => {
    const { clock, source, reader, forget, ask, read } = await start();
    await forget(...source.rows.keys());
    const id = await ask(3, 0);
    source.answer = () => {
      throw new AppError('unavailable', 'GET /api/feeds/awards was answered with 503.');
    };
    await reader.backfill();
    expect(await read(id)).toMatchObject({ finished: null, failures: 1, lastError: expect.stringContaining('503') });
    const asked = source.asked.length;
    source.answer = () => undefined;
    await reader.backfill();
    expect(source.asked, 'no request while it waits').toHaveLength(asked);
    clock.advance(60_000);
    await reader.backfill();
    expect((await read(id)).finished).not.toBeNull();
    expect(await reader.mirror()).toEqual(source.state);
  });

  test('that has ended stores no failure of a process that did not see it end', async () => {
    const { clock, reader, ask, read } = await start(5);
    const id = await ask(3, 0);
    await reader.backfill();
    await failBackfill(db.database, id, { error: 'The connection was lost.', next: timestampNow(clock) });
    expect(await read(id)).toMatchObject({ failures: 0, lastError: null });
  });

  test('leaves half of the quota to the pull, however many backfills there are', async () => {
    const { clock, source, ask, reader } = await start(40, { quotas: {} });
    for (let n = 0; n < 3; n += 1) await ask(3, 0);
    const asked = source.asked.length;
    const beganMs = clock.nowMs();
    await reader.backfill();
    const minutes = (clock.nowMs() - beganMs) / 60_000;
    expect((source.asked.length - asked - 1) / minutes).toBeLessThanOrEqual(30);
  });

  test('keeps its lease while it waits between requests', async () => {
    const { clock, source, ask, reader, read } = await start(40, { quotas: {} }, { renewEveryMs: 5 });
    const id = await ask(3, 0);
    const sleep = clock.sleep.bind(clock);
    const renewed: boolean[] = [];
    clock.sleep = async (ms, signal) => {
      await sleep(ms, signal);
      // A lease that was not renewed now could be taken by another process.
      await db.database.query(`update bridge.leases set expires = clock_timestamp() + interval '1 s'`);
      renewed.push(
        await vi
          .waitUntil(
            async () =>
              (
                await db.database.query(
                  `select from bridge.leases where name = $1 and expires > clock_timestamp() + interval '10 s'`,
                  [`backfill/${reader.source.name}/awards`],
                )
              ).length > 0,
            { timeout: 2_000, interval: 10 },
          )
          .catch(() => false),
      );
    };
    const asked = source.asked.length;
    await reader.backfill();
    expect(renewed.length).toBeGreaterThan(2);
    expect(renewed).not.toContain(false);
    expect(source.asked.length - asked).toBeGreaterThan(2);
    expect((await read(id)).finished).not.toBeNull();
  });

  test('of a range that ends before it begins, or of a feed that is not read here, is refused', async () => {
    const { ask } = await start(1);
    await expect(ask(1, 2)).rejects.toThrow('ends before it begins');
    const neverRead = {
      source: 'nowhere',
      feed: 'awards',
      from: '2029-01-01T00:00:00.000000Z',
      to: '2029-01-02T00:00:00.000000Z',
    };
    await expect(startBackfill(db.database, neverRead, '2030-01-01T00:00:00.000000Z')).rejects.toThrow(
      'nowhere/awards',
    );
  });
});

describe('an audit', () => {
  test('reads the last hours again, counts late arrivals, and raises the lateness bound', async () => {
    const { clock, source, reader, forget } = await start(40, { audit_hours: 24, audit_window_hours: 2 });
    await reader.audit();
    clock.advance(23 * hourMs);
    source.put('fresh', 1, 3_000);
    await reader.pullFor(80);
    const asked = source.asked.length;
    await reader.audit();
    expect(source.asked, 'no audit before its interval is over').toHaveLength(asked);
    await forget('fresh');
    clock.advance(hourMs);
    await reader.audit();
    expect((await reader.mirror()).get('fresh')).toBe(1);
    expect(await reader.metric('late_arrivals')).toBe(1);
    // The setting is 30 s: the bound is doubled.
    expect((await reader.checkpoint()).source_profile.latenessMs).toBe(60_000);
    expect(await reader.lastOf('audit')).toMatchObject({ finished: expect.any(String), late_arrivals: 1 });
    const done = source.asked.length;
    await reader.audit();
    expect(source.asked, 'once a day').toHaveLength(done);
    clock.advance(25 * hourMs);
    await reader.audit();
    expect(source.asked.length, 'the next one, a day later').toBeGreaterThan(done);
    expect(await reader.lastOf('audit')).toMatchObject({ finished: expect.any(String), late_arrivals: 0 });
    expect((await reader.checkpoint()).source_profile.latenessMs, 'it found nothing, so the bound stays').toBe(60_000);
  });

  test('that is due is opened once, by several processes at once, and writes nothing while it is open', async () => {
    const { clock, reader } = await start(20, { audit_hours: 24 });
    const open = () => openDueAudits(db.database, [reader.source], timestampNow(clock));
    const state = () =>
      reader.readRow<{ xmin: string; xmax: string; audits: number }>(
        `select xmin::text, xmax::text,
           (select count(*)::int from bridge.backfills b where b.source = c.source and b.kind <> 'untimed') as audits
         from bridge.checkpoints c where source = $1`,
      );
    await open();
    clock.advance(25 * hourMs);
    await Promise.all([open(), open(), open()]);
    const opened = await state();
    expect(opened?.audits).toBe(1);
    await open();
    expect(await state()).toEqual(opened);
    await requestAudit(db.database, reader.feed, timestampNow(clock));
    expect((await state())?.audits, 'a full audit beside that of a window').toBe(2);
    const both = await state();
    await open();
    expect(await state()).toEqual(both);
  });

  test('of a source comes after its own interval, however short that of another source is', async () => {
    const { clock, reader } = await start(20, { audit_hours: 24 });
    const quick = { ...reader.source, name: `${reader.source.name}-quick`, audit_hours: 1 };
    const audits = async () => {
      await openDueAudits(db.database, [quick, reader.source], timestampNow(clock));
      const all = await readBackfills(db.database);
      return all
        .filter(({ source, kind }) => source === reader.feed.source && kind !== 'untimed')
        .map(({ kind }) => kind);
    };
    await audits();
    clock.advance(23 * hourMs);
    expect(await audits()).toEqual([]);
    clock.advance(2 * hourMs);
    expect(await audits()).toEqual(['audit']);
  });

  test.each(['audit', 'full'] as const)(
    'that is cancelled (%s) is opened again only after its interval',
    async (kind) => {
      const { clock, source, reader } = await start(20, { audit_hours: 24 });
      await reader.audit();
      clock.advance(25 * hourMs);
      if (kind === 'full') await requestAudit(db.database, reader.feed, timestampNow(clock));
      await openDueAudits(db.database, [reader.source], timestampNow(clock));
      const [audit] = (await readBackfills(db.database)).filter((backfill) => backfill.source === reader.feed.source);
      expect(audit).toMatchObject({ kind, finished: null });
      await cancelBackfill(db.database, audit?.id ?? 0, timestampNow(clock));
      const asked = source.asked.length;
      await reader.audit();
      expect(source.asked).toHaveLength(asked);
      clock.advance(24 * hourMs);
      await reader.audit();
      expect(source.asked.length).toBeGreaterThan(asked);
    },
  );

  test('reads the hours before now where a record stamped next year has moved the watermark there', async () => {
    const { clock, source, reader } = await start(20, { audit_hours: 24, audit_window_hours: 48 });
    source.commitOrdered = true;
    source.rows.set('future', { modified: timestampFromMs(clock.nowMs() + 365 * 24 * hourMs), value: 1 });
    await reader.pullFor(40);
    await reader.audit();
    // The source breaks its declared order: a new record has an earlier stamp than the one of next year.
    source.put('now', 2);
    await reader.pullFor(40);
    clock.advance(25 * hourMs);
    await reader.audit();
    expect((await reader.mirror()).get('now')).toBe(2);
    expect(await reader.metric('late_arrivals')).toBe(1);
  });

  test('is due although the audit before was made while our clock was a month ahead', async () => {
    const { clock, source, reader, forget } = await start(20, { audit_hours: 24 });
    clock.advance(30 * 24 * hourMs);
    await reader.audit();
    clock.advance(-30 * 24 * hourMs);
    source.put('fresh', 1, 120);
    await reader.pullFor(80);
    await forget('fresh');
    await reader.audit();
    expect((await reader.mirror()).get('fresh')).toBe(1);
  });

  /** Complete audits of the whole feed, further apart than the lateness bound, with pulls between them. */
  async function auditAll({ clock, reader }: Awaited<ReturnType<typeof start>>, times = 2): Promise<void> {
    for (let count = 0; count < times; count += 1) {
      await reader.pullFor(80);
      await requestAudit(db.database, reader.feed, timestampNow(clock));
      await reader.audit();
      clock.advance(60_000);
    }
  }

  test('takes a record as deleted when two complete reads lacked it; shown again, it is restored', async () => {
    const started = await start();
    const { source, reader } = started;
    const row = source.rows.get('r7');
    source.rows.delete('r7');
    await auditAll(started, 1);
    expect((await reader.mirror()).has('r7'), 'one read proves nothing').toBe(true);
    await auditAll(started, 1);
    expect((await reader.mirror()).has('r7')).toBe(false);
    expect((await reader.mirror()).size).toBe(39);
    if (row) source.rows.set('r7', row);
    await auditAll(started, 1);
    expect((await reader.mirror()).get('r7')).toBe(7);
    expect(await reader.lastOf('full')).toMatchObject({ finished: expect.any(String), warning: null });
  });

  test('takes no record as deleted that one of two reads showed, or that changed meanwhile', async () => {
    const started = await start();
    const { source, reader } = started;
    const row = source.rows.get('r7');
    for (let round = 0; round < 3; round += 1) {
      source.rows.delete('r7');
      await auditAll(started, 1);
      expect((await reader.mirror()).has('r7')).toBe(true);
      if (row) source.rows.set('r7', row);
      await auditAll(started, 1);
    }
    source.put('r8', 800);
    await auditAll(started, 1);
    source.put('r8', 801);
    await auditAll(started, 1);
    expect(await reader.mirror()).toEqual(source.state);
  });

  test('takes no record as deleted while no process pulls: one that has changed lies elsewhere', async () => {
    const { clock, source, reader } = await start();
    source.put('r7', 700);
    for (let count = 0; count < 3; count += 1) {
      clock.advance(60_000);
      await requestAudit(db.database, reader.feed, timestampNow(clock));
      await reader.audit();
    }
    expect((await reader.mirror()).get('r7'), 'the version before').toBe(7);
    await reader.pullFor(80);
    expect(await reader.mirror()).toEqual(source.state);
  });

  test('counts no record as a late arrival that came just after the watermark', async () => {
    const { clock, source, reader } = await start();
    await reader.pullFor(80);
    const watermark = (await reader.checkpoint()).watermark ?? '';
    source.rows.set('fresh', { modified: addMicros(watermark, 500_000), value: 1 });
    await requestAudit(db.database, reader.feed, timestampNow(clock));
    await reader.audit();
    expect(await reader.lastOf('full')).toMatchObject({ finished: expect.any(String), late_arrivals: 0 });
    expect((await reader.checkpoint()).source_profile).not.toHaveProperty('latenessMs');
  });

  test('does not end while the feed answers with no records', async () => {
    const { clock, source, reader } = await start();
    source.answer = () => ({ records: [], next: undefined });
    await requestAudit(db.database, reader.feed, timestampNow(clock));
    await reader.audit();
    const last = async () =>
      (await readBackfills(db.database)).find((backfill) => backfill.source === reader.feed.source);
    expect(await last()).toMatchObject({ finished: null, lastError: expect.stringContaining('no record at all') });
    source.answer = () => undefined;
    clock.advance(60_000);
    await reader.audit();
    expect((await last())?.finished).not.toBeNull();
  });

  test('takes no record as deleted while the feed shows none, or when very many are missing at once', async () => {
    const started = await start(200);
    const { source, reader } = started;
    const rows = new Map(source.rows);
    source.rows.clear();
    await auditAll(started);
    expect((await reader.mirror()).size).toBe(200);
    for (const [id, row] of rows) if (Number(id.slice(1)) >= 11) source.rows.set(id, row);
    started.clock.advance(hourMs);
    await reader.audit();
    await auditAll(started, 3);
    // 11 of 200 are more than ten, and more than five per cent.
    expect((await reader.mirror()).size).toBe(200);
    expect(await reader.lastOf('full')).toMatchObject({
      finished: expect.any(String),
      warning: expect.stringContaining('11 of 200 records were missing'),
    });
    expect(await reader.metric('refusals')).toBeGreaterThan(0);
    const back = rows.get('r0');
    if (back) source.rows.set('r0', back);
    await auditAll(started);
    expect((await reader.mirror()).size).toBe(190);
    expect(await reader.lastOf('full')).toMatchObject({ finished: expect.any(String), warning: null });
  });

  test('takes the newest records as deleted although no newer record is shown, also after a kill', async () => {
    const started = await start();
    const { source, reader } = started;
    for (let n = 31; n < 40; n += 1) source.rows.delete(`r${n}`);
    await reader.pullFor(80);
    await requestAudit(db.database, reader.feed, timestampNow(started.clock));
    const killed = new AbortController();
    const newest = source.rows.get('r30')?.modified ?? '';
    source.answer = (at) => {
      // During the first read the process dies where no record is left: such a window shows the newest one again.
      if ('modifiedBefore' in at && (at.modifiedAfter ?? '') >= addMicros(newest, -1_000_000)) killed.abort();
      return undefined;
    };
    await reader.backfill(killed.signal);
    expect(killed.signal.aborted).toBe(true);
    const position = (await reader.lastOf('full'))?.['position'];
    expect(position).toSatisfy((at: string) => at >= newest);
    source.answer = () => undefined;
    await auditAll(started, 2);
    expect(await reader.mirror()).toEqual(source.state);
  });

  test('of the whole feed is also made without a request, after its interval', async () => {
    const started = await start(20, { audit_full_days: 7 });
    const { clock, source, reader } = started;
    await reader.audit();
    source.rows.delete('r3');
    for (let week = 0; week < 2; week += 1) {
      clock.advance(7 * 24 * hourMs);
      await reader.pullFor(40);
      await reader.audit();
    }
    expect((await reader.mirror()).has('r3')).toBe(false);
  });

  test('that is asked for is opened at once, and the next turn makes it', async () => {
    const { clock, reader, forget } = await start();
    await forget('r3');
    await requestAudit(db.database, reader.feed, timestampNow(clock));
    const { watermark } = await reader.checkpoint();
    expect(await reader.lastOf('full')).toMatchObject({
      asked: timestampNow(clock),
      range_end: watermark,
      position: null,
      finished: null,
    });
    await reader.backfill();
    expect(await reader.lastOf('full')).toMatchObject({
      finished: expect.any(String),
      position: watermark,
      late_arrivals: 1,
    });
    expect((await reader.mirror()).get('r3')).toBe(3);
  });

  test('of the whole feed that is cancelled counts as made: the next one comes after its interval', async () => {
    const { clock, reader } = await start(20, { audit_full_days: 7 });
    const fullAudits = async () => {
      await openDueAudits(db.database, [reader.source], timestampNow(clock));
      const row = await reader.readRow<{ count: number }>(
        `select count(*)::int from bridge.backfills where source = $1 and kind = 'full'`,
      );
      return row?.count;
    };
    clock.advance(7 * 24 * hourMs);
    expect(await fullAudits()).toBe(1);
    const id = Number((await reader.lastOf('full'))?.['id']);
    await cancelBackfill(db.database, id, timestampNow(clock));
    clock.advance(7 * 24 * hourMs - 1_000);
    expect(await fullAudits()).toBe(1);
    clock.advance(1_000);
    expect(await fullAudits()).toBe(2);
  });

  test('of a feed is not due before its first interval is over, whatever the clock of the database says', async () => {
    const { clock, reader } = await start(20, { audit_hours: 24 });
    const opened = async () => {
      await openDueAudits(db.database, [reader.source], timestampNow(clock));
      return (await reader.lastOf('audit')) !== undefined;
    };
    // The feed was first known 80 seconds ago.
    clock.advance(24 * hourMs - 81_000);
    expect(await opened()).toBe(false);
    clock.advance(1_000);
    expect(await opened()).toBe(true);
  });
});
