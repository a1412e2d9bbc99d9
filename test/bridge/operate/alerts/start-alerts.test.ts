/** Alerts from what is wrong to what the receivers get, on a real database and over real HTTP. */
import type { IncomingHttpHeaders, ServerResponse } from 'node:http';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { createLeases } from '#bridge/ledger/leases/lease.ts';
import type { AlertMessage } from '#bridge/operate/alerts/alert-store.ts';
import { tellOfConditions } from '#bridge/operate/alerts/start-alerts.ts';
import { readStatus } from '#bridge/operate/status/status.ts';
import { bridgeSettings } from '#bridge/settings/settings.ts';
import { timestampNow } from '#platform/clock.ts';
import type { Database } from '#platform/database/database.ts';
import { readBody } from '#platform/http/body.ts';
import { listen } from '#platform/http/server.ts';
import { createLogger } from '#platform/log.ts';
import { testCertificates, testOutgoing } from '../../../harness/test-certificates.ts';
import { createTestDatabase, type TestDatabase } from '../../../harness/test-database.ts';
import { startProcess, type TestClock, type TestProcess, testClock } from '../../parts.ts';

interface Got {
  headers: IncomingHttpHeaders;
  message: AlertMessage;
}

let db: TestDatabase;
let url: string;
let closeServer: () => Promise<unknown>;
let got: Got[];
let answer: (response: ServerResponse) => void | Promise<void>;
let clock: TestClock;
let lines: Record<string, unknown>[];

const secretPath = '/hooks/T024/9f8e7d6c5b4a';

beforeAll(async () => {
  db = await createTestDatabase();
  const server = await listen(
    (request, response) =>
      void (async () => {
        const body = await readBody(request, 1_000_000);
        got.push({ headers: request.headers, message: JSON.parse(body.toString()) as AlertMessage });
        await answer(response);
      })(),
    { host: '127.0.0.1', port: 0, tls: testCertificates(), publicHost: 'localhost' },
  );
  url = `${server.url}${secretPath}`;
  closeServer = () => server.close(0);
});
afterAll(async () => {
  await closeServer();
  await db.drop();
});
beforeEach(async () => {
  await db.database.query(
    `truncate bridge.alerts, bridge.flows, bridge.checkpoints, bridge.refusals, bridge.inbox,
       bridge.leases cascade`,
  );
  got = [];
  lines = [];
  answer = (response) => void response.writeHead(204).end();
  clock = testClock();
});

const settingsOf = (alerts: object) =>
  bridgeSettings.parse({
    public_host: 'bridge.example.com',
    alerts,
    sources: [{ name: 'main', base_url: 'http://127.0.0.1:1', api_key: 'k', feeds: ['awards'] }],
  });
const ops = () => ({ webhook: { url } });

function watchOf(alerts: object, process: TestProcess) {
  const write = (line: string) => lines.push(JSON.parse(line) as Record<string, unknown>);
  const deps = {
    settings: settingsOf(alerts),
    database: process.database,
    acquireLease: process.acquireLease,
    fetch: testOutgoing().fetch,
    clock,
    log: createLogger({ name: 'test', level: 'info', destination: { write } }),
    certificate: undefined,
  };
  return () => tellOfConditions(deps, new AbortController().signal);
}

async function pause(...flows: string[]): Promise<void> {
  for (const flow of flows)
    await db.database.query(
      `insert into bridge.flows (name, source, kinds, paused_kind, paused_reason, paused_at)
       values ($1, 'main', '{award}', 'operator', 'month end', $2)
       on conflict (name) do update set paused_reason = 'month end', paused_kind = 'operator'`,
      [flow, timestampNow(clock)],
    );
}
const resume = () => db.database.query('update bridge.flows set paused_reason = null, paused_kind = null');
const passed = async (look: () => Promise<void>, seconds: number) => {
  clock.advance(seconds * 1000);
  await look();
};
const eventsOf = () => got.map(({ message }) => message.alerts.map(({ event, subject }) => `${event} ${subject}`));

describe('a channel is told', () => {
  test('once when something begins, once a day while it lasts, and once when it is over', async () => {
    const look = watchOf(ops(), await startProcess(db));
    await pause('sap');
    await look();
    await passed(look, 600);
    expect(got.map(({ message }) => message)).toEqual([
      {
        id: expect.stringMatching(/^[0-9a-f-]{36}$/),
        bridge: 'bridge.example.com',
        more: 0,
        title: 'ALERT: Flow sap is paused; 0 documents wait: month end',
        text: expect.stringContaining('bridge resume sap'),
        alerts: [
          {
            id: expect.stringMatching(/^[0-9a-f-]{36}$/),
            event: 'began',
            kind: 'flow-paused',
            subject: 'flow sap',
            since: '2030-01-01T00:00:00.000000Z',
            summary: 'Flow sap is paused; 0 documents wait: month end',
            action: 'Fix the cause, then: bridge resume sap',
          },
        ],
      },
    ]);
    await passed(look, 24 * 3600);
    await passed(look, 600);
    expect(eventsOf()).toEqual([['began flow sap'], ['lasts flow sap']]);
    await resume();
    await look();
    await passed(look, 60);
    await passed(look, 3600);
    expect(eventsOf()).toEqual([['began flow sap'], ['lasts flow sap'], ['ended flow sap']]);
    expect(new Set(got.map(({ message }) => message.alerts[0]?.id)).size).toBe(1);
    expect(await db.database.query('select from bridge.alerts')).toEqual([]);
  });

  test('of a storm in one message; what does not fit is counted', async () => {
    const look = watchOf(ops(), await startProcess(db));
    await pause(...Array.from({ length: 40 }, (_, n) => `flow-${n + 1}`));
    await look();
    await passed(look, 600);
    expect(got.map(({ message }) => [message.alerts.length, message.more])).toEqual([[30, 10]]);
  });

  test('of what comes and goes within a minute as one', async () => {
    const look = watchOf(ops(), await startProcess(db));
    for (let n = 0; n < 5; n += 1) {
      await pause('sap');
      await passed(look, 20);
      await resume();
      await passed(look, 20);
    }
    expect(eventsOf()).toEqual([['began flow sap']]);
  });

  test('of a feed that fails only when it has failed for the minutes of the settings', async () => {
    await db.database.query(
      `insert into bridge.checkpoints (source, feed, next_pull, failures, last_error)
       values ('main', 'awards', '2030-01-01Z', 1, 'away')`,
    );
    const look = watchOf({ ...ops(), behind_minutes: 10 }, await startProcess(db));
    await look();
    await passed(look, 9 * 60);
    expect(got).toEqual([]);
    await passed(look, 60);
    expect(eventsOf()).toEqual([['began feed main/awards']]);
  });
});

