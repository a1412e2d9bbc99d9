/** One complete run of the bridge within a command, with its progress on the terminal. */
import type { RunResult } from '#bridge/run-once.ts';
import { type BridgeCommand, roleDepsOf } from './bridge-command.ts';
import { createProgress } from './output.ts';

/** Reads, delivers and works the intakes, as `runOnce` does; rejects as it does. `patience` is in seconds. */
export async function runCompletely(command: BridgeCommand, { patience }: { patience: number }): Promise<RunResult> {
  const pulling = createProgress('feeds');
  const pushing = createProgress('documents');
  const taking = createProgress('intakes');
  const { runOnce } = await import('#bridge/run-once.ts');
  const result = await runOnce(await roleDepsOf(command), {
    patienceMs: patience * 1000,
    onProgress: ({ stage, done, total }) => {
      if (stage !== 'pull') pulling.end();
      if (stage === 'intake') pushing.end();
      if (total > 0 || stage !== 'intake') ({ pull: pulling, push: pushing, intake: taking })[stage].tell(done, total);
    },
    signal: command.signal,
  });
  pushing.end();
  taking.end();
  return result;
}
