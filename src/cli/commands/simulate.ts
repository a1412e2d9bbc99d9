/** `simulate`: plays buyers and suppliers against a running service. */
import { join } from 'node:path';
import { z } from 'zod';
import { createSourceClient, type SourceClient } from '#client/source-client.ts';
import { systemClock } from '#platform/clock.ts';
import { readFileIfAny } from '#platform/durable-file.ts';
import { AppError } from '#platform/errors.ts';
import { createGuardedFetch } from '#platform/guarded-fetch.ts';
import { specialRangeOf } from '#platform/network-guard.ts';
import { playStory } from '#service/simulator/play-story.ts';
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
      process.env['SOURCING_API_KEY'] || (await newOrganisation(clientWith(await operatorToken(options.baseUrl))));
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
async function newOrganisation(operator: SourceClient): Promise<string> {
  const { id } = await operator.call(
    { method: 'POST', path: '/admin/organisations', body: { name: 'Simulator' } },
    z.looseObject({ id: z.string() }),
  );
  await operator.call(
    { method: 'PUT', path: `/admin/organisations/${id}/limits`, body: { enabled: false } },
    z.unknown(),
  );
  const { key } = await operator.call(
    {
      method: 'POST',
      path: `/admin/organisations/${id}/api-keys`,
      body: { name: 'simulator', scopes: ['manage', 'jobs', 'desk'] },
    },
    z.looseObject({ key: z.string() }),
  );
  // Not among the story's lines, which the same seed repeats.
  console.error(`The story is played in a new organisation, ${id}.`);
  return key;
}
