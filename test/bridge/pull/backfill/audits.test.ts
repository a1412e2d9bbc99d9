/** An audit says how far it has really read, counts all that it finds, and does not count as made before its end. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Liveness, startLiveness } from '#bridge/ledger/leases/liveness.ts';
import { requestAudit, setCheckpoint } from '#bridge/operate/control-feeds.ts';
import { readStatus } from '#bridge/operate/status/status.ts';
import { learnProfile } from '#bridge/pull/feed/checkpoint-store.ts';
import type { SourceSettings } from '#bridge/settings/settings.ts';
import { findWork } from '#cli/doctor/work-findings.ts';
import { timestampNow } from '#platform/clock.ts';
import { silentLogger } from '#platform/log.ts';
import { createTestDatabase, type TestDatabase } from '../../../harness/test-database.ts';
import { settingsOf, testClock } from '../../parts.ts';
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

/** A feed of 40 rows, a minute apart, the newest an hour old; and a reader that has read all of it, also without a filter. */
async function start(
  prepare: (source: ListSource) => void = () => undefined,
  auditSettings: Pick<Partial<SourceSettings>, 'audit_hours' | 'audit_window_hours'> = {},
) {
  const clock = testClock();
  const source = new ListSource(clock);
  for (let n = 0; n < 40; n += 1) source.put(`r${n}`, n, 3_600 + (40 - n) * 60);
  prepare(source);
  const reader = await startReader({
    database: db.database,
    liveness,
    client: source.client,
    clock,
    // The source of these tests never ends: it is asked for few pages.
    settings: { page_size: 10, ...auditSettings },
  });
  await reader.pullFor(200);
  await reader.backfill();
  const settings = settingsOf({ ...reader.source, feeds: ['awards'] });
  return {
    clock,
    source,
    reader,
    forget: (...ids: string[]) =>
      db.database.query('delete from bridge.mirror where source = $1 and record_id = any($2)', [
        reader.feed.source,
        ids,
      ]),
    request: () => requestAudit(db.database, reader.feed, timestampNow(clock)),
    look: async () => {
      const status = await readStatus(db.database, { settings, now: timestampNow(clock) });
      const [audit] = status.audits;
      if (!audit) throw new Error('no audit');
      return { status, audit };
    },
  };
}

