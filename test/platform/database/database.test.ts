import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import * as fc from 'fast-check';
import { DatabaseError } from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createDatabase, type Database } from '#platform/database/database.ts';
import { prepared, type Sql } from '#platform/database/sql.ts';
import { AppError } from '#platform/errors.ts';
import { createLogger, silentLogger } from '#platform/log.ts';
import { startShutdownServer } from '../../harness/shutdown-server.ts';
import { createEmptyDatabase, type TestDatabase } from '../../harness/test-database.ts';

let test: TestDatabase;
let database: Database;
beforeAll(async () => {
  test = await createEmptyDatabase();
  database = test.database;
  await database.query('create table counters (id int primary key, value int not null)');
});

const opened: Database[] = [];
afterAll(() => Promise.all(opened.map((each) => each.close())));

function openOther(url: string, poolMax = 2): Database {
  const other = createDatabase({ url, log: silentLogger, applicationName: 'other', poolMax });
  opened.push(other);
  return other;
}

async function failure(run: Promise<unknown>): Promise<unknown> {
  return run.then(
    () => new Error('it should have failed'),
    (thrown: unknown) => thrown,
  );
}

async function valueOf(sql: Sql, id: number): Promise<number | undefined> {
  return (await sql.query<{ value: number }>('select value from counters where id = $1', [id]))[0]?.value;
}

