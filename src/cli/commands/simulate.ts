/** `simulate`: plays buyers and suppliers against a running service. */
import { join } from 'node:path';
import { createSourceClient, type SourceClient } from '#client/source-client.ts';
import { systemClock } from '#platform/clock.ts';
import { readFileIfAny } from '#platform/durable-file.ts';
import { AppError } from '#platform/errors.ts';
import { createGuardedFetch } from '#platform/guarded-fetch.ts';
import { specialRangeOf } from '#platform/network-guard.ts';
import { playStory } from '#service/simulator/play-story.ts';
import { createLocalOrganisation } from '../create-organisation.ts';
import { listenForStop } from '../stop-request.ts';

export interface SimulateOptions {
  baseUrl: string;
  events: number;
  suppliers: number;
  lots: number;
  speed: number;
  seed: number;
}

/** At speed 1 a step takes a second. */
const pauseAtSpeedOneMs = 1_000;

/** Plays to the end of the story, or until it is told to stop; rejects when the service refuses a step. */
export async function runSimulate(options: SimulateOptions): Promise<number> {
  const stop = listenForStop();
  const outgoing = createGuardedFetch();
  const clientWith = (apiKey: string) =>
    createSourceClient({
      settings: { baseUrl: options.baseUrl, apiKey, timeoutMs: 30_000, retries: 5 },
      fetch: outgoing.fetch,
      clock: systemClock,
    });
  try {
    const apiKey =
      process.env['SOURCING_API_KEY'] || (await keyOfNewOrganisation(clientWith(await operatorToken(options.baseUrl))));
    await playStory({
      ...options,
      client: clientWith(apiKey),
      clock: systemClock,
      pauseMs: pauseAtSpeedOneMs / options.speed,
      tell: (line) => console.log(line),
      signal: stop.signal,
    });
    return 0;
  } finally {
    await outgoing.close();
  }
}

/** The operator's token, as it was given, or as a service on this machine has it. Throws AppError where there is none. */
async function operatorToken(baseUrl: string): Promise<string> {
  const token = process.env['SOURCING_ADMIN_TOKEN'] || (isThisMachine(baseUrl) ? await tokenInDataFolder() : undefined);
  if (token) return token;
  throw new AppError(
    'invalid',
    'Set SOURCING_API_KEY to an API key with the scopes manage, jobs and desk; or, for an organisation of its own, ' +
      "SOURCING_ADMIN_TOKEN to the operator's token, or, where the service is on this machine, DATA_DIR to its data folder.",
  );
}

/** Nobody else is shown a secret that nobody has named. */
function isThisMachine(baseUrl: string): boolean {
  const host = URL.parse(baseUrl)?.hostname.replace(/^\[(.*)\]$/, '$1') ?? '';
  return host === 'localhost' || specialRangeOf(host) === 'loopback';
}

async function tokenInDataFolder(): Promise<string | undefined> {
  return (await readFileIfAny(join(process.env['DATA_DIR'] || './data', 'admin-token')))?.trim();
}

/** An organisation for the story alone; gives its key. Its limits are off: a story may be told faster than they allow. */
async function keyOfNewOrganisation(operator: SourceClient): Promise<string> {
  const organisation = await createLocalOrganisation(operator, 'Simulator');
  await organisation.put('limits', { enabled: false });
  const key = await organisation.issueKey('simulator', ['manage', 'jobs', 'desk']);
  // Not among the story's lines, which the same seed repeats.
  console.error(`The story is played in a new organisation, ${organisation.id}.`);
  return key;
}
