/**
 * Makes the tables of docs/connectors.md from the result files that the conformance kit writes. Pure, and the result is
 * the same on every machine: no times, only the first number of versions, and for an ERP that a run could not reach (it
 * is not installed there) the rows that stood there before.
 */
import { type DocumentKind, documentKinds } from '#connector/documents.ts';
import { type ReadStream, readStreams } from '#connector/records.ts';
import type { Verification } from '#connector/testing/target.ts';

/** One file of results: a connector against one ERP. */
export interface ConformanceResult {
  readonly connector: string;
  readonly against: string;
  readonly verified: Verification;
  readonly kinds: readonly DocumentKind[];
  readonly reads: readonly ReadStream[];
  readonly checks: readonly {
    readonly name: string;
    readonly result: 'passed' | 'failed' | 'not applicable';
    readonly reason?: string;
  }[];
}

/** A check of the kit. */
export interface KitCheck {
  readonly name: string;
  /** The guarantee that holds when the check passes. */
  readonly guarantee: string;
}

/** A connector against one ERP, as it stands in the tables. */
interface Row {
  readonly connector: string;
  readonly directions: readonly string[];
  readonly verified: string;
  readonly against: string;
  readonly outcome: string;
  /** Checks that do not apply, each with the reason. */
  readonly exceptions: readonly (readonly [check: string, reason: string])[];
}

const begin = '<!-- made by npm test: begin -->';
const end = '<!-- made by npm test: end -->';

const things: readonly string[] = [...new Set<string>([...documentKinds, ...readStreams])];
const rowTitles = ['Connector', ...things.map((name) => `\`${name}\``), 'Verified', 'Against', 'Conformance'];
const checkTitles = ['Check', 'What holds'];
const exceptionTitles = ['Connector', 'Against', 'Checks', 'Why they do not apply'];

/**
 * Returns the document with its tables renewed by the results of a run; rows without a result stay. `connectors` are
 * the connectors that have a folder: the rows of all others are removed. `checks` are those of the kit, in its order.
 * Throws when the document has no place for the tables.
 */
export function renewTables(
  document: string,
  results: readonly ConformanceResult[],
  { connectors, checks }: { connectors: readonly string[]; checks: readonly KitCheck[] },
): string {
  const [before = '', rest = ''] = document.split(`${begin}\n`);
  const [tables = '', after] = rest.split(end);
  if (after === undefined)
    throw new Error(`The document has no place for the tables: a line ${begin}, and one ${end} after it.`);
  const committed = readRows(tables);
  const fresh = uniqueRows(results.map((result) => asCommitted(rowOf(result), committed)));
  const rows = [...fresh, ...committed.filter((row) => !fresh.some((other) => orderOf(other) === orderOf(row)))]
    .filter(({ connector }) => connectors.includes(connector))
    .sort((a, b) => (orderOf(a) < orderOf(b) ? -1 : 1));
  return [before, `${begin}\n`, tablesText(rows, checks), end, after].join('');
}

/** Keeps the first of several versions of one ERP that belong to the same row. */
function uniqueRows(rows: readonly Row[]): Row[] {
  return [...new Map(rows.toReversed().map((row) => [orderOf(row), row])).values()];
}

function orderOf({ connector, verified, against }: Row): string {
  return JSON.stringify([connector, verified, against]);
}

function rowOf({ connector, against, verified, kinds, reads, checks }: ConformanceResult): Row {
  const count = (result: string) => checks.filter((check) => check.result === result).length;
  const others = ['failed', 'not applicable'].filter((result) => count(result) > 0);
  return {
    connector,
    directions: things.map((thing) => directionOf(kinds.includes(thing as never), reads.includes(thing as never))),
    verified,
    against: cellText(against.replaceAll(/(\d+)(\.\d+)+\w*/g, '$1')),
    outcome: [`${count('passed')} passed`, ...others.map((result) => `${count(result)} ${result}`)].join(', '),
    exceptions: checks
      .filter(({ result }) => result === 'not applicable')
      .map(({ name, reason = '' }) => [cellText(name), cellText(reason)] as const),
  };
}

function directionOf(isWritten: boolean, isRead: boolean): string {
  if (isWritten) return isRead ? '⇄' : '→';
  return isRead ? '←' : ' ';
}

/** Another version of the same ERP, as on another machine, changes nothing: the committed numbers stay. */
function asCommitted(fresh: Row, committed: readonly Row[]): Row {
  const isSame = (row: Row) =>
    row.connector === fresh.connector &&
    row.verified === fresh.verified &&
    unnumbered(row.against) === unnumbered(fresh.against);
  return { ...fresh, against: committed.find(isSame)?.against ?? fresh.against };
}

function unnumbered(text: string): string {
  return text.replaceAll(/\d+/g, '');
}

function tablesText(rows: readonly Row[], checks: readonly KitCheck[]): string {
  const results = rows.map((row) => [linkOf(row), ...row.directions, row.verified, row.against, row.outcome]);
  const guarantees = checks.map(({ name, guarantee }) => [cellText(name), cellText(guarantee)]);
  const exceptions = rows.flatMap((row) =>
    [...Map.groupBy(row.exceptions, ([, reason]) => reason)].map(([reason, those]) => [
      linkOf(row),
      row.against,
      those.map(([check]) => check).join(', '),
      reason,
    ]),
  );
  const sections = [
    tableText(rowTitles, results),
    `The checks of the kit:\n\n${tableText(checkTitles, guarantees)}`,
    ...(exceptions.length === 0 ? [] : [`Checks that do not apply:\n\n${tableText(exceptionTitles, exceptions)}`]),
  ];
  return `\n${sections.join('\n')}\n`;
}

function linkOf({ connector }: Row): string {
  return `[${connector}](../connectors/${connector}/README.md)`;
}

function tableText(titles: readonly string[], rows: readonly (readonly string[])[]): string {
  return [titles, titles.map(() => '---'), ...rows].map((cells) => `| ${cells.join(' | ')} |\n`).join('');
}

/** The text in one line, without the character that ends a cell. */
function cellText(text: string): string {
  return text.replaceAll(/\s+/g, ' ').replaceAll('|', '/').trim();
}

/** Reads the rows back from the output of `tablesText`. */
function readRows(tables: string): Row[] {
  const lines = tables
    .split('\n')
    .map((line) => /^\| \[([^\]]+)\]\(\S+\) \| (.+) \|$/.exec(line) ?? [])
    .map(([, connector = '', cells = '']) => ({ connector, cells: cells.split(' | ') }));
  const [rowCells, exceptionCells] = [rowTitles.length - 1, exceptionTitles.length - 1];
  return lines
    .filter(({ cells }) => cells.length === rowCells)
    .map(({ connector, cells }) => {
      const [verified = '', against = '', outcome = ''] = cells.slice(things.length);
      const exceptions = lines
        .filter((line) => line.cells.length === exceptionCells)
        .filter((line) => line.connector === connector && line.cells[0] === against)
        .flatMap(({ cells: [, those = '', reason = ''] }) =>
          those.split(', ').map((check) => [check, reason] as const),
        );
      return { connector, directions: cells.slice(0, things.length), verified, against, outcome, exceptions };
    });
}
