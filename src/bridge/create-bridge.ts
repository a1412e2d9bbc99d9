/**
 * The bridge: receives notifications, pulls feeds into the mirror, pushes documents through flows. Each of the three
 * finds in SQL what is due; signals only make it quick.
 */
import { resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { createSourceClient } from '#client/source-client.ts';
import type { Connector, Session } from '#connector/connector.ts';
import type { FeedName } from '#contract/feed.ts';
import { type Clock, timestampNow } from '#platform/clock.ts';
import type { Database } from '#platform/database/database.ts';
import { migrate } from '#platform/database/migrations.ts';
import { AppError } from '#platform/errors.ts';
import type { GuardedFetch } from '#platform/guarded-fetch.ts';
import { type Application, createApplication } from '#platform/http/application.ts';
import { type HttpServer, listen } from '#platform/http/server.ts';
import { parseInput } from '#platform/input.ts';
import type { Logger } from '#platform/log.ts';
import { Counter, type Registry } from '#platform/metrics.ts';
import type { Signals } from '#platform/queue.ts';
import { createSweep, type Sweep } from '#platform/sweep.ts';
import { type AcquireLease, createLeases } from './lease.ts';
import { createPresence } from './presence.ts';
import { feedsDue, openCheckpoint } from './pull/checkpoint-store.ts';
import { createFeedPull } from './pull/pull-feed.ts';
import { flowsWithDue } from './push/flow-document-store.ts';
import { loadConnector } from './push/load-connector.ts';
import { createFlowPush } from './push/push-flow.ts';
import { registerFlows } from './push/register-flows.ts';
import { pruneInbox } from './receive/store-notifications.ts';
import { mountWebhookEndpoint } from './receive/webhook-endpoint.ts';
import type { BridgeSettings, FlowSettings } from './settings.ts';
import { registerStatusMetrics } from './status.ts';

export interface BridgeDeps {
  settings: BridgeSettings;
  /** For the webhook endpoint; the console stays on plain HTTP. */
  tls: { certPem: string; keyPem: string };
  dataDir: string;
  sweepMs: number;
  database: Database;
  signals: Signals;
  fetch: GuardedFetch;
  clock: Clock;
  log: Logger;
  registry: Registry;
  /** Adds routes to the console's application. */
  mountConsole?: (application: Application) => void;
}

export interface Bridge {
  /** Where notifications are sent: `https://localhost:8443`. */
  readonly url: string;
  readonly consoleUrl: string;
  webhookUrl(source: string): string;
  /** From now on this key signs notifications of the source, too. */
  addSigningKey(source: string, key: string): void;
  /** Finds and wakes what is due now; the sweep does so every `sweepMs`. */
  sweep(): Promise<void>;
  close(graceMs: number): Promise<void>;
}

const pullLane = 'pull';
const pushLane = 'push';
const pruneEveryMs = 60 * 60 * 1000;

/** Brings the bridge's tables up to date. Safe with several processes starting at once. */
export async function migrateBridge(database: Database): Promise<void> {
  await migrate(database, { schema: 'bridge', directory: fileURLToPath(new URL('migrations', import.meta.url)) });
}

/**
 * Migrates, opens the connectors, starts the workers and listens. Throws when a setting cannot work, with everything
 * closed again that it had opened; `deps.signals` is closed with the bridge, too.
 */
export async function startBridge(deps: BridgeDeps): Promise<Bridge> {
  await using opened = new AsyncDisposableStack();
  let graceMs = 0;
  const bridge = await openBridge(deps, opened, () => graceMs);
  const closing = opened.move();
  return {
    ...bridge,
    close: async (ms) => {
      graceMs = ms;
      await closing.disposeAsync();
    },
  };
}

/** What it opens goes on the stack, to be closed in the reverse order. */
async function openBridge(
  deps: BridgeDeps,
  opened: AsyncDisposableStack,
  graceMs: () => number,
): Promise<Omit<Bridge, 'close'>> {
  const { settings, database, signals, clock, log, registry } = deps;
  checkFlowSources(settings);
  await migrateBridge(database);
  const sessions = await openFlows(deps, opened);
  const presence = await createPresence({ database, log });
  opened.defer(() => presence.close());
  const acquireLease = createLeases({ database, presence });
  for (const source of settings.sources)
    for (const feed of source.feeds) await openCheckpoint(database, { source: source.name, feed }, timestampNow(clock));
  await registerFlows(database, settings.flows, timestampNow(clock));
  registerStatusMetrics({ database, clock, registry });

  opened.defer(() => signals.close(graceMs()));
  startPull(deps, acquireLease);
  startPush(deps, acquireLease, sessions);
  const sweep = startSweep(deps);
  opened.defer(() => sweep.close());

  const readiness = { database: () => database.query('select 1'), queue: () => signals.ping() };
  const endpoint = createApplication({ log, registry, readiness });
  const signingKeys = new Map(settings.sources.map((source) => [source.name, [...source.signing_keys]]));
  const feeds = new Map(settings.sources.map((source) => [source.name, new Set<FeedName>(source.feeds)]));
  const { drain } = mountWebhookEndpoint(endpoint.express, {
    database,
    clock,
    log,
    registry,
    bodyBytesMax: settings.body_bytes_max,
    backlogMax: settings.backlog_max,
    signingKeysOf: (source) => signingKeys.get(source) ?? [],
    readsFeed: (source, feed) => feeds.get(source)?.has(feed) === true,
    wakePull: (source, feed) => void signals.signal(pullLane, [`${source}/${feed}`]),
  });
  endpoint.finish();
  opened.defer(drain);
  const page = createApplication({ log, registry, readiness });
  deps.mountConsole?.(page);
  page.finish();
  const servers = await listenAll(settings, deps.tls, endpoint, page);
  opened.defer(async () => {
    endpoint.beginShutdown();
    page.beginShutdown();
    await Promise.all([servers.endpoint.close(graceMs()), servers.page.close(graceMs())]);
  });

  return {
    url: servers.endpoint.url,
    consoleUrl: servers.page.url,
    webhookUrl: (source) => `${servers.endpoint.url}/webhooks/${source}`,
    addSigningKey: (source, key) => {
      signingKeys.set(source, [...new Set([key, ...(signingKeys.get(source) ?? [])])]);
    },
    sweep: () => sweep.now(),
  };
}

async function listenAll(
  settings: BridgeSettings,
  tls: BridgeDeps['tls'],
  endpoint: Application,
  page: Application,
): Promise<{ endpoint: HttpServer; page: HttpServer }> {
  const { host, port, public_host: publicHost } = settings;
  const server = await listen(endpoint.express, { host, port, tls, publicHost });
  try {
    return {
      endpoint: server,
      page: await listen(page.express, { host: settings.console_host, port: settings.console_port }),
    };
  } catch (error) {
    await server.close(0);
    throw error;
  }
}

function checkFlowSources({ sources, flows }: BridgeSettings): void {
  const issues = flows.flatMap((flow, index) =>
    sources.some(({ name }) => name === flow.source)
      ? []
      : [
          {
            path: `bridge.flows[${index}].source`,
            message: `names the source "${flow.source}", which is not configured`,
          },
        ],
  );
  for (const [what, names] of [
    ['sources', sources.map(({ name }) => name)],
    ['flows', flows.map(({ name }) => name)],
  ] as const)
    for (const [index, name] of names.entries())
      if (names.indexOf(name) !== index)
        issues.push({ path: `bridge.${what}[${index}].name`, message: `"${name}" is the name of another one, too` });
  if (issues[0])
    throw new AppError('invalid', `The configuration is not valid: ${issues[0].path} ${issues[0].message}.`, {
      issues,
    });
}

type FlowSessions = Map<FlowSettings, { connector: Connector; session: Session }>;

async function openFlows({ settings, dataDir, log }: BridgeDeps, opened: AsyncDisposableStack): Promise<FlowSessions> {
  const sessions: FlowSessions = new Map();
  for (const flow of settings.flows) {
    const connector = await loadConnector(flow.connector);
    const missing = flow.documents.filter((kind) => !connector.capabilities.kinds.includes(kind));
    if (missing.length > 0)
      throw new AppError(
        'invalid',
        `Flow "${flow.name}": "${flow.connector}" takes no ${missing.join(', ')} documents.`,
      );
    const parsed = parseInput(connector.settings, flow.settings, `The settings of flow "${flow.name}"`);
    const session = await connector.open(parsed, { dataDir: resolve(dataDir) });
    opened.defer(() => session.close());
    sessions.set(flow, { connector, session });
    for (const check of await session.check())
      if (!check.ok) log.warn({ flow: flow.name, check: check.name }, check.message);
  }
  return sessions;
}

function startPull(deps: BridgeDeps, acquireLease: AcquireLease): void {
  const { settings, database, signals, fetch, clock, log } = deps;
  const records = new Counter({
    name: 'bridge_records_total',
    help: 'Records read from feeds: changed ones, known ones, and changed ones that are not as documented',
    labelNames: ['feed', 'result'] as const,
    registers: [deps.registry],
  });
  const pulls = new Map(
    settings.sources.map((source) => {
      const client = createSourceClient({
        settings: {
          baseUrl: source.base_url,
          apiKey: source.api_key,
          timeoutMs: source.timeout_seconds * 1000,
          retries: 3,
        },
        fetch,
        clock,
      });
      const flows = settings.flows.filter((flow) => flow.source === source.name).map(({ name }) => name);
      const wakeFlows = () => void signals.signal(pushLane, flows);
      return [source.name, createFeedPull({ source, client, database, acquireLease, clock, log, records, wakeFlows })];
    }),
  );
  signals.work(pullLane, { concurrency: 4 }, async (key, signal) => {
    const [source = '', feed = ''] = key.split('/');
    await pulls.get(source)?.(feed as FeedName, signal);
  });
}

function startPush(deps: BridgeDeps, acquireLease: AcquireLease, sessions: FlowSessions): void {
  const { database, signals, clock, log } = deps;
  const outcomes = new Counter({
    name: 'bridge_outcomes_total',
    help: 'What became of the documents that were pushed',
    labelNames: ['flow', 'status'] as const,
    registers: [deps.registry],
  });
  const pushes = new Map(
    [...sessions].map(([flow, { connector, session }]) => [
      flow.name,
      createFlowPush({ flow, connector, session, database, acquireLease, clock, log, outcomes }),
    ]),
  );
  signals.work(pushLane, { concurrency: 4 }, async (key, signal) => {
    await pushes.get(key)?.(signal);
  });
}

function startSweep({ settings, database, signals, clock, log, sweepMs }: BridgeDeps): Sweep {
  const flows = settings.flows.map(({ name }) => name);
  const mine = new Set(settings.sources.flatMap((source) => source.feeds.map((feed) => `${source.name}/${feed}`)));
  let prunedMs = 0;
  return createSweep({
    signals,
    everyMs: sweepMs,
    log,
    lanes: [
      {
        lane: pullLane,
        due: async () => {
          const due = await feedsDue(database, timestampNow(clock));
          return due.map(({ source, feed }) => `${source}/${feed}`).filter((key) => mine.has(key));
        },
      },
      { lane: pushLane, due: () => flowsWithDue(database, flows, timestampNow(clock)) },
    ],
    also: async () => {
      if (clock.nowMs() - prunedMs < pruneEveryMs) return;
      prunedMs = clock.nowMs();
      await pruneInbox(database, timestampNow(clock), settings.inbox_days);
    },
  });
}