describe('an audit that cannot be read to its end', () => {
  test('is a failure with the request that stops it, shows how far it has read, and is finished later', async () => {
    const { clock, source, reader, forget, request, look } = await start();
    await forget('r5', 'r35');
    // What is newer than r20 comes out as empty pages that go on for ever.
    const hiddenFrom = source.rows.get('r20')?.modified ?? '';
    source.answer = (at) => {
      if ('next' in at && at.next.startsWith('empty')) return { records: [], next: `empty=${source.asked.length}` };
      if ('next' in at || at.modifiedBefore === undefined || at.modifiedBefore <= hiddenFrom) return undefined;
      return { records: [], next: `empty=${source.asked.length}` };
    };
    await request();
    const waitMs = 15 * 60_000;
    for (let attempt = 0; attempt < 5; attempt += 1) {
      await reader.audit();
      clock.advance(waitMs);
    }
    const { status, audit } = await look();
    expect(audit).toMatchObject({
      kind: 'full',
      finished: null,
      failures: 5,
      lateArrivals: 1,
      lastError: expect.stringMatching(/^The window from .* is asked for again and again/),
    });
    expect(audit.position !== null && audit.position < hiddenFrom).toBe(true);
    expect((await reader.mirror()).get('r5')).toBe(5);
    expect(status.conditions.map(({ kind }) => kind)).toContain('audit-failing');
    expect(findWork(status)).toContainEqual(
      expect.objectContaining({
        name: `feed ${reader.feed.source}/awards: audit failing`,
        level: 'fail',
        message: expect.stringContaining(
          `has read up to ${audit.position?.slice(0, 16).replace('T', ' ')} UTC, not to `,
        ),
      }),
    );

    source.answer = () => undefined;
    await reader.audit();
    const done = (await look()).audit;
    expect(done).toMatchObject({ position: done.to, lateArrivals: 2 });
    expect(done.finished).not.toBeNull();
    expect((await reader.mirror()).get('r35')).toBe(35);
    expect((await look()).status.conditions.map(({ kind }) => kind)).not.toContain('audit-failing');
  });

  test('does not hold up the audits of the window, which find what is late there', async () => {
    const { clock, source, reader, forget, request, look } = await start((list) => list.put('old', 1, 36_000), {
      audit_hours: 1,
      audit_window_hours: 1,
    });
    const hiddenTo = source.rows.get('old')?.modified ?? '';
    source.answer = (at) => {
      if ('next' in at && at.next.startsWith('empty')) return { records: [], next: `empty=${source.asked.length}` };
      const isHidden = !('next' in at) && at.modifiedBefore !== undefined && (at.modifiedAfter ?? '') <= hiddenTo;
      return isHidden ? { records: [], next: `empty=${source.asked.length}` } : undefined;
    };
    await request();
    await reader.audit();
    expect((await look()).audit).toMatchObject({ kind: 'full', finished: null, failures: 1 });
    await forget('r35');
    clock.advance(3_700_000);
    await reader.pull();
    await reader.audit();
    expect((await look()).audit).toMatchObject({ kind: 'audit', lateArrivals: 1, lastError: null });
    expect((await look()).audit.finished).not.toBeNull();
    const open = await db.database.query<{ kind: string }>(
      'select kind from bridge.backfills where source = $1 and finished is null',
      [reader.feed.source],
    );
    expect(open).toEqual([{ kind: 'full' }]);
  });

  test('of a feed that never had a record ends: there is nothing to compare', async () => {
    const { clock, reader, request, look } = await start((list) => list.rows.clear());
    await setCheckpoint(db.database, reader.feed, '2029-12-01T00:00:00.000000Z', timestampNow(clock));
    await request();
    await reader.audit();
    expect((await look()).audit).toMatchObject({ kind: 'full', failures: 0, lateArrivals: 0, lastError: null });
    expect((await look()).audit.finished).not.toBeNull();
  });

  test('of a feed that shows none of the records that the mirror holds fails', async () => {
    const { source, reader, request, look } = await start();
    source.rows.clear();
    await request();
    await reader.audit();
    expect((await look()).audit).toMatchObject({ finished: null, failures: 1 });
    expect((await look()).audit.lastError).toContain('no record at all');
  });

  test('does not count as made because the lateness bound has grown meanwhile', async () => {
    const { reader, request, look } = await start();
    await request();
    await learnProfile(db.database, reader.feed, { latenessMs: 36_000_000 });
    await reader.audit();
    const { audit } = await look();
    expect(audit).toMatchObject({ finished: null, failures: 1, lastError: expect.stringContaining('up to') });
  });
});

test('records without a time are read once more after a full audit, and are no late arrivals', async () => {
  const { source, reader, forget, request } = await start((list) => {
    for (let n = 0; n < 12; n += 1) list.rows.set(`u${String(n).padStart(2, '0')}`, { value: 1_000 + n });
  });
  expect(await reader.mirror()).toEqual(source.state);
  await forget('u03');
  const before = await reader.lastOf('untimed');
  await request();
  await reader.audit();
  expect(await reader.mirror()).toEqual(source.state);
  expect(await reader.lastOf('full')).toMatchObject({ finished: expect.any(String), late_arrivals: 0 });
  const again = await reader.lastOf('untimed');
  expect(again).toMatchObject({ finished: expect.any(String), changed: 1, late_arrivals: 0 });
  expect(again?.['id']).not.toBe(before?.['id']);
  expect((await reader.checkpoint()).source_profile).not.toHaveProperty('latenessMs');
  expect(await reader.metric('late_arrivals')).toBe(0);
});

test('a full audit of a feed whose records all have a time reads nothing without a filter', async () => {
  const { source, reader, request } = await start();
  const asked = source.asked.length;
  await request();
  await reader.audit();
  expect(await reader.lastOf('full')).toMatchObject({ finished: expect.any(String) });
  expect(source.asked.length).toBeGreaterThan(asked);
  expect(source.asked.slice(asked).filter((at) => !('next' in at) && !at.modifiedAfter && !at.modifiedBefore)).toEqual(
    [],
  );
});
