/**
 * Another vendor's sourcing service, with every quirk that the API document does not forbid. It keeps each version of
 * each record with the time of its commit. It answers a query with the versions that were committed at the time of the
 * query, or somewhat earlier where a replica lags.
 */
import { type FeedName, feedNames } from '#contract/feed.ts';
import { microsFromTimestamp, parseTimestamp, timestampFromMicros } from '#contract/timestamp.ts';
import type { Random } from './random.ts';
import type { World } from './world.ts';

export interface Quirks {
  /** The feeds are commit-ordered, with a cursor, and declare it. */
  declaresOrder: boolean;
  paging: 'cursor' | 'page-number' | 'offset';
  inclusiveAfter: boolean;
  inclusiveBefore: boolean;
  stamps: 'micros' | 'millis' | 'seconds' | 'rounded';
  boundsInSeconds: boolean;
  /** How much later than its stamp a record is committed, at most. */
  lateMs: number;
  /** How far replicas lag, at most. */
  lagMs: number;
  skewMs: number;
  /** A page holds no more records than this, whatever is requested. */
  pageMax: number;
  /** `next` names another host. */
  foreignNext: boolean;
  showsDate: boolean;
  upperCaseIds: boolean;
  /** How often a record's stamp lies in the future, and about how far. */
  futureDated: number;
  futureMs: number;
  /** A record with a stamp in the future gets an earlier stamp with its next change. */
  goesBack: boolean;
  /** Records from before the bridge have no `modified`; it is shown when they change. */
  undated: boolean;
  /** Requests for one feed that it answers in a minute, then 429; null: no limits, and the bridge's settings say so. */
  perMinute: number | null;
  /** How far the clocks of the bridge's processes are off, at most. */
  bridgeSkewMs: number;
}

/** Chances per request. */
export interface SourceFaults {
  tooMany: number;
  serverError: number;
  truncated: number;
  errorBody: number;
  cut: number;
  slow: number;
  /** The answer is 200 with no rows. */
  nothing: number;
}

export type Body = Record<string, unknown>;

interface Version {
  /** Minus infinity: the record has no `modified`. */
  readonly stampMicros: number;
  readonly committedMicros: number;
  /** Null: the record is no longer shown. */
  readonly body: Body | null;
}

export interface Write {
  readonly feed: FeedName;
  readonly id: string;
  readonly body: Body | null;
}

interface SourceAnswer {
  readonly status: number;
  readonly headers: Record<string, string>;
  readonly body: string;
}

const second = 1_000_000;

export class HostileSource {
  readonly quirks: Quirks;
  readonly faults: SourceFaults;
  /** Called when a transaction has been committed, with the feeds that it changed. */
  onCommit: (feeds: readonly FeedName[], writes: readonly Write[]) => void = () => undefined;
  /** Called for each feed of such a transaction, before `onCommit`. */
  onStamped: (feed: FeedName, stampMicros: number) => void = () => undefined;
  /** Some changes keep the record's stamp: no reader that asks by time can see them. */
  changesWithoutStamp = false;
  readonly #world: World;
  readonly #random: Random;
  readonly #apiKey: string;
  readonly #records = new Map<FeedName, Map<string, Version[]>>(feedNames.map((feed) => [feed, new Map()]));
  /** Records that a transaction locks. */
  readonly #locked = new Set<string>();
  readonly #arrivals = new Map<FeedName, number[]>();
  #lastStamp = 0;

  constructor(world: World, apiKey: string, quirks: Quirks, faults: SourceFaults) {
    this.#world = world;
    this.#random = world.random.of('source');
    this.#apiKey = apiKey;
    this.quirks = quirks;
    this.faults = faults;
  }