describe('a message that was not taken', () => {
  test('is sent again, later each time, unchanged, with its id; status says so until it was taken', async () => {
    const look = watchOf(ops(), await startProcess(db));
    answer = (response) => void response.writeHead(500).end(`no such hook ${secretPath}`);
    await pause('sap');
    await look();
    await passed(look, 5);
    expect(got).toHaveLength(1);
    await passed(look, 15);
    expect(got).toHaveLength(2);
    const { conditions } = await readStatus(db.database, { settings: settingsOf(ops()), now: timestampNow(clock) });
    expect(conditions.filter(({ kind }) => kind === 'alerts-not-sent')).toMatchObject([
      { subject: 'alerts webhook', summary: expect.stringMatching(/answered 500: no such hook \[secret\]$/) },
    ]);
    // What begins meanwhile waits for the next message.
    await pause('tryton');
    answer = (response) => void response.writeHead(200).end();
    await passed(look, 60);
    await passed(look, 1);
    expect(eventsOf()).toEqual([['began flow sap'], ['began flow sap'], ['began flow sap'], ['began flow tryton']]);
    const ids = got.map(({ message }) => message.id);
    expect(new Set(ids.slice(0, 3)).size).toBe(1);
    expect(ids[3]).not.toBe(ids[0]);
    expect(got.map(({ headers }) => headers['x-alert-id'])).toEqual(ids);
    expect(JSON.stringify(lines)).not.toContain('9f8e7d6c5b4a');
  });

  test('waits as long as its receiver asks for', async () => {
    const look = watchOf(ops(), await startProcess(db));
    answer = (response) => void response.writeHead(429, { 'Retry-After': '3600' }).end();
    await pause('sap');
    await look();
    await passed(look, 3_500);
    expect(got).toHaveLength(1);
    await passed(look, 120);
    expect(got).toHaveLength(2);
  });

  test('is given up after a day, and does not keep later ones', async () => {
    const look = watchOf(ops(), await startProcess(db));
    answer = (response) => void response.writeHead(404).end();
    await pause('sap');
    await look();
    await passed(look, 25 * 3600);
    expect(lines.filter(({ level }) => level === 'error')).toMatchObject([{ channel: 'webhook' }]);
    answer = (response) => void response.writeHead(200).end();
    await pause('tryton');
    await passed(look, 15);
    expect(eventsOf().at(-1)).toEqual(['began flow tryton']);
  });
});

describe('of several processes', () => {
  test('one looks and sends at a time', async () => {
    const [first, second] = [await startProcess(db), await startProcess(db)];
    const looks = [first, second].map((process) => watchOf(ops(), process));
    const { promise: mayAnswer, resolve: letAnswer } = Promise.withResolvers<void>();
    const { promise: asked, resolve: onAsked } = Promise.withResolvers<void>();
    answer = async (response) => {
      onAsked();
      await mayAnswer;
      response.writeHead(200).end();
    };
    await pause('sap');
    const running = looks[0]?.();
    await asked;
    await looks[1]?.();
    letAnswer();
    await running;
    await looks[1]?.();
    expect(got).toHaveLength(1);
  });

  test('one that dies between sending and the commit leaves the message to the next, with the same id and text', async () => {
    const [first, second] = [await startProcess(db), await startProcess(db)];
    let isDead = false;
    const checkAlive = () => {
      if (isDead) throw new Error('the process is dead');
    };
    const database: Database = {
      ...first.database,
      query: async (statement, params) => {
        checkAlive();
        return first.database.query(statement, params);
      },
      transaction: async (work) => {
        checkAlive();
        return first.database.transaction(work);
      },
    };
    const acquireLease = createLeases({ database, liveness: first.liveness });
    answer = async (response) => {
      if (got.length === 1) {
        isDead = true;
        await first.liveness.close();
      }
      response.writeHead(200).end();
    };
    await pause('sap');
    await expect(watchOf(ops(), { ...first, database, acquireLease })()).rejects.toThrow('the process is dead');
    expect(got).toHaveLength(1);
    const look = watchOf(ops(), second);
    await look();
    await passed(look, 60);
    expect(got).toHaveLength(2);
    expect(got[1]?.message).toEqual(got[0]?.message);
  });
});
