/**
 * `bridge dead-letters`: the documents that an ERP refused, and the suppliers of intakes that a service refused, with
 * the message.
 */
import { createObjectUrls } from '#bridge/connectors/object-urls.ts';
import { readIntakeDeadLetters } from '#bridge/intake/control-intakes.ts';
import { readDeadLetters } from '#bridge/ledger/flows/control-flows.ts';
import { type BridgeCommand, type BridgeCommandOptions, isIntake, withBridge } from '../bridge-command.ts';
import { type SubjectOptions, subjectIds } from '../named-subjects.ts';
import { moreText, print, shortTime, tableOf } from '../output.ts';
import { referenceText } from './bridge-find.ts';

export interface DeadLettersOptions extends BridgeCommandOptions, SubjectOptions {
  flow?: string;
  limit: number;
}

/** Shows the newest first. Exit code 1 when there are any. */
export function runDeadLetters(options: DeadLettersOptions): Promise<number> {
  const show = async (command: BridgeCommand) => {
    const { settings, database } = command;
    const { flow, limit } = options;
    const ofIntake = flow !== undefined && isIntake(settings, flow);
    const sources = settings.sources.map(({ name }) => name);
    const found = await readDeadLetters(database, {
      ...(await subjectIds(command, sources, options)),
      limit: limit + 1,
      ...(flow === undefined ? {} : { flow }),
    });
    const urlOf = createObjectUrls(settings.flows);
    const deadLetters = await Promise.all(
      found
        .slice(0, limit)
        .map(async (letter) => ({ ...letter, url: (await urlOf(letter.flow, letter.reference)) ?? null })),
    );
    // Those of intakes have no event by which they could be chosen.
    const isChosen = options.event !== undefined || options.supplier !== undefined;
    const intakes =
      isChosen || (flow !== undefined && !ofIntake)
        ? []
        : await readIntakeDeadLetters(database, { intake: flow, limit });
    const hasMore = found.length > limit;
    print(options, { deadLetters, intakes, hasMore }, () => {
      const table = tableOf(
        ['flow', 'kind', 'event', 'supplier', 'since', 'error', 'in the ERP as', 'what the ERP said', 'key'],
        deadLetters.map((letter) => [
          letter.flow,
          letter.kind,
          letter.eventName,
          letter.supplierName,
          shortTime(letter.deadSince),
          letter.errorType,
          referenceText(letter.reference, letter.url),
          letter.lastError,
          letter.key,
        ]),
        'No dead letters.',
      );
      const parts = intakes.length === 0 || deadLetters.length > 0 ? [table] : [];
      if (intakes.length > 0)
        parts.push(
          tableOf(
            ['intake', 'in the ERP', 'name', 'at the service', 'since', 'error', 'what was said'],
            intakes.map((letter) => [
              letter.intake,
              letter.erpKey,
              letter.name,
              letter.key,
              shortTime(letter.deadSince),
              letter.errorType,
              letter.lastError,
            ]),
          ),
        );
      return [...parts, ...(hasMore ? [moreText] : [])].join('\n\n');
    });
    return deadLetters.length + intakes.length > 0 ? 1 : 0;
  };
  return withBridge(options, show, { withoutSecrets: true });
}
