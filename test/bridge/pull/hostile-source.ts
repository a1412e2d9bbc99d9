/**
 * A misbehaving source in place of a real service: the model of `src/service/misbehave`, asked as the client asks. Its
 * rows change while it is read. A version may become visible later than its stamp says, and later still on a replica
 * that lags.
 */
import { errorOfAnswer, readJson } from '#client/read-answer.ts';
import { createReadFeed } from '#client/read-feed.ts';
import type { Send } from '#client/send-call.ts';
import type { SourceClient } from '#client/source-client.ts';
import { type Timestamp, timestampFromMicros } from '#contract/timestamp.ts';
import { AppError } from '#platform/errors.ts';
import { readRetryAfterMs } from '#platform/retry-after.ts';
import type { FeedQuirks } from '#service/misbehave/feed-quirks.ts';
import { HostileFeed } from '#service/misbehave/hostile-feed.ts';
import { changedForm, latenessOf, roundedStamp, stampOf, undated } from '#service/misbehave/hostile-versions.ts';
import { seededFraction } from '#service/misbehave/seeded-fraction.ts';
import type { TestClock } from '../parts.ts';

export interface HostileQuirks extends FeedQuirks {
  /** There is one record whose stamp lies a day ahead. */
  future: boolean;
  /** Stamps grow with each commit, and nothing is late. It is declared if `declaresOrder` says so. */
  commitOrdered: boolean;
}

export class HostileSource {
  readonly quirks: HostileQuirks;
  readonly client: Pick<SourceClient, 'readFeed'>;
  readonly #clock: TestClock;
  readonly #random: () => number;
  /** A generator of its own for what happens during requests: what is written before does not depend on their number. */
  readonly #chance = seeded(20_301);
  readonly #feed: HostileFeed;
  readonly #startMicros: number;
  readonly #written = new Map<string, { stampMicros: number; visibleMs: number; value: number }>();
  #lastMicros = 0;
  #value = 0;
  writing = true;
  /** Faults have stopped, and replicas no longer lag. */
  calm = false;
  requests = 0;
  /** Called before each answer. */
  onRequest: () => void = () => undefined;

  constructor(quirks: HostileQuirks, clock: TestClock, random: () => number) {
    this.quirks = quirks;
    this.#clock = clock;
    this.#random = random;
    this.client = { readFeed: createReadFeed({ send: (...asked) => this.#send(...asked), clock }) };
    this.#startMicros = clock.nowMs() * 1_000;
    this.#feed = new HostileFeed(quirks, { random: seededFraction('answers'), startMicros: this.#startMicros });
    if (quirks.undated > 0) for (let n = 0; n < 3; n += 1) this.#add(`u${n}`, undated, clock.nowMs());
    if (quirks.future) this.#add('future', this.#startMicros + 86_400_000_000, clock.nowMs());
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
    const now = this.#clock.nowMs();
    const before = this.#written.get(id);
    const lateMs = this.quirks.commitOrdered ? 0 : Math.floor(latenessOf(this.quirks, this.#random));
    // The versions of one row are committed in the order of their stamps.
    if (before && before.visibleMs > now + lateMs) return;
    // Strictly later than all stamps before, as a clock with microseconds would be.
    this.#lastMicros = Math.max(this.#lastMicros + 1, now * 1_000);
    const moment = { nowMicros: this.#lastMicros, startMicros: this.#startMicros };
    const stampMicros = stampOf(this.quirks, moment, before ? [before.stampMicros] : [], this.#random);
    this.#add(id, stampMicros, now + lateMs);
  }

  /** The last version of every row, also one that is not visible yet. */
  get state(): Map<string, number> {
    return new Map([...this.#written].map(([id, { value }]) => [id, value]));
  }

  /** The rows whose last version is stamped at `time` or earlier. */
  stateUpTo(time: Timestamp): Map<string, number> {
    const rows = [...this.#written].flatMap(([id, { stampMicros, value }]) => {
      if (stampMicros === undated) return [];
      const stamp = timestampFromMicros(roundedStamp(this.quirks, stampMicros));
      return stamp <= time ? [[id, value] as const] : [];
    });
    return new Map(rows);
  }

  /** Answers as the service's own client would hand it on: errors have its recovery, and 429 its wait. */
  async #send(...[call, signal]: Parameters<Send>): ReturnType<Send> {
    this.requests += 1;
    this.onRequest();
    signal?.throwIfAborted();
    this.live(this.#chance(), this.#chance() < 0.5 ? 1 : 0);
    const what = `${call.method} ${call.path.split('?')[0] ?? ''}`;
    const url = new URL(call.path, 'https://source.test');
    const answer = this.#feed.answer(url, this.#clock.nowMs() * 1_000, { calm: this.calm });
    if (answer === 'cut') throw new AppError('unavailable', `${what}: the connection was closed.`);
    this.#clock.advance(answer.delayMs);
    const { status, headers, body: text } = answer;
    const afterMs = readRetryAfterMs(headers['retry-after'], this.#clock.nowMs());
    if (status > 299) throw errorOfAnswer({ status, headers, text }, what, { secrets: [], afterMs });
    const shown = { status, headers: { ...headers }, text };
    return { ...shown, body: readJson(shown, { method: call.method, what }, []) };
  }

  #add(id: string, stampMicros: number, visibleMs: number): void {
    this.#value += 1;
    const value = this.#value;
    this.#written.set(id, { stampMicros, visibleMs, value });
    const moment = { nowMicros: this.#clock.nowMs() * 1_000, startMicros: this.#startMicros };
    const json = changedForm(this.quirks, moment, JSON.stringify({ id, value }));
    this.#feed.commit({ id, stampMicros, committedMicros: visibleMs * 1_000, json });
  }
}

/** The same numbers for the same seed. */
export function seeded(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state * 1_103_515_245 + 12_345) % 2_147_483_648;
    return state / 2_147_483_648;
  };
}