  get #clockMicros(): number {
    return this.#world.nowMicros + this.quirks.skewMs * 1_000;
  }

  isLocked(feed: FeedName, id: string): boolean {
    return this.#locked.has(`${feed} ${id}`);
  }

  /** Makes one transaction: it is stamped now, and committed now or later. The records must not be locked. */
  write(writes: readonly Write[], agoMs = 0): void {
    const stampMicros = this.#stamp(writes, agoMs);
    const isLate = !this.quirks.declaresOrder && agoMs === 0 && this.#world.chaos;
    const latest = this.quirks.lateMs;
    const lateMs = isLate ? this.#random.pick([0, 0, latest, latest * this.#random.fraction()]) : 0;
    const commit = () => {
      const committedMicros = this.#world.nowMicros - agoMs * 1_000;
      for (const { feed, id, body } of writes) {
        this.#locked.delete(`${feed} ${id}`);
        const versions = this.#versions(feed).get(id) ?? [];
        const silent = this.changesWithoutStamp && versions.length > 0 && this.#random.chance(0.3);
        versions.push({
          stampMicros: silent ? (versions.at(-1)?.stampMicros ?? 0) : stampMicros,
          committedMicros,
          body,
        });
        this.#versions(feed).set(id, versions);
        const what = body === null ? 'gone' : JSON.stringify(body).slice(0, 120);
        this.#world.log('source', `${feed} ${id.slice(0, 8)} ${this.#shown(stampMicros)} ${what}`);
      }
      const feeds = [...new Set(writes.map(({ feed }) => feed))];
      for (const feed of feeds) this.onStamped(feed, stampMicros);
      this.onCommit(feeds, writes);
    };
    if (lateMs === 0) commit();
    else {
      for (const { feed, id } of writes) this.#locked.add(`${feed} ${id}`);
      this.#world.after(lateMs, commit);
    }
  }

  #stamp(writes: readonly Write[], agoMs: number): number {
    const now = this.#clockMicros - agoMs * 1_000;
    if (this.quirks.declaresOrder) {
      this.#lastStamp = Math.max(now, this.#lastStamp + 1);
      return this.#lastStamp;
    }
    if (agoMs > 0 && this.quirks.undated) return Number.NEGATIVE_INFINITY;
    const held = writes.map(({ feed, id }) => this.#versions(feed).get(id)?.at(-1)?.stampMicros ?? 0);
    const isAhead = held.some((stamp) => stamp > now);
    const aheadMs =
      !isAhead && this.#random.chance(this.quirks.futureDated)
        ? (0.7 + 0.3 * this.#random.fraction()) * this.quirks.futureMs
        : 0;
    // A record's stamp does not go back, unless it was in the future and the source corrects it.
    const least = isAhead && this.quirks.goesBack ? held.filter((stamp) => stamp <= now) : held;
    return Math.max(now + Math.round(aheadMs * 1_000), ...least.map((stamp) => stamp + 1));
  }

  #versions(feed: FeedName): Map<string, Version[]> {
    return this.#records.get(feed) as Map<string, Version[]>;
  }

  /** The record as the feed shows it now; undefined when it shows none. */
  current(feed: FeedName, id: string): Body | undefined {
    return this.#versions(feed).get(id)?.at(-1)?.body ?? undefined;
  }

  /** The records that the feed shows now, by id. */
  currents(feed: FeedName): Map<string, Body> {
    const shown = new Map<string, Body>();
    for (const [id, versions] of this.#versions(feed)) {
      const last = versions.at(-1);
      if (last?.body) shown.set(id, this.#rendered(id, last));
    }
    return shown;
  }

  /** The stamp as the feed shows it. */
  shownStamp(stampMicros: number): string {
    return this.#shown(stampMicros);
  }

  isFuture(stampMicros: number): boolean {
    return stampMicros > this.#clockMicros + second;
  }

  #shown(stampMicros: number): string {
    if (stampMicros === Number.NEGATIVE_INFINITY) return 'undated';
    return timestampFromMicros(this.#rounded(stampMicros));
  }

  #rounded(micros: number): number {
    switch (this.quirks.stamps) {
      case 'micros':
        return micros;
      case 'millis':
        return Math.floor(micros / 1_000) * 1_000;
      case 'seconds':
        return Math.floor(micros / second) * second;
      case 'rounded':
        return Math.round(micros / second) * second;
    }
  }

  #rendered(id: string, { stampMicros, body }: Version): Body {
    const shownId = this.quirks.upperCaseIds ? id.toUpperCase() : id;
    if (stampMicros === Number.NEGATIVE_INFINITY) return { id: shownId, ...body };
    const stamp = this.#shown(stampMicros);
    const modified =
      this.quirks.stamps === 'micros' ? stamp : `${stamp.slice(0, this.quirks.stamps === 'millis' ? 23 : 19)}Z`;
    return { id: shownId, ...body, modified };
  }

  /** Answers a request; `cut`: the connection breaks instead. */
  answer(method: string, url: URL, headers: Readonly<Record<string, string>>): SourceAnswer | 'cut' {
    const feed = feedNames.find((name) => url.pathname === `/api/feeds/${name}`);
    if (url.origin !== 'https://source.test')
      this.#world.violate('requests stay with the source', `${url.origin} was asked`);
    if (headers['authorization'] !== `Bearer ${this.#apiKey}`) return this.#refusal(401, {});
    if (method !== 'GET' || feed === undefined) return this.#refusal(404, {});
    if (!this.#isWithinQuota(feed)) return this.#refusal(429, {});
    const fault = this.#world.chaos ? this.#pickFault() : undefined;
    switch (fault) {
      case 'cut':
        return 'cut';
      case 'tooMany':
        return this.#refusal(429, this.#random.chance(0.5) ? { 'retry-after': String(this.#random.whole(1, 20)) } : {});
      case 'serverError':
        return this.#refusal(this.#random.pick([500, 502, 503]), {});
      case 'nothing':
        this.#world.log('source', `${feed}${url.search} -> no rows, although there are some`);
        return { status: 200, headers: this.#headers(), body: '{"data":[],"next":null}' };
      case 'errorBody':
        return { status: 200, headers: this.#headers(), body: '{"error":"upstream timed out"}' };
      default: {
        const body = this.#page(feed, url);
        const whole = fault === 'truncated' ? body.slice(0, this.#random.whole(1, body.length - 1)) : body;
        return { status: 200, headers: this.#headers(), body: whole };
      }
    }
  }

  /** A bridge that counts its requests never meets this limit; the skew of its clocks is allowed for. */
  #isWithinQuota(feed: FeedName): boolean {
    const { perMinute } = this.quirks;
    if (perMinute === null) return true;
    const sinceMicros = this.#world.nowMicros - 60 * second + 2_000 * this.quirks.bridgeSkewMs;
    const arrivals = (this.#arrivals.get(feed) ?? []).filter((micros) => micros > sinceMicros);
    this.#arrivals.set(feed, arrivals);
    if (arrivals.length >= perMinute) {
      this.#world.violate(
        'the quotas of the source are kept',
        `${feed}: more than ${arrivals.length} requests in a minute`,
      );
      return false;
    }
    arrivals.push(this.#world.nowMicros);
    return true;
  }

  #pickFault(): keyof SourceFaults | undefined {
    for (const fault of ['cut', 'tooMany', 'serverError', 'errorBody', 'truncated', 'nothing'] as const)
      if (this.#random.chance(this.faults[fault])) return fault;
    return undefined;
  }

  #headers(): Record<string, string> {
    return {
      'content-type': 'application/json',
      ...(this.quirks.showsDate ? { date: new Date(Math.floor(this.#clockMicros / 1_000)).toUTCString() } : {}),
      ...(this.quirks.declaresOrder ? { 'feed-order': 'commit' } : {}),
    };
  }

  #refusal(status: number, headers: Record<string, string>): SourceAnswer {
    return { status, headers: { ...this.#headers(), ...headers }, body: '{"detail":"not now"}' };
  }

  #page(feed: FeedName, url: URL): string {
    const { quirks } = this;
    const lagMs = this.#world.chaos ? this.#random.fraction() * quirks.lagMs : 0;
    const asOf = this.#world.nowMicros - lagMs * 1_000;
    const query = url.searchParams;
    const after = this.#bound(query.get('modified_after'));
    const before = this.#bound(query.get('modified_before'));
    const rows = [...this.#versions(feed)]
      .flatMap(([id, versions]) => {
        const version = versions.findLast(({ committedMicros }) => committedMicros <= asOf);
        return version?.body ? [{ id, version, at: this.#rounded(version.stampMicros) }] : [];
      })
      .filter(
        ({ at }) =>
          (at > Number.NEGATIVE_INFINITY || (after === undefined && before === undefined)) &&
          (after === undefined || (quirks.inclusiveAfter ? at >= after : at > after)) &&
          (before === undefined || (quirks.inclusiveBefore ? at <= before : at < before)),
      )
      .sort((a, b) => (a.at === b.at ? (a.id < b.id ? -1 : 1) : a.at - b.at));
    const size = Math.min(Number(query.get('page_size') ?? 20), quirks.pageMax);
    const { page, next } = this.#pageOf(rows, query, size);
    const link = new URL(url);
    for (const [name, value] of Object.entries(next ?? {})) link.searchParams.set(name, value);
    if (quirks.foreignNext) link.host = 'elsewhere.test';
    const data = page.map(({ id, version }) => this.#rendered(id, version));
    this.#world.log(
      'source',
      `${feed}${url.search} -> ${data.map(({ id }) => String(id).slice(0, 8)).join(' ')}${next ? ' …' : ''}`,
    );
    return JSON.stringify({ data, next: next ? link.href : null });
  }

  #bound(text: string | null): number | undefined {
    if (text === null) return undefined;
    const read = parseTimestamp(text);
    if (read === undefined) throw new Error(`The source was asked for the time ${text}.`);
    const micros = microsFromTimestamp(read);
    return this.quirks.boundsInSeconds ? Math.floor(micros / second) * second : micros;
  }

  #pageOf<Row extends { id: string; at: number }>(
    rows: readonly Row[],
    query: URLSearchParams,
    size: number,
  ): { page: readonly Row[]; next: Record<string, string> | undefined } {
    const { paging } = this.quirks;
    if (paging === 'cursor') {
      const [at, id = ''] = (query.get('cursor') ?? '').split('_');
      const rest = at ? rows.filter((row) => row.at > Number(at) || (row.at === Number(at) && row.id > id)) : rows;
      const page = rest.slice(0, size);
      const last = page.at(-1);
      return { page, next: last && rest.length > size ? { cursor: `${last.at}_${last.id}` } : undefined };
    }
    const number = Number(query.get('page_number') ?? 1);
    const offset = paging === 'offset' ? Number(query.get('offset') ?? 0) : (number - 1) * size;
    const page = rows.slice(offset, offset + size);
    if (offset + size >= rows.length) return { page, next: undefined };
    return {
      page,
      next: paging === 'offset' ? { offset: String(offset + size) } : { page_number: String(number + 1) },
    };
  }
}
