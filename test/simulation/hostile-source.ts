/**
 * Another vendor's sourcing service, with every quirk that the API document does not forbid. Its feeds are those of
 * `src/service/misbehave`; here its transactions are written and committed in the world's time, and what no reader may
 * do is a violation.
 */
import { type FeedName, feedNames } from '#contract/feed.ts';
import { timestampFromMicros } from '#contract/timestamp.ts';
import { type FeedQuirks, plainFeed } from '#service/misbehave/feed-quirks.ts';
import { type HostileAnswer, HostileFeed } from '#service/misbehave/hostile-feed.ts';
import {
  changedForm,
  type HostileVersion,
  latenessOf,
  type Moment,
  roundedStamp,
  sourceClock,
  stampOf,
  undated,
} from '#service/misbehave/hostile-versions.ts';
import type { Random } from './random.ts';
import type { World } from './world.ts';

/** What a seed chooses for its source; the rest is plain. */
export interface Quirks extends Partial<FeedQuirks> {
  declaresOrder: boolean;
  /** Stamps grow with each commit, and nothing is late; default: as it declares. */
  commitOrdered?: boolean;
  /** Requests for one feed that it answers in a minute, then 429; null: no limits, and the bridge's settings say so. */
  perMinute: number | null;
  /** How far the clocks of the bridge's processes are off, at most. */
  bridgeSkewMs: number;
}

/** Chances per request; `slow` is the network's. */
export type SourceFaults = Pick<
  FeedQuirks,
  'tooMany' | 'serverError' | 'truncated' | 'errorBody' | 'cut' | 'slow' | 'nothing'
>;

export type Body = Record<string, unknown>;

export interface Write {
  readonly feed: FeedName;
  readonly id: string;
  readonly body: Body | null;
}

type SourceAnswer = Pick<HostileAnswer, 'status' | 'headers' | 'body'>;

const second = 1_000_000;

export class HostileSource {
  readonly quirks: FeedQuirks & Quirks;
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
  readonly #origin: string;
  readonly #isOrdered: boolean;
  readonly #feeds: ReadonlyMap<FeedName, HostileFeed>;
  readonly #startMicros: number;
  /** Records that a transaction locks. */
  readonly #locked = new Set<string>();
  readonly #bodies = new Map<string, Body | null>();
  /** Versions as records, for those who look often. */
  readonly #records = new WeakMap<HostileVersion, Body>();
  readonly #arrivals = new Map<FeedName, number[]>();
  #lastStamp = 0;

  constructor(
    world: World,
    { apiKey, origin, random }: { apiKey: string; origin: string; random: Random },
    quirks: Quirks,
    faults: SourceFaults,
  ) {
    this.#world = world;
    this.#random = random;
    this.#apiKey = apiKey;
    this.#origin = origin;
    this.#isOrdered = quirks.commitOrdered ?? quirks.declaresOrder;
    this.faults = faults;
    this.quirks = { ...plainFeed, retryAfter: 0.5, ...quirks, ...faults, slow: 0 };
    this.#startMicros = world.nowMicros;
    const options = { random: this.#random.fraction, startMicros: this.#startMicros };
    this.#feeds = new Map(feedNames.map((feed) => [feed, new HostileFeed(this.quirks, options)]));
  }

  #moment(nowMicros: number): Moment {
    return { nowMicros, startMicros: this.#startMicros };
  }

  #feed(feed: FeedName): HostileFeed {
    return this.#feeds.get(feed) as HostileFeed;
  }

  isLocked(feed: FeedName, id: string): boolean {
    return this.#locked.has(`${feed} ${id}`);
  }

