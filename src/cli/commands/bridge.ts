/** `bridge`: the bridge alone, with the sources and flows of its configuration. */
import { readConfiguration } from '../configuration.ts';
import { openInstallation, startInstalledBridge } from '../installation.ts';
import { listenForStop } from '../stop-request.ts';

const graceMs = 3_000;

/** Runs until it is told to stop; rejects when it cannot start, with everything closed that it had opened. */
export async function runBridge(options: { config?: string; data?: string }): Promise<number> {
  const configuration = readConfiguration(options.config, options);
  const stop = listenForStop();
  await using opened = new AsyncDisposableStack();
  const installation = await openInstallation(configuration, { name: 'bridge', logLevel: 'info' });
  opened.defer(() => installation.close());
  const { sources, flows } = configuration.bridge;
  if (sources.length === 0 || flows.length === 0)
    installation.log.warn(
      `no ${sources.length === 0 ? 'source' : 'flow'} is configured (bridge.${sources.length === 0 ? 'sources' : 'flows'}): nothing will be ${sources.length === 0 ? 'received' : 'delivered'}`,
    );
  const bridge = await startInstalledBridge(installation, configuration.bridge);
  opened.defer(() => bridge.close(graceMs));
  console.log(`bridge ready ${bridge.url} (console ${bridge.consoleUrl})`);
  await stop.requested;
  return 0;
}
