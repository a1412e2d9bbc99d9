import { beforeEach, describe, expect, test } from 'vitest';
import { openSupplierList, readDueSupplierLists } from '#bridge/mirror/supplier-list-store.ts';
import { createSupplierListPull, type SupplierListDeps } from '#bridge/pull/suppliers/pull-supplier-list.ts';
import { timestampFromMs } from '#contract/timestamp.ts';
import { timestampNow } from '#platform/clock.ts';
import { AppError } from '#platform/errors.ts';
import { silentLogger } from '#platform/log.ts';
import { createTestDatabase, type TestDatabase } from '../../../harness/test-database.ts';
import { settingsOf, startProcess, type TestClock, type TestProcess, testClock } from '../../parts.ts';

type ListSuppliers = SupplierListDeps['client']['listSuppliers'];
type Row = Record<string, unknown>;

const pollMs = 900_000;
const unstopped = new AbortController().signal;
const rowOf = (n: number, more: Row = {}): Row => ({ external_id: `SUP-${n}`, name: `Supplier ${n}`, ...more });

/**
 * Stands in for a service's supplier list, as the client reads it: numbered pages over rows that are read anew for each
 * page.
 */
interface List {
  rows: Row[];
  countOf: () => number | undefined;
  readonly asked: string[];
  /** Called before each answer. */
  onPage: (page: number) => void | Promise<void>;
  readonly read: ListSuppliers;
}

function listOf(rows: Row[]): List {
  const list: List = {
    rows,
    countOf: () => list.rows.length,
    asked: [],
    onPage: () => undefined,
    read: async (at) => {
      const query = new URLSearchParams('next' in at ? at.next : '');
      const page = Number(query.get('page_number'));
      const size = Number(query.get('page_size'));
      list.asked.push(`${page}`);
      await list.onPage(page);
      const items = list.rows.slice((page - 1) * size, page * size);
      const next = page * size < list.rows.length ? `page_number=${page + 1}&page_size=${size}` : undefined;
      return { items, count: list.countOf(), next };
    },
  };
  return list;
}

let db: TestDatabase;
let clock: TestClock;
let list: List;
let woken: number;
beforeEach(async () => {
  db = await createTestDatabase();
  clock = testClock();
  list = listOf([1, 2, 3, 4, 5].map((n) => rowOf(n)));
  woken = 0;
  await open();
  return () => db.drop();
});

const open = () =>
  openSupplierList(db.database, 'main', {
    now: timestampNow(clock),
    latest: timestampFromMs(clock.nowMs() + pollMs),
  });

function pullOf(process: TestProcess, listSuppliers: ListSuppliers = list.read) {
  const [source] = settingsOf({ suppliers: true, page_size: 2, suppliers_poll_seconds: pollMs / 1000 }).sources;
  if (!source) throw new Error('no source');
  const { database, acquireLease } = process;
  return createSupplierListPull({
    source,
    client: { listSuppliers },
    database,
    acquireLease,
    clock,
    log: silentLogger,
    wakeFlows: () => (woken += 1),
  });
}

const held = async () =>
  (
    await db.database.query<{ id: string }>(
      `select id from bridge.resources where kind = 'supplier-master' order by id`,
    )
  ).map(({ id }) => id);
const all = (count: number) => Array.from({ length: count }, (_, index) => `SUP-${index + 1}`);
const state = async () =>
  (
    await db.database.query<{
      next_pull: string;
      last_pull: string | null;
      failures: number;
      last_error: string | null;
    }>('select next_pull, last_pull, failures, last_error from bridge.supplier_lists')
  )[0];

