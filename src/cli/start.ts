/** `start`: service and bridge together, set up for each other; with the demo, somebody buys and sells. */
import { systemClock } from '#platform/clock.ts';
import { errorText } from '#platform/errors.ts';
import { playStory } from '#service/simulator/play-story.ts';
import { readConfiguration } from './configuration.ts';
import { openInstallation } from './installation.ts';
import { startLocalPrograms } from './local-programs.ts';
import { clientOf } from './local-setup.ts';
import { runUntilStopped } from './run-until-stopped.ts';

const stepMs = 1_500;

export async function runStart(options: { config?: string; data?: string; demo?: boolean }): Promise<number> {
  const configuration = readConfiguration(options.config, options);
  const { flows, sources } = configuration.bridge;
  const demo = options.demo ?? (flows.length === 0 && sources.length === 0);
  const installation = await openInstallation(configuration, { name: 'sourcing-bridge', logLevel: 'warn' });
  try {
    const programs = await startLocalPrograms(installation, { freePorts: false });
    console.log(`sourcing-bridge ready ${programs.service.url}

  Watch it          ${programs.bridge.consoleUrl}
  Sourcing service  ${programs.service.url}/api (an API key: deskKey in ${installation.dataDir}/local-setup.json)
  Webhook endpoint  ${programs.bridge.webhookUrl('local')} (certificate authority: ${installation.certificates.caFile})
  Documents         ${programs.settings.flows.map(({ name, connector }) => `flow ${name} to connector ${connector}`).join(', ')}
  Data              ${installation.dataDir} (${installation.open.kind === 'embedded' ? 'embedded PostgreSQL' : 'PostgreSQL server'}, queue on ${configuration.redis_url ? 'Redis' : 'PostgreSQL'})
`);
    const stop = new AbortController();
    const playing = demo
      ? playForEver(clientOf(installation, programs.service.url, programs.setup.deskKey), stop.signal)
      : undefined;
    return await runUntilStopped(async () => {
      stop.abort();
      await playing;
      await programs.close();
    });
  } finally {
    await installation.close();
  }
}

/** One event after another, each with another seed. A step that fails is told, and the next event begins. */
async function playForEver(client: ReturnType<typeof clientOf>, signal: AbortSignal): Promise<void> {
  console.log(`The simulator plays buyers and suppliers (npm start -- --no-demo leaves it out). Stop with Ctrl-C.\n`);
  for (let seed = systemClock.nowMs(); !signal.aborted; seed += 1) {
    const tell = (line: string) => console.log(`${new Date(systemClock.nowMs()).toISOString().slice(11, 19)}  ${line}`);
    try {
      await playStory({
        client,
        clock: systemClock,
        seed,
        events: 1,
        suppliers: 5,
        lots: 4,
        pauseMs: stepMs,
        tell,
        signal,
      });
    } catch (error) {
      if (!signal.aborted) console.log(`The simulator was refused: ${errorText(error)}`);
    }
    await systemClock.sleep(2 * stepMs, signal).catch(() => undefined);
  }
}
