/**
 * The bridge: receives notifications, pulls feeds into the mirror, pushes documents through flows. Each of the three
 * finds in SQL what is due; signals only make it quick. A process does one of them, or all; several may do the same.
 */
import { fileURLToPath } from 'node:url';
import { timestampNow } from '#platform/clock.ts';
import type { Database, Sql } from '#platform/database/database.ts';
import { migrate, pendingMigrations } from '#platform/database/migrations.ts';
import { throwIssues } from '#platform/errors.ts';
import { createApplication } from '#platform/http/application.ts';
import { listen } from '#platform/http/server.ts';
import { createSweep } from '#platform/sweep.ts';
import type { BridgeDeps, BridgeRole, WorkingPart } from './bridge-deps.ts';
import { openFlows } from './flows/open-flows.ts';
import { registerFlows } from './flows/register-flows.ts';
import { createLeases } from './leases/lease.ts';
import { createLivenessLock } from './leases/liveness-lock.ts';
import { openCheckpoint } from './pull/feed/checkpoint-store.ts';
import { startPull } from './pull/start-pull.ts';
import { startPush } from './push/start-push.ts';
import { startReceive } from './receive/start-receive.ts';
import type { BridgeSettings } from './settings.ts';
import { registerStatusMetrics } from './status/status-metrics.ts';
import { webhookUrlOf } from './webhooks/webhook-deps.ts';

export interface Bridge {
  /** Where notifications are sent: `https://localhost:8443`; undefined in a process that does not receive. */
  readonly url: string | undefined;
  readonly consoleUrl: string;
  /** Where this bridge takes notifications of the source, in this process or another: `https://…/webhooks/<source>`. */
  webhookUrl(source: string): string;
  /** Finds and wakes what is due now; the sweep does so every `sweepMs`. */
  sweep(): Promise<void>;
  close(graceMs: number): Promise<void>;
}

const migrations = { schema: 'bridge', directory: fileURLToPath(new URL('migrations', import.meta.url)) };

/** Brings the bridge's tables up to date. Safe with several processes starting at once. */
export async function migrateBridge(database: Database): Promise<void> {
  await migrate(database, migrations);
}

/** The names of the migrations that the next start applies; changes nothing. Throws when tables and code do not fit. */
export function pendingBridgeMigrations(sql: Sql): Promise<readonly string[]> {
  return pendingMigrations(sql, migrations);
}

/**
 * Migrates, opens the connectors, starts the workers and listens, as far as the role has to. Throws when a setting
 * cannot work, with everything closed again that it had opened; `deps.signals` is closed with the bridge, too.
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

/**
 * What comes before any work: tables, connectors, liveness, checkpoints, flows, as far as the role needs them. A process
 * that does not push neither loads a connector nor has a say in what the flows are; so a receiver's configuration may
 * hold its sources alone. Throws AppError `invalid` for settings that cannot work.
 */
export async function prepareBridge(deps: Omit<BridgeDeps, 'signals'>, opened: AsyncDisposableStack) {
  const { settings, database, clock, log, role = 'all' } = deps;
  const does = (one: BridgeRole) => role === 'all' || role === one;
  checkNames(settings);
  await migrateBridge(database);
  const flows = does('push') ? await openFlows(deps, opened) : [];
  const liveness = await createLivenessLock({ database, log });
  opened.defer(() => liveness.close());
  const acquireLease = createLeases({ database, liveness, leaseMs: settings.lease_seconds * 1000 });
  if (does('pull') || does('receive'))
    for (const { name, feeds } of settings.sources)
      for (const feed of feeds) await openCheckpoint(database, { source: name, feed }, timestampNow(clock));
  // Somebody who starts it without any configuration takes no flow away from those who have one.
  if (does('push') && settings.sources.length > 0) await registerFlows(database, settings.flows, timestampNow(clock));
  return { does, acquireLease, flows };
}

/** What it opens goes on the stack, to be closed in the reverse order. */
async function openBridge(
  deps: BridgeDeps,
  opened: AsyncDisposableStack,
  graceMs: () => number,
): Promise<Omit<Bridge, 'close'>> {
  const { settings, database, signals, clock, log, registry } = deps;
  const { does, acquireLease, flows } = await prepareBridge(deps, opened);
  registerStatusMetrics({ settings, database, clock, registry });

  opened.defer(() => signals.close(graceMs()));
  const parts: WorkingPart[] = [];
  if (does('pull')) parts.push(startPull(deps, acquireLease));
  if (does('push')) parts.push(await startPush(deps, acquireLease, flows));
  const readiness = { database: () => database.query('select 1'), queue: () => signals.ping() };
  const receive = does('receive') ? await startReceive({ ...deps, readiness }, opened, graceMs) : undefined;
  if (receive) parts.push(receive);

  const sweep = createSweep({
    signals,
    everyMs: deps.sweepMs,
    log,
    lanes: parts.flatMap((part) => part.lanes),
    also: async () => {
      for (const part of parts) await part.housekeeping?.();
    },
  });
  opened.defer(() => sweep.close());
  const page = createApplication({ log, registry, readiness });
  deps.mountConsole?.(page);
  page.finish();
  const console = await listen(page.express, { host: settings.console_host, port: settings.console_port });
  opened.defer(async () => {
    page.beginShutdown();
    await console.close(graceMs());
  });

  return {
    url: receive?.url,
    consoleUrl: console.url,
    webhookUrl: (source) => (receive ? `${receive.url}/webhooks/${source}` : webhookUrlOf(settings, source)),
    sweep: () => sweep.now(),
  };
}

/** Throws AppError `invalid` for what a schema cannot see: names that fit nothing, or stand twice. */
export function checkNames({ sources, flows }: Pick<BridgeSettings, 'sources' | 'flows'>): void {
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
  throwIssues(issues, ({ path, message }) => `The configuration is not valid: ${path} ${message}.`);
}
