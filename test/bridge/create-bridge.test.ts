import { createServer } from 'node:net';
import { describe, expect, onTestFinished, test } from 'vitest';
import { migrateBridge, startBridge } from '#bridge/create-bridge.ts';
import { bridgeSettings } from '#bridge/settings.ts';
import { systemClock } from '#platform/clock.ts';
import { silentLogger } from '#platform/log.ts';
import { Registry } from '#platform/metrics.ts';
import { parseCidrs } from '#platform/network-guard.ts';
import { createSignals } from '#platform/queue.ts';
import { createSecretBox } from '#platform/secrets.ts';
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
      database: db.database,
      signals: await createSignals({ databaseUrl: db.url, namespace: 'bridge_queue', log: silentLogger }),
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

test('the webhook port tells other machines no more than that the process is alive', async () => {
  const { deps } = await depsOf({ sources: [source], flows: [flow] });
  const bridge = await startBridge(deps);
  onTestFinished(() => bridge.close(1_000));
  const limits = {
    allowedNetworks: parseCidrs(['127.0.0.0/8', '::1/128']),
    timeoutMs: 5_000,
    responseBytesMax: 10_000,
  };
  // A proxy on this machine adds this header to requests from elsewhere.
  const forwarded = { 'X-Forwarded-For': '203.0.113.7' };
  for (const [path, elsewhere] of [
    ['/healthz', 200],
    ['/readyz', 404],
    ['/metrics', 404],
  ] as const) {
    const url = `${bridge.url}${path}`;
    const far = await deps.fetch({ url, method: 'GET', headers: forwarded, ...limits });
    const near = await deps.fetch({ url, method: 'GET', ...limits });
    const own = await fetch(`${bridge.consoleUrl}${path}`);
    expect([path, far.status, near.status, own.status]).toEqual([path, elsewhere, 200, 200]);
  }
});

test('a port that is taken stops the start, which releases everything: liveness, workers, connectors', async () => {
  const blocker = createServer();
  await new Promise<void>((resolve) => blocker.listen(0, '127.0.0.1', resolve));
  const address = blocker.address();
  const port = typeof address === 'object' ? address?.port : undefined;
  const { db, deps } = await depsOf({ sources: [source], flows: [flow], console_port: port });
  await expect(startBridge(deps)).rejects.toThrow(`Cannot listen on 127.0.0.1:${port}`);
  const held = await db.database.query(
    `select from pg_locks where locktype = 'advisory'
     and database = (select oid from pg_database where datname = current_database())`,
  );
  expect(held).toEqual([]);
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

  test.each(['pull', 'push'] as const)('%s starts although the port for notifications is taken', async (role) => {
    const blocker = createServer();
    await new Promise<void>((resolve) => blocker.listen(0, '127.0.0.1', resolve));
    const address = blocker.address();
    const port = typeof address === 'object' ? address?.port : undefined;
    const { deps } = await depsOf({ sources: [source], flows: [flow], port });
    const bridge = await startBridge({ ...deps, role });
    expect(bridge.url).toBeUndefined();
    await bridge.close(0);
    blocker.close();
  });

  test.each(['receive', 'pull'] as const)('%s leaves the flows as the pushers have them', async (role) => {
    const { db, deps } = await depsOf({ sources: [source] });
    await db.database.query(`insert into bridge.flows (name, source, kinds) values ('inbox', 'main', '{award}')`);
    const bridge = await startBridge({ ...deps, role });
    await bridge.close(0);
    expect(await db.database.query('select kinds from bridge.flows')).toEqual([{ kinds: ['award'] }]);
  });
});
