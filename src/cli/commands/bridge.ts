/** `bridge`: the bridge alone, with the sources and flows of its configuration; all of it, or one role. */
import type { BridgeRole } from '#bridge/bridge-deps.ts';
import { readConfiguration } from '../configuration.ts';
import { openInstallation, startInstalledBridge } from '../installation.ts';
import { listenForStop } from '../stop-request.ts';

const graceMs = 3_000;

/** Runs until it is told to stop; rejects when it cannot start, with everything closed that it had opened. */
export async function runBridge(options: { config?: string; data?: string; role: BridgeRole }): Promise<number> {
  const configuration = readConfiguration(options.config, options);
  const stop = listenForStop();
  await using opened = new AsyncDisposableStack();
  const installation = await openInstallation(configuration, {
    // What the database shows, and doctor with it.
    name: options.role === 'all' ? 'bridge' : `bridge-${options.role}`,
    logLevel: 'info',
  });
  opened.defer(() => installation.close());
  const { sources, flows } = configuration.bridge;
  if (sources.length === 0 || flows.length === 0)
    installation.log.warn(
      `no ${sources.length === 0 ? 'source' : 'flow'} is configured (bridge.${sources.length === 0 ? 'sources' : 'flows'}): nothing will be ${sources.length === 0 ? 'received' : 'delivered'}`,
    );
  const bridge = await startInstalledBridge(installation, configuration.bridge, options.role);
  opened.defer(() => bridge.close(graceMs));
  console.log(`bridge ready ${bridge.url ?? `as ${options.role}`} (console ${bridge.consoleUrl})`);
  await stop.requested;
  return 0;
}
