import { createServer } from 'node:net';
import { describe, expect, onTestFinished, test } from 'vitest';
import { startBridge } from '#bridge/create-bridge.ts';
import { migrateBridge } from '#bridge/migrate-bridge.ts';
import { bridgeSettings } from '#bridge/settings/settings.ts';
import { systemClock } from '#platform/clock.ts';
import { silentLogger } from '#platform/log.ts';
import { Registry } from '#platform/metrics.ts';
import { parseCidrs } from '#platform/network-guard.ts';
import { createSignals } from '#platform/queue.ts';
import { createSecretBox } from '#platform/secrets.ts';
import { connectRaw } from '../harness/raw-connection.ts';
import { scratchFolder } from '../harness/scratch-folder.ts';
import { testCertificates, testOutgoing } from '../harness/test-certificates.ts';
import { createTestDatabase } from '../harness/test-database.ts';

async function depsOf(settings: Record<string, unknown>) {
  const db = await createTestDatabase();
  const { certPem, keyPem } = testCertificates();
  return {
    db,
    deps: {
      settings: bridgeSettings.parse({ port: 0, console_port: 0, ...settings }),
      tls: { certPem, keyPem },
      dataDir: await scratchFolder(),
      sweepMs: 600_000,
      actionDays: 730,
      database: db.database,
      signals: await createSignals({
        database: db.database,
        databaseUrl: db.url,
        namespace: 'bridge_queue',
        log: silentLogger,
      }),
      fetch: testOutgoing().fetch,
      secrets: createSecretBox(Buffer.alloc(32, 7)),
      clock: systemClock,
      log: silentLogger,
      registry: new Registry(),
    },
  };
}

const source = { name: 'main', base_url: 'http://127.0.0.1:1', api_key: 'k' };
const flow = { name: 'inbox', source: 'main', connector: 'file', settings: { directory: 'inbox' } };

test.each<[string, Record<string, unknown>, string]>([
  ['a flow of a source that does not exist', { flows: [flow] }, 'bridge.flows[0].source'],
  ['two sources of one name', { sources: [source, source] }, 'bridge.sources[1].name'],
  ['a connector that does not exist', { sources: [source], flows: [{ ...flow, connector: 'no-such' }] }, '"no-such"'],
  ['settings that the connector refuses', { sources: [source], flows: [{ ...flow, settings: {} }] }, 'flow "inbox"'],
])('%s stops the start with a message that names it, and leaves nothing running', async (_what, settings, named) => {
  const { deps } = await depsOf(settings);
  await expect(startBridge(deps)).rejects.toThrow(named);
  await deps.signals.close(0);
});

test('the webhook port tells nobody more than that the process is alive; the rest is on the console’s port', async () => {
  const { deps } = await depsOf({ sources: [source], flows: [flow] });
  const bridge = await startBridge(deps);
  onTestFinished(() => bridge.close(1_000));
  const limits = {
    allowedNetworks: parseCidrs(['127.0.0.0/8', '::1/128']),
    timeoutMs: 5_000,
    responseBytesMax: 10_000,
  };
  for (const [path, status] of [
    ['/healthz', 200],
    ['/readyz', 404],
    ['/metrics', 404],
  ] as const) {
    const url = `${bridge.url}${path}`;
    for (const headers of [{}, { 'X-Real-IP': '127.0.0.1' }, { Forwarded: 'for=127.0.0.1' }])
      expect([path, (await deps.fetch({ url, method: 'GET', headers, ...limits })).status]).toEqual([path, status]);
    expect((await fetch(`${bridge.consoleUrl}${path}`)).status).toBe(200);
  }
});

test('the console answers under localhost, an IP address or a name of its settings, and under no other', async () => {
  const { deps } = await depsOf({ sources: [source], flows: [flow], console_names: ['bridge.internal'] });
  const bridge = await startBridge({
    ...deps,
    mountConsole: ({ express }) => {
      express.get('/status.json', (_request, response) => void response.json({}));
    },
  });
  onTestFinished(() => bridge.close(1_000));
  const port = Number(new URL(bridge.consoleUrl).port);
  const statusFor = async (path: string, host: string) => {
    const connection = await connectRaw(port);
    connection.send(`GET ${path} HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`);
    await connection.closed();
    return Number(connection.received().split(' ')[1]);
  };
  expect(await statusFor('/healthz', 'evil.example')).toBe(200);
  for (const path of ['/status.json', '/metrics', '/readyz']) {
    for (const host of [
      'localhost',
      `LOCALHOST:${port}`,
      `127.0.0.1:${port}`,
      '[::1]',
      '192.0.2.7',
      'bridge.internal:80',
    ])
      expect([path, host, await statusFor(path, host)]).toEqual([path, host, 200]);
    for (const host of ['evil.example', `rebound.example:${port}`, 'localhost.evil.example', '127.0.0.1.nip.io', ''])
      expect([path, host, await statusFor(path, host)]).toEqual([path, host, 403]);
  }
});

test('a port that is taken stops the start, which releases everything: liveness, workers, connectors', async () => {
  const blocker = createServer();
  await new Promise<void>((resolve) => blocker.listen(0, '127.0.0.1', resolve));
  const address = blocker.address();
  const port = typeof address === 'object' ? address?.port : undefined;
  const { db, deps } = await depsOf({ sources: [source], flows: [flow], console_port: port });
  await expect(startBridge(deps)).rejects.toThrow(`Cannot listen on 127.0.0.1:${port}`);
  // A transaction that a worker had under way ends a moment later.
  await expect
    .poll(() =>
      db.database.query(
        `select from pg_locks where locktype = 'advisory'
         and database = (select oid from pg_database where datname = current_database())`,
      ),
    )
    .toEqual([]);
  blocker.close();
});

test('several processes that start at once on one database bring its tables up to date together', async () => {
  const db = await createTestDatabase();
  await db.database.query('drop schema bridge cascade');
  await Promise.all(Array.from({ length: 4 }, () => migrateBridge(db.database)));
  expect(await db.database.query('select from bridge.flows')).toEqual([]);
});

describe('a role', () => {
  const unloadable = { ...flow, connector: 'no-such' };

  test.each(['receive', 'pull'] as const)('%s starts although no connector can be loaded', async (role) => {
    const { deps } = await depsOf({ sources: [source], flows: [unloadable] });
    const bridge = await startBridge({ ...deps, role });
    expect(bridge.url === undefined).toBe(role !== 'receive');
    await bridge.close(0);
  });

  test('push starts although the port for notifications is taken', async () => {
    const blocker = createServer();
    await new Promise<void>((resolve) => blocker.listen(0, '127.0.0.1', resolve));
    const address = blocker.address();
    const port = typeof address === 'object' ? address?.port : undefined;
    const { deps } = await depsOf({ sources: [source], flows: [flow], port });
    const bridge = await startBridge({ ...deps, role: 'push' });
    expect(bridge.url).toBeUndefined();
    await bridge.close(0);
    blocker.close();
  });

  test('pull leaves the flows as the pushers have them', async () => {
    const { db, deps } = await depsOf({ sources: [source] });
    await db.database.query(`insert into bridge.flows (name, source, kinds) values ('inbox', 'main', '{award}')`);
    const bridge = await startBridge({ ...deps, role: 'pull' });
    await bridge.close(0);
    expect(await db.database.query('select kinds from bridge.flows')).toEqual([{ kinds: ['award'] }]);
  });
});
