/** `bridge`: the bridge alone, with the sources and flows of its configuration, in all roles or one. */
import type { Bridge } from '#bridge/create-bridge.ts';
import type { BridgeRole } from '#bridge/settings/bridge-deps.ts';
import { AppError, errorText } from '#platform/errors.ts';
import { type Configuration, presentFile, readConfiguration, variablesFileBeside } from '../configuration.ts';
import { createConsoleDoctor } from '../console-doctor.ts';
import { type Installation, openInstallation, startInstalledBridge, storageOf } from '../installation.ts';
import { listenForStop, type StopRequest, untilStopped } from '../stop-request.ts';
import { nextConfiguration, type ReadConfiguration, textsOf } from '../watch-configuration.ts';

const graceMs = 3_000;

export interface BridgeOptions {
  config?: string;
  data?: string;
  role: BridgeRole;
}

/** A configuration that the bridge is to be started with, and how it came to it. */
interface Run extends ReadConfiguration {
  /** The one with which the bridge did not start, and why. */
  readonly failed?: { readonly configuration: Configuration; readonly why: string };
}

/**
 * Runs until it gets a request to stop; whenever the configuration changes, everything is closed and opened with the new
 * one, in the same process. Rejects when it cannot start, after closing everything that it had opened.
 */
export async function runBridge(options: BridgeOptions): Promise<number> {
  const file = options.config ?? presentFile();
  const files = file === undefined ? [] : [file, variablesFileBeside(file)];
  let run: Run = { known: await textsOf(files), configuration: read(options, file) };
  using stop = listenForStop({ hangUp: true });
  let inForce: Configuration | undefined;
  for (;;) {
    try {
      const { configuration } = run;
      const next = await runUntilChanged(run, { ...options, files }, stop, () => {
        inForce = configuration;
      });
      if (next === undefined) return 0;
      run = next;
    } catch (error) {
      // What only a start finds out: then the bridge goes on with the configuration that it had.
      if (inForce === undefined || inForce === run.configuration) throw error;
      run = { ...run, configuration: inForce, failed: { configuration: run.configuration, why: errorText(error) } };
    }
  }
}

function read(options: BridgeOptions, file: string | undefined): Configuration {
  const configuration = readConfiguration(file, options);
  if (options.role === 'console' && !configuration.bridge.console_pages)
    throw new AppError('invalid', 'The role console shows the console, and bridge.console_pages switches it off.');
  return configuration;
}

/** Resolves with the changed configuration; with undefined when it is to stop. */
async function runUntilChanged(
  { configuration, known, failed }: Run,
  options: BridgeOptions & { files: readonly string[] },
  stop: StopRequest,
  onStarted: () => void,
): Promise<ReadConfiguration | undefined> {
  await using opened = new AsyncDisposableStack();
  const { role } = options;
  const installation = await openInstallation(configuration, {
    // The database shows this name for its connections, and `bridge doctor` reads it there.
    name: role === 'all' ? 'bridge' : `bridge-${role}`,
    logLevel: 'info',
  });
  opened.defer(() => installation.close());
  warnOfNothingToDo(installation, role);
  const bridge = await startInstalledBridge(installation, configuration.bridge, role, {
    doctor: (clientOf) => createConsoleDoctor(installation, configuration.bridge, clientOf),
  });
  opened.defer(() => bridge.close(graceMs));
  onStarted();
  installation.log.info(
    { url: bridge.url, consoleUrl: bridge.consoleUrl, role, storage: storageOf(installation) },
    'ready',
  );
  console.log(`bridge ready ${bridge.url ?? `as ${role}`} (console ${bridge.consoleUrl})`);
  if (failed) await refuse(installation, bridge, failed.why);
  const next = await nextConfiguration({
    inForce: configuration,
    failed: failed?.configuration,
    files: options.files,
    known,
    read: async () => {
      const { checkBridgeSettings } = await import('#bridge/create-bridge.ts');
      const { dataDir, log, clock } = installation;
      const changed = read(options, options.files[0]);
      await checkBridgeSettings({ settings: changed.bridge, dataDir, log, clock, role });
      return changed;
    },
    onRefused: (why) => refuse(installation, bridge, why === undefined ? undefined : errorText(why)),
    signal: AbortSignal.any([stop.signal, installation.gone]),
  });
  if (next === undefined) await untilStopped(stop, installation.gone);
  else installation.log.info('the configuration has changed: the bridge starts with the new one');
  return next;
}

async function refuse({ log }: Installation, bridge: Bridge, why: string | undefined): Promise<void> {
  if (why !== undefined) log.error(`the changed configuration is not in force, the one before it is: ${why}`);
  await bridge
    .refuseConfiguration(why)
    .catch((err: unknown) => log.warn({ err }, 'the status does not say yet whether the configuration is in force'));
}

function warnOfNothingToDo({ configuration, log }: Installation, role: BridgeRole): void {
  const { sources, flows } = configuration.bridge;
  if (sources.length === 0) log.warn('no source is configured (bridge.sources): nothing will be received');
  else if (flows.length === 0 && (role === 'all' || role === 'push'))
    log.warn('no flow is configured (bridge.flows): nothing will be delivered');
}
