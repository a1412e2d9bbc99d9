/**
 * The bridge's receiver over HTTPS, as the process that an operator starts, against three servers that somebody writes by
 * hand: one that only verifies, the same with a group commit, and Express with one INSERT a request. Each in a process of
 * its own, loaded in turns by another.
 * A second receiver on the same database shows what it adds: both are held to a share of a processor, as the load and the
 * database would otherwise use what the second one needs.
 */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, writeFile } from 'node:fs/promises';
import { cpus } from 'node:os';
import { join } from 'node:path';
import { migrateBridge } from '#bridge/migrate-bridge.ts';
import type { Installation } from '#cli/installation.ts';
import { median, megabytes, printTable, quantile } from './figures.ts';
import { noteGoal } from './goals.ts';
import { type Load, startLoad } from './load.ts';
import type { ServerKind, ServerOrder, ServerReport } from './notification-server-process.ts';
import { holdToShare } from './processor-share.ts';
import { buildPackage, freePort, type RoleProcess, startRole } from './role-process.ts';
import { localCertificates } from './set-up.ts';
import { bodyBytes, makeRequests, signingKey } from './signed-requests.ts';

const rounds = 5;
const connections = 32;
const requestsPerRound = 10_000;
/**
 * For each server before it is measured: the compiler of a receiver that lives for days has long done its work. Here it is
 * done after some 50,000 notifications, 4 seconds of them; a server of a hundred lines is done sooner.
 */
const requestsToWarmUp = 60_000;
/** One server after the other on one connection, in turns of half a second at most: what else the machine does slows both. */
const roundsAlone = 11;
const requestsAlone = 500;
/** Of a processor, for each of two receivers. */
const shareOfTwo = 0.2;
const roundsOfTwo = 9;
const requestsOfTwo = 800;

type Kind = ServerKind | 'bridge';

interface Run {
  perSecond: number;
  cpuUs: number;
  latenciesMs: number[];
}

interface Server extends RoleProcess {
  readonly port: number;
}

