/**
 * The console over 100,000 documents: the first page of each list and searches, as a browser asks for them; and what ten
 * readers at once, and a flood, cost the push that runs in the same process, as `npm start` runs it. BENCH_DOCUMENTS: how many
 * documents instead.
 */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { createSourceClients } from '#bridge/mirror/source/source-clients.ts';
import type { BridgeSettings } from '#bridge/settings/settings.ts';
import type { Installation } from '#cli/installation.ts';
import { mountConsole } from '#console/mount-console.ts';
import { systemClock } from '#platform/clock.ts';
import { createApplication } from '#platform/http/application.ts';
import { listen } from '#platform/http/server.ts';
import { silentLogger } from '#platform/log.ts';
import { Registry } from '#platform/metrics.ts';
import { openAwardPush, pushAll } from './award-push.ts';
import type { ReadersOrder, ReadersReport } from './console-readers-process.ts';
import { writeConsoleRows } from './console-rows.ts';
import { median, printTable, quantile } from './figures.ts';
import { noteGoal } from './goals.ts';

const documents = Number(process.env['BENCH_DOCUMENTS'] ?? 100_000);
const mostMs = 300;
const requestsEach = 15;
const pushed = 1_000;
const turns = 9;

/** What is measured, each with its path. */
const asked: readonly (readonly [what: string, path: string])[] = [
  ['documents', '/api/documents'],
  ['documents of a flow', '/api/documents?flow=sap'],
  ['documents that were delivered', '/api/documents?state=delivered'],
  ['documents that wait', '/api/documents?state=waiting'],
  ['documents that were refused', '/api/documents?state=dead+letter'],
  ['documents by a word that fits all', '/api/documents?q=flanges'],
  ['documents by an ERP number', '/api/documents?q=4500050000'],
  ['documents by amount', '/api/documents?min=5000&max=5100'],
  ['events', '/api/events'],
  ['events by name', '/api/events?q=flanges+777'],
  ['dead letters in groups', '/api/dead-letters'],
  ['overview', '/api/overview'],
  ['search: an event', '/api/search?q=RFQ-777&limit=8'],
  ['search: an ERP number', '/api/search?q=4500050000&limit=8'],
  ['search: event and supplier', '/api/search?q=777+supplier&limit=8'],
  ['search: a word that fits every event', '/api/search?q=flanges&limit=8'],
  ['search: nothing fits', '/api/search?q=zzzz&limit=8'],
];

/** The pages of the ten readers. */
const readerPaths = [
  '/api/overview',
  '/api/overview',
  '/api/overview',
  '/api/documents',
  '/api/documents?state=waiting',
  '/api/documents?flow=erp',
  '/api/events',
  '/api/dead-letters',
  '/api/flows',
  '/api/feeds',
];

/** So many connections of one person that ask without a pause, as a script or an attacker with a session can. */
const flood = Array.from({ length: 10 }, () => readerPaths).flat();

/** Prints the times of the first pages, and awards per second with and without readers. */
export async function benchConsole(installation: Installation): Promise<void> {
  const { database } = installation.open;
  await using opened = new AsyncDisposableStack();
  const { settings, pushOn } = await openAwardPush(installation, opened);
  const push = pushOn(database);
  await pushAll(database, push, { version: 1, documents: pushed });
  await writeConsoleRows(database, documents);
  const url = await startConsole(installation, settings, opened);
  await measurePages(url);
  await measureReaders(installation, { url, push });
}

async function measurePages(url: string): Promise<void> {
  console.log(`The console over ${documents.toLocaleString('en')} documents, ${requestsEach} requests each`);
  const rows = [['first page', 'median', 'slowest', 'answer']];
  for (const [what, path] of asked) {
    const times: number[] = [];
    let bytes = 0;
    for (let request = -1; request < requestsEach; request += 1) {
      const began = performance.now();
      const answer = await fetch(`${url}${path}`);
      bytes = (await answer.arrayBuffer()).byteLength;
      if (answer.status !== 200) throw new Error(`${path} was answered ${answer.status}`);
      if (request >= 0) times.push(performance.now() - began);
    }
    rows.push([what, `${median(times).toFixed(1)} ms`, `${quantile(times, 1).toFixed(1)} ms`, `${bytes} B`]);
    noteGoal({ name: `console, ${what}`, measured: median(times), most: mostMs, unit: ' ms' });
  }
  printTable(rows);
}