describe('values', () => {
  it.each([
    ["'2030-12-31 23:59:59+00'::timestamptz", '2030-12-31T23:59:59.000000Z'],
    ["'2030-12-31 23:59:59.000001+00'::timestamptz", '2030-12-31T23:59:59.000001Z'],
    ["'2030-12-31 23:59:59.1+00'::timestamptz", '2030-12-31T23:59:59.100000Z'],
    ["'2031-01-01 05:29:59.25+05:30'::timestamptz", '2030-12-31T23:59:59.250000Z'],
    ["'0001-01-01 00:00:00+00'::timestamptz", '0001-01-01T00:00:00.000000Z'],
    ["array['2030-01-01 00:00:00.5+00', null]::timestamptz[]", ['2030-01-01T00:00:00.500000Z', null]],
    ['9007199254740991::int8', Number.MAX_SAFE_INTEGER],
    ['array[1, null, -5]::int8[]', [1, null, -5]],
    [
      'array[[1, 2], [3, 4]]::int8[]',
      [
        [1, 2],
        [3, 4],
      ],
    ],
    ["'0.1000'::numeric", '0.1000'],
    ["array['0.10', '123456789012345678901234567890.5']::numeric[]", ['0.10', '123456789012345678901234567890.5']],
    ["'2024-02-29'::date", '2024-02-29'],
    ["'\\x00ff'::bytea", Buffer.from([0, 255])],
    [`'{"a": [1, null]}'::json`, { a: [1, null] }],
    [`'{"a": [1, null]}'::jsonb`, { a: [1, null] }],
    ["array['a', 'Ж\"{}', null]::text[]", ['a', 'Ж"{}', null]],
  ])('%s is read as %j', async (expression, expected) => {
    expect(await database.query(`select ${expression} as value`)).toEqual([{ value: expected }]);
  });

  it('are the same over a URL with options of its own, and its time limit stays', async () => {
    const url = new URL(test.url);
    url.searchParams.set('options', '-c statement_timeout=120000 -c TimeZone=Asia/Tokyo -c DateStyle=German');
    const other = openOther(url.href);
    expect(
      await other.query(`select '2030-12-31 23:59:59+00'::timestamptz as time, '2024-02-29'::date as day,
        current_setting('statement_timeout') as timeout`),
    ).toEqual([{ time: '2030-12-31T23:59:59.000000Z', day: '2024-02-29', timeout: '2min' }]);
  });

  it('times keep their microseconds on the way in and out', async () => {
    const timestamps = fc
      .tuple(
        fc.date({ min: new Date('0002-01-01'), max: new Date('9998-12-31'), noInvalidDate: true }),
        fc.integer({ min: 0, max: 999 }),
      )
      .map(([date, micros]) => `${date.toISOString().slice(0, 23)}${String(micros).padStart(3, '0')}Z`);
    await fc.assert(
      fc.asyncProperty(fc.array(timestamps, { minLength: 1, maxLength: 50 }), async (values) => {
        const rows = await database.query<{ value: string }>('select unnest($1::timestamptz[]) as value', [values]);
        expect(rows.map((row) => row.value)).toEqual(values);
      }),
      { numRuns: 30 },
    );
  });

  it.each([['9007199254740992::int8'], ["'infinity'::timestamptz"], ["'0044-03-15 12:00:00+00 BC'::timestamptz"]])(
    '%s, which JavaScript cannot hold exactly, is refused rather than changed',
    async (expression) => {
      expect(await failure(database.query(`select ${expression} as value`))).toBeInstanceOf(RangeError);
      expect(await database.query('select 1 as value')).toEqual([{ value: 1 }]);
    },
  );

  it("sessions are in UTC whatever the URL's options, the database and the role say", async () => {
    const url = new URL(test.url);
    const name = url.pathname.slice(1);
    await database.query(
      `alter database ${name} set timezone = 'Asia/Kolkata'; alter database ${name} set datestyle = 'SQL, DMY'`,
    );
    url.searchParams.set('options', '-c TimeZone=America/New_York -c lock_timeout=1234');
    const other = openOther(url.href);
    expect(
      await other.query("select '2030-06-01 00:00:00+00'::timestamptz as t, current_setting('lock_timeout') as l"),
    ).toEqual([{ t: '2030-06-01T00:00:00.000000Z', l: '1234ms' }]);
    await database.query(`alter database ${name} reset all`);
  });

  it('a prepared statement is planned once per connection', async () => {
    const other = openOther(test.url, 1);
    const statement = prepared('select $1::int + 1 as value');
    for (const value of [1, 2, 3]) expect(await other.query(statement, [value])).toEqual([{ value: value + 1 }]);
    expect(await other.query('select statement from pg_prepared_statements')).toEqual([{ statement: statement.text }]);
    expect(prepared('select 1').name).not.toBe(prepared('select 2').name);
  });

  it('of a statement that writes without RETURNING: how many rows it has written', async () => {
    const add = prepared('insert into counters select id, 0 from unnest($1::int[]) as id on conflict do nothing');
    expect(await database.execute(add, [[901, 902, 903]])).toBe(3);
    expect(await database.execute(add, [[903, 904]])).toBe(1);
    expect(await database.execute(add, [[904]])).toBe(0);
    expect(await database.execute('update counters set value = 1 where id > $1', [902])).toBe(2);
    expect(await failure(database.execute(add, [['x']]))).toMatchObject({ code: '22P02' });
    expect(await database.execute('delete from counters where id > 900')).toBe(4);
  });

  it('of a statement that is not answered in time: `unavailable`, and the next one runs', async () => {
    const other = openOther(test.url, 1);
    const slow = other.execute('insert into counters select 910, 0 from pg_sleep(60)', [], { withinMs: 50 });
    expect(await failure(slow)).toMatchObject({
      code: 'unavailable',
      message: expect.stringContaining('Query read timeout'),
    });
    expect(await other.execute('insert into counters values (911, 0)', [], { withinMs: 60_000 })).toBe(1);
    expect(await database.execute('delete from counters where id > 900')).toBe(1);
  });
});

