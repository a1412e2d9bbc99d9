/**
 * A process that is killed with -9 after the receiver of an alert has the message, and before the process has noted it:
 * the next process sends the same message once more. FAULTS sets the number of kills; every second one comes before the
 * receiver has answered.
 */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Client } from 'pg';
import { expect, test } from 'vitest';
import { pauseFlow } from '#bridge/ledger/flows/control-flows.ts';
import { registerFlows } from '#bridge/ledger/flows/register-flows.ts';
import type { AlertMessage } from '#bridge/operate/alerts/alert-store.ts';
import { systemClock, timestampNow } from '#platform/clock.ts';
import { flowOf } from '../bridge/parts.ts';
import { closeAtEnd } from '../harness/close-at-end.ts';
import { createTestDatabase } from '../harness/test-database.ts';
import { createInstallation, expectGracefulEnd, lineOf, outcomeOf, until } from './program-process.ts';

const kills = Number(process.env['FAULTS'] ?? 1);

test(`an alert whose process was killed ${kills} times arrives at least once, and at most once more for each kill`, {
  timeout: 60_000 + kills * 15_000,
}, async () => {
  const db = await createTestDatabase();
  const got: AlertMessage[] = [];
  let answer: (() => void) | undefined;
  let isLast = false;
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      got.push(JSON.parse(Buffer.concat(chunks).toString()) as AlertMessage);
      answer = () => response.writeHead(204).end();
      if (isLast) answer();
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  closeAtEnd(async () => {
    server.closeAllConnections();
    server.close();
  });
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/alerts`;
  const bridge = await createInstallation({
    databaseUrl: db.url,
    configuration: {
      sweep_seconds: 1,
      bridge: {
        console_port: 0,
        sources: [{ name: 'main', base_url: 'http://127.0.0.1:1', api_key: 'key' }],
        flows: [{ name: 'erp', source: 'main', connector: 'file', settings: { directory: 'inbox' } }],
        alerts: { webhook: { url } },
      },
    },
  });
  await registerFlows(db.database, [flowOf({ name: 'erp', connector: 'file' })], timestampNow(systemClock));
  await pauseFlow(db.database, 'erp', 'month end', timestampNow(systemClock));

  const stored = () =>
    db.database.query(
      `select told is not null as told, message is not null as sending from bridge.alerts where kind = 'flow-paused'`,
    );
  const lock = new Client({ connectionString: db.url });
  await lock.connect();
  for (let number = 0; number < kills; number += 1) {
    const program = bridge.start(['bridge', '--role', 'push']);
    const failure = () => (program.ended ? program.report() : undefined);
    await until('the receiver has the message', () => got.length > number, failure);
    // While this lock is held no process can note what became of a message.
    await lock.query('begin');
    await lock.query('lock table bridge.alerts in share mode');
    if (number % 2 === 0) {
      answer?.();
      await until('the process waits to note it', async () => (await waiting(lock)) > 0, failure);
    }
    await program.kill();
    expect(outcomeOf(program)).toBe('killed');
    await lock.query('rollback');
    expect(await stored()).toEqual([{ told: false, sending: true }]);
  }
  await lock.end();

  isLast = true;
  const last = bridge.start(['bridge', '--role', 'push']);
  await lineOf(last, /ready/);
  await expect.poll(stored, { timeout: 30_000, interval: 20 }).toEqual([{ told: true, sending: false }]);
  await expectGracefulEnd(last);
  expect(got).toHaveLength(kills + 1);
  expect(new Set(got.map((message) => JSON.stringify(message))).size).toBe(1);
  expect(got[0]?.alerts).toMatchObject([{ event: 'began', kind: 'flow-paused', subject: 'flow erp' }]);
});

/** How many processes wait for what this client holds. */
async function waiting(lock: Client): Promise<number> {
  const { rows } = await lock.query<{ count: number }>(
    `select count(*)::int as count from pg_stat_activity
     where datname = current_database() and pg_backend_pid() = any(pg_blocking_pids(pid))`,
  );
  return rows[0]?.count ?? 0;
}
