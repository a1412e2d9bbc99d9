/**
 * What a subcommand of `bridge` stands on: the configuration, the installation and the bridge's settings, without any
 * server or worker. It works beside running daemons: on a server's database as any client, on an embedded one by
 * attaching to the server that a daemon has started, which goes on when the command ends.
 */
import { checkNames, migrateBridge } from '#bridge/create-bridge.ts';
import type { BridgeSettings, FlowSettings, SourceSettings } from '#bridge/settings.ts';
import { createSourceClients } from '#bridge/source-clients.ts';
import type { SourceClient } from '#client/source-client.ts';
import type { FeedName } from '#contract/feed.ts';
import { type Clock, systemClock } from '#platform/clock.ts';
import type { Database } from '#platform/database/database.ts';
import { AppError } from '#platform/errors.ts';
import { Registry } from '#platform/metrics.ts';
import type { Configuration } from './configuration.ts';
import { type Installation, openInstallation } from './installation.ts';
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
  /** Aborts when the command is told to stop. */
  readonly signal: AbortSignal;
  /** The client of a configured source; its quotas are shared with the daemons. */
  clientOf(source: string): SourceClient;
}

/**
 * Opens everything for `use` and closes it afterwards, whatever happens; gives what `use` gives. The bridge's tables are
 * brought up to date first. Throws AppError as `readConfiguration` and `openInstallation` do.
 */
export async function withBridge<T>(
  options: BridgeCommandOptions,
  use: (command: BridgeCommand) => Promise<T>,
  /** `migrate: false` leaves the tables as they are. */
  { migrate = true }: { migrate?: boolean } = {},
): Promise<T> {
  const configuration = await readCommandConfiguration(options);
  checkNames(configuration.bridge);
  using stop = listenForStop();
  const { signal } = stop;
  try {
    return await openAndUse(configuration, use, migrate, signal);
  } catch (error) {
    // Whatever it was that the signal broke off.
    if (signal.aborted && !(error instanceof AppError && error.code === 'invalid'))
      throw new AppError('unavailable', 'It was stopped before its end.', { cause: error });
    throw error;
  }
}

async function openAndUse<T>(
  configuration: Configuration,
  use: (command: BridgeCommand) => Promise<T>,
  migrate: boolean,
  signal: AbortSignal,
): Promise<T> {
  await using opened = new AsyncDisposableStack();
  const installation = await openInstallation(configuration, { name: 'bridge-command', logLevel: 'error', signal });
  opened.defer(() => installation.close());
  const { database } = installation.open;
  if (migrate) await migrateBridge(database);
  const settings = configuration.bridge;
  const clients = createSourceClients({
    settings,
    fetch: installation.outgoing.fetch,
    clock: systemClock,
    database,
    registry: new Registry(),
  });
  // Awaited here: what is returned unawaited would run after everything is closed.
  return await use({
    installation,
    settings,
    database,
    clock: systemClock,
    signal,
    clientOf: (source) => clients(findSource(settings, source).name),
  });
}

/**
 * For what says how it stands: without a source it would say that all is well, to one who has forgotten `--config`.
 * Throws AppError `invalid`.
 */
export function requireSource({ sources }: Pick<BridgeSettings, 'sources'>): void {
  if (sources.length > 0) return;
  throw new AppError(
    'invalid',
    'No source is configured (bridge.sources). Name the configuration with --config, or with --data the folder of npm start.',
  );
}

/** Throws AppError `invalid` that lists the sources that there are. */
export function findSource({ sources }: Pick<BridgeSettings, 'sources'>, name: string): SourceSettings {
  return find('source', sources, name);
}

/** Throws AppError `invalid` that lists the flows that there are. */
export function findFlow({ flows }: Pick<BridgeSettings, 'flows'>, name: string): FlowSettings {
  return find('flow', flows, name);
}

/** Throws AppError `invalid` that lists the feeds that this bridge reads of the source. */
export function findFeed(source: SourceSettings, name: string): FeedName {
  const feed = source.feeds.find((one) => one === name);
  if (feed === undefined)
    throw new AppError(
      'invalid',
      `The source "${source.name}" has no feed "${name}" here; its feeds are: ${source.feeds.join(', ')}.`,
    );
  return feed;
}

function find<Named extends { name: string }>(what: 'source' | 'flow', all: readonly Named[], name: string): Named {
  const found = all.find((one) => one.name === name);
  if (found) return found;
  const names = all.map((one) => one.name).join(', ');
  throw new AppError(
    'invalid',
    all.length === 0
      ? `There is no ${what} "${name}": none is configured (bridge.${what}s).`
      : `There is no ${what} "${name}"; those that exist are: ${names}.`,
  );
}
