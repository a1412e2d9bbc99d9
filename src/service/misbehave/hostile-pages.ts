/**
 * How a misbehaving source orders the rows of an answer, cuts them into pages and links to the next one. Page numbers
 * and offsets count rows, which move while records change; a cursor names the last row, unless the order is another one
 * in each answer.
 */
import { pageSizeDefault } from '#contract/feed.ts';
import type { FeedQuirks } from './feed-quirks.ts';
import type { Fraction, Row } from './hostile-versions.ts';

export interface Page {
  readonly rows: readonly Row[];
  readonly next: string | null;
}

/** A request that the source refuses: it asks for what is not known there, or no longer. */
export class RefusedRequest extends Error {
  readonly status: number;

  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

export interface PagingState {
  readonly quirks: Readonly<FeedQuirks>;
  /** How many requests the feed has answered, this one included. */
  readonly answers: number;
  /** The changes of the source that its quirks choose have happened. */
  readonly hasChanged: boolean;
  readonly random: Fraction;
}

/** The page that the URL asks for, of rows in the order of stamps and ids. */
export function pageOf(rows: readonly Row[], url: URL, state: PagingState): Page {
  const { quirks, hasChanged, random } = state;
  const query = url.searchParams;
  const size = sizeOf(query, state);
  const paging = (hasChanged && quirks.pagingLater) || quirks.paging;
  const ordered = inOrder(rows, quirks, random);
  const place = paging === 'cursor' ? cursorPlace(ordered, query, quirks) : countedPlace(query, { paging, size });
  const page = ordered.slice(place.start, place.start + size);
  const last = page.at(-1);
  const isLast = place.start + size >= ordered.length || last === undefined;
  if (isLast || (quirks.nextMissing > 0 && random() < quirks.nextMissing)) return { rows: page, next: null };
  const link = new URL(url);
  if (quirks.nextLoops) for (const name of pagingParameters) link.searchParams.delete(name);
  else for (const [name, value] of place.nextOf(ordered, place.start + size)) link.searchParams.set(name, value);
  if (quirks.foreignNext) link.host = 'elsewhere.test';
  return { rows: page, next: link.href };
}

const pagingParameters = ['cursor', 'page_number', 'offset'];
const smallestPage = 2;

function sizeOf(query: URLSearchParams, { quirks, answers, hasChanged }: PagingState): number {
  const requested = countIn(query, 'page_size', { least: 1, fallback: pageSizeDefault });
  const { pageFixed, pageMax, pageMaxLater, shrinksEvery } = quirks;
  const largest = Math.min(pageMax, (hasChanged && pageMaxLater) || Number.POSITIVE_INFINITY);
  const size = Math.min(pageFixed ?? requested, largest);
  if (shrinksEvery === null) return size;
  const halved = Math.floor(size / 2 ** Math.floor(answers / shrinksEvery));
  return Math.min(size, Math.max(smallestPage, halved));
}

function countIn(
  query: URLSearchParams,
  name: string,
  { least, fallback }: { least: number; fallback: number },
): number {
  const value = Number(query.get(name) ?? fallback);
  if (!Number.isSafeInteger(value) || value < least)
    throw new RefusedRequest(400, `${name} must be a whole number from ${least} on.`);
  return value;
}

function inOrder(rows: readonly Row[], { order, unstableTies }: FeedQuirks, random: Fraction): readonly Row[] {
  switch (order) {
    case 'random':
      return rows.toSorted((a, b) => (a.rank === b.rank ? (a.id < b.id ? -1 : 1) : a.rank - b.rank));
    case 'random-by-page':
      return shuffled(rows, random);
    case 'descending':
    case 'ascending': {
      const directed = order === 'ascending' ? rows : rows.toReversed();
      return unstableTies ? withShuffledTies(directed, random) : directed;
    }
  }
}

function shuffled<T>(list: readonly T[], random: Fraction): T[] {
  const mixed = [...list];
  for (let last = mixed.length - 1; last > 0; last -= 1) {
    const other = Math.floor(random() * (last + 1));
    [mixed[last], mixed[other]] = [mixed[other] as T, mixed[last] as T];
  }
  return mixed;
}

function withShuffledTies(rows: readonly Row[], random: Fraction): Row[] {
  const mixed: Row[] = [];
  for (let start = 0; start < rows.length; ) {
    let end = start + 1;
    while (end < rows.length && rows[end]?.at === rows[start]?.at) end += 1;
    mixed.push(...(end - start === 1 ? rows.slice(start, end) : shuffled(rows.slice(start, end), random)));
    start = end;
  }
  return mixed;
}

interface Place {
  readonly start: number;
  /** The parameters of the page that begins with this row. */
  nextOf(rows: readonly Row[], begin: number): [string, string][];
}

function countedPlace(
  query: URLSearchParams,
  { paging, size }: { paging: 'page-number' | 'offset'; size: number },
): Place {
  if (query.has('cursor')) throw new RefusedRequest(400, 'cursor is not a known parameter.');
  if (paging === 'offset')
    return {
      start: countIn(query, 'offset', { least: 0, fallback: 0 }),
      nextOf: (_rows, begin) => [['offset', String(begin)]],
    };
  const number = countIn(query, 'page_number', { least: 1, fallback: 1 });
  return { start: (number - 1) * size, nextOf: () => [['page_number', String(number + 1)]] };
}

/**
 * A cursor is `<pages before>_<key>_<id>`. The key is the stamp or rank of the last row, with its id; where the order of
 * rows is another one in each answer, it is how many rows were shown, in all or of the last stamp.
 */
function cursorPlace(rows: readonly Row[], query: URLSearchParams, quirks: FeedQuirks): Place {
  const { order, unstableTies, cursorPages, cursorRefusal } = quirks;
  const cursor = query.get('cursor');
  if (cursor !== null && !/^\d+_/.test(cursor)) throw new RefusedRequest(400, 'The cursor is none of this feed.');
  const [pagesText, key, ...rest] = (cursor ?? '').split('_');
  const pages = Number(pagesText);
  if (cursorPages !== null && pages >= cursorPages) throw new RefusedRequest(cursorRefusal, 'The cursor has expired.');
  const id = rest.join('_');
  const token = (...parts: (string | number)[]): [string, string][] => [['cursor', [pages + 1, ...parts].join('_')]];
  if (order === 'random-by-page')
    return { start: key === undefined ? 0 : Number(key), nextOf: (_rows, begin) => token(begin) };
  if (unstableTies && order !== 'random') {
    const at = Number(key);
    const start = key === undefined ? 0 : firstAt(rows, at, order) + Number(id);
    return {
      start,
      nextOf: (all, begin) => {
        const last = all[begin - 1] as Row;
        return token(last.at, begin - firstAt(all, last.at, order));
      },
    };
  }
  const keyOf = (row: Row) => (order === 'random' ? row.rank : row.at);
  const sign = order === 'descending' ? -1 : 1;
  const isAfter = (row: Row) => {
    const difference = keyOf(row) - Number(key);
    // Two stamps of minus infinity differ by NaN.
    return keyOf(row) === Number(key) ? (sign === 1 ? row.id > id : row.id < id) : sign * difference > 0;
  };
  return {
    start: key === undefined ? 0 : indexOr(rows.findIndex(isAfter), rows.length),
    nextOf: (all, begin) => {
      const last = all[begin - 1] as Row;
      return token(keyOf(last), last.id);
    },
  };
}

const firstAt = (rows: readonly Row[], at: number, order: FeedQuirks['order']) =>
  indexOr(
    rows.findIndex((row) => (order === 'descending' ? row.at <= at : row.at >= at)),
    rows.length,
  );

const indexOr = (index: number, otherwise: number) => (index === -1 ? otherwise : index);
