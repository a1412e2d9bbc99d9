/**
 * What a subcommand of `bridge` uses: the configuration, the installation and the bridge's settings, without any server
 * or worker. It works beside running daemons. On a database server it is one more client. On the embedded database it
 * attaches to the server that a daemon has started, which keeps running when the command ends.
 */

import { checkNames } from '#bridge/check-names.ts';
import { migrateBridge } from '#bridge/migrate-bridge.ts';
import { type ClientUse, createSourceClients } from '#bridge/mirror/source/source-clients.ts';
import type { IntakeSettings } from '#bridge/settings/intake-settings.ts';
import type { BridgeSettings, FlowSettings, SourceSettings } from '#bridge/settings/settings.ts';
import type { SourceClient } from '#client/source-client.ts';
import type { FeedName } from '#contract/feed.ts';
import { type ActionSubject, machineOrigin, performAction } from '#platform/audit-log.ts';
import type { Clock } from '#platform/clock.ts';
import type { Database } from '#platform/database/database.ts';
import { AppError } from '#platform/errors.ts';
import { createRegistry, Registry } from '#platform/metrics.ts';
import { startCommand } from '#platform/own-package.ts';
import type { Configuration } from './configuration.ts';
import { certificateFor, type Installation, openInstallation } from './installation.ts';
import { readCommandConfiguration } from './local-settings.ts';
import { listenForStop } from './stop-request.ts';

/** The options that every subcommand has. */
export interface BridgeCommandOptions {
  config?: string;
  data?: string;
  json?: boolean;
}

export interface BridgeCommand {
  readonly installation: Installation;
  readonly settings: BridgeSettings;
  readonly database: Database;
  readonly clock: Clock;
  /** Aborts when the command gets a request to stop. */
  readonly signal: AbortSignal;
  /** Writes the action to the audit log, under the user of this machine, and does it. */
  readonly perform: <T>(subject: ActionSubject, work: () => Promise<T>) => Promise<T>;
  /** The client of a configured source. */
  readonly clientOf: (source: string, use?: ClientUse) => SourceClient;
}

/** A bridge that runs beside the command may have used up the source's limits, which are of a minute. */
const commandWaitsMs = 90_000;

/**
 * Opens everything for `use`, closes it afterwards in any case, and returns the result of `use`. The bridge's tables
 * are migrated first. Throws an AppError as `readConfiguration` and `openInstallation` do.
 */
export async function withBridge<T>(
  options: BridgeCommandOptions,
  use: (command: BridgeCommand) => Promise<T>,
  /**
   * `migrate: false` leaves the tables as they are; `begin: true` makes the embedded database if there is none yet;
   * `withoutSecrets: true` is for a command that calls no ERP and no source: their secrets need not be in its shell.
   */
  {
    migrate = true,
    begin = false,
    withoutSecrets = false,
  }: { migrate?: boolean; begin?: boolean; withoutSecrets?: boolean } = {},
): Promise<T> {
  const configuration = await readCommandConfiguration(options, { withoutSecrets });
  checkNames(configuration.bridge);
  using stop = listenForStop();
  const { signal } = stop;
  try {
    return await openAndUse(configuration, use, { migrate, begin, signal });
  } catch (error) {
    // After the signal any other error only says which step it interrupted.
    if (signal.aborted && !(error instanceof AppError && error.code === 'invalid'))
      throw new AppError('unavailable', 'The command was stopped before its end.', { cause: error });
    throw error;
  }
}

async function openAndUse<T>(
  configuration: Configuration,
  use: (command: BridgeCommand) => Promise<T>,
  { migrate, begin, signal }: { migrate: boolean; begin: boolean; signal: AbortSignal },
): Promise<T> {
  await using opened = new AsyncDisposableStack();
  const installation = await openInstallation(configuration, {
    name: 'bridge-command',
    logLevel: 'error',
    signal,
    existing: !begin,
  });
  opened.defer(() => installation.close());
  const { clock } = installation;
  const { database } = installation.open;
  if (migrate) await migrateBridge(database);
  const settings = configuration.bridge;
  const { clientOf } = createSourceClients({
    settings,
    fetch: installation.outgoing.fetch,
    clock,
    registry: new Registry(),
    longestWaitMs: commandWaitsMs,
  });
  // Awaited here: a promise that is returned unawaited would run after everything is closed.
  return await use({
    installation,
    settings,
    database,
    clock,
    signal,
    perform: (subject, work) => performAction({ database, program: 'bridge', clock }, machineOrigin(), subject, work),
    clientOf: (source, use) => clientOf(findSource(settings, source).name, use),
  });
}