  /** Makes one transaction: it is stamped now, and committed now or later. The records must not be locked. */
  write(writes: readonly Write[], agoMs = 0): void {
    const writtenMicros = this.#world.nowMicros - agoMs * 1_000;
    const stampMicros = this.#stamp(writes, writtenMicros);
    const isLate = !this.#isOrdered && agoMs === 0 && this.#world.chaos;
    const lateMs = isLate ? latenessOf(this.quirks, this.#random.fraction) : 0;
    const commit = () => {
      const committedMicros = this.#world.nowMicros - agoMs * 1_000;
      for (const { feed, id, body } of writes) {
        this.#locked.delete(`${feed} ${id}`);
        const before = this.#feed(feed).last(id);
        const silent = this.changesWithoutStamp && before !== undefined && this.#random.chance(0.3);
        const json = body && changedForm(this.quirks, this.#moment(writtenMicros), JSON.stringify({ id, ...body }));
        const stamp = silent ? before.stampMicros : stampMicros;
        this.#bodies.set(`${feed} ${id}`, body);
        this.#feed(feed).commit({ id, stampMicros: stamp, committedMicros, json });
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

  #stamp(writes: readonly Write[], writtenMicros: number): number {
    const moment = this.#moment(writtenMicros);
    if (this.#isOrdered) {
      this.#lastStamp = Math.max(sourceClock(this.quirks, moment), this.#lastStamp + 1);
      return this.#lastStamp;
    }
    const held = writes.map(({ feed, id }) => this.#feed(feed).last(id)?.stampMicros ?? 0);
    return stampOf(this.quirks, moment, held, this.#random.fraction);
  }

  /** The record as the feed shows it now; undefined when it shows none. */
  current(feed: FeedName, id: string): Body | undefined {
    return this.#bodies.get(`${feed} ${id}`) ?? undefined;
  }

  /** The records that the feed shows now, by id. */
  currents(feed: FeedName): Map<string, Body> {
    const shown = new Map<string, Body>();
    for (const version of this.#feed(feed).currents(this.#world.nowMicros))
      shown.set(version.id, this.#recordOf(feed, version));
    return shown;
  }

  #recordOf(feed: FeedName, version: HostileVersion): Body {
    const known = this.#records.get(version);
    if (known) return known;
    const record = JSON.parse(this.#feed(feed).rendered(version)) as Body;
    this.#records.set(version, record);
    return record;
  }

  /** The stamp as the contract writes it, of the time that the feed shows. */
  shownStamp(stampMicros: number): string {
    return timestampFromMicros(roundedStamp(this.quirks, stampMicros));
  }

  isFuture(stampMicros: number): boolean {
    return stampMicros > sourceClock(this.quirks, this.#moment(this.#world.nowMicros)) + second;
  }

  #shown(stampMicros: number): string {
    return stampMicros === undated ? 'undated' : this.shownStamp(stampMicros);
  }

  /** Answers a request; `cut`: the connection breaks instead. */
  answer(method: string, url: URL, headers: Readonly<Record<string, string>>): SourceAnswer | 'cut' {
    const feed = feedNames.find((name) => url.pathname.replace(/\/$/, '') === `/api/feeds/${name}`);
    if (url.origin !== this.#origin) this.#world.violate('requests stay with the source', `${url.origin} was asked`);
    if (headers['authorization'] !== `Bearer ${this.#apiKey}`) return refusal(401);
    if (method !== 'GET' || feed === undefined) return refusal(404);
    const waitMicros = this.#waitForQuota(feed);
    if (waitMicros > 0) return refusal(429, { 'retry-after': String(Math.ceil(waitMicros / second)) });
    const answer = this.#feed(feed).answer(url, this.#world.nowMicros, { calm: !this.#world.chaos });
    if (answer !== 'cut') this.#world.log('source', `${feed}${url.search} -> ${answer.note}`);
    return answer;
  }

  /** 0 for a request that is within the limit, and counts it; else how long until the oldest leaves the minute. */
  #waitForQuota(feed: FeedName): number {
    const { perMinute } = this.quirks;
    if (perMinute === null) return 0;
    const sinceMicros = this.#world.nowMicros - 60 * second;
    const arrivals = (this.#arrivals.get(feed) ?? []).filter((micros) => micros > sinceMicros);
    this.#arrivals.set(feed, arrivals);
    if (arrivals.length >= perMinute) return (arrivals[0] ?? 0) - sinceMicros;
    arrivals.push(this.#world.nowMicros);
    return 0;
  }
}

function refusal(status: number, headers: Readonly<Record<string, string>> = {}): SourceAnswer {
  return { status, headers: { 'content-type': 'application/json', ...headers }, body: '{"detail":"not now"}' };
}
