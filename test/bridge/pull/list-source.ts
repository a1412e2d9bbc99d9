/** A feed in memory that behaves well, in the order of its stamps. A test replaces single answers. */
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
  /** Replaces parts of the next answer; undefined leaves it to the list. */
  answer: (at: FeedQuery) => Partial<FeedPage> | undefined | Promise<Partial<FeedPage> | undefined> = () => undefined;
  readonly #clock: TestClock;

  constructor(clock: TestClock) {
    this.#clock = clock;
  }

  /** Writes a row, stamped `agoSeconds` ago; returns its stamp. */
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
      const replaced = await this.answer(at);
      signal?.throwIfAborted();
      return {
        ...(replaced?.records ? { records: [], next: undefined } : this.#list(at)),
        ...this.#head(),
        ...replaced,
      };
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
    const nextQuery = { modifiedAfter, modifiedBefore, pageSize, skip: skip + pageSize };
    return {
      records: shown.slice(skip, skip + pageSize),
      next: skip + pageSize < shown.length ? JSON.stringify(nextQuery) : undefined,
    };
  }
}
