/** `service`: the Sourcing Service alone. */
import { AppError } from '#platform/errors.ts';
import type { ProfileName } from '#service/profile/profile.ts';
import { readConfiguration } from '../configuration.ts';
import { openInstallation, startInstalledService, storageOf } from '../installation.ts';
import { listenForStop, untilStopped } from '../stop-request.ts';

const graceMs = 3_000;

export interface ServiceOptions {
  config?: string;
  port?: number;
  host?: string;
  data?: string;
  profile: ProfileName;
  misbehave?: string;
  misbehaveSeed: number;
}

/**
 * Runs until it gets a request to stop. Rejects when it cannot start, after closing everything that it had opened.
 */
export async function runService(options: ServiceOptions): Promise<number> {
  const misbehave =
    options.misbehave === undefined
      ? undefined
      : (await import('../quirk-words.ts')).chosenQuirks(options.misbehave, options.misbehaveSeed);
  if (misbehave && options.profile !== 'spec')
    throw new AppError('invalid', '--misbehave changes the feeds of the profile spec: leave out --profile.');
  const configuration = readConfiguration(options.config, options);
  const stop = listenForStop();
  await using opened = new AsyncDisposableStack();
  const installation = await openInstallation(configuration, { name: 'service', logLevel: 'info' });
  opened.defer(() => installation.close());
  const service = await startInstalledService(installation, options, misbehave);
  opened.defer(() => service.close(graceMs));
  if (misbehave) console.log(`it misbehaves: ${misbehave.misbehaviour.names.join(',')} (seed ${misbehave.seed})`);
  installation.log.info({ url: service.url, storage: storageOf(installation) }, 'ready');
  console.log(`service ready ${service.url}`);
  await untilStopped(stop, installation.gone);
  return 0;
}
