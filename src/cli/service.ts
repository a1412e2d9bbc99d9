/** `service`: the Sourcing Service alone. */
import { readConfiguration } from './configuration.ts';
import { openInstallation, startInstalledService } from './installation.ts';
import { runUntilStopped } from './run-until-stopped.ts';

const graceMs = 5_000;

export async function runService(options: {
  config?: string;
  port?: number;
  host?: string;
  data?: string;
}): Promise<number> {
  const installation = await openInstallation(readConfiguration(options.config, options), {
    name: 'service',
    logLevel: 'info',
  });
  try {
    const service = await startInstalledService(installation, options);
    console.log(`service ready ${service.url}`);
    return await runUntilStopped(() => service.close(graceMs));
  } finally {
    await installation.close();
  }
}
