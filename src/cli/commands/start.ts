/**
 * `start`: service and bridge together, set up for each other; with the demo, the simulator plays buyers and suppliers.
 */

import { existsSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { createLoginLink } from '#console/access/login-links.ts';
import { isLoopback } from '#console/access/loopback.ts';
import { machineUser } from '#platform/audit-log.ts';
import { systemClock } from '#platform/clock.ts';
import { errorText } from '#platform/errors.ts';
import { commandLine, runsFromRepository, startCommand } from '#platform/own-package.ts';
import type { ProfileName } from '#service/profile/profile.ts';
import { playStory } from '#service/simulator/play-story.ts';
import { type Configuration, readConfiguration } from '../configuration.ts';
import { type Installation, openInstallation, storageOf } from '../installation.ts';
import { type LocalPrograms, startLocalPrograms } from '../local-programs.ts';
import { localSource } from '../local-settings.ts';
import { clientOf } from '../local-setup.ts';
import { listenForStop, type StopRequest, untilStopped } from '../stop-request.ts';

const stepMs = 1_500;

export interface StartOptions {
  config?: string;
  data?: string;
  demo?: boolean;
  profile: ProfileName;
}

/** Runs until it gets a request to stop. Rejects when it cannot start, after closing everything that it had opened. */
export async function runStart(options: StartOptions): Promise<number> {
  const configuration = readConfiguration(options.config, options);
  const { flows, sources } = configuration.bridge;
  const demo = options.demo ?? (flows.length === 0 && sources.length === 0);
  const stop = listenForStop();
  const isFirst = configuration.database_url === undefined && !existsSync(join(configuration.data_dir, 'postgres'));
  console.log(isFirst ? 'Starting. This first start makes a database, which takes some seconds.\n' : 'Starting.\n');
  await run(configuration, { demo, profile: options.profile }, stop);
  console.log('Stopped.');
  return 0;
}

async function run(
  configuration: Configuration,
  { demo, profile }: { demo: boolean; profile: ProfileName },
  stop: StopRequest,
): Promise<void> {
  await using opened = new AsyncDisposableStack();
  const installation = await openInstallation(configuration, {
    name: 'sourcing-bridge',
    logLevel: 'warn',
  });
  opened.defer(() => installation.close());
  const programs = await startLocalPrograms(installation, { freePorts: false, profile });
  opened.defer(() => programs.close());
  installation.log.info(
    { url: programs.service.url, webhookUrl: programs.bridge.url, consoleUrl: programs.bridge.consoleUrl },
    'ready',
  );
  console.log(welcome(installation, programs, await consoleLink(installation, programs)));
  if (demo)
    console.log(
      `The simulator plays buyers and suppliers; ${startCommand}${runsFromRepository ? ' --' : ''} --no-demo runs without it.\n`,
    );
  const client = clientOf(installation, programs.service.url, programs.setup.deskKey);
  if (demo) await playUntil(client, AbortSignal.any([stop.signal, installation.gone]));
  await untilStopped(stop, installation.gone);
  console.log('\nStopping. Press Ctrl-C again to end at once.');
}

/**
 * Where the console listens on this machine alone: with the path that logs in once. At a terminal only, as what is written to
 * a file or a journal is read by others.
 */
async function consoleLink({ open, clock }: Installation, { bridge, settings }: LocalPrograms): Promise<string> {
  if (!isLoopback(settings.console_host) || !process.stdout.isTTY) return bridge.consoleUrl;
  const viewer = { name: machineUser(), role: 'operator', flows: 'all' } as const;
  return `${bridge.consoleUrl}${await createLoginLink(open.database, viewer, clock)}`;
}

function welcome(installation: Installation, { service, bridge, settings }: LocalPrograms, console: string): string {
  const { certificates, dataDir } = installation;
  const documents = settings.flows.map(({ connector, settings: { directory } }) =>
    connector === 'file' && typeof directory === 'string' ? resolve(dataDir, directory) : `connector ${connector}`,
  );
  const rows = [
    [
      'Watch it',
      console,
      `${process.stdout.isTTY ? 'logs in once; another link' : 'a link that logs in'}: ${commandLine} console link`,
    ],
    ['Documents', documents.join(', '), 'where the awards arrive'],
    ['Sourcing service', `${service.url}/api`, `API key: deskKey in ${dataDir}/local-setup.json`],
    [
      'Webhook endpoint',
      bridge.webhookUrl(localSource),
      certificates ? `signed by the authority in ${certificates.caFile}` : 'with the certificate of bridge.tls',
    ],
    ['Data', dataDir, storageOf(installation)],
    ['Stop', 'Ctrl-C', `nothing is lost; ${startCommand} continues from there`],
  ] as const;
  const width = Math.max(...rows.map(([, what]) => what.length));
  const lines = rows.map(([name, what, why]) => `  ${name.padEnd(18)}${what.padEnd(width)}  ${why}`);
  return `sourcing-bridge ready ${service.url}\n\n${lines.join('\n')}\n`;
}

/**
 * Plays one event after another, each with another seed. When a step fails, it prints why and begins the next event.
 */
async function playUntil(client: ReturnType<typeof clientOf>, signal: AbortSignal): Promise<void> {
  const print = (line: string) => console.log(`${new Date(systemClock.nowMs()).toISOString().slice(11, 19)}  ${line}`);
  const seed = systemClock.nowMs();
  for (let number = 1; !signal.aborted; number += 1) {
    try {
      await playStory({
        client,
        clock: systemClock,
        seed: seed + number,
        events: 1,
        firstEvent: number,
        suppliers: 5,
        lots: 4,
        pauseMs: stepMs,
        print,
        signal,
      });
    } catch (error) {
      if (!signal.aborted) print(`The simulator stopped playing this event: ${errorText(error)}`);
    }
    await systemClock.sleep(2 * stepMs, signal).catch(() => undefined);
  }
}
