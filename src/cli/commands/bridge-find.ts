/** `bridge find`: where the documents are that a person knows by a name, a reference or an id. */
import { createObjectUrls } from '#bridge/flows/object-urls.ts';
import type { ShownDocument } from '#bridge/history/document-rows.ts';
import { withBridge } from '../bridge-command.ts';
import { eventText, type FindCommandOptions, findForCommand, nothingFound, supplierText } from '../named-subjects.ts';
import { print, shortTime, tableOf } from '../output.ts';

export interface FindOptions extends FindCommandOptions {
  limit: number;
  skip: number;
}

/** Shows those that need a look first, then the latest. Exit code 1 when nothing fits. */
export function runFind(options: FindOptions, text: string): Promise<number> {
  const find = async (command: Parameters<Parameters<typeof withBridge>[1]>[0]) => {
    const { limit, skip } = options;
    const { documents, hasMore, subjects } = await findForCommand(command, options, text, { limit, skip });
    const urlOf = createObjectUrls(command.settings.flows);
    const shown = await Promise.all(
      documents.map(async (document) => ({
        ...document,
        url: (await urlOf(document.flow, document.reference)) ?? null,
      })),
    );
    print(options, { documents: shown, hasMore, subjects }, () => {
      if (shown.length === 0) return skip > 0 ? 'No further documents.' : nothingFound(text, subjects);
      const more = hasMore ? [`There are more: --skip ${skip + shown.length}`] : [];
      return [tableText(shown), ...more, 'Its way there, step by step: bridge history <the same words>'].join('\n');
    });
    return shown.length === 0 ? 1 : 0;
  };
  return withBridge(options, find, { withoutSecrets: true });
}

function tableText(documents: readonly (ShownDocument & { url: string | null })[]): string {
  return tableOf(
    ['flow', 'kind', 'event', 'supplier', 'state', 'since', 'in the ERP as', 'why', 'until'],
    documents.map((document) => [
      document.flow,
      document.kind,
      eventText(document),
      supplierText(document),
      document.state,
      shortTime(document.since),
      referenceText(document.reference, document.url),
      document.why,
      shortTime(document.until),
    ]),
  );
}

/** The ERP's reference, and where a person sees the object. */
export function referenceText(reference: string | null, url: string | null | undefined): string | null {
  return url ? `${reference} ${url}` : reference;
}
