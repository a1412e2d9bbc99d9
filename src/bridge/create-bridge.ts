/**
 * The bridge: it receives notifications, pulls feeds into the mirror, and pushes documents through flows. Its intakes
 * carry suppliers from the ERPs to the services. Each of the four parts finds in SQL what is due; signals of the queue
 * only make it faster. A process runs one of the parts or all of them, and several processes may run the same part.
 */
import { createActionUpkeep } from '#platform/audit-log.ts';
import { timestampNow } from '#platform/clock.ts';
import { createApplication } from '#platform/http/application.ts';
import { listen } from '#platform/http/server.ts';
import { checkSealedColumns } from '#platform/sealed-columns.ts';
import { createSweep } from '#platform/sweep.ts';
import { checkNames } from './check-names.ts';
import { openFlows } from './connectors/open-flows.ts';
import { type OpenIntake, openIntakes } from './intake/open-intakes.ts';
import { registerIntakes } from './intake/register-intakes.ts';
import { startIntake, warnOfFailedIntakeChecks } from './intake/start-intake.ts';
import { registerFlows } from './ledger/flows/register-flows.ts';
import { createLeases } from './ledger/leases/lease.ts';
import { saveRefusedConfiguration, startLiveness } from './ledger/leases/liveness.ts';
import { createLossWatch } from './ledger/lost-commits/watch-loss.ts';
import { migrateBridge } from './migrate-bridge.ts';
import { createSourceClients } from './mirror/source/source-clients.ts';
import { startAlerts } from './operate/alerts/start-alerts.ts';
import { startReconcile } from './operate/reconcile/start-reconcile.ts';
import { shownCertificates } from './operate/status/conditions.ts';
import { registerStatusMetrics } from './operate/status/status-metrics.ts';
import { startWebhookLooks } from './operate/webhooks/start-webhook-looks.ts';
import { webhookUrlOf } from './operate/webhooks/webhook-deps.ts';
import { openCheckpoints } from './pull/feed/checkpoint-store.ts';
import { startPull } from './pull/start-pull.ts';
import { startSupplierLists } from './pull/suppliers/start-supplier-lists.ts';
import { startPush } from './push/start-push.ts';
import { startReceive } from './receive/start-receive.ts';
import { bridgeSealedColumns } from './sealed-bridge-columns.ts';
import { channelsOf } from './settings/alert-settings.ts';
import type { BridgeDeps, BridgeRole, WorkingPart } from './settings/bridge-deps.ts';

export interface Bridge {
  /** Where this process receives notifications: `https://localhost:8443`; undefined if it does not receive. */
  readonly url: string | undefined;
  readonly consoleUrl: string;
  /**
   * Where the bridge receives the source's notifications, in this process or another: `https://…/webhooks/<source>`.
   */
  webhookUrl(source: string): string;
  /** Finds what is due now and wakes its workers, as the sweep does every `sweepMs`. */
  sweep(): Promise<void>;
  /** Says in the status why a changed configuration is not in force; undefined: what stands in the file is. */
  refuseConfiguration(why: string | undefined): Promise<void>;
  close(graceMs: number): Promise<void>;
}

/**
 * Starts the parts that the role needs: it migrates, opens the connectors, starts the workers and listens. Rejects when
 * a setting cannot work, after closing everything that it had opened. `deps.signals` is closed with the bridge.
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
 * Opens the connectors that the role needs, and closes them again. Rejects with AppError `invalid` for settings that cannot
 * work; a connector whose ERP does not answer is no reason.
 */
export async function checkBridgeSettings(deps: ConnectorDeps): Promise<void> {
  await using opened = new AsyncDisposableStack();
  await openConnectors(deps, opened);
}

type ConnectorDeps = Pick<BridgeDeps, 'settings' | 'dataDir' | 'log' | 'clock' | 'role'>;

async function openConnectors(deps: ConnectorDeps, opened: AsyncDisposableStack) {
  checkNames(deps.settings);
  const flows = playsRole(deps, 'push') ? await openFlows(deps, opened) : [];
  const intakes: OpenIntake[] = playsRole(deps, 'intake') ? await openIntakes(deps, opened) : [];
  return { flows, intakes };
}

function playsRole({ role = 'all' }: Pick<BridgeDeps, 'role'>, wanted: BridgeRole): boolean {
  return role === 'all' || role === wanted;
}

/**
 * Prepares what the workers of the role need: tables, connectors, heartbeat, checkpoints, flows. A process that
 * does not push loads no connector and does not register flows, so a receiver's configuration may consist of its
 * sources alone. Rejects with AppError `invalid` for settings that cannot work.
 */
