/** `bridge mapping try`: the documents of a flow as its mapping makes them now from the mirror; nothing is written. */
import { type TriedDocument, tryMapping } from '#bridge/assemble/try-mapping.ts';
import { type BridgeCommandOptions, findFlow, withBridge } from '../bridge-command.ts';
import { oneLine, print } from '../output.ts';

export interface MappingTryOptions extends BridgeCommandOptions {
  event?: string[];
  limit: number;
}

/**
 * Uses the flow of the configuration file, whether a daemon runs with it or not. Exit code 1 when a document cannot be
 * made.
 */
export function runMappingTry(options: MappingTryOptions, name: string): Promise<number> {
  return withBridge(
    options,
    async ({ settings, database }) => {
      const flow = findFlow(settings, name);
      const tried = await tryMapping(database, flow, {
        limit: options.limit,
        ...(options.event && { events: options.event }),
      });
      print(options, { flow: name, documents: tried }, () =>
        tried.length === 0 ? 'The mirror holds no records for this flow yet.' : tried.map(textOf).join('\n'),
      );
      return tried.some(({ result }) => result === 'rejected') ? 1 : 0;
    },
    { withoutSecrets: true },
  );
}

function textOf({ kind, key, result, reason, document }: TriedDocument): string {
  const head = oneLine(`${kind} ${key}: ${result}${reason === undefined ? '' : `: ${reason}`}`);
  return document === undefined ? head : `${head}\n${JSON.stringify(document, null, 2)}`;
}