describe('a transaction', () => {
  it('is committed when the work is done, and rolled back when it throws', async () => {
    const kept = await database.transaction(async (tx) => {
      await tx.query('insert into counters values (1, 10)');
      expect(await valueOf(database, 1)).toBeUndefined();
      return 'kept';
    });
    expect(kept).toBe('kept');
    const reason = new Error('changed my mind');
    expect(
      await failure(
        database.transaction(async (tx) => {
          await tx.query('update counters set value = 99 where id = 1');
          throw reason;
        }),
      ),
    ).toBe(reason);
    expect(await valueOf(database, 1)).toBe(10);
  });

  it('rejects with the SQLSTATE of what the server refuses', async () => {
    const error = await failure(database.transaction((tx) => tx.query('insert into counters values (7, null)')));
    expect(error).toBeInstanceOf(DatabaseError);
    expect((error as DatabaseError).code).toBe('23502');
  });

  it('is no success when the work ignored a failed statement', async () => {
    const error = await failure(
      database.transaction(async (tx) => {
        await tx.query('insert into counters values (8, 1)');
        await failure(tx.query('select 1 / 0'));
      }),
    );
    expect(error).toBeInstanceOf(AppError);
    expect(await valueOf(database, 8)).toBeUndefined();
  });

  it('refuses statements that come after its end', async () => {
    const tx = await database.transaction((inside) => Promise.resolve(inside));
    expect(await failure(tx.query('select 1'))).toMatchObject({ code: 'internal' });
  });

  it('runs again after a deadlock, so that both sides succeed', async () => {
    await database.query('insert into counters values (20, 0), (21, 0)');
    let runs = 0;
    let holders = 0;
    const bothHoldOneRow = Promise.withResolvers<void>();
    const raise = (first: number, second: number) =>
      database.transaction(async (tx) => {
        runs += 1;
        await tx.query("set local deadlock_timeout = '20ms'");
        await tx.query('update counters set value = value + 1 where id = $1', [first]);
        holders += 1;
        if (holders === 2) bothHoldOneRow.resolve();
        await bothHoldOneRow.promise;
        await tx.query('update counters set value = value + 1 where id = $1', [second]);
      });
    await Promise.all([raise(20, 21), raise(21, 20)]);
    expect(runs).toBeGreaterThanOrEqual(3);
    expect([await valueOf(database, 20), await valueOf(database, 21)]).toEqual([2, 2]);
  });

  it('runs five times at the most, also when the work wrapped the error', async () => {
    let runs = 0;
    const error = await failure(
      database.transaction(async (tx) => {
        runs += 1;
        await tx
          .query("do $$ begin raise exception 'try again' using errcode = '40001'; end $$")
          .catch((cause: unknown) => {
            throw new AppError('internal', 'wrapped', { cause });
          });
      }),
    );
    expect(error).toMatchObject({ publicMessage: 'wrapped' });
    expect(runs).toBe(5);
  });

  it('is not run again when the connection breaks during COMMIT: it may have taken effect', async () => {
    const proxy = await cutAfter('commit');
    const other = openOther(proxy.url);
    let runs = 0;
    const error = await failure(
      other.transaction(async (tx) => {
        runs += 1;
        await tx.query('insert into counters values (30, 5)');
      }),
    );
    expect(error).toMatchObject({ code: 'unavailable', message: expect.stringContaining('outcome is unknown') });
    expect(runs).toBe(1);
    // In this test the COMMIT took effect.
    await expect.poll(() => valueOf(database, 30)).toBe(5);
    await proxy.close();
  });
});

/** A proxy to the server that passes on the statement, and breaks the connection before the answer to it. */
async function cutAfter(statement: string): Promise<{ url: string; close(): Promise<void> }> {
  const target = new URL(test.url);
  const sockets: Socket[] = [];
  const proxy = createServer((client) => {
    const server = connect(Number(target.port || 5432), target.hostname);
    sockets.push(client, server);
    for (const socket of [client, server]) socket.on('error', () => undefined);
    server.pipe(client);
    client.on('data', (data) => {
      // To its end: the name of a setting may begin with it.
      if (data.includes(`${statement}\0`)) {
        server.unpipe(client);
        client.destroy();
      }
      server.write(data);
    });
    client.on('close', () => server.end());
  }).listen(0, '127.0.0.1');
  await once(proxy, 'listening');
  const url = new URL(test.url);
  url.hostname = '127.0.0.1';
  url.port = String((proxy.address() as AddressInfo).port);
  return {
    url: url.href,
    close: async () => {
      for (const socket of sockets) socket.destroy();
      proxy.close();
      await once(proxy, 'close');
    },
  };
}

