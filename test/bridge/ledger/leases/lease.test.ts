import { beforeEach, describe, expect, test, vi } from 'vitest';
import { createLeases, LeaseLost } from '#bridge/ledger/leases/lease.ts';
import type { Database } from '#platform/database/database.ts';
import { AppError } from '#platform/errors.ts';
import { createTestDatabase, type TestDatabase } from '../../../harness/test-database.ts';
import { startProcess } from '../../parts.ts';

let db: TestDatabase;
beforeEach(async () => {
  db = await createTestDatabase();
  await db.database.query('create table written (by text)');
  return () => db.drop();
});

const written = async () => (await db.database.query<{ by: string }>('select by from written')).map(({ by }) => by);
const write = (by: string) => async (tx: { query: Database['query'] }) => {
  await tx.query('insert into written values ($1)', [by]);
};

describe('a lease', () => {
  test('goes to one of many that ask for it, in one process and in several', async () => {
    const processes = await Promise.all([startProcess(db), startProcess(db), startProcess(db)]);
    for (let round = 0; round < 5; round += 1) {
      const taken = await Promise.all(
        processes.flatMap(({ acquireLease }) => [acquireLease(`work ${round}`), acquireLease(`work ${round}`)]),
      );
      expect(taken.filter((lease) => lease !== undefined).length).toBeLessThanOrEqual(1);
      // Several at once may block each other; then the next request gets it.
      const lease =
        taken.find((candidate) => candidate !== undefined) ?? (await processes[0]?.acquireLease(`work ${round}`));
      expect(lease).toBeDefined();
      for (const { acquireLease } of processes) expect(await acquireLease(`work ${round}`)).toBeUndefined();
      await lease?.release();
    }
  });

  test('is free for every process after its release, and gets a higher fencing token', async () => {
    const [a, b] = await Promise.all([startProcess(db), startProcess(db)]);
    const first = await a.acquireLease('work');
    await first?.release();
    const second = await b.acquireLease('work');
    expect(second?.fencingToken).toBeGreaterThan(first?.fencingToken ?? Number.POSITIVE_INFINITY);
    await first?.release();
    expect(await a.acquireLease('work')).toBeUndefined();
  });

  test('is free at once when its holder dies, and the old holder can write nothing more', async () => {
    const [a, b] = await Promise.all([startProcess(db), startProcess(db)]);
    const old = await a.acquireLease('work');
    await old?.transaction(write('a'));
    expect(await b.acquireLease('work')).toBeUndefined();
    await a.die();
    const taken = await b.acquireLease('work');
    await expect(old?.transaction(write('a, too late'))).rejects.toThrow(LeaseLost);
    await expect(old?.during(async () => 'began')).rejects.toThrow(LeaseLost);
    await taken?.transaction(write('b'));
    expect(await written()).toEqual(['a', 'b']);
  });

  test('is free when it has expired, although its holder is alive', async () => {
    const [a, b] = await Promise.all([startProcess(db), startProcess(db)]);
    const old = await a.acquireLease('work');
    await db.database.query(`update bridge.leases set expires = clock_timestamp() - interval '1 ms'`);
    const taken = await b.acquireLease('work');
    expect(taken).toBeDefined();
    await expect(old?.transaction(write('a'))).rejects.toThrow(LeaseLost);
    await old?.release();
    await taken?.transaction(write('b'));
    expect(await written()).toEqual(['b']);
  });

  test('is not mistaken for that of the next holder, when a server that crashed has forgotten that it was taken', async () => {
    const [a, b] = await Promise.all([startProcess(db), startProcess(db)]);
    const old = await a.acquireLease('work');
    await db.database.query('update bridge.leases set fencing_token = fencing_token - 1, holder = null');
    const taken = await b.acquireLease('work');
    expect(taken?.fencingToken).toBe(old?.fencingToken);
    await expect(old?.transaction(write('a'))).rejects.toThrow(LeaseLost);
    await expect(old?.during(async () => 'began')).rejects.toThrow(LeaseLost);
    await old?.release();
    await taken?.transaction(write('b'));
    expect(await written()).toEqual(['b']);
  });

  test('is renewed by each transaction', async () => {
    const a = await startProcess(db);
    const lease = await a.acquireLease('work');
    await db.database.query(`update bridge.leases set expires = clock_timestamp() - interval '1 ms'`);
    await lease?.transaction(write('a'));
    const [row] = await db.database.query<{ holds: boolean }>(
      `select expires > clock_timestamp() + interval '50 s' as holds from bridge.leases`,
    );
    expect(row?.holds).toBe(true);
  });

  test('is not waited for while its holder is paused in a transaction', async () => {
    const [a, b] = await Promise.all([startProcess(db), startProcess(db)]);
    const lease = await a.acquireLease('work');
    const entered = Promise.withResolvers<void>();
    const goOn = Promise.withResolvers<void>();
    const paused = lease?.transaction(async () => {
      entered.resolve();
      await goOn.promise;
    });
    await entered.promise;
    expect(await b.acquireLease('work')).toBeUndefined();
    goOn.resolve();
    await paused;
  });

  test('is free when its holder is paused in a transaction for too long, and nothing of that is written', async () => {
    const [a, b] = await Promise.all([startProcess(db), startProcess(db)]);
    const acquireLease = createLeases({ database: a.database, liveness: a.liveness, leaseMs: 150 });
    const lease = await acquireLease('work');
    const goOn = Promise.withResolvers<void>();
    const paused = lease?.transaction(async (tx) => {
      await write('a')(tx);
      await goOn.promise;
      await write('a, too late')(tx);
    });
    const taken = await vi.waitUntil(() => b.acquireLease('work'), { timeout: 10_000, interval: 20 });
    await taken.transaction(write('b'));
    goOn.resolve();
    await expect(paused).rejects.toThrow(AppError);
    expect(await written()).toEqual(['b']);
  });

  test('that could not be released while the database was away can be taken again by its own process', async () => {
    const a = await startProcess(db);
    let away = false;
    const flaky: Database = {
      ...a.database,
      query: async (statement, params) => {
        if (away) throw new AppError('unavailable', 'The database is away.');
        return a.database.query(statement, params);
      },
    };
    const acquireLease = createLeases({ database: flaky, liveness: a.liveness });
    const lease = await acquireLease('work');
    away = true;
    await expect(lease?.release()).rejects.toThrow('away');
    await expect(acquireLease('work')).rejects.toThrow('away');
    away = false;
    expect(await acquireLease('work')).toBeDefined();
  });
});

describe('work outside of a transaction', () => {
  test('keeps the lease, and returns its result', async () => {
    const a = await startProcess(db, { renewEveryMs: 5 });
    const lease = await a.acquireLease('work');
    await db.database.query(`update bridge.leases set expires = clock_timestamp() + interval '1 s'`);
    const result = await lease?.during(async (lost) => {
      await expect
        .poll(() => db.database.query(`select from bridge.leases where expires > clock_timestamp() + interval '50 s'`))
        .toHaveLength(1);
      return lost.aborted ? 'lost' : 'kept';
    });
    expect(result).toBe('kept');
  });

  test('is aborted when another process has taken the lease', async () => {
    const [a, b] = await Promise.all([startProcess(db, { renewEveryMs: 5 }), startProcess(db)]);
    const lease = await a.acquireLease('work');
    const reason = await lease?.during(async (lost) => {
      const aborted = new Promise((resolve) => lost.addEventListener('abort', () => resolve(lost.reason)));
      await db.database.query(`update bridge.leases set fencing_token = fencing_token + 1, holder = $1`, [
        b.liveness.id,
      ]);
      return aborted;
    });
    expect(reason).toBeInstanceOf(LeaseLost);
  });
});
