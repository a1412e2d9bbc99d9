/**
 * `bridge run`: reads all feeds to their end, delivers everything that is due, works the intakes, and exits. For a scheduler instead of a
 * daemon, or beside one. Exit code 0 when everything was delivered; 1 when something failed, is refused or paused.
 */
import type { RunResult } from '#bridge/run-once.ts';
import { needsLook } from '#bridge/status/status.ts';
import { systemClock } from '#platform/clock.ts';
import { createRegistry } from '#platform/metrics.ts';
import { type BridgeCommand, type BridgeCommandOptions, requireSource, withBridge } from '../bridge-command.ts';
import { whysOf } from '../feed-words.ts';
import { certificateFor } from '../installation.ts';
import { createProgress, print, tableOf } from '../output.ts';

export interface RunOptions extends BridgeCommandOptions {
  patience: number;
}

export function runRun(options: RunOptions): Promise<number> {
  const run = async ({ installation, settings, database, signal }: BridgeCommand) => {
    // Without a source nothing would be read, and the flows of another configuration would be registered as removed.
    requireSource(settings);
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
        patienceMs: options.patience * 1000,
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
    const { failedFeeds, undelivered, unfinishedIntakes } = result;
    const isWell = failedFeeds.length + undelivered + unfinishedIntakes.length === 0 && !needsLook(result.status);
    print(options, { ok: isWell && !signal.aborted, ...result }, () => textOf(result, signal.aborted));
    return isWell && !signal.aborted ? 0 : 1;
  };
  // A scheduler may have nothing but this command: its first run makes the database.
  return withBridge(options, run, { begin: true, telemetry: true });
}

function textOf({ failedFeeds, undelivered, unfinishedIntakes, status }: RunResult, stopped: boolean): string {
  const flows = tableOf(
    ['flow', 'to deliver', 'dead letters', 'state'],
    status.flows.map((flow) => [flow.flow, flow.due, flow.deadLetters, flow.lag.why]),
    'No flow is configured.',
  );
  const failed = status.feeds.filter(({ source, feed }) => failedFeeds.includes(`${source}/${feed}`));
  const whys = whysOf(failed);
  const failures = failed.map(
    ({ source, feed }, index) => `The feed ${source}/${feed} was not read to its end: ${whys[index]}`,
  );
  const rest = undelivered > 0 ? [`${undelivered} documents wait for another try, which a later run makes.`] : [];
  const open = status.intakes
    .filter(({ intake }) => unfinishedIntakes.includes(intake))
    .map(({ intake, lag }) => `The intake ${intake} is not through: ${lag.why}`);
  return [flows, ...failures, ...rest, ...open, ...(stopped ? ['The run was stopped before its end.'] : [])].join('\n');
}
