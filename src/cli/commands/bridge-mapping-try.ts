/** `bridge mapping try`: the documents of a flow as its mapping makes them from the mirror; nothing is written. */
import { missingColumns } from '#bridge/operate/plan/missing-columns.ts';
import { type TriedDocument, tryMapping } from '#bridge/operate/plan/try-mapping.ts';
import { type BridgeCommandOptions, findFlow, withBridge } from '../bridge-command.ts';
import { subjectIds } from '../named-subjects.ts';
import { oneLine, print } from '../output.ts';

export interface MappingTryOptions extends BridgeCommandOptions {
  event?: string[];
  limit: number;
}

/**
 * Uses the flow of the configuration file, whether a daemon runs with it or not. Exit code 1 when a document cannot be
 * made, when the flow names a column that no line has, or events of which the mirror holds nothing.
 */
export function runMappingTry(options: MappingTryOptions, name: string): Promise<number> {
  return withBridge(
    options,
    async (command) => {
      const { settings, database } = command;
      const flow = findFlow(settings, name);
      const { events } = await subjectIds(command, [flow.source], options);
      const which = { limit: options.limit, ...(events && { events }) };
      const tried = await tryMapping(database, flow, which);
      const missing = await missingColumns(database, flow, which);
      const nothing = options.event
        ? `The mirror holds nothing for this flow of ${options.event.map((event) => `"${oneLine(event)}"`).join(', ')}.`
        : 'The mirror holds no records for this flow yet.';
      print(options, { flow: name, documents: tried, missing_columns: missing }, () =>
        tried.length === 0 ? nothing : [...tried.map(textOf), ...missing.map(oneLine)].join('\n'),
      );
      const isFaulty = missing.length > 0 || tried.some(({ result }) => result === 'rejected');
      return isFaulty || (events && tried.length === 0) ? 1 : 0;
    },
    { withoutSecrets: true },
  );
}

function textOf({ kind, key, result, reason, document }: TriedDocument): string {
  const head = oneLine(`${kind} ${key}: ${result}${reason === undefined ? '' : `: ${reason}`}`);
  return document === undefined ? head : `${head}\n${JSON.stringify(document, null, 2)}`;
}
