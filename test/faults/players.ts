/** The simulated buyers and suppliers beside a fault test: they play event after event until they are told to end. */
import { createSourceClient, type SourceClient } from '#client/source-client.ts';
import { systemClock } from '#platform/clock.ts';
import { errorText } from '#platform/errors.ts';
import { playStory } from '#service/simulator/play-story.ts';
import { closeAfterFile, testOutgoing } from '../harness/programs.ts';

export interface Players {
  /** How many events were played to their end. */
  readonly events: number;
  /** What went wrong: they play no more. Undefined while all is well. */
  readonly failure: string | undefined;
  /** Resolves when the event under way is played to its end; no other begins. Rejects with what went wrong in any. */
  finish(): Promise<void>;
  /** Breaks the event under way off. Rejects with what went wrong before. */
  breakOff(): Promise<void>;
}

/** A client of the service that is closed after the file. */
export async function openClient(baseUrl: string, apiKey: string): Promise<SourceClient> {
  const { fetch } = await testOutgoing();
  return createSourceClient({
    settings: { baseUrl, apiKey, timeoutMs: 30_000, retries: 3 },
    fetch,
    clock: systemClock,
  });
}

/** Starts them, each plot in turn. When the test fails they are ended before `client` is. */
export function startPlayers(options: { client: SourceClient; seed: number; pauseMs: number }): Players {
  const enough = new AbortController();
  const atOnce = new AbortController();
  let events = 0;
  let failure: unknown;
  async function play(): Promise<void> {
    while (!enough.signal.aborted) {
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
        signal: atOnce.signal,
      });
      if (!atOnce.signal.aborted) events += 1;
    }
  }
  const playing = play().catch((error: unknown) => {
    failure = error;
  });
  async function finish(): Promise<void> {
    enough.abort();
    await playing;
    if (failure !== undefined) throw failure;
  }
  closeAfterFile(async () => {
    enough.abort();
    atOnce.abort();
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
      atOnce.abort();
      return finish();
    },
  };
}
