/** `bridge dead-letters`: the documents that an ERP refused, with its words. */
import { readDeadLetters } from '#bridge/push/control.ts';
import { type BridgeCommandOptions, findFlow, withBridge } from '../bridge-command.ts';
import { print, shortTime, tableOf } from '../output.ts';

export interface DeadLettersOptions extends BridgeCommandOptions {
  flow?: string;
  limit: number;
}

/** The newest first. Exit code 1 when there is one. */
export function runDeadLetters(options: DeadLettersOptions): Promise<number> {
  return withBridge(options, async ({ settings, database }) => {
    if (options.flow !== undefined) findFlow(settings, options.flow);
    const deadLetters = await readDeadLetters(database, {
      limit: options.limit,
      ...(options.flow === undefined ? {} : { flow: options.flow }),
    });
    print(options, { deadLetters }, () =>
      tableOf(
        ['flow', 'kind', 'key', 'since', 'error', 'what the ERP said'],
        deadLetters.map((one) => [one.flow, one.kind, one.key, shortTime(one.deadSince), one.errorType, one.lastError]),
        'No dead letters.',
      ),
    );
    return deadLetters.length > 0 ? 1 : 0;
  });
}
