/**
 * `bridge rebuild`: gives an empty or restored database its ledger back from what the sources and the ERPs hold, and then
 * delivers what really differs. A run that was killed goes on where it was.
 */
import { noteLostCommits } from '#bridge/ledger/lost-commits/note-lost-commits.ts';
import { readOpenLoss } from '#bridge/ledger/lost-commits/open-loss.ts';
import { timestampNow } from '#platform/clock.ts';
import { AppError } from '#platform/errors.ts';
import { type BridgeCommandOptions, requireSource, withBridge } from '../bridge-command.ts';
import { print } from '../output.ts';
import { runCompletely } from '../run-completely.ts';
import { runningProgram } from '../running-program.ts';

export interface RebuildOptions extends BridgeCommandOptions {
  patience: number;
}

/** The wait before the sources are read again, where their records become final later. */
const againMs = 1_000;

/**
 * Exit code 1 when something is left to do: another run, or a program with the roles pull and push, goes on. Throws
 * AppError `conflict` while a program works on the database and no rebuild is under way.
 */
export function runRebuild(options: RebuildOptions): Promise<number> {
  return withBridge(
    options,
    async (command) => {
      const { settings, database, clock, signal, perform } = command;
      requireSource(settings);
      const isUnderWay = (await readOpenLoss(database)) !== undefined;
      if (!isUnderWay) {
        const program = await runningProgram(database);
        if (program !== undefined)
          throw new AppError('conflict', `A program works on the database (${program}): stop it first.`);
        const restored = timestampNow(clock);
        await perform({ what: 'database.rebuild', object: null }, () =>
          noteLostCommits(database, { lost: restored, why: 'restored', since: null }),
        );
      }
      let open = await readOpenLoss(database);
      let undelivered = 0;
      let movedMs = clock.nowMs();
      for (let before = ''; open && !signal.aborted && clock.nowMs() - movedMs <= options.patience * 1000; ) {
        ({ undelivered } = await runCompletely(command, options));
        open = await readOpenLoss(database);
        const shown = JSON.stringify(open);
        if (shown !== before) movedMs = clock.nowMs();
        before = shown;
        if (open) await clock.sleep(againMs, signal).catch(() => undefined);
      }
      const isDone = open === undefined && undelivered === 0;
      print(options, { done: isDone, lostCommits: open ?? null, undelivered }, () =>
        isDone
          ? 'Rebuilt: the ERPs were asked about every document, and what differed is delivered. The programs may start.'
          : `Not all is done: bridge status says what is left. Run it again, or start the programs: they go on.`,
      );
      return isDone ? 0 : 1;
    },
    { begin: true },
  );
}
