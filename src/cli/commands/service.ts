/** `service`: the Sourcing Service alone. */
import type { MisbehaveOptions } from '#service/misbehave/misbehave.ts';
import { drawMisbehaviour, readMisbehaviour } from '#service/misbehave/misbehaviour.ts';
import { calmedGroups, type Quirk, quirkTable } from '#service/misbehave/quirk-table.ts';
import { seededFraction } from '#service/misbehave/seeded-fraction.ts';
import { readConfiguration } from '../configuration.ts';
import { openInstallation, startInstalledService, storageOf } from '../installation.ts';
import { tableOf } from '../output.ts';
import { listenForStop, untilStopped } from '../stop-request.ts';

const graceMs = 3_000;

export interface ServiceOptions {
  config?: string;
  port?: number;
  host?: string;
  data?: string;
  misbehave?: string;
  misbehaveSeed: number;
}

/**
 * Runs until it gets a request to stop. Rejects when it cannot start, after closing everything that it had opened. With
 * `--misbehave list` it only prints the quirks.
 */
export async function runService(options: ServiceOptions): Promise<number> {
  if (options.misbehave?.trim() === 'list') {
    console.log(listOfQuirks());
    return 0;
  }
  const misbehave =
    options.misbehave === undefined ? undefined : chosenQuirks(options.misbehave, options.misbehaveSeed);
  const configuration = readConfiguration(options.config, options);
  const stop = listenForStop();
  await using opened = new AsyncDisposableStack();
  const installation = await openInstallation(configuration, { name: 'service', logLevel: 'info', telemetry: true });
  opened.defer(() => installation.close());
  const service = await startInstalledService(installation, options, misbehave);
  opened.defer(() => service.close(graceMs));
  if (misbehave) console.log(`it misbehaves: ${misbehave.misbehaviour.names.join(',')} (seed ${misbehave.seed})`);
  installation.log.info({ url: service.url, storage: storageOf(installation) }, 'ready');
  console.log(`service ready ${service.url}`);
  await untilStopped(stop, installation.gone);
  return 0;
}

/** How many quirks `--misbehave random` draws at most. */
const drawnMost = 5;

function chosenQuirks(list: string, seed: number): MisbehaveOptions {
  const misbehaviour =
    list.trim() === 'random' ? drawMisbehaviour(seededFraction(`quirks ${seed}`), drawnMost) : readMisbehaviour(list);
  return { misbehaviour, seed: String(seed) };
}

function listOfQuirks(): string {
  const named = ({ name, parameter }: Quirk) => (parameter ? `${name}=${parameter.fallback}` : name);
  const rows = quirkTable.map((quirk) => [quirk.group, named(quirk), quirk.parameter?.what, quirk.does]);
  return [
    tableOf(['GROUP', 'QUIRK', 'NUMBER', 'WHAT IT DOES'], rows),
    '',
    `The number may be left out. "random" draws some by --misbehave-seed. POST /misbehave/calm stops: ${calmedGroups.join(', ')}.`,
  ].join('\n');
}
