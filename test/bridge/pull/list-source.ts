/** A well-behaved feed in memory, in the order of its times, of which a test changes what it likes. */
import type { FeedPage, FeedWindow, SourceClient } from '#client/source-client.ts';
import { type Timestamp, timestampFromMs } from '#contract/timestamp.ts';
import type { TestClock } from '../parts.ts';

export type FeedQuery = FeedWindow | { next: string };

export interface ListedRow {
  modified?: Timestamp;
  value: number;
}

export class ListSource {
  readonly rows = new Map<string, ListedRow>();
  readonly asked: FeedQuery[] = [];
  commitOrdered = false;
  /** Answers itself, or lets the list answer by giving undefined. */
  answer: (at: FeedQuery) => Partial<FeedPage> | undefined | Promise<Partial<FeedPage> | undefined> = () => undefined;
  readonly #clock: TestClock;

  constructor(clock: TestClock) {
    this.#clock = clock;
  }

  /** Writes a row, stamped now less `agoSeconds`; gives its time. */
  put(id: string, value: number, agoSeconds = 0): Timestamp {
    const modified = timestampFromMs(this.#clock.nowMs() - agoSeconds * 1_000);
    this.rows.set(id, { modified, value });
    return modified;
  }

  /** The values by id. */
  get state(): Map<string, number> {
    return new Map([...this.rows].map(([id, { value }]) => [id, value]));
  }

  readonly client: Pick<SourceClient, 'readFeed'> = {
    readFeed: async (_feed, at, signal) => {
      this.asked.push(at);
      const own = await this.answer(at);
      signal?.throwIfAborted();
      return { ...(own?.records ? { records: [], next: undefined } : this.#list(at)), ...this.#head(), ...own };
    },
  };

  #head() {
    return { includes: {}, commitOrdered: this.commitOrdered, sourceMs: this.#clock.nowMs() - 1_000 };
  }

  #list(at: FeedQuery): Pick<FeedPage, 'records' | 'next'> {
    const { modifiedAfter, modifiedBefore, pageSize, skip } =
      'next' in at ? (JSON.parse(at.next) as FeedWindow & { skip: number }) : { ...at, skip: 0 };
    const shown = [...this.rows]
      .map(([id, row]) => ({ id, ...row }))
      .filter(({ modified }) => {
        if (modified === undefined) return modifiedAfter === undefined && modifiedBefore === undefined;
        return modified >= (modifiedAfter ?? '') && (modifiedBefore === undefined || modified <= modifiedBefore);
      })
      .sort((a, b) =>
        (a.modified ?? '') === (b.modified ?? '')
          ? a.id < b.id
            ? -1
            : 1
          : (a.modified ?? '') < (b.modified ?? '')
            ? -1
            : 1,
      );
    const further = { modifiedAfter, modifiedBefore, pageSize, skip: skip + pageSize };
    return {
      records: shown.slice(skip, skip + pageSize),
      next: skip + pageSize < shown.length ? JSON.stringify(further) : undefined,
    };
  }
}
