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

/** Plays to the end of the story, or until it gets a request to stop. Rejects when the service refuses a step. */
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
      print: (line) => console.log(line),
      signal: stop.signal,
    });
    return 0;
  } finally {
    await outgoing.close();
  }
}

/**
 * The operator's token from the environment, or that of a service on this machine. Throws an AppError `invalid` when
 * there is none.
 */
async function operatorToken(baseUrl: string): Promise<string> {
  const token = process.env['SOURCING_ADMIN_TOKEN'] || (isThisMachine(baseUrl) ? await tokenInDataFolder() : undefined);
  if (token) return token;
  throw new AppError(
    'invalid',
    'Set SOURCING_API_KEY to an API key with the scopes manage, jobs and desk. To play in a new organisation, set ' +
      "SOURCING_ADMIN_TOKEN to the operator's token, or, for a service on this machine, DATA_DIR to its data folder.",
  );
}

/**
 * The token of the data folder is sent only to this machine: no operator has said that it belongs to another service.
 */
function isThisMachine(baseUrl: string): boolean {
  const host = URL.parse(baseUrl)?.hostname.replace(/^\[(.*)\]$/, '$1') ?? '';
  return host === 'localhost' || specialRangeOf(host) === 'loopback';
}

async function tokenInDataFolder(): Promise<string | undefined> {
  return (await readFileIfAny(join(process.env['DATA_DIR'] || './data', 'admin-token')))?.trim();
}

/**
 * Makes an organisation for this story alone and returns its key. Its limits are off, because a story may be played
 * faster than they allow.
 */
async function keyOfNewOrganisation(operator: SourceClient): Promise<string> {
  const organisation = await createLocalOrganisation(operator, 'Simulator');
  await organisation.put('limits', { enabled: false });
  const key = await organisation.issueKey('simulator', ['manage', 'jobs', 'feeds', 'desk']);
  // On standard error: standard output holds only the story, which is the same for the same seed.
  console.error(`The story is played in a new organisation, ${organisation.id}.`);
  return key;
}
