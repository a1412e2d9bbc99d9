/** `bridge`: the bridge alone, with the sources and flows of its configuration. */
import { readConfiguration } from './configuration.ts';
import { openInstallation } from './installation.ts';
import { startInstalledBridge } from './installed-bridge.ts';
import { runUntilStopped } from './run-until-stopped.ts';

const graceMs = 5_000;

export async function runBridge(options: { config?: string; data?: string }): Promise<number> {
  const configuration = readConfiguration(options.config, options);
  const installation = await openInstallation(configuration, { name: 'bridge', logLevel: 'info' });
  try {
    const bridge = await startInstalledBridge(installation, configuration.bridge);
    console.log(`bridge ready ${bridge.url} (console ${bridge.consoleUrl})`);
    return await runUntilStopped(() => bridge.close(graceMs));
  } finally {
    await installation.close();
  }
}
