/** `bridge find`: where the documents are that a person knows by a name, a reference or an id. */
import { createObjectUrls } from '#bridge/connectors/object-urls.ts';
import { type FoundIntakeRecord, findIntakeRecords } from '#bridge/intake/intake-history.ts';
import type { ShownDocument } from '#bridge/ledger/attempts/document-rows.ts';
import { isIntake, withBridge } from '../bridge-command.ts';
import { eventText, type FindCommandOptions, findForCommand, nothingFound, supplierText } from '../named-subjects.ts';
import { moreText, print, shortTime, tableOf } from '../output.ts';

export interface FindOptions extends FindCommandOptions {
  limit: number;
}

/** Shows those that need a look first, then the latest. Exit code 1 when nothing fits. */
export function runFind(options: FindOptions, words: readonly string[]): Promise<number> {
  const text = words.join(' ');
  const find = async (command: Parameters<Parameters<typeof withBridge>[1]>[0]) => {
    const { limit } = options;
    const ofIntake = options.flow !== undefined && isIntake(command.settings, options.flow);
    const { documents, hasMore, subjects } = ofIntake
      ? { documents: [], hasMore: false, subjects: [] }
      : await findForCommand(command, options, words, limit);
    const withIntakes = options.kind === undefined && (options.flow === undefined || ofIntake);
    const intakes = withIntakes ? await findIntakeRecords(command.database, { text, intake: options.flow, limit }) : [];
    const urlOf = createObjectUrls(command.settings.flows);
    const shown = await Promise.all(
      documents.map(async (document) => ({
        ...document,
        url: (await urlOf(document.flow, document.reference)) ?? null,
      })),
    );
    print(options, { documents: shown, hasMore, subjects, intakes }, () => {
      if (shown.length === 0 && intakes.length > 0) return intakesText(intakes);
      if (shown.length === 0) return nothingFound(text, subjects);
      return [
        tableText(shown),
        ...(intakes.length > 0 ? ['', intakesText(intakes), ''] : []),
        ...(hasMore ? [moreText] : []),
        'Its way there, step by step: bridge history <the same words>',
      ].join('\n');
    });
    return shown.length + intakes.length === 0 ? 1 : 0;
  };
  return withBridge(options, find, { withoutSecrets: true });
}

function intakesText(records: readonly FoundIntakeRecord[]): string {
  return tableOf(
    ['intake', 'in the ERP', 'name', 'at the service', 'state', 'since', 'why'],
    records.map(({ intake, erpKey, name, key, state, since, why }) => [
      intake,
      erpKey,
      name,
      key,
      state,
      shortTime(since),
      why,
    ]),
  );
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
