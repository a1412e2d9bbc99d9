/** The story that the console of `npm start` can play: "show me". */
import type { ConsoleStory } from '#console/api/console-call.ts';
import { systemClock } from '#platform/clock.ts';
import { errorText } from '#platform/errors.ts';
import { playStory, type StoryOptions } from '#service/simulator/play-story.ts';

const linesMost = 100;
const stepMs = 1_000;

/** Each start plays another event, from its draft to its award. `signal` ends it with the program. */
export function createLocalStory(client: StoryOptions['client'], signal: AbortSignal): ConsoleStory {
  const lines: string[] = [];
  let playing = false;
  let error: string | null = null;
  const options = { client, clock: systemClock, events: 1, suppliers: 5, lots: 4, pauseMs: stepMs, signal };
  const print = (line: string) => {
    lines.push(line);
    if (lines.length > linesMost) lines.shift();
  };
  return {
    start: () => {
      if (playing) return;
      playing = true;
      error = null;
      playStory({ ...options, seed: systemClock.nowMs(), print })
        .catch((cause: unknown) => {
          error = errorText(cause);
        })
        .finally(() => {
          playing = false;
        });
    },
    state: () => ({ playing, lines: [...lines], error }),
  };
}
