/**
 * `bridge run`: reads all feeds to their end, delivers everything that is due, works the intakes, and exits. For a scheduler instead of a
 * daemon, or beside one. Exit code 0 when everything was delivered; 1 when something failed, is refused or paused.
 */
import { lossText } from '#bridge/operate/status/flow-lag.ts';
import type { RunResult } from '#bridge/run-once.ts';
import { type BridgeCommand, type BridgeCommandOptions, requireSource, withBridge } from '../bridge-command.ts';
import { whysOf } from '../feed-words.ts';
import { print, tableOf } from '../output.ts';
import { runCompletely } from '../run-completely.ts';

export interface RunOptions extends BridgeCommandOptions {
  patience: number;
}

export function runRun(options: RunOptions): Promise<number> {
  const run = async (command: BridgeCommand) => {
    // Without a source nothing would be read, and the flows of another configuration would be registered as removed.
    requireSource(command.settings);
    const result = await runCompletely(command, options);
    const { signal } = command;
    const { failedFeeds, undelivered, unfinishedIntakes } = result;
    // A comparison of before this run says nothing of what was delivered in it.
    const left = result.status.conditions.filter(({ kind }) => kind !== 'erp-differs' && kind !== 'comparison-late');
    const isCaughtUp = result.status.lostCommits === null;
    const isWell = isCaughtUp && failedFeeds.length + undelivered + unfinishedIntakes.length + left.length === 0;
    print(options, { ok: isWell && !signal.aborted, ...result }, () => textOf(result, signal.aborted));
    return isWell && !signal.aborted ? 0 : 1;
  };
  // A scheduler may have nothing but this command: its first run makes the database.
  return withBridge(options, run, { begin: true });
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
  const loss =
    status.lostCommits === null
      ? []
      : [`${lossText(status.lostCommits)}. A later run goes on: bridge status says how far it is.`];
  return [
    flows,
    ...failures,
    ...rest,
    ...open,
    ...loss,
    ...(stopped ? ['The run was stopped before its end.'] : []),
  ].join('\n');
}
