/** One complete run of the bridge within a command, with its progress on the terminal. */
import type { RunResult } from '#bridge/run-once.ts';
import { systemClock } from '#platform/clock.ts';
import { createRegistry } from '#platform/metrics.ts';
import type { BridgeCommand } from './bridge-command.ts';
import { certificateFor } from './installation.ts';
import { createProgress } from './output.ts';

/** Reads, delivers and works the intakes, as `runOnce` does; rejects as it does. `patience` is in seconds. */
export async function runCompletely(
  { installation, settings, database, signal }: BridgeCommand,
  { patience }: { patience: number },
): Promise<RunResult> {
  const pulling = createProgress('feeds');
  const pushing = createProgress('documents');
  const taking = createProgress('intakes');
  const { runOnce } = await import('#bridge/run-once.ts');
  const result = await runOnce(
    {
      settings,
      tls: await certificateFor(installation, settings, false),
      dataDir: installation.dataDir,
      sweepMs: installation.configuration.sweep_seconds * 1000,
      database,
      fetch: installation.outgoing.fetch,
      secrets: installation.secrets,
      clock: systemClock,
      log: installation.log,
      registry: createRegistry(),
    },
    {
      patienceMs: patience * 1000,
      onProgress: ({ stage, done, total }) => {
        if (stage !== 'pull') pulling.end();
        if (stage === 'intake') pushing.end();
        if (total > 0 || stage !== 'intake')
          ({ pull: pulling, push: pushing, intake: taking })[stage].tell(done, total);
      },
      signal,
    },
  );
  pushing.end();
  taking.end();
  return result;
}
