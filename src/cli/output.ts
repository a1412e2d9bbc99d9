/**
 * The output of a command: aligned tables for people, one JSON value for programs, and progress. Results go to standard
 * output and progress to standard error, so that a pipe gets only the result. No library is used: the known ones draw
 * frames and colours that are not wanted here, and print the control characters of a text that an ERP has sent.
 */
import { durationOf } from '#console/duration.ts';

export type TableCell = string | number | boolean | null | undefined;

export interface OutputOptions {
  /** One JSON value on standard output, and nothing else there. */
  json?: boolean;
}

/** Prints `value` as JSON for programs, or the result of `text` for people. */
export function print(options: OutputOptions, value: unknown, text: () => string): void {
  console.log(options.json ? JSON.stringify(value, null, 2) : printable(text()));
}

/**
 * Returns the rows under their titles, with aligned columns and numbers to the right; `none` when there is no row. A
 * cell is one line: line ends and control characters in it become spaces.
 */
export function tableOf(titles: readonly string[], rows: readonly (readonly TableCell[])[], none = 'none'): string {
  if (rows.length === 0) return none;
  const lines = [titles, ...rows.map((row) => row.map(textOf))];
  const widths = titles.map((_, column) => Math.max(...lines.map((line) => line[column]?.length ?? 0)));
  const right = titles.map((_, column) => rows.some((row) => typeof row[column] === 'number'));
  return lines
    .map((line) =>
      line
        .map((text, column) => (right[column] ? text.padStart(widths[column] ?? 0) : text.padEnd(widths[column] ?? 0)))
        .join('  ')
        .trimEnd(),
    )
    .join('\n');
}

/** Under a list of which `--limit` shows only a part. */
export const moreText = 'There is more: --limit shows it.';

/** A lag as text for people. */
export function lagText(seconds: number | null): string {
  return seconds === null ? 'not known' : durationOf(seconds);
}

/** A time to the second, for people; the JSON output has the microseconds. */
export function shortTime(timestamp: string | null): string | null {
  return timestamp === null ? null : `${timestamp.slice(0, 19)}Z`;
}

function textOf(cell: TableCell): string {
  if (cell === null || cell === undefined || cell === '') return '-';
  if (typeof cell === 'boolean') return cell ? 'yes' : 'no';
  return oneLine(String(cell));
}

/** Text with foreign words in it, without the characters that could control a terminal; its lines stay. */
export function printable(text: string): string {
  return text.replace(/(?!\n)[\p{Cc}\p{Cf}]/gu, ' ');
}

/** Foreign text in one line, without the characters that could control a terminal. */
export function oneLine(text: string): string {
  return text.replace(/[\p{Cc}\p{Cf}\s]+/gu, ' ').trim();
}

export interface Progress {
  /** Shows how much is done, of `total` if that is known; `detail` is a few words. Cheap: call it for every item. */
  tell(done: number, total?: number, detail?: string): void;
  /** Ends the progress; the last state stays on the screen. */
  end(): void;
}

export interface ProgressStream {
  readonly isTTY?: boolean;
  write(text: string): unknown;
}

const redrawMs = 100;
const lineMs = 60_000;
/** Before that the pace is not known. */
const paceMs = 3_000;

/**
 * Shows how much is done, and with a total about how long the rest takes: one line that redraws itself on a terminal;
 * elsewhere a line at the beginning, every minute, and at the end.
 */
export function createProgress(
  what: string,
  options: { stream?: ProgressStream; nowMs?: () => number } = {},
): Progress {
  const { stream = process.stderr, nowMs = () => performance.now() } = options;
  const everyMs = stream.isTTY ? redrawMs : lineMs;
  let latest: string | undefined;
  let shown: string | undefined;
  let shownMs = Number.NEGATIVE_INFINITY;
  let first: { done: number; ms: number } | undefined;
  const leftOf = (done: number, total: number | undefined): string => {
    first ??= { done, ms: nowMs() };
    const [gone, tookMs] = [done - first.done, nowMs() - first.ms];
    if (total === undefined || gone <= 0 || done >= total || tookMs < paceMs) return '';
    return `, about ${durationOf(((total - done) * tookMs) / gone / 1_000)} left`;
  };
  const show = () => {
    if (latest === undefined || latest === shown) return;
    // Clears the rest of a longer line before it.
    stream.write(stream.isTTY ? `\r${latest}\u001b[K` : `${latest}\n`);
    shown = latest;
    shownMs = nowMs();
  };
  return {
    tell(done, total, detail = '') {
      const of = total === undefined ? `${done}` : `${done}/${total}`;
      latest = `${what} ${of}${leftOf(done, total)} ${oneLine(detail)}`.trimEnd();
      if (nowMs() - shownMs >= everyMs) show();
    },
    end() {
      show();
      if (stream.isTTY && shown !== undefined) stream.write('\n');
    },
  };
}
