/** Starts the bridge of an installation, with the console. */
import { readFile } from 'node:fs/promises';
import { type Bridge, startBridge } from '#bridge/create-bridge.ts';
import type { BridgeSettings } from '#bridge/settings.ts';
import { mountConsole } from '#console/console-page.ts';
import { systemClock } from '#platform/clock.ts';
import { AppError } from '#platform/errors.ts';
import { createRegistry } from '#platform/metrics.ts';
import type { Installation } from './installation.ts';

export async function startInstalledBridge(installation: Installation, settings: BridgeSettings): Promise<Bridge> {
  const { configuration, open, outgoing, log, dataDir } = installation;
  return startBridge({
    settings,
    tls: await certificateFor(installation, settings),
    dataDir,
    sweepMs: configuration.sweep_seconds * 1000,
    database: open.database,
    signals: await installation.signals('bridge'),
    fetch: outgoing.fetch,
    clock: systemClock,
    log: log.child({ program: 'bridge' }),
    registry: createRegistry(),
    mountConsole: (application) => mountConsole(application, { database: open.database }),
  });
}

async function certificateFor(installation: Installation, { tls }: BridgeSettings) {
  if (!tls) return installation.certificates;
  const read = (file: string) =>
    readFile(file, 'utf8').catch((cause: unknown) => {
      throw new AppError('invalid', `The certificate file ${file} (bridge.tls) cannot be read.`, { cause });
    });
  return { certPem: await read(tls.cert_file), keyPem: await read(tls.key_file) };
}
