/** `npm start`, killed with -9 and started again: the same installation on the same ports, without any clean-up. */
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { freePort } from '../harness/free-port.ts';
import { request } from '../harness/request.ts';
import { readRows } from './awards-in-sql.ts';
import { createInstallation, lineOf, outcomeOf, type Program, useEmbedded } from './program-process.ts';

const noSimulator = ['start', '--no-demo'];

async function fixedPorts() {
  return {
    SOURCING__SERVICE__PORT: String(await freePort()),
    SOURCING__BRIDGE__PORT: String(await freePort()),
    SOURCING__BRIDGE__CONSOLE_PORT: String(await freePort()),
  };
}

/** Waits for the line that says that the program is ready and where, and checks that it is. */
async function readyAt(program: Program, baseUrl: string): Promise<void> {
  expect(await lineOf(program, /ready/)).toContain(baseUrl);
  const { status, body } = await request('GET', `${baseUrl}/readyz`);
  expect({ status, checks: body.checks }).toEqual({ status: 200, checks: { database: 'ok' } });
}

test('start, killed when ready and in the middle of its start, has the same organisation and webhook afterwards', async () => {
  const ports = await fixedPorts();
  const installation = await createInstallation();
  const baseUrl = `http://127.0.0.1:${ports.SOURCING__SERVICE__PORT}`;
  const setup = async () => JSON.parse(await readFile(join(installation.dataDir, 'local-setup.json'), 'utf8'));

  const first = installation.start(noSimulator, ports);
  await readyAt(first, baseUrl);
  const made = await setup();
  const url = `https://localhost:${ports.SOURCING__BRIDGE__PORT}/webhooks/local`;
  const webhooks = async () =>
    (await request('GET', `${baseUrl}/api/webhooks`, { key: made.bridgeKey })).body.result as { uuid: string }[];
  const [webhook] = await webhooks();
  expect(webhook).toMatchObject({ url, is_active: true });
  await first.kill();

  const unready = installation.start(noSimulator, ports);
  // The service answers before the local set-up is done: this is in the middle of the start.
  await expect
    .poll(
      () =>
        fetch(`${baseUrl}/healthz`)
          .then(({ ok }) => ok)
          .catch(() => false),
      { timeout: 30_000, interval: 5 },
    )
    .toBe(true); // prettier-ignore
  await unready.kill();

  const last = installation.start(noSimulator, ports);
  await readyAt(last, baseUrl);
  expect(await setup()).toEqual(made);
  await useEmbedded(installation.dataDir, async (database) => {
    expect(await readRows(database, 'select id from service.organisations')).toEqual([{ id: made.organisation }]);
    expect(await readRows(database, 'select id, is_active from service.webhooks')).toEqual([
      { id: webhook?.uuid, is_active: true },
    ]);
  });
  // The webhook also works: its notifications arrive, signed with the stored key.
  const sent = await request('POST', `${baseUrl}/api/webhooks/${webhook?.uuid}/test`, { key: made.bridgeKey });
  expect(sent.status).toBeLessThan(300);
  const metrics = async () =>
    String((await request('GET', `http://127.0.0.1:${ports.SOURCING__BRIDGE__CONSOLE_PORT}/metrics`)).body);
  await expect.poll(metrics, { timeout: 10_000 }).toMatch(/bridge_notifications_total\{result="accepted"\} [1-9]/);
  const startedMs = performance.now();
  await last.terminate();
  expect(outcomeOf(last)).toBe('exit code 0');
  expect(performance.now() - startedMs).toBeLessThan(10_000);
});

test('a start that finds a port taken says which one, ends with exit code 2, and leaves nothing behind', async () => {
  const ports = await fixedPorts();
  const installation = await createInstallation();
  // The console listens last: by then, everything else has been started.
  const port = ports.SOURCING__BRIDGE__CONSOLE_PORT;
  const blocker = createServer().listen(Number(port), '127.0.0.1');
  await once(blocker, 'listening');
  const program = installation.start(noSimulator, ports);
  const { code } = await program.end;
  expect({ code, report: program.report() }).toEqual({
    code: 2,
    report: expect.stringContaining(`127.0.0.1:${port}`),
  });
  blocker.close();
  const last = installation.start(noSimulator, ports);
  await readyAt(last, `http://127.0.0.1:${ports.SOURCING__SERVICE__PORT}`);
  await last.terminate();
  expect(outcomeOf(last)).toBe('exit code 0');
});
