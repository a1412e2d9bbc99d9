/** `bridge history`: the timeline of one document, from the change at the service to the ERP's answer. */
import { createObjectUrls } from '#bridge/connectors/object-urls.ts';
import { type FoundIntakeRecord, findIntakeRecords, readIntakeHistory } from '#bridge/intake/intake-history.ts';
import type { ShownDocument } from '#bridge/ledger/attempts/document-rows.ts';
import type { RecordVersion } from '#bridge/mirror/assemble/made-of.ts';
import { makeDocuments } from '#bridge/mirror/assemble/make-documents.ts';
import { readLatestAttempts } from '#bridge/operate/history/read-attempts.ts';
import { readTimeline } from '#bridge/operate/history/read-timeline.ts';
import type { Timestamp } from '#contract/timestamp.ts';
import { AppError } from '#platform/errors.ts';
import { type BridgeCommand, findFlow, isIntake, withBridge } from '../bridge-command.ts';
import { eventText, type FindCommandOptions, findForCommand, findOne, supplierText } from '../named-subjects.ts';
import { moreText, oneLine, print, shortTime, tableOf } from '../output.ts';
import { referenceText } from './bridge-find.ts';

export interface HistoryOptions extends FindCommandOptions {
  limit: number;
  from?: Timestamp;
  to?: Timestamp;
}

/** Exit code 1 while the document is not as it should be in the ERP: it waits, is held, or was refused. */
export function runHistory(options: HistoryOptions, words: readonly string[]): Promise<number> {
  if (words.length === 0) return runLatest(options);
  const show = async (command: BridgeCommand) => {
    const record = await intakeRecordOf(command, options, words);
    if (record) return showRecord(command, options, record);
    const document = await findOne(command, options, words);
    const { limit, from, to } = options;
    const madeOf = await recordsOf(command, document);
    const timeline = await readTimeline(command.database, document, { limit, from, to, madeOf });
    const url = await createObjectUrls(command.settings.flows)(document.flow, document.reference);
    print(
      options,
      { document: { ...document, url: url ?? null }, ...timeline, before: timeline.before ?? null },
      () => {
        const table = tableOf(
          ['time', 'step', 'what'],
          timeline.entries.map(({ at, step, text: what }) => [at.replace(/\d{3}Z$/, 'Z'), step, what]),
          'Nothing was tried with it yet.',
        );
        return [headOf(document, url), '', table, ...(timeline.before === undefined ? [] : [moreText])].join('\n');
      },
    );
    return isWell(document) ? 0 : 1;
  };
  return withBridge(options, show, { withoutSecrets: true });
}

/**
 * The record of an intake that the words mean: with `--flow` of an intake any that fits, else only one whose number at
 * the ERP it is, if no document of a flow fits.
 */
async function intakeRecordOf(
  command: BridgeCommand,
  options: HistoryOptions,
  words: readonly string[],
): Promise<FoundIntakeRecord | undefined> {
  const text = words.join(' ');
  const { settings, database } = command;
  const { flow } = options;
  if (settings.intakes.length === 0) return undefined;
  const ofIntake = flow !== undefined && isIntake(settings, flow);
  if (!ofIntake && (flow !== undefined || options.kind !== undefined)) return undefined;
  const found = await findIntakeRecords(database, { text, intake: flow, limit: 10 });
  if (!ofIntake && (await findForCommand(command, options, words, 1)).documents.length > 0) return undefined;
  const exact = found.filter(({ erpKey, key }) => erpKey === text || key === text);
  const [only, second] = exact.length > 0 ? exact : found;
  if (!second || (!ofIntake && !only)) return only;
  const lines = found.map(({ intake, erpKey, name }) => `  ${intake}  ${oneLine(erpKey)}  ${oneLine(name ?? '')}`);
  throw new AppError(
    'invalid',
    `"${text}" fits several records of intakes; name one by its number:\n${lines.join('\n')}`,
  );
}

