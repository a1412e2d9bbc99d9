/**
 * A source in memory with chosen quirks, in place of a real service: it answers as the client does. Its rows change
 * while it is read. A version may become visible later than its stamp says, and later still on a replica that lags.
 */
import type { FeedPage, SourceClient } from '#client/source-client.ts';
import { microsFromTimestamp, type Timestamp, timestampFromMicros } from '#contract/timestamp.ts';
import type { TestClock } from '../parts.ts';

export interface HostileQuirks {
  inclusiveAfter: boolean;
  inclusiveBefore: boolean;
  stamps: 'micros' | 'seconds' | 'rounded seconds';
  bounds: 'micros' | 'seconds';
  order: 'ascending' | 'descending' | 'by id';
  paging: 'page number' | 'offset' | 'snapshot';
  /** A page holds no more records than this, whatever is requested. */
  pageMax: number;
  lateSeconds: number;
  lagSeconds: number;
  /**
   * How far the clock that stamps is ahead of ours, and how far the clock that dates answers is ahead of that one;
   * undefined: answers have no date.
   */
  skewSeconds: number;
  dateSkewSeconds: number | undefined;
  /** The share of answers that are empty for no reason. */
  emptyShare: number;
  unstamped: boolean;
  future: boolean;
  /** Every page has a `next` that returns to the first page; windows that fit a page have none. */
  loops: boolean;
  /** Shows records in the order of commits, and declares it unless `declares` is false. */
  commitOrdered: boolean;
  declares?: boolean;
}

interface Version {
  /** Undefined: the record has no time. */
  micros: number | undefined;
  visibleMs: number;
  value: number;
}

const second = 1_000_000;

export class HostileSource {
  readonly quirks: HostileQuirks;
  readonly #clock: TestClock;
  readonly #random: () => number;
  /** A generator of its own for answers: what is written does not depend on the number of requests. */
  readonly #chance = seeded(20_301);
  readonly #rows = new Map<string, Version[]>();
  readonly #snapshots = new Map<string, Record<string, unknown>[]>();
  #lastMicros = 0;
  #value = 0;
  writing = true;
  requests = 0;
  /** Called before each answer. */
  onRequest: () => void = () => undefined;

  constructor(quirks: HostileQuirks, clock: TestClock, random: () => number) {
    this.quirks = quirks;
    this.#clock = clock;
    this.#random = random;
    if (quirks.unstamped) for (let n = 0; n < 3; n += 1) this.#add(`u${n}`, undefined, clock.nowMs());
    if (quirks.future) this.#add('future', clock.nowMs() * 1_000 + 86_400 * second, clock.nowMs());
  }

  /** Time passes; several rows are written in it, all at once when `burst`. */
  live(seconds: number, writes: number, burst = false): void {
    for (let count = 0; count < writes; count += 1) {
      if (!burst || count === 0) this.#clock.advance(Math.floor((seconds * 1_000) / (burst ? 1 : writes)));
      if (this.writing) this.write(`r${Math.floor(this.#random() * 40)}`);
    }
    if (writes === 0) this.#clock.advance(Math.floor(seconds * 1_000));
  }