export async function prepareBridge(deps: Omit<BridgeDeps, 'signals'>, opened: AsyncDisposableStack) {
  const { settings, database, clock, log } = deps;
  const hasRole = (wanted: BridgeRole) => playsRole(deps, wanted);
  checkNames(settings);
  await migrateBridge(database);
  await checkSealedColumns(database, deps.secrets, bridgeSealedColumns);
  const lossWatch = createLossWatch({ database, clock, log });
  await lossWatch.look();
  const { flows, intakes } = await openConnectors(deps, opened);
  const liveness = await startLiveness(deps);
  opened.defer(() => liveness.close());
  const acquireLease = createLeases({ database, liveness, leaseMs: settings.lease_seconds * 1000 });
  if (hasRole('pull') || hasRole('receive')) {
    const feeds = settings.sources.flatMap(({ name, feeds }) => feeds.map((feed) => ({ source: name, feed })));
    await openCheckpoints(database, feeds, timestampNow(clock));
  }
  // A pusher without any configuration does not remove the flows of the pushers that have one.
  if (hasRole('push') && settings.sources.length > 0)
    await registerFlows(database, settings.flows, timestampNow(clock));
  if (hasRole('intake') && settings.sources.length > 0) {
    for (const name of await registerIntakes(database, settings.intakes, deps.secrets, timestampNow(clock)))
      log.info({ intake: name }, 'intake resumed: the settings of its connector have changed');
  }
  return { hasRole, acquireLease, liveness, clients: createSourceClients(deps), flows, intakes, lossWatch };
}

/** Puts everything that it opens on the stack, which closes it in reverse order. */
async function openBridge(
  deps: BridgeDeps,
  opened: AsyncDisposableStack,
  graceMs: () => number,
): Promise<Omit<Bridge, 'close'>> {
  const { settings, database, signals, clock, log, registry } = deps;
  const { hasRole, acquireLease, liveness, clients, flows, intakes, lossWatch } = await prepareBridge(deps, opened);
  registerStatusMetrics(deps);

  opened.defer(() => signals.close(graceMs()));
  const readiness = { database: () => liveness.check() };
  // Before any work begins: a console that no one could log in to stops the start.
  const publicName = settings.console_url === undefined ? [] : [new URL(settings.console_url).hostname];
  const names = [settings.console_host, ...publicName, ...settings.console_names];
  const hosts = { names, setting: 'bridge.console_names' };
  const page = createApplication({
    log,
    registry,
    readiness,
    hosts,
    trustsProxy: deps.connections?.isTrustedProxy,
    ...(deps.guardMetrics && { guardMetrics: deps.guardMetrics }),
  });
  await deps.mountConsole?.(page, clients.clientOf, () => shownCertificates(deps.tls, deps.consoleTls));
  page.finish();
  const parts: WorkingPart[] = [];
  if (hasRole('pull')) parts.push(startPull(deps, acquireLease, clients), startWebhookLooks(deps, clients.clientOf));
  if (hasRole('push')) {
    parts.push(await startPush(deps, acquireLease, clients.clientOf, flows, lossWatch), startReconcile(deps));
  }
  // A process that only receives may have a configuration of sources alone: it would miss what the others know.
  if ((hasRole('pull') || hasRole('push')) && channelsOf(settings.alerts).length > 0) {
    parts.push(startAlerts(deps, acquireLease, { receives: hasRole('receive') }));
  }
  if (hasRole('intake')) {
    parts.push(startIntake(deps, acquireLease, clients.clientOf, intakes));
    // Not awaited: a connector that does not answer must not delay the start.
    void warnOfFailedIntakeChecks(intakes, deps);
    // Without a puller here, the supplier list that intakes compare with is read by this process.
    if (!hasRole('pull')) {
      parts.push({ lanes: [startSupplierLists(deps, acquireLease, clients.clientOf)] });
    }
  }
  const receive = hasRole('receive') ? await startReceive({ ...deps, readiness }, opened, graceMs) : undefined;
  if (receive) parts.push(receive);

  const keepActions = createActionUpkeep({ database, program: 'bridge', clock, days: deps.actionDays });
  const sweep = createSweep({
    signals,
    everyMs: deps.sweepMs,
    log,
    lanes: parts.flatMap((part) => part.lanes),
    also: async () => {
      await lossWatch.look();
      for (const part of parts) await part.housekeeping?.();
      await keepActions();
    },
  });
  opened.defer(() => sweep.close());
  const console = await listen(page.express, {
    host: settings.console_host,
    port: settings.console_port,
    tls: deps.consoleTls,
    metrics: { registry, port: 'console' },
    ...(deps.connections && { connections: deps.connections }),
  });
  opened.defer(async () => {
    page.beginShutdown();
    await console.close(graceMs());
  });

  return {
    url: receive?.url,
    consoleUrl: console.url,
    webhookUrl: (source) => (receive ? `${receive.url}/webhooks/${source}` : webhookUrlOf(settings, source)),
    sweep: () => sweep.now(),
    refuseConfiguration: (why) => saveRefusedConfiguration(database, liveness.id, why),
  };
}