describe('a pull of the list', () => {
  test('reads the whole list once where it does not change meanwhile, and again after the interval', async () => {
    const pull = pullOf(await startProcess(db));
    await pull(unstopped);
    expect([list.asked, await held(), woken]).toEqual([['1', '2', '3'], all(5), 3]);
    expect(await state()).toEqual({
      next_pull: timestampFromMs(clock.nowMs() + pollMs),
      last_pull: timestampNow(clock),
      failures: 0,
      last_error: null,
    });
    clock.advance(pollMs - 1);
    await pull(unstopped);
    expect(list.asked).toHaveLength(3);
    clock.advance(1);
    list.rows[4] = rowOf(5, { name: 'Renamed' });
    await pull(unstopped);
    expect([list.asked.length, woken]).toEqual([6, 4]);
  });

  test('finds a supplier that moved to a page which was read already', async () => {
    // The first row is deleted after page 1 was read: the third moves up to page 1.
    let deleted = false;
    list.onPage = (page) => {
      if (page !== 2 || deleted) return;
      deleted = true;
      list.rows.shift();
    };
    await pullOf(await startProcess(db))(unstopped);
    expect(await held()).toEqual(all(5));
    expect(list.asked).toEqual(['1', '2', '1', '2']);
  });

  test('ends after two passes that saw the same where the service states a wrong count, or none', async () => {
    for (const count of [99, undefined]) {
      list.asked.length = 0;
      list.countOf = () => count;
      await pullOf(await startProcess(db))(unstopped);
      expect(list.asked).toEqual(['1', '2', '3', '4', '1', '2', '3', '4']);
      expect(await state()).toMatchObject({ failures: 0 });
      clock.advance(pollMs);
    }
  });

  test('ends after some passes over a list that changes all the time, keeps what it saw, and comes again', async () => {
    list.countOf = () => undefined;
    let added = 5;
    list.onPage = () => {
      added += 1;
      if (added < 40) list.rows.push(rowOf(added));
    };
    await pullOf(await startProcess(db))(unstopped);
    expect((await held()).length).toBeGreaterThan(5);
    expect(await state()).toMatchObject({ failures: 0, next_pull: timestampFromMs(clock.nowMs() + pollMs) });
  });

  test('waits while the quota is spent, and goes on with the same page', async () => {
    let refusals = 2;
    list.onPage = (page) => {
      if (page === 2 && refusals-- > 0)
        throw new AppError('too-many', 'Later.', { recovery: { do: 'retry', afterMs: 30_000 } });
    };
    await pullOf(await startProcess(db))(unstopped);
    expect([list.asked, await held(), clock.slept]).toEqual([['1', '2', '2', '2', '3'], all(5), [30_000, 30_000]]);
  });

  test('requests smaller pages where a page is too large, down to a single supplier', async () => {
    const smaller: ListSuppliers = (at, signal) => {
      if ('next' in at && !at.next.endsWith('page_size=1')) throw new AppError('too-large', 'Too large.');
      return list.read(at, signal);
    };
    await pullOf(await startProcess(db), smaller)(unstopped);
    expect([list.asked, await held()]).toEqual([['1', '2', '3', '4', '5'], all(5)]);
  });
});

describe('a list that cannot be read', () => {
  test.each<[string, (page: number) => Awaited<ReturnType<ListSuppliers>>]>([
    ['returns to the same page', () => ({ items: [rowOf(1)], count: 1, next: 'page_number=1&page_size=2' })],
    ['has empty pages without end', (page) => ({ items: [], count: 1, next: `page_number=${page + 1}` })],
  ])('and %s ends the pull with an error that says so; it is tried again, later each time', async (_what, answer) => {
    let asked = 0;
    const pull = pullOf(await startProcess(db), async () => {
      asked += 1;
      return answer(asked);
    });
    await pull(unstopped);
    expect(asked).toBeLessThan(4);
    const failed = await state();
    expect(failed).toMatchObject({ failures: 1, last_pull: null });
    expect(failed?.last_error).toContain('loop: "next" returns nothing new');
    expect(failed?.next_pull.slice(0, 18)).toBe('2030-01-01T00:00:0');
    clock.advance(6_000);
    await pull(unstopped);
    expect(await state()).toMatchObject({ failures: 2 });
    expect(((await state())?.next_pull ?? '') > timestampFromMs(clock.nowMs() + 9_999)).toBe(true);
  });

  test('keeps what was read before a failure, waits as long as the service asked, and begins again', async () => {
    let broken = true;
    list.onPage = (page) => {
      if (page === 3 && broken)
        throw new AppError('unavailable', 'Away.', { recovery: { do: 'retry', afterMs: 3_600_000 } });
    };
    const pull = pullOf(await startProcess(db));
    await pull(unstopped);
    expect(await held()).toEqual(all(4));
    expect(await state()).toMatchObject({ failures: 1, next_pull: timestampFromMs(clock.nowMs() + 3_600_000) });
    broken = false;
    clock.advance(3_600_000);
    await pull(unstopped);
    expect([await held(), list.asked.slice(3)]).toEqual([all(5), ['1', '2', '3']]);
    expect(await state()).toMatchObject({ failures: 0, last_error: null });
  });

  test('entries without an id that can be stored are skipped, the others are stored', async () => {
    list.rows = [rowOf(1), { name: 'No id' }, rowOf(2, { external_id: 'a\0b' }), rowOf(3)];
    await pullOf(await startProcess(db))(unstopped);
    expect(await held()).toEqual(['SUP-1', 'SUP-3']);
  });
});

