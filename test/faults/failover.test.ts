/**
 * The bridge's database fails over to an asynchronous replica that lacks the last commits, with real PostgreSQL clusters
 * and a process for each role: no order is made twice, everything that the source holds is delivered, and the status says
 * why a lookup is made before each write. The service keeps its own database.
 */
import { expect, test } from 'vitest';
import { systemClock } from '#platform/clock.ts';
import { playStory } from '#service/simulator/play-story.ts';
import { freePort } from '../harness/free-port.ts';
import { hasClusters, startCluster, startReplica } from '../harness/postgres-cluster.ts';
import { createTestDatabase } from '../harness/test-database.ts';
import { readRows, readServiceState, readUnfinished } from './awards-in-sql.ts';
import { createSource, ledgerConfiguration, ledgerFile } from './ledger-bridge.ts';
import { replayLedger } from './ledger-connector.ts';
import { openClient } from './players.ts';
import { createInstallation, expectGracefulEnd, lineOf, until } from './program-process.ts';
import { startTcpProxy } from './tcp-proxy.ts';

test.runIf(hasClusters())(
  'kill -9 of the primary and promotion of a replica that lags: nothing twice, nothing lost, and the status says why',
  { timeout: 240_000 },
  async () => {
    const primary = await startCluster();
    await primary.query('create database bridge');
    const replica = await startReplica(primary);
    const proxy = await startTcpProxy([primary.port]);
    const databaseUrl = `postgres://postgres@127.0.0.1:${proxy.port}/bridge`;

    const db = await createTestDatabase();
    const serviceOf = await createInstallation({ databaseUrl: db.url });
    const service = serviceOf.start(['service', '--port', '0']);
    const baseUrl = /http\S+/.exec(await lineOf(service, /ready/))?.[0] ?? '';
    const port = String(await freePort());
    const source = await createSource(serviceOf, baseUrl, [`https://localhost:${port}/webhooks/main`]);
    const configuration = ledgerConfiguration(source, { source: { poll_seconds: 5 } });
    const bridge = await createInstallation({ databaseUrl, dataDir: serviceOf.dataDir, configuration });
    const roles = ['push', 'pull', 'receive'];
    const programs = [];
    // One after the other: the first makes the tables.
    for (const role of roles) {
      const program = bridge.start(['bridge', '--role', role], { SOURCING__BRIDGE__PORT: port });
      await lineOf(program, /ready/);
      programs.push(program);
    }
    const client = await openClient(baseUrl, source.apiKey);
    const play = (seed: number, firstEvent: number) =>
      playStory({
        client,
        clock: systemClock,
        seed,
        events: 2,
        firstEvent,
        suppliers: 4,
        lots: 4,
        pauseMs: 0,
        print: () => undefined,
      });
    const delivered = async (url: string) => {
      const { awards } = await readServiceState(db.url);
      await expect
        .poll(async () => ({ held: replayLedger(ledgerFile(bridge)).held, unfinished: await readUnfinished(url) }), {
          timeout: 90_000,
          interval: 200,
        })
        .toEqual({ held: awards, unfinished: [] });
      return Object.keys(awards).length;
    };
    const notifications = async (url: string) =>
      (await readRows<{ count: number }>(url, 'select count(*)::int as count from bridge.inbox'))[0]?.count ?? 0;

    await play(3, 1);
    const before = await delivered(primary.url('bridge'));
    // The replica receives nothing more, and nobody waits for it.
    await replica.query("alter system set primary_conninfo = ''");
    await replica.query('select pg_reload_conf()');
    await until(
      'the replica is cut off',
      async () => (await primary.query('select from pg_stat_replication')).length === 0,
    );
    await play(4, 3);
    const after = await delivered(primary.url('bridge'));
    expect(after).toBeGreaterThan(before);
    const acknowledged = await notifications(primary.url('bridge'));

    await primary.kill();
    await replica.query('select pg_promote()');
    // What was delivered and acknowledged is gone.
    expect(await notifications(replica.url('bridge'))).toBeLessThan(acknowledged);
    proxy.targets = [replica.port];
    const status = async () => {
      const program = bridge.start(['bridge', 'status']);
      await program.end;
      return program.lines.join('\n');
    };
    await until('the status says why', async () => /another database server was promoted/.test(await status()));
    await play(5, 5);
    expect(await delivered(replica.url('bridge'))).toBeGreaterThanOrEqual(after);
    await until('it has caught up', async () => {
      const flagged = await readRows(replica.url('bridge'), 'select from bridge.flows where commits_lost is not null');
      return flagged.length === 0;
    });
    expect(await status()).not.toContain('promoted');
    await Promise.all([...programs, service].map(expectGracefulEnd));
    expect(replayLedger(ledgerFile(bridge)).doubled).toEqual([]);
  },
);