async function showRecord(
  { database }: BridgeCommand,
  options: HistoryOptions,
  record: FoundIntakeRecord,
): Promise<number> {
  const { intake, stream, erpKey, key, name, state, since, why } = record;
  const entries = await readIntakeHistory(database, { intake, erpKey, limit: options.limit });
  print(options, { record, entries }, () =>
    [
      `${stream} ${oneLine(erpKey)}`,
      `  name            ${oneLine(name ?? 'not known')}`,
      `  intake          ${intake}`,
      `  at the service  ${oneLine(key ?? 'not known yet')}`,
      `  state           ${state} since ${shortTime(since)}`,
      ...(why === null ? [] : [`  why             ${oneLine(why)}`]),
      '',
      tableOf(
        ['time', 'step', 'what'],
        entries.map(({ at, step, text: what }) => [at.replace(/\d{3}Z$/, 'Z'), step, what]),
        'Nothing was done with it yet.',
      ),
    ].join('\n'),
  );
  return state === 'in step' || state === 'left out' ? 0 : 1;
}

/** The latest attempts of all documents, or of a flow: what the pusher has done lately. */
function runLatest(options: HistoryOptions): Promise<number> {
  const show = async ({ database, settings }: BridgeCommand) => {
    const { flow, limit, from, to } = options;
    if (flow !== undefined) findFlow(settings, flow);
    const found = await readLatestAttempts(database, { limit: limit + 1, from, to, flow, kinds: options.kind });
    const urlOf = createObjectUrls(settings.flows);
    const attempts = await Promise.all(
      found
        .slice(0, limit)
        .map(async (attempt) => ({ ...attempt, url: (await urlOf(attempt.flow, attempt.reference)) ?? null })),
    );
    const hasMore = found.length > limit;
    print(options, { attempts, hasMore }, () => {
      const table = tableOf(
        ['time', 'flow', 'kind', 'event', 'supplier', 'action', 'outcome', 'in the ERP as', 'what was said'],
        attempts.map((attempt) => [
          shortTime(attempt.ended),
          attempt.flow,
          attempt.kind,
          attempt.eventName,
          attempt.supplierName,
          attempt.action,
          attempt.outcome,
          referenceText(attempt.reference, attempt.url),
          attempt.message,
        ]),
        'No attempt was made yet.',
      );
      return hasMore ? `${table}\n${moreText}` : table;
    });
    return 0;
  };
  return withBridge(options, show, { withoutSecrets: true });
}

/** Whether nothing is to be done about the document. */
export function isWell({ state }: ShownDocument): boolean {
  return state === 'delivered' || state === 'cancelled' || state === 'nothing';
}

/** The records that the document is made of now; none where its flow is not configured here. */
async function recordsOf(
  { database, settings }: BridgeCommand,
  document: ShownDocument,
): Promise<readonly RecordVersion[]> {
  const flow = settings.flows.find(({ name }) => name === document.flow);
  if (!flow) return [];
  const made = await makeDocuments(database, flow, [document]);
  return made.get(`${document.kind} ${document.key}`)?.madeOf ?? [];
}

/** Which document it is, where it is, and why it is not elsewhere. */
export function headOf(document: ShownDocument, url: string | undefined): string {
  const about = [eventText(document), supplierText(document)].filter(Boolean).join(' / ');
  const since = document.since === null ? '' : ` since ${shortTime(document.since)}`;
  const lines = [
    `${document.kind} ${oneLine(document.key)}`,
    `  about       ${about === '' ? 'its key only: no name is known' : about}`,
    `  flow        ${document.flow}, from ${document.source}`,
    `  state       ${document.state}${since}`,
    ...(document.why === null ? [] : [`  why         ${oneLine(document.why)}`]),
    ...(document.until === null ? [] : [`  until       ${shortTime(document.until)}`]),
    ...(document.reference === null ? [] : [`  in the ERP  ${oneLine(referenceText(document.reference, url) ?? '')}`]),
  ];
  return lines.join('\n');
}
