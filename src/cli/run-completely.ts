/** One complete run of the bridge within a command, with its progress on the terminal. */
import { setInterval } from 'node:timers';
import { readFeedStatuses } from '#bridge/mirror/feed-statuses.ts';
import type { RunResult } from '#bridge/run-once.ts';
import { timestampNow } from '#platform/clock.ts';
import { type BridgeCommand, roleDepsOf } from './bridge-command.ts';
import { readingText } from './feed-words.ts';
import { createProgress } from './output.ts';

/** A first read may take hours, between two calls of `onProgress`: so often the command looks how far it is. */
const lookMs = 5_000;

/** Reads, delivers and works the intakes, as `runOnce` does; rejects as it does. `patience` is in seconds. */
export async function runCompletely(command: BridgeCommand, { patience }: { patience: number }): Promise<RunResult> {
  const pulling = createProgress('feeds');
  const pushing = createProgress('documents');
  const taking = createProgress('intakes');
  let read: { done: number; total: number } | undefined;
  const timer = setInterval(() => {
    // An error shows in the run itself.
    void readingNow(command)
      .then((detail) => read && pulling.tell(read.done, read.total, detail))
      .catch(() => undefined);
  }, lookMs);
  try {
    const { runOnce } = await import('#bridge/run-once.ts');
    return await runOnce(await roleDepsOf(command), {
      patienceMs: patience * 1000,
      onProgress: ({ stage, done, total }) => {
        read = stage === 'pull' ? { done, total } : undefined;
        if (stage !== 'pull') pulling.end();
        if (stage === 'intake') pushing.end();
        if (total > 0 || stage !== 'intake')
          ({ pull: pulling, push: pushing, intake: taking })[stage].tell(done, total);
      },
      signal: command.signal,
    });
  } finally {
    clearInterval(timer);
    pulling.end();
    pushing.end();
    taking.end();
  }
}

async function readingNow({ database, settings, clock }: BridgeCommand): Promise<string> {
  return readingText(await readFeedStatuses(database, settings, timestampNow(clock)));
}
