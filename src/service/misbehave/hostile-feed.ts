/**
 * One feed of a misbehaving source. It keeps the versions of its records, each with a stamp and the time of its commit,
 * and answers requests with the versions that were committed by then, or somewhat earlier where a replica lags. Pure: it
 * has no clock and no I/O, so the same versions, requests and random numbers lead to the same answers.
 *
 * Example: with `late-commits`, r1 is stamped 10.0 s and committed at 18.0 s, r2 is stamped and committed at 12.0 s. An
 * answer of 15 s shows r2 alone; an answer of 19 s shows r1, then r2. A reader that went on from r2 never sees r1.
 */
import { microsFromTimestamp, parseTimestamp, timestampFromMicros } from '#contract/timestamp.ts';
import type { FeedQuirks } from './feed-quirks.ts';
import { type Fault, pickFault } from './hostile-faults.ts';
import { type Page, pageOf, RefusedRequest } from './hostile-pages.ts';
import {
  type Fraction,
  type HostileVersion,
  hasChanged,
  type Row,
  roundedStamp,
  sourceClock,
  textHash,
  undated,
} from './hostile-versions.ts';

export interface HostileAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  /** How long the answer takes. */
  readonly delayMs: number;
  /** It is a page as it should be: nothing is missing at its end. */
  readonly isPage: boolean;
  /** What it is, for a log. */
  readonly note: string;
}

const second = 1_000_000;

export class HostileFeed {
  readonly quirks: Readonly<FeedQuirks>;
  readonly #random: Fraction;
  readonly #startMicros: number;
  readonly #versions = new Map<string, HostileVersion[]>();
  /** The times of commits, in their order, as far back as an answer may look. */
  readonly #commits: number[] = [];
  #versionCount = 0;
  #textLength = 0;
  #rows: { versions: number; waiting: number; rows: readonly Row[] } | undefined;
  #answers = 0;

  constructor(quirks: Readonly<FeedQuirks>, options: { random: Fraction; startMicros: number }) {
    this.quirks = quirks;
    this.#random = options.random;
    this.#startMicros = options.startMicros;
  }

  /** Adds a version. The versions of one record are committed in the order of these calls. */
  commit(version: HostileVersion): void {
    const versions = this.#versions.get(version.id);
    const last = versions?.at(-1);
    if (last && last.committedMicros > version.committedMicros)
      throw new Error(`A version of ${version.id} was committed before the one that precedes it.`);
    if (versions) {
      versions.push(version);
      this.#dropUnseen(versions);
    } else this.#versions.set(version.id, [version]);
    this.#versionCount += 1;
    this.#textLength += weightOf(version);
    const earlier = this.#commits.findLastIndex((micros) => micros <= version.committedMicros);
    this.#commits.splice(earlier + 1, 0, version.committedMicros);
    if (this.#commits.length > 2 * commitsKept) this.#commits.splice(0, commitsKept);
  }

  /** Drops versions that no replica shows any more. */
  #dropUnseen(versions: HostileVersion[]): void {
    const { lateMs, lagMs } = this.quirks;
    const newest = versions.at(-1)?.committedMicros ?? 0;
    const seenFrom = newest - (lateMs + lagMs) * 1_000 - keptMicros;
    const first = versions.findLastIndex(({ committedMicros }) => committedMicros <= seenFrom);
    if (first <= 0) return;
    for (const dropped of versions.splice(0, first)) this.#textLength -= weightOf(dropped);
  }

  /** The last version of a record, committed or not. */
  last(id: string): HostileVersion | undefined {
    return this.#versions.get(id)?.at(-1);
  }

  /** How many characters of records it keeps. */
  get textLength(): number {
    return this.#textLength;
  }

  /** How many versions are committed only after this time. */
  waiting(nowMicros: number): number {
    return this.#commits.length - firstOf(this.#commits, (micros) => micros > nowMicros);
  }

  /** The truth: the version of each record that is committed by then. */
  *currents(nowMicros: number): Generator<HostileVersion> {
    for (const id of this.#versions.keys()) {
      const version = this.#shownOf(id, nowMicros);
      if (version) yield version;
    }
  }

  /** The text of a version as pages show it. */
  rendered({ json, stampMicros }: HostileVersion): string {
    const text = json ?? 'null';
    return stampMicros === undated ? text : `${text.slice(0, -1)},"modified":"${this.shownStamp(stampMicros)}"}`;
  }

  /** The stamp as pages show it, with as many digits as the source has. */
  shownStamp(stampMicros: number): string {
    const stamp = timestampFromMicros(roundedStamp(this.quirks, stampMicros));
    const { stamps } = this.quirks;
    return stamps === 'micros' ? stamp : `${stamp.slice(0, stamps === 'millis' ? 23 : 19)}Z`;
  }

