/** `service`: the Sourcing Service alone. */
import { readConfiguration } from '../configuration.ts';
import { openInstallation, startInstalledService } from '../installation.ts';
import { listenForStop } from '../stop-request.ts';

const graceMs = 3_000;

/** Runs until it gets a request to stop. Rejects when it cannot start, after closing everything that it had opened. */
export async function runService(options: {
  config?: string;
  port?: number;
  host?: string;
  data?: string;
}): Promise<number> {
  const configuration = readConfiguration(options.config, options);
  const stop = listenForStop();
  await using opened = new AsyncDisposableStack();
  const installation = await openInstallation(configuration, { name: 'service', logLevel: 'info' });
  opened.defer(() => installation.close());
  const service = await startInstalledService(installation, options);
  opened.defer(() => service.close(graceMs));
  console.log(`service ready ${service.url}`);
  await stop.requested;
  return 0;
}