async function measureReaders(
  { open: { database } }: Installation,
  { url, push }: { url: string; push: (signal: AbortSignal) => Promise<unknown> },
): Promise<void> {
  const child = fork(new URL('console-readers-process.ts', import.meta.url));
  const tell = async (order: ReadersOrder | 'stop'): Promise<ReadersReport> => {
    child.send(order);
    const [report] = (await once(child, 'message')) as [ReadersReport];
    return report;
  };
  const sides = { alone: [], readers: readerPaths, flood } as const;
  type Side = keyof typeof sides;
  const names: readonly Side[] = ['alone', 'readers', 'flood'];
  const times: Record<Side, number[]> = { alone: [], readers: [], flood: [] };
  const asked: Record<Side, number> = { alone: 0, readers: 0, flood: 0 };
  const refused: Record<Side, number> = { alone: 0, readers: 0, flood: 0 };
  let version = 1;
  const turn = async (side: Side) => {
    version += 1;
    if (side !== 'alone') await tell({ url, paths: sides[side], floods: side === 'flood' });
    const elapsed = await pushAll(database, push, { version, documents: pushed });
    if (side === 'alone') return elapsed;
    const { requests, failures } = await tell('stop');
    asked[side] += requests;
    refused[side] += failures;
    return elapsed;
  };
  try {
    for (let round = -1; round < turns; round += 1)
      for (const side of round % 2 === 0 ? names : names.toReversed()) {
        const elapsed = await turn(side);
        if (round >= 0) times[side].push(elapsed);
      }
  } finally {
    const gone = once(child, 'exit');
    child.kill();
    await gone;
  }
  const perSecond = (each: readonly number[]) => `${Math.round((pushed / median(each)) * 1000)}/s`;
  const ratioOf = (side: Side) =>
    median(times[side].map((elapsed, index) => elapsed / (times.alone[index] ?? elapsed)));
  console.log(`Pushing ${pushed.toLocaleString('en')} changed awards in the console's process, ${turns} turns each`);
  printTable([
    ['who looks', 'awards', 'time of the push', 'requests', 'of these refused'],
    ['nobody', perSecond(times.alone), '', '', ''],
    ...(['readers', 'flood'] as const).map((side) => [
      `${sides[side].length} at once`,
      perSecond(times[side]),
      `${ratioOf(side).toFixed(2)} times`,
      String(asked[side]),
      String(refused[side]),
    ]),
  ]);
  noteGoal({
    name: `console, time of a push with ${readerPaths.length} readers`,
    measured: ratioOf('readers'),
    most: 1.5,
  });
  noteGoal({ name: `console, time of a push with ${flood.length} readers`, measured: ratioOf('flood'), most: 3 });
}

async function startConsole(
  installation: Installation,
  settings: BridgeSettings,
  opened: AsyncDisposableStack,
): Promise<string> {
  const {
    open: { database },
    outgoing,
    secrets,
    dataDir,
  } = installation;
  const registry = new Registry();
  const application = createApplication({ log: silentLogger, registry, readiness: {} });
  application.express.use((_request, response, next) => {
    response.locals.viewer = { name: 'bench', role: 'operator', flows: 'all' };
    next();
  });
  const { fetch } = outgoing;
  const close = mountConsole(application, {
    settings,
    database,
    fromEnvironment: [],
    reading: await installation.reading(),
    clock: systemClock,
    log: silentLogger,
    dataDir,
    fetch,
    secrets,
    clientOf: createSourceClients({ settings, fetch, clock: systemClock, registry }).clientOf,
    isCurrent: async () => true,
  });
  application.finish();
  const server = await listen(application.express, { host: '127.0.0.1', port: 0 });
  opened.defer(async () => {
    close();
    await server.close(0);
  });
  return server.url;
}
