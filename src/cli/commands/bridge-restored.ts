/**
 * `bridge restored`: tells the bridge that its database was restored from a backup by the server's own tools, or was lost
 * and is empty now. `restore` does the same for the embedded database.
 */
import { noteLostCommits } from '#bridge/ledger/lost-commits/note-lost-commits.ts';
import type { Timestamp } from '#contract/timestamp.ts';
import { timestampNow } from '#platform/clock.ts';
import { AppError } from '#platform/errors.ts';
import { type BridgeCommandOptions, withBridge } from '../bridge-command.ts';
import { print } from '../output.ts';
import { runningProgram } from '../running-program.ts';

/** Throws an AppError `conflict` while a program works on the database: it may be sending what the rows of before say. */
export function runRestored(options: BridgeCommandOptions & { made?: Timestamp }): Promise<number> {
  return withBridge(
    options,
    async ({ database, clock, perform }) => {
      const program = await runningProgram(database);
      if (program !== undefined)
        throw new AppError('conflict', `A program works on the database (${program}): stop it first.`);
      const restored = timestampNow(clock);
      await perform({ what: 'database.restored', object: null }, () =>
        noteLostCommits(database, { lost: restored, why: 'restored', since: options.made ?? null }),
      );
      print(
        options,
        { restored },
        () =>
          'Noted. Start the programs: nothing is sent before the sources were read again, and each document is looked up in ' +
          'its ERP before it is written. bridge status says how far that is.',
      );
      return 0;
    },
    { withoutSecrets: true, begin: true },
  );
}