  write(id: string): void {
    const { lateSeconds, skewSeconds, commitOrdered } = this.quirks;
    const now = this.#clock.nowMs();
    // Strictly later than all stamps before, as a clock with microseconds would be.
    const micros = Math.max(this.#lastMicros + 1, (now + skewSeconds * 1_000) * 1_000);
    const visibleMs = commitOrdered ? now : now + Math.floor(this.#random() * lateSeconds * 1_000);
    const before = this.#rows.get(id)?.at(-1);
    // The versions of one row are committed in the order of their stamps.
    if (before && before.visibleMs > visibleMs) return;
    this.#lastMicros = micros;
    this.#add(id, micros, visibleMs);
  }

  delete(id: string): void {
    this.#rows.delete(id);
  }

  /** The last version of every row, also one that is not visible yet. */
  get state(): Map<string, number> {
    return new Map([...this.#rows].map(([id, versions]) => [id, versions.at(-1)?.value ?? 0]));
  }

  /** The rows whose last version is stamped at `time` or earlier. */
  stateUpTo(time: Timestamp): Map<string, number> {
    const rows = [...this.#rows].flatMap(([id, versions]) => {
      const last = versions.at(-1);
      const stamp = last && this.#stampOf(last);
      return last && stamp !== undefined && stamp <= time ? [[id, last.value] as const] : [];
    });
    return new Map(rows);
  }

  readonly client: Pick<SourceClient, 'readFeed'> = {
    readFeed: async (_feed, at, signal) => {
      this.requests += 1;
      this.onRequest();
      signal?.throwIfAborted();
      this.live(this.#chance(), this.#chance() < 0.5 ? 1 : 0);
      return this.#answer(at);
    },
  };

  #add(id: string, micros: number | undefined, visibleMs: number): void {
    this.#value += 1;
    this.#rows.set(id, [...(this.#rows.get(id) ?? []), { micros, visibleMs, value: this.#value }]);
  }

  #stampOf({ micros }: Version): Timestamp | undefined {
    if (micros === undefined) return undefined;
    const { stamps } = this.quirks;
    if (stamps === 'micros') return timestampFromMicros(micros);
    const seconds = micros / second;
    return timestampFromMicros((stamps === 'seconds' ? Math.floor(seconds) : Math.round(seconds)) * second);
  }

  #boundOf(time: Timestamp | undefined): Timestamp | undefined {
    if (time === undefined || this.quirks.bounds === 'micros') return time;
    return timestampFromMicros(Math.floor(microsFromTimestamp(time) / second) * second);
  }

  #rowsOf(query: Query): Record<string, unknown>[] {
    const { inclusiveAfter, inclusiveBefore, order, lagSeconds } = this.quirks;
    const after = this.#boundOf(query.after);
    const before = this.#boundOf(query.before);
    const asOfMs = this.#clock.nowMs() - (this.#chance() < 0.5 ? lagSeconds * 1_000 : 0);
    const rows: { id: string; modified: Timestamp | undefined; value: number }[] = [];
    for (const [id, versions] of this.#rows) {
      const shown = versions.filter(({ visibleMs }) => visibleMs <= asOfMs).at(-1);
      if (!shown) continue;
      const modified = this.#stampOf(shown);
      if (modified === undefined && (after !== undefined || before !== undefined)) continue;
      const stamp = modified ?? '';
      if (after !== undefined && (inclusiveAfter ? stamp < after : stamp <= after)) continue;
      if (before !== undefined && (inclusiveBefore ? stamp > before : stamp >= before)) continue;
      rows.push({ id, modified, value: shown.value });
    }
    const byId = (a: { id: string }, b: { id: string }) => (a.id < b.id ? -1 : 1);
    const key = ({ modified }: { modified: Timestamp | undefined }) => modified ?? '';
    rows.sort((a, b) => {
      if (order === 'by id' || key(a) === key(b)) return byId(a, b);
      return key(a) < key(b) === (order === 'ascending') ? -1 : 1;
    });
    return rows.map(({ modified, ...row }) => (modified === undefined ? row : { ...row, modified }));
  }

  #answer(at: Parameters<SourceClient['readFeed']>[1]): FeedPage {
    const { paging, pageMax, emptyShare, loops, commitOrdered, dateSkewSeconds, skewSeconds } = this.quirks;
    const query: Query =
      'next' in at
        ? (JSON.parse(at.next) as Query)
        : {
            ...(at.modifiedAfter === undefined ? {} : { after: at.modifiedAfter }),
            ...(at.modifiedBefore === undefined ? {} : { before: at.modifiedBefore }),
            skip: 0,
            size: Math.min(pageMax, at.pageSize),
            snapshot: String(this.requests),
          };
    const sourceMs =
      dateSkewSeconds === undefined ? undefined : this.#clock.nowMs() + (skewSeconds + dateSkewSeconds) * 1_000 - 1_000;
    const page = { includes: {}, commitOrdered: commitOrdered && this.quirks.declares !== false, sourceMs };
    if (this.#chance() < emptyShare) return { ...page, records: [], next: undefined };
    const kept = this.#snapshots.get(query.snapshot);
    const rows = paging === 'snapshot' && kept ? kept : this.#rowsOf(query);
    this.#snapshots.set(query.snapshot, rows);
    const records = rows.slice(query.skip, query.skip + query.size);
    const isLast = query.skip + query.size >= rows.length;
    const next = loops && !isLast ? { ...query, skip: 0 } : { ...query, skip: query.skip + query.size };
    return { ...page, records, next: isLast ? undefined : JSON.stringify(next) };
  }
}

interface Query {
  after?: Timestamp;
  before?: Timestamp;
  skip: number;
  size: number;
  /** The rows as they were at the first page. */
  snapshot: string;
}

/** The same numbers for the same seed. */
export function seeded(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state * 1_103_515_245 + 12_345) % 2_147_483_648;
    return state / 2_147_483_648;
  };
}