/**
 * Throws an AppError `invalid` when no source is configured. For commands that report a state: without a source they
 * would report that all is well to an operator who has forgotten `--config`.
 */
export function requireSource({ sources }: Pick<BridgeSettings, 'sources'>): void {
  if (sources.length > 0) return;
  throw new AppError(
    'invalid',
    `No source is configured (bridge.sources). Name the configuration with --config, or the data folder of ${startCommand} ` +
      'with --data.',
  );
}

/** Returns the source of this name. Throws an AppError `invalid` that lists the configured sources. */
export function findSource({ sources }: Pick<BridgeSettings, 'sources'>, name: string): SourceSettings {
  return find('source', sources, name);
}

/** Returns the flow of this name. Throws an AppError `invalid` that lists the configured flows. */
export function findFlow({ flows }: Pick<BridgeSettings, 'flows'>, name: string): FlowSettings {
  return find('flow', flows, name);
}

/** Returns the intake of this name. Throws an AppError `invalid` that lists the configured intakes. */
export function findIntake({ intakes }: Pick<BridgeSettings, 'intakes'>, name: string): IntakeSettings {
  return find('intake', intakes, name);
}

/** Returns whether the name is that of an intake; of a flow otherwise. Throws an AppError `invalid` for neither. */
export function isIntake({ flows, intakes }: Pick<BridgeSettings, 'flows' | 'intakes'>, name: string): boolean {
  if (intakes.some((intake) => intake.name === name)) return true;
  find('flow', intakes.length === 0 ? flows : [...flows, ...intakes], name);
  return false;
}

/** Returns the feed of this name. Throws an AppError `invalid` that lists the feeds that this bridge reads. */
function findFeed(source: SourceSettings, name: string): FeedName {
  const feed = source.feeds.find((each) => each === name);
  if (feed === undefined)
    throw new AppError(
      'invalid',
      `The bridge reads no feed "${name}" of the source "${source.name}"; its feeds are: ${source.feeds.join(', ')}.`,
    );
  return feed;
}

/** Reads `<source>/<feed>`. Throws an AppError `invalid` that lists the configured sources or feeds. */
export function feedOf(
  { settings }: Pick<BridgeCommand, 'settings'>,
  name: string,
): { source: string; feed: FeedName } {
  const [sourceName = '', feedName] = name.split('/');
  const source = findSource(settings, sourceName);
  if (feedName === undefined)
    throw new AppError(
      'invalid',
      `Name the source and the feed: ${source.feeds.map((feed) => `${source.name}/${feed}`).join(', ')}.`,
    );
  return { source: source.name, feed: findFeed(source, feedName) };
}

function find<Named extends { name: string }>(
  what: 'source' | 'flow' | 'intake',
  all: readonly Named[],
  name: string,
): Named {
  const found = all.find((each) => each.name === name);
  if (found) return found;
  const names = all.map((each) => each.name).join(', ');
  throw new AppError(
    'invalid',
    all.length === 0
      ? `There is no ${what} "${name}": none is configured (bridge.${what}s).`
      : `There is no ${what} "${name}"; those that exist are: ${names}.`,
  );
}

/** What a process of a role works with, for a command that does a role's work once. */
export async function roleDepsOf({ installation, settings, database, clock }: BridgeCommand) {
  return {
    settings,
    tls: await certificateFor(installation, settings, false),
    dataDir: installation.dataDir,
    sweepMs: installation.configuration.sweep_seconds * 1000,
    actionDays: installation.configuration.action_days,
    database,
    fetch: installation.outgoing.fetch,
    secrets: installation.secrets,
    clock,
    log: installation.log,
    registry: createRegistry(),
  };
}