describe('a database that cannot be reached', () => {
  const withPassword = 'postgres://someone:pass%40word@127.0.0.1:1/nowhere';

  it('is unavailable, with the cause, the place and without the password', async () => {
    const error = await failure(openOther(withPassword).query('select 1'));
    expect(error).toBeInstanceOf(AppError);
    const { code, message, publicMessage, cause, recovery } = error as AppError;
    expect({ code, recovery }).toEqual({ code: 'unavailable', recovery: { do: 'retry' } });
    expect(message).toContain('127.0.0.1:1/nowhere');
    expect(message).toContain('ECONNREFUSED');
    expect(cause).toMatchObject({ code: 'ECONNREFUSED' });
    expect(`${message} ${publicMessage} ${String(cause)}`).not.toMatch(/pass(%40|@)word/);
  });

  it('needs an operator when the login or the database is wrong', async () => {
    const url = new URL(test.url);
    url.pathname = '/not_there';
    expect(await failure(openOther(url.href).query('select 1'))).toMatchObject({
      code: 'unavailable',
      recovery: { do: 'halt' },
    });
  });

  it.each([['postgres://user:hush/hush@host/db'], ['mysql://user:hush@host/db'], ['hush']])(
    'a URL that cannot be read is refused without being repeated',
    (url) => {
      let error: unknown;
      try {
        createDatabase({ url, log: silentLogger, applicationName: 'test' });
      } catch (thrown) {
        error = thrown;
      }
      expect(error).toBeInstanceOf(AppError);
      expect(JSON.stringify(error, Object.getOwnPropertyNames(error))).not.toContain('hush');
    },
  );

  it('shows as unavailable inside a transaction, and the next one has a new connection', async () => {
    const other = openOther(test.url, 1);
    const error = await failure(
      other.transaction(async (tx) => {
        const [session] = await tx.query<{ pid: number }>('select pg_backend_pid() as pid');
        await database.query('select pg_terminate_backend($1, 5000)', [session?.pid]);
        await tx.query('select 1');
      }),
    );
    expect(error).toMatchObject({ code: 'unavailable' });
    expect(await other.transaction((tx) => tx.query('select 1 as value'))).toEqual([{ value: 1 }]);
  });

  it('is logged in a short line, with nothing of the driver', async () => {
    const lines: string[] = [];
    const destination = { write: (line: string) => void lines.push(line) };
    const log = createLogger({ name: 'test', level: 'warn', destination });
    const other = createDatabase({ url: test.url, log, applicationName: 'terminated' });
    const terminate = () =>
      database.query(
        "select pg_terminate_backend(pid, 5000) from pg_stat_activity where application_name = 'terminated' and datname = current_database()",
      );
    await other.query('select 1');
    await terminate();
    await expect.poll(() => lines.length).toBe(1);
    const error = await failure(
      other.transaction(async (tx) => {
        await tx.query('select 1');
        await terminate();
        await tx.query('select 1');
      }),
    );
    log.warn({ err: error }, 'request could not be served');
    await other.close();
    expect(lines).toHaveLength(2);
    for (const line of lines) {
      expect(line.length).toBeLessThan(4_000);
      expect(line).toMatch(/terminating connection|the connection was lost/);
      expect(line).not.toMatch(/secretKey|processID|"client"|"connection"|password/);
    }
  });

  it('ends no process when its error comes in one packet with its greeting', async () => {
    const server = await startShutdownServer(test.url, (connection) => connection <= 2);
    const other = openOther(server.url, 1);
    expect(await failure(other.query('select 1'))).toMatchObject({ code: 'unavailable', recovery: { do: 'retry' } });
    const inTransaction = other.transaction((tx) => tx.query('select 1'));
    expect(await failure(inTransaction)).toMatchObject({ code: 'unavailable', recovery: { do: 'retry' } });
    // Both are gone from the pool of one.
    expect(await other.query('select 1 as value')).toEqual([{ value: 1 }]);
    expect(server.connections()).toBe(3);
    await server.close();
  });

  it('ends no process when it cuts idle and busy connections', async () => {
    const other = openOther(test.url, 2);
    await Promise.all([other.query('select pg_sleep(0.01)'), other.query('select pg_sleep(0.01)')]);
    await database.query(
      "select pg_terminate_backend(pid, 5000) from pg_stat_activity where application_name = 'other' and datname = current_database()",
    );
    await expect.poll(() => other.query('select 1 as value')).toEqual([{ value: 1 }]);
  });
});

it('closing twice is closing once', async () => {
  const other = openOther(test.url);
  await other.query('select 1');
  expect(await Promise.all([other.close(), other.close()])).toEqual([undefined, undefined]);
});

describe('a commit', () => {
  const commitOf = async (setting: string) => {
    const url = new URL(test.url);
    url.searchParams.set('options', `-c synchronous_commit=${setting}`);
    return openOther(url.href).query('show synchronous_commit');
  };

  it('waits for the disk, also where the database is set not to', async () => {
    expect(await commitOf('off')).toEqual([{ synchronous_commit: 'on' }]);
  });

  it('waits for replicas where the database is set to', async () => {
    expect(await commitOf('remote_apply')).toEqual([{ synchronous_commit: 'remote_apply' }]);
  });
});
