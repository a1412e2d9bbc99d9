/** `bridge`: the bridge alone, with the sources and flows of its configuration, in all roles or one. */
import type { BridgeRole } from '#bridge/settings/bridge-deps.ts';
import { AppError } from '#platform/errors.ts';
import { readConfiguration } from '../configuration.ts';
import { createConsoleDoctor } from '../console-doctor.ts';
import { openInstallation, startInstalledBridge, storageOf } from '../installation.ts';
import { bridgePorts, checkOwnPorts } from '../own-ports.ts';
import { listenForStop, untilStopped } from '../stop-request.ts';

const graceMs = 3_000;

export interface BridgeOptions {
  config?: string;
  data?: string;
  role: BridgeRole;
}

/** Runs until it gets a request to stop. Rejects when it cannot start, after closing everything that it had opened. */
export async function runBridge(options: BridgeOptions): Promise<number> {
  const configuration = readConfiguration(options.config, options);
  // Only a process that receives listens on both.
  if (options.role === 'all' || options.role === 'receive') checkOwnPorts(bridgePorts(configuration.bridge));
  if (options.role === 'console' && !configuration.bridge.console_pages)
    throw new AppError('invalid', 'The role console shows the console, and bridge.console_pages switches it off.');
  const stop = listenForStop();
  await using opened = new AsyncDisposableStack();
  const installation = await openInstallation(configuration, {
    // The database shows this name for its connections, and `bridge doctor` reads it there.
    name: options.role === 'all' ? 'bridge' : `bridge-${options.role}`,
    logLevel: 'info',
  });
  opened.defer(() => installation.close());
  const { sources, flows } = configuration.bridge;
  if (sources.length === 0) installation.log.warn('no source is configured (bridge.sources): nothing will be received');
  else if (flows.length === 0 && (options.role === 'all' || options.role === 'push'))
    installation.log.warn('no flow is configured (bridge.flows): nothing will be delivered');
  const bridge = await startInstalledBridge(installation, configuration.bridge, options.role, {
    doctor: (clientOf) => createConsoleDoctor(installation, configuration.bridge, clientOf),
  });
  opened.defer(() => bridge.close(graceMs));
  installation.log.info(
    { url: bridge.url, consoleUrl: bridge.consoleUrl, role: options.role, storage: storageOf(installation) },
    'ready',
  );
  console.log(`bridge ready ${bridge.url ?? `as ${options.role}`} (console ${bridge.consoleUrl})`);
  await untilStopped(stop, installation.gone);
  return 0;
}