/** Runs it; prints rates, ratios, times and the CPU time of each server's process for one request. */
export async function benchWebhookEndpoint(installation: Installation): Promise<void> {
  await migrateBridge(installation.open.database);
  buildPackage();
  const start = (kind: ServerKind) => startByHand(installation, kind);
  const names = { bridge: 'bridge', verify: 'verifies only', group: 'group commit', insert: 'Express, INSERT' };
  const servers: Record<Kind, Server> = {
    bridge: await startReceiver(installation),
    verify: await start('verify'),
    group: await start('group'),
    insert: await start('insert'),
  };
  const second = await startReceiver(installation);
  const loads = [startLoad(), startLoad()] as const;
  const { caPem } = localCertificates(installation);
  const run = async (server: Server, load: Load, count: number, at: number): Promise<Run> => {
    const requests = makeRequests(count);
    const before = await server.usage();
    const { elapsedMs, latenciesMs } = await load.run({ port: server.port, caPem, connections: at, requests });
    const { cpuMs } = await server.usage();
    return { perSecond: (count / elapsedMs) * 1000, cpuUs: ((cpuMs - before.cpuMs) / count) * 1000, latenciesMs };
  };
  const kinds = Object.keys(servers) as Kind[];
  let held: Awaited<ReturnType<typeof holdToShare>>;
  const runs = new Map(kinds.map((kind) => [kind, [] as Run[]]));
  const busy = (kind: Kind) => runs.get(kind) ?? [];
  try {
    for (const kind of kinds) await run(servers[kind], loads[0], requestsToWarmUp, connections);
    for (let round = 0; round < rounds; round += 1)
      for (const kind of kinds) runs.get(kind)?.push(await run(servers[kind], loads[0], requestsPerRound, connections));
    const ratio = (a: readonly Run[], b: readonly Run[]) =>
      median(a.map(({ perSecond }, round) => perSecond / (b[round]?.perSecond ?? Number.NaN)));
    const p99 = (kind: Kind) => median(busy(kind).map(({ latenciesMs }) => quantile(latenciesMs, 0.99)));
    console.log(`Receiving notifications of ${bodyBytes} bytes over HTTPS, ${connections} kept connections`);
    const rows = [['', 'per second', 'bridge : it', 'CPU each', 'p50', 'p99', 'memory']];
    for (const kind of kinds)
      rows.push([
        names[kind],
        `${Math.round(median(busy(kind).map(({ perSecond }) => perSecond)))}`,
        ratio(busy('bridge'), busy(kind)).toFixed(2),
        `${Math.round(median(busy(kind).map(({ cpuUs }) => cpuUs)))} us`,
        `${median(busy(kind).map(({ latenciesMs }) => quantile(latenciesMs, 0.5))).toFixed(1)} ms`,
        `${p99(kind).toFixed(1)} ms`,
        megabytes((await servers[kind].usage()).rss),
      ]);
    printTable(rows);
    noteGoal({ name: 'receiver : group commit by hand', measured: ratio(busy('bridge'), busy('group')), least: 0.75 });
    noteGoal({ name: 'receiver : Express with INSERT', measured: ratio(busy('bridge'), busy('insert')), least: 2.2 });
    noteGoal({ name: 'p99 of the receiver : verifying only', measured: p99('bridge') / p99('verify'), most: 2.5 });

    // Both have their code compiled by now. The quick one is measured before and after the other, as its turns are short.
    const alone = async (kind: Kind) => (await run(servers[kind], loads[0], requestsAlone, 1)).perSecond;
    const turnsAlone: { verify: number; bridge: number; group: number }[] = [];
    for (let round = 0; round < roundsAlone; round += 1) {
      const before = await alone('verify');
      const [bridge, group] = [await alone('bridge'), await alone('group')];
      turnsAlone.push({ bridge, group, verify: (before + (await alone('verify'))) / 2 });
    }
    const toVerify = median(turnsAlone.map(({ bridge, verify }) => bridge / verify));
    // What the disk allows on one connection, where nobody shares a flush.
    const handToVerify = median(turnsAlone.map(({ group, verify }) => group / verify));
    console.log(
      `  on one connection ${toVerify.toFixed(2)} of the one that verifies only; the group commit ${handToVerify.toFixed(2)}`,
    );
    const toHand = median(turnsAlone.map(({ bridge, group }) => bridge / group));
    noteGoal({ name: 'receiver : group commit by hand, one connection', measured: toHand, least: 0.75 });

    // As the first one was: its compiler would need most of the share that it is held to.
    await run(second, loads[1], requestsToWarmUp, connections);
    held = await holdToShare([servers.bridge.pid, second.pid], shareOfTwo);
    // Each alone, and both in between, in short turns: so neither a slower minute of the machine nor a slower one of the
    // two receivers counts for or against both.
    const first = () => run(servers.bridge, loads[0], requestsOfTwo, connections);
    const other = () => run(second, loads[1], requestsOfTwo, connections);
    const added: number[] = [];
    for (let round = 0; round < roundsOfTwo; round += 1) {
      const before = await first();
      const both = await Promise.all([first(), other()]);
      const alone = (before.perSecond + (await other()).perSecond) / 2;
      added.push(both.reduce((sum, { perSecond }) => sum + perSecond, 0) / alone - 1);
    }
    const which = held ? `each held to ${shareOfTwo} of a processor` : `${cpus().length} processors for all`;
    console.log(`  a second receiver adds ${median(added).toFixed(2)} of one, ${which}\n`);
    noteGoal({ name: `a second receiver adds (${which})`, measured: median(added), least: 0.75 });
  } finally {
    for (const load of loads) await load.close();
    for (const server of [...Object.values(servers), second]) await server.close();
    await held?.release();
  }
}

async function startReceiver(installation: Installation): Promise<Server> {
  const { dataDir, open } = installation;
  const { certPem, keyPem } = localCertificates(installation);
  const folder = await mkdtemp(join(dataDir, 'receiver-'));
  const tls = { cert_file: join(folder, 'cert.pem'), key_file: join(folder, 'key.pem') };
  await writeFile(tls.cert_file, certPem);
  await writeFile(tls.key_file, keyPem);
  const port = await freePort();
  const source = { name: 'main', base_url: 'https://localhost:1', api_key: 'bench', signing_keys: [signingKey] };
  const bridge = { host: '127.0.0.1', port, tls, sources: [source] };
  return { port, ...(await startRole({ role: 'receive', folder, databaseUrl: open.url, bridge })) };
}

async function startByHand(installation: Installation, kind: ServerKind): Promise<Server> {
  const child: ChildProcess = fork(new URL('notification-server-process.ts', import.meta.url));
  const ask = async (question: ServerOrder | 'usage') => {
    const answer = once(child, 'message');
    child.send(question);
    return ((await answer) as [ServerReport])[0];
  };
  const { certPem, keyPem } = localCertificates(installation);
  const report = await ask({ kind, signingKey, databaseUrl: installation.open.url, certPem, keyPem });
  if (!('port' in report)) throw new Error('The server did not begin to listen.');
  return {
    port: report.port,
    pid: child.pid ?? 0,
    usage: async () => {
      const used = await ask('usage');
      return 'rss' in used ? used : { cpuMs: Number.NaN, rss: Number.NaN };
    },
    close: async () => {
      const gone = once(child, 'exit');
      child.disconnect();
      await gone;
    },
  };
}