describe('several processes', () => {
  test('pull the list one at a time', async () => {
    const [one, other] = [await startProcess(db), await startProcess(db)];
    let running = 0;
    let most = 0;
    list.onPage = async () => {
      running += 1;
      most = Math.max(most, running);
      await other.database.query('select 1');
      running -= 1;
    };
    await Promise.all([pullOf(one)(unstopped), pullOf(other)(unstopped)]);
    expect([most, list.asked, await held()]).toEqual([1, ['1', '2', '3'], all(5)]);
  });

  test('a process that died in the middle leaves the pull to another', async () => {
    const [one, other] = [await startProcess(db), await startProcess(db)];
    const { promise: gone, resolve: goes } = Promise.withResolvers<void>();
    const never = Promise.withResolvers<never>();
    const dying: ListSuppliers = async (at, signal) => {
      if (list.asked.length < 1) return list.read(at, signal);
      await one.die();
      goes();
      return never.promise;
    };
    const died = pullOf(one, dying)(unstopped).catch(() => undefined);
    await gone;
    expect(await readDueSupplierLists(other.database, timestampNow(clock))).toEqual(['main']);
    await pullOf(other)(unstopped);
    expect([list.asked, await held()]).toEqual([['1', '1', '2', '3'], all(5)]);
    never.reject(new Error('The process is dead.'));
    await died;
  });

  test('a process that was paused while another pulled the list writes nothing more', async () => {
    const [one, other] = [await startProcess(db), await startProcess(db)];
    const { promise: paused, resolve: pauses } = Promise.withResolvers<void>();
    const { promise: awake, resolve: wake } = Promise.withResolvers<void>();
    const late: ListSuppliers = async (at, signal) => {
      const page = await list.read(at, signal);
      pauses();
      await awake;
      return { ...page, items: [rowOf(1, { name: 'Of long ago' })] };
    };
    const resumed = pullOf(one, late)(unstopped).catch(() => undefined);
    await paused;
    await db.database.query(`update bridge.leases set expires = now() - interval '1 second'`);
    await pullOf(other)(unstopped);
    wake();
    await resumed;
    const [row] = await db.database.query<{ body: string }>(`select body from bridge.resources where id = 'SUP-1'`);
    expect(JSON.parse(row?.body ?? '')).toEqual(rowOf(1));
    expect(await state()).toMatchObject({ failures: 0, next_pull: timestampFromMs(clock.nowMs() + pollMs) });
  });
});

describe('the schedule', () => {
  test('of a new source is due at once; a restart changes it only where the interval has become shorter', async () => {
    expect(await readDueSupplierLists(db.database, timestampNow(clock))).toEqual(['main']);
    await pullOf(await startProcess(db))(unstopped);
    clock.advance(1_000);
    await open();
    expect((await state())?.next_pull).toBe(timestampFromMs(clock.nowMs() - 1_000 + pollMs));
    const latest = timestampFromMs(clock.nowMs() + 10_000);
    await openSupplierList(db.database, 'main', { now: timestampNow(clock), latest });
    expect((await state())?.next_pull).toBe(latest);
  });
});
