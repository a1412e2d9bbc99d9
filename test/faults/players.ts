/** The simulated buyers and suppliers of a fault test: they play event after event until the test ends them. */
import { createSourceClient, type SourceClient } from '#client/source-client.ts';
import { systemClock } from '#platform/clock.ts';
import { errorText } from '#platform/errors.ts';
import { playStory } from '#service/simulator/play-story.ts';
import { closeAtEnd } from '../harness/close-at-end.ts';
import { testOutgoing } from '../harness/test-certificates.ts';

export interface Players {
  /** How many events were played to their end. */
  readonly events: number;
  /** Why they have stopped playing; undefined while they play. */
  readonly failure: string | undefined;
  /** Resolves when the current event is played to its end; no other begins. Rejects with the error of any event. */
  finish(): Promise<void>;
  /** Stops in the middle of the current event. Rejects with the error of an earlier one. */
  breakOff(): Promise<void>;
}

/** A client of the service that is closed after the file. */
export async function openClient(baseUrl: string, apiKey: string): Promise<SourceClient> {
  const { fetch } = testOutgoing();
  return createSourceClient({
    settings: { baseUrl, apiKey, timeoutMs: 30_000, retries: 3 },
    fetch,
    clock: systemClock,
  });
}

/** Starts the players, each plot in turn. After the test they are ended before `client` is. */
export function startPlayers(options: { client: SourceClient; seed: number; pauseMs: number }): Players {
  const finishing = new AbortController();
  const breakingOff = new AbortController();
  let events = 0;
  let failure: unknown;
  async function play(): Promise<void> {
    while (!finishing.signal.aborted) {
      await playStory({
        client: options.client,
        clock: systemClock,
        seed: options.seed + events,
        events: 1,
        firstEvent: events + 1,
        suppliers: 5,
        lots: 6,
        pauseMs: options.pauseMs,
        print: () => undefined,
        signal: breakingOff.signal,
      });
      if (!breakingOff.signal.aborted) events += 1;
    }
  }
  const playing = play().catch((error: unknown) => {
    failure = error;
  });
  async function finish(): Promise<void> {
    finishing.abort();
    await playing;
    if (failure !== undefined) throw failure;
  }
  closeAtEnd(async () => {
    finishing.abort();
    breakingOff.abort();
    await playing;
  });
  return {
    get events() {
      return events;
    },
    get failure() {
      return failure === undefined ? undefined : `The players failed: ${errorText(failure)}`;
    },
    finish,
    breakOff: () => {
      breakingOff.abort();
      return finish();
    },
  };
}