  /**
   * Answers a request, or breaks the connection. When `calm`, there are no faults and replicas do not lag. Only the ids
   * that `matches` lets pass are shown.
   */
  answer(
    url: URL,
    nowMicros: number,
    { calm = false, matches }: { calm?: boolean; matches?: (id: string) => boolean } = {},
  ): HostileAnswer | 'cut' {
    this.#answers += 1;
    const { quirks } = this;
    if (quirks.slashRedirect && !url.pathname.endsWith('/')) {
      const location = new URL(url);
      location.pathname += '/';
      return this.#answered(nowMicros, 301, { location: location.href }, '', 'moved to the path with a slash');
    }
    const fault = calm ? undefined : pickFault(quirks, this.#random);
    if (fault?.what === 'cut') return 'cut';
    if (fault?.what === 'refused')
      return this.#answered(nowMicros, fault.status, fault.headers, '{"detail":"not now"}', 'refused');
    const headers = quirks.declaresOrder ? { 'feed-order': 'commit' } : {};
    if (fault?.what === 'instead') return this.#answered(nowMicros, 200, headers, fault.body, fault.note);
    try {
      const page = this.#page(url, nowMicros, calm, matches);
      return this.#shown(page, nowMicros, headers, fault);
    } catch (error) {
      if (!(error instanceof RefusedRequest)) throw error;
      const { status, message } = error;
      return this.#answered(nowMicros, status, {}, JSON.stringify({ detail: message }), message);
    }
  }

  #shown(page: Page, nowMicros: number, headers: Record<string, string>, fault: Fault | undefined): HostileAnswer {
    const versions = page.rows.flatMap(({ version }) => version ?? []);
    const note = `${versions.map(({ id }) => id.slice(0, 8)).join(' ')}${page.next === null ? '' : ' …'}`;
    const body = `{"data":[${versions.map((version) => this.rendered(version)).join(',')}],"next":${JSON.stringify(page.next)}}`;
    const length = fault?.what === 'truncated' ? 1 + Math.floor(this.#random() * (body.length - 1)) : body.length;
    const delayMs = fault?.what === 'slow' ? fault.delayMs : 0;
    const isPage = length === body.length;
    return { ...this.#answered(nowMicros, 200, headers, body.slice(0, length), note), delayMs, isPage };
  }

  #answered(
    nowMicros: number,
    status: number,
    headers: Record<string, string>,
    body: string,
    note: string,
  ): HostileAnswer {
    const { showsDate, dateSkewMs } = this.quirks;
    const dateMs = Math.floor(this.clockMicros(nowMicros) / 1_000) + dateSkewMs;
    const date = showsDate ? { date: new Date(dateMs).toUTCString() } : {};
    const all = { 'content-type': 'application/json', ...date, ...headers };
    return { status, headers: all, body, delayMs: 0, isPage: false, note };
  }

  /** What the source's clock shows at this time. */
  clockMicros(nowMicros: number): number {
    return sourceClock(this.quirks, { nowMicros, startMicros: this.#startMicros });
  }

  #page(url: URL, nowMicros: number, calm: boolean, matches: ((id: string) => boolean) | undefined): Page {
    const { quirks } = this;
    const lagMs = calm ? 0 : this.#random() * quirks.lagMs;
    const query = url.searchParams;
    const after = this.#bound(query, 'modified_after');
    const before = this.#bound(query, 'modified_before');
    const all = this.#rowsOf(nowMicros - lagMs * 1_000);
    const from = after === undefined ? (before === undefined ? undated : dated) : after;
    const start = firstOf(all, ({ at }) => (quirks.inclusiveAfter || after === undefined ? at >= from : at > from));
    const end =
      before === undefined
        ? all.length
        : firstOf(all, ({ at }) => (quirks.inclusiveBefore ? at > before : at >= before));
    const within = start === 0 && end === all.length ? all : all.slice(start, Math.max(start, end));
    const rows = matches ? within.filter(({ version }) => version === undefined || matches(version.id)) : within;
    return pageOf(rows, url, {
      quirks,
      answers: this.#answers,
      hasChanged: hasChanged(quirks, { nowMicros, startMicros: this.#startMicros }),
      random: this.#random,
    });
  }

  #bound(query: URLSearchParams, name: string): number | undefined {
    const text = query.get(name);
    if (text === null) return undefined;
    const read = parseTimestamp(text);
    if (read === undefined) throw new RefusedRequest(400, `${name} is not a time.`);
    const micros = microsFromTimestamp(read);
    return this.quirks.boundsInSeconds ? Math.floor(micros / second) * second : micros;
  }

  /** All rows of that time, in the order of stamps and ids. */
  #rowsOf(asOf: number): readonly Row[] {
    const waiting = this.waiting(asOf);
    // Rows change only with commits; most answers show those of the answer before.
    if (this.#rows?.versions === this.#versionCount && this.#rows.waiting === waiting) return this.#rows.rows;
    const rows: Row[] = [];
    for (const id of this.#versions.keys()) {
      const version = this.#shownOf(id, asOf);
      if (!version) continue;
      const at = roundedStamp(this.quirks, version.stampMicros);
      const rank = textHash(id);
      for (let place = this.quirks.hiddenRun; place > 0; place -= 1)
        rows.push({ id: `${id}-${place}`, at: at - place * 1_000, rank, version: undefined });
      rows.push({ id, at, rank, version });
    }
    rows.sort((a, b) => (a.at === b.at ? (a.id < b.id ? -1 : 1) : a.at - b.at));
    this.#rows = { versions: this.#versionCount, waiting, rows };
    return rows;
  }

  #shownOf(id: string, asOf: number): HostileVersion | undefined {
    const version = this.#versions.get(id)?.findLast(({ committedMicros }) => committedMicros <= asOf);
    return version?.json === null ? undefined : version;
  }
}

/** The index of the first entry that passes; all after it pass, too. */
function firstOf<T>(list: readonly T[], passes: (entry: T) => boolean): number {
  let low = 0;
  let high = list.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (passes(list[middle] as T)) high = middle;
    else low = middle + 1;
  }
  return low;
}

/** A version takes some memory beside its text. */
const weightOf = ({ id, json }: HostileVersion) => 200 + id.length + (json?.length ?? 0);

/** Earlier than every stamp. */
const dated = Number.MIN_SAFE_INTEGER;
/** Commits that are so many behind are taken to be older than any answer may look. */
const commitsKept = 100_000;
/** Versions are kept for so long at least, so that a caller may ask for a time that is a little earlier. */
const keptMicros = 1_000_000;
