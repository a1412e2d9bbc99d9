/** `simulate`: plays buyers and suppliers against a running service. */
import { createSourceClient } from '#client/source-client.ts';
import { systemClock } from '#platform/clock.ts';
import { AppError } from '#platform/errors.ts';
import { createGuardedFetch } from '#platform/guarded-fetch.ts';
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
  const apiKey = process.env['SOURCING_API_KEY'];
  if (!apiKey)
    throw new AppError('invalid', 'Set SOURCING_API_KEY to an API key with the scopes manage, jobs and desk.');
  const stop = listenForStop();
  const outgoing = createGuardedFetch();
  try {
    await playStory({
      ...options,
      client: createSourceClient({
        settings: { baseUrl: options.baseUrl, apiKey, timeoutMs: 30_000, retries: 5 },
        fetch: outgoing.fetch,
        clock: systemClock,
      }),
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
