/** `bridge show`: one document, as it is now or as it was sent, and what differs from another version of it. */
import { createObjectUrls } from '#bridge/connectors/object-urls.ts';
import type { ShownDocument } from '#bridge/ledger/attempts/document-rows.ts';
import { readVersions, type SentVersion } from '#bridge/ledger/attempts/document-versions.ts';
import { documentNow } from '#bridge/operate/history/document-now.ts';
import { documentDifferences } from '#bridge/operate/plan/document-differences.ts';
import { AppError } from '#platform/errors.ts';
import { type BridgeCommand, withBridge } from '../bridge-command.ts';
import { type FindCommandOptions, findOne } from '../named-subjects.ts';
import { oneLine, print, shortTime, tableOf } from '../output.ts';
import { headOf } from './bridge-history.ts';

export interface ShowOptions extends FindCommandOptions {
  sent?: number;
  against?: number;
}

/** A state of the document: what the mirror makes of it now, or a version that was sent. */
interface Shown {
  readonly what: string;
  /** Undefined where it is not known: it cannot be made, or it was too long to be kept. */
  readonly document: unknown;
  readonly contentHash: string | undefined;
  /** Why there is no document, or that it is not wanted. */
  readonly note?: string;
}

/** Shows the document as it is now, or `--sent`; against what was delivered last, or `--against`. */
export function runShow(options: ShowOptions, words: readonly string[]): Promise<number> {
  const show = async (command: BridgeCommand) => {
    const document = await findOne(command, options, words);
    const versions = await readVersions(command.database, document);
    const shown =
      options.sent === undefined ? await stateNow(command, document) : sentAs(versionOf(versions, options.sent));
    const other =
      options.against === undefined
        ? versions.find((version) => version.isDelivered)
        : versionOf(versions, options.against);
    const differences = other === undefined ? null : differencesOf(other, shown);
    const url = await createObjectUrls(command.settings.flows)(document.flow, document.reference);
    print(
      options,
      {
        document: { ...document, url: url ?? null },
        shown,
        against: other?.number ?? null,
        differences,
        versions: versions.map(({ document: _body, ...version }) => version),
      },
      () =>
        [
          headOf(document, url),
          ...versionsText(versions),
          ...shownText(shown),
          ...differencesText(other, differences),
        ].join('\n'),
    );
    return shown.document === undefined ? 1 : 0;
  };
  return withBridge(options, show, { withoutSecrets: true });
}

async function stateNow({ database, settings }: BridgeCommand, place: ShownDocument): Promise<Shown> {
  const { madeOf: _madeOf, ...now } = await documentNow(database, settings, place);
  return { what: 'as the mirror makes it now', ...now };
}

function sentAs({ number, sent, document, contentHash }: SentVersion): Shown {
  const what = `version ${number}, sent ${shortTime(sent)}`;
  if (document === null) return { what, document: undefined, contentHash, note: 'it was too long to be kept' };
  return { what, document, contentHash };
}

function versionOf(versions: readonly SentVersion[], number: number): SentVersion {
  const found = versions.find((version) => version.number === number);
  if (found) return found;
  const known = versions.map((version) => version.number).join(', ');
  throw new AppError(
    'not-found',
    known === ''
      ? 'No version of it was sent yet.'
      : `There is no version ${number}; those that are kept are: ${known}.`,
  );
}

/** Null: it cannot be told, as one of the two is not known. */
function differencesOf(other: SentVersion, shown: Shown): string[] | null {
  if (other.contentHash === shown.contentHash) return [];
  if (other.document === null || shown.document === undefined) return null;
  return documentDifferences(other.document, shown.document);
}

function versionsText(versions: readonly SentVersion[]): string[] {
  if (versions.length === 0) return ['', 'No version of it was sent yet.'];
  return [
    '',
    tableOf(
      ['version', 'sent first', 'action', 'outcome', 'in the ERP as', 'total', ''],
      versions.map((version) => [
        version.number,
        shortTime(version.sent),
        version.action,
        version.outcome,
        version.reference,
        version.amount === null ? null : `${version.amount} ${version.currency ?? ''}`,
        version.isDelivered ? 'the ERP has this one' : ' ',
      ]),
    ),
  ];
}

function shownText({ what, document, note }: Shown): string[] {
  const head = `The document ${what}${note === undefined ? '' : `: ${oneLine(note)}`}`;
  const body = document === undefined ? [] : [JSON.stringify(document, null, 2)];
  return ['', head, ...body];
}

function differencesText(other: SentVersion | undefined, differences: readonly string[] | null): string[] {
  if (other === undefined) return [];
  const from = `version ${other.number}${other.isDelivered ? ', which the ERP has' : ''}`;
  if (differences === null) return ['', `What differs from ${from} is not known: a document was too long to be kept.`];
  if (differences.length === 0) return ['', `It does not differ from ${from}.`];
  return ['', `It differs from ${from}:`, ...differences.map((line) => `  ${oneLine(line)}`)];
}
