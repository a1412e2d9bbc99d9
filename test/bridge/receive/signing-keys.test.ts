import { randomUUID } from 'node:crypto';
import { afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { createSigningKeys } from '#bridge/receive/signing-keys.ts';
import { insertIntent, retire, storeKey } from '#bridge/receive/webhook-store.ts';
import { signBody } from '#contract/signature.ts';
import { type Clock, systemClock, timestampNow } from '#platform/clock.ts';
import type { Database } from '#platform/database/database.ts';
import { AppError } from '#platform/errors.ts';
import { createLogger, silentLogger } from '#platform/log.ts';
import { createSecretBox } from '#platform/secrets.ts';
import { createManualClock } from '../../harness/manual-clock.ts';
import { createTestDatabase, type TestDatabase } from '../../harness/test-database.ts';
import { testClock } from '../parts.ts';
import { startReceiver, testSecrets } from './receiver.ts';

let db: TestDatabase;
beforeAll(async () => {
  db = await createTestDatabase();
});
beforeEach(() => db.database.query('delete from bridge.webhooks').then(() => undefined));
const closers: (() => void)[] = [];
afterEach(() => {
  for (const close of closers.splice(0)) close();
});

/** Stores a webhook as the command of another process does. */
async function keep(signingKey: string, options: { source?: string; secrets?: typeof testSecrets } = {}) {
  const id = randomUUID();
  const row = { id, source: options.source ?? 'main', name: 'n', url: 'https://localhost/webhooks/main' };
  await insertIntent(db.database, row, timestampNow(systemClock));
  await storeKey(db.database, options.secrets ?? testSecrets, { id, uuid: randomUUID(), signingKey });
  return id;
}

/** Counts the queries; the database can be made unavailable. */
function countedDatabase(): Database & { asked: number; away: boolean } {
  const database = {
    ...db.database,
    asked: 0,
    away: false,
    query: async <Row extends object>(...given: Parameters<Database['query']>): Promise<Row[]> => {
      database.asked += 1;
      if (database.away) throw new AppError('unavailable', 'The database is not available at the moment.');
      return db.database.query<Row>(...given);
    },
  };
  return database;
}

function keysOn(database: Database, clock: Clock, configured: readonly string[] = []) {
  const keys = createSigningKeys({
    configured: new Map([['main', configured]]),
    database,
    secrets: testSecrets,
    clock,
    log: silentLogger,
  });
  closers.push(() => keys.close());
  return { ...keys, texts: (source = 'main') => keys.keysOf(source) };
}

describe('the keys of a source', () => {
  test('are those of its settings and of its registered webhooks, and no others', async () => {
    const keys = keysOn(db.database, testClock(), ['configured', '']);
    await keep('registered');
    await keep('of another', { source: 'other' });
    expect(keys.texts(), 'before the first read').toEqual(['configured']);
    await keys.refresh();
    expect(keys.texts()).toEqual(['registered', 'configured']);
    expect(keys.texts('other'), 'which is not configured').toEqual([]);
  });

  test('do not include intents or keys sealed under another master key, which do not affect the others', async () => {
    const lines: string[] = [];
    const log = createLogger({ level: 'trace', name: 'test', destination: { write: (line) => lines.push(line) } });
    const configured = new Map([['main', []]]);
    const keys = createSigningKeys({
      configured,
      database: db.database,
      secrets: testSecrets,
      clock: testClock(),
      log,
    });
    await insertIntent(
      db.database,
      { id: randomUUID(), source: 'main', name: 'n', url: 'u' },
      timestampNow(systemClock),
    );
    await keep('hidden-key-one', { secrets: createSecretBox(Buffer.alloc(32, 9)) });
    await keep('hidden-key-two');
    for (let count = 0; count < 3; count += 1) await keys.refresh();
    expect(keys.keysOf('main')).toEqual(['hidden-key-two']);
    expect(
      lines.filter((line) => line.includes('a signing key cannot be read')),
      'logged once',
    ).toHaveLength(1);
    expect(lines.join('')).not.toContain('hidden-key');
  });

  test('are still known while the database is away', async () => {
    const database = countedDatabase();
    const keys = keysOn(database, testClock(), ['configured']);
    await keep('registered');
    await keys.refresh();
    database.away = true;
    await expect(keys.refresh()).rejects.toMatchObject({ code: 'unavailable' });
    await expect(keys.readAgain()).rejects.toMatchObject({ code: 'unavailable' });
    expect(keys.texts()).toEqual(['registered', 'configured']);
    database.away = false;
    expect(await keys.readAgain()).toBe(true);
  });
});

describe('reading again', () => {
  test('finds keys that were committed before the call, however soon after another read', async () => {
    const keys = keysOn(db.database, testClock());
    for (const key of ['one', 'two', 'three']) {
      await keep(key);
      expect(await keys.readAgain()).toBe(true);
      expect(keys.texts()).toContain(key);
    }
  });

  test('finds keys that were committed during an earlier read', async () => {
    const clock = testClock();
    const answered = Promise.withResolvers<void>();
    let asked = 0;
    const slow: Database = {
      ...db.database,
      query: async <Row extends object>(...given: Parameters<Database['query']>) => {
        asked += 1;
        const rows = await db.database.query<Row>(...given);
        if (asked === 1) await answered.promise;
        return rows;
      },
    };
    const keys = keysOn(slow, clock);
    const first = keys.readAgain();
    await expect.poll(() => asked).toBe(1);
    await keep('committed meanwhile');
    const second = keys.readAgain();
    answered.resolve();
    expect(await Promise.all([first, second])).toEqual([true, true]);
    expect(keys.texts()).toEqual(['committed meanwhile']);
  });

  test('waits at most a second, also when the clock was set back', async () => {
    const clock = createManualClock();
    const keys = keysOn(db.database, clock);
    await keys.readAgain();
    clock.advance(-3_600_000);
    const again = keys.readAgain();
    clock.advance(1_000);
    expect(await again).toBe(true);
  });

  test('reads once a second, however many calls there are, and answers calls beyond the bound at once', async () => {
    const database = countedDatabase();
    const clock = createManualClock();
    const keys = keysOn(database, clock);
    await keys.readAgain();
    expect(database.asked).toBe(1);
    const settled: boolean[] = [];
    const asking = Array.from({ length: 500 }, () => keys.readAgain().then((read) => settled.push(read)));
    await expect.poll(() => settled.length).toBe(500 - 64);
    expect(new Set(settled)).toEqual(new Set([false]));
    expect(database.asked, 'within the second').toBe(1);
    clock.advance(1_000);
    await Promise.all(asking);
    expect(database.asked).toBe(2);
    expect(settled.filter((read) => read)).toHaveLength(64);
  });

  test('ends when the process stops', async () => {
    const keys = keysOn(db.database, createManualClock());
    await keys.readAgain();
    const waiting = keys.readAgain();
    keys.close();
    await expect(waiting).rejects.toMatchObject({ code: 'unavailable', recovery: { do: 'retry' } });
  });
});

describe('at the endpoint', () => {
  const body = JSON.stringify({ trigger: 'TEST', timestamp: '2030-01-01T00:00:00Z', payload: {} });
  const post = async (url: string, key: string) => {
    const answer = await fetch(url, { method: 'POST', headers: { 'x-signature': signBody(body, key) }, body });
    return answer.status;
  };

  test('a key that another process has registered is accepted with the first notification that it signs', async () => {
    const clock = testClock();
    const [one, other] = [
      await startReceiver({ database: db.database, clock, plain: true }),
      await startReceiver({ database: db.database, clock, plain: true, keys: ['configured'] }),
    ];
    // Also without any known key the keys are read again.
    expect([await post(one.url, 'fresh'), await post(other.url, 'fresh')]).toEqual([401, 401]);
    await keep('fresh');
    expect([await post(one.url, 'fresh'), await post(other.url, 'fresh')]).toEqual([200, 200]);
  });

  test('a flood of forged requests costs a query a second, and genuine ones are accepted meanwhile', async () => {
    const keyDatabase = countedDatabase();
    const clock = createManualClock();
    const receiver = await startReceiver({ database: db.database, keyDatabase, clock, plain: true, keys: ['known'] });
    let settled = 0;
    const forge = async (number: number) => {
      const status = await post(receiver.url, `guessed ${number}`);
      settled += 1;
      return status;
    };
    // Fewer than the connections that one address may have.
    const forged = Array.from({ length: 200 }, (_, number) => forge(number));
    // In the first second: one request caused a read, some wait for the next read, and the others are refused.
    await expect.poll(() => settled).toBeGreaterThan(100);
    expect(keyDatabase.asked).toBe(1);
    expect(await post(receiver.url, 'known')).toBe(200);
    let seconds = 1;
    await expect
      .poll(() => {
        clock.advance(1_000);
        seconds += 1;
        return settled;
      })
      .toBe(200);
    expect(new Set(await Promise.all(forged))).toEqual(new Set([401]));
    expect(keyDatabase.asked).toBeLessThanOrEqual(seconds);
    // The log does not grow with the flood either: a line a second.
    expect(receiver.logged().match(/notification refused/g)?.length).toBeLessThanOrEqual(seconds);
  });

  test('a notification that no known key signs is answered 503 while the keys cannot be read', async () => {
    const keyDatabase = countedDatabase();
    const clock = testClock();
    const receiver = await startReceiver({ database: db.database, keyDatabase, clock, plain: true, keys: ['known'] });
    keyDatabase.away = true;
    expect(await post(receiver.url, 'registered just now')).toBe(503);
    expect(await post(receiver.url, 'known')).toBe(200);
  });

  test('a retired key is refused after an hour', async () => {
    const id = await keep('old');
    await retire(db.database, [id], '2026-01-01T00:00:00.000000Z');
    const clock = createManualClock(Date.UTC(2026, 0, 1, 0, 59));
    const receiver = await startReceiver({ database: db.database, clock, plain: true });
    expect(await post(receiver.url, 'old')).toBe(200);
    clock.advance(60_000);
    await receiver.signingKeys.refresh();
    clock.advance(1_000);
    expect(await post(receiver.url, 'old')).toBe(401);
  });
});
