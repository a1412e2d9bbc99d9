/**
 * The pages of a list of the ERP: how the next one is asked for, and where the list ends. A link to the next page gives
 * its query only, so every page is asked for at the list's own path, below the base URL, whatever name a proxy has for
 * the ERP. The length of a page says nothing: an ERP may give less than it is asked for. A list ends where no next page
 * is named, or with an empty page.
 */
import { createHash } from 'node:crypto';
import { ConfigError, compileJsonPath, type HttpResponse, TransientError } from 'sourcing-bridge/connector';
import { referenceText } from './answers.ts';
import type { PageSettings } from './settings.ts';

/** A page that was read. */
export interface Asked {
  readonly path: string;
  /** How many pages were asked for. */
  readonly pages: number;
  readonly entries: readonly unknown[];
  readonly answer: unknown;
  readonly response: HttpResponse;
}

type Next = PageSettings['next'];

/**
 * Returns a function for one walk through a list: it returns the path of the page after this one, and undefined after the
 * last. It throws ConfigError, which names `setting`, for a list that does not end, and for one that says that there is
 * more, but not where.
 */
export function compilePages(settings: PageSettings, setting: string): (asked: Asked) => string | undefined {
  const nextOf = compileNext(settings.next, setting);
  const hasMore = settings.has_more === undefined ? () => undefined : compileJsonPath(settings.has_more);
  let last: string | undefined;
  return (asked) => {
    const { path, pages, entries, response, answer } = asked;
    const more = textOf(hasMore(answer));
    const found = more === 'false' ? undefined : nextOf(asked);
    // An ERP that always has a cursor repeats it on the empty page behind the last one.
    const next = found === path && entries.length === 0 ? undefined : found;
    if (next === undefined && more === 'true')
      throw new ConfigError(`${path} says that there is more, but has no next page: ${setting}.next is wrong.`);
    // A list that does not change from page to page would never end.
    const body = next === undefined ? undefined : createHash('sha256').update(response.bytes).digest('hex');
    if (next === path || (body !== undefined && body === last && entries.length > 0))
      throw new ConfigError(`${path} returns the same page again and again: ${setting}.next is wrong.`);
    last = body;
    if (pages >= settings.pages_max && next !== undefined)
      throw new ConfigError(`The list has more than ${settings.pages_max} pages (${setting}.pages_max).`);
    return next;
  };
}

/** How many entries were read, and how many the list has by the lowest number that its pages said. */
export interface Counted {
  readonly seen: number;
  readonly total?: number | undefined;
}

/** Returns a function that counts a page in. */
export function compileCount({ total }: PageSettings): (before: Counted, asked: Asked) => Counted {
  const totalAt = total === undefined ? () => undefined : compileJsonPath(total);
  return (before, { answer, entries }) => {
    const said = wholeNumber(totalAt(answer));
    // Entries that were deleted meanwhile are no loss.
    const lowest = said === undefined ? before.total : Math.min(said, before.total ?? said);
    return { seen: before.seen + entries.length, ...(lowest === undefined ? {} : { total: lowest }) };
  };
}

/** The error of a list that has ended before all of its entries were read; undefined for any other. */
export function shortfallOf({ seen, total = 0 }: Counted, pages: number, path: string, setting: string) {
  if (seen >= total) return undefined;
  const text = `${path} ended with ${seen} of ${total} entries`;
  return pages === 1
    ? new ConfigError(`${text}: ${setting}.next finds no next page.`)
    : new TransientError(`${text}: the list changed meanwhile, or ${setting}.next is wrong.`);
}

/**
 * What an answer says of entries that it does not show, such as `total 3`, where no next page was found; undefined where
 * it says nothing. Without settings it looks at the names that most ERPs have for that.
 */
export function hiddenEntries(settings: PageSettings, { answer, entries }: Asked): string | undefined {
  const named = [settings.total, settings.has_more].flatMap((place) =>
    place === undefined ? [] : [[place, compileJsonPath(place)(answer)] as const],
  );
  for (const [name, value] of named.length > 0 ? named : membersOf(answer)) {
    const simple = name.toLowerCase().replaceAll(/[^a-z]/g, '');
    const isTotal = name === settings.total || (named.length === 0 && totalNames.has(simple));
    if (isTotal && (wholeNumber(value) ?? 0) > entries.length) return `total ${textOf(value)}`;
    const isMore = name === settings.has_more || (named.length === 0 && moreNames.has(simple));
    if (isMore && textOf(value) === 'true') return `${name} true`;
  }
  return undefined;
}

const totalNames: ReadonlySet<string> = new Set([
  'total',
  'totalcount',
  'totalresults',
  'totalitems',
  'totalrecords',
  'totalelements',
  'odatacount',
  'count',
]);
const moreNames: ReadonlySet<string> = new Set(['hasmore', 'hasnext', 'hasnextpage', 'more']);

/** The members of an answer and of the objects in it, as `paging: { total: 3 }`. */
function membersOf(answer: unknown): (readonly [string, unknown])[] {
  if (typeof answer !== 'object' || answer === null || Array.isArray(answer)) return [];
  return Object.entries(answer).flatMap(([name, value]: [string, unknown]) =>
    typeof value === 'object' && value !== null && !Array.isArray(value)
      ? Object.entries(value)
      : [[name, value] as const],
  );
}

function textOf(value: unknown): string {
  return referenceText(value) ?? '';
}

function wholeNumber(value: unknown): number | undefined {
  const text = textOf(value);
  return /^\d{1,15}$/.test(text) ? Number(text) : undefined;
}

/** The path into the answer, or into the last entry, that the setting has. */
export function placeOfNext(next: Next): string | undefined {
  if (typeof next !== 'object') return undefined;
  if ('url' in next) return next.url;
  if ('cursor' in next) return next.cursor;
  return 'last' in next ? next.last : undefined;
}

/** Returns the path of the page after this one; undefined after the last. */
function compileNext(next: Next, setting: string): (asked: Asked) => string | undefined {
  if (next === undefined) return () => undefined;
  const read = compileJsonPath(placeOfNext(next) ?? 'next');
  if (next === 'link')
    return ({ path, response }) => withQueryOf(path, linkOf(response.headers['link'] ?? ''), setting);
  if ('url' in next) return ({ path, answer }) => withQueryOf(path, textOf(read(answer)), setting);
  if ('cursor' in next) return ({ path, answer }) => withParameter(path, next.parameter, textOf(read(answer)));
  if ('last' in next)
    return ({ path, entries }) => {
      const id = textOf(read(entries.at(-1)));
      if (entries.length > 0 && id === '')
        throw new ConfigError(`The last entry of ${path} has nothing at ${next.last} (${setting}.next).`);
      return withParameter(path, next.parameter, id);
    };
  if ('page' in next)
    return ({ path, pages, entries }) =>
      entries.length === 0 ? undefined : withParameter(path, next.page, String(next.first + pages));
  return ({ path, entries }) => {
    if (entries.length === 0) return undefined;
    const before = Number(new URL(`http://erp${path}`).searchParams.get(next.offset) ?? 0);
    return withParameter(path, next.offset, String(before + entries.length));
  };
}

/** The path with this parameter; undefined where it has no value. */
function withParameter(path: string, name: string, value: string): string | undefined {
  if (value === '') return undefined;
  const url = new URL(`http://erp${path}`);
  url.searchParams.set(name, value);
  return `${url.pathname}${url.search}`;
}

/** The target of `<…>; rel="next"` (RFC 8288); empty where there is none. */
function linkOf(header: string): string {
  for (const [, target = '', params = ''] of header.matchAll(/<([^<>]*)>((?:"[^"]*"|[^",])*)/g)) {
    const [, quoted, plain = ''] = /;\s*rel\s*=\s*(?:"([^"]*)"|([^\s;"]+))/i.exec(params) ?? [];
    // A link may have several relations: `rel="next last"`.
    if ((quoted ?? plain).toLowerCase().split(/\s+/).includes('next')) return target;
  }
  return '';
}

/** The path with the query of a link; undefined where there is no link. Throws ConfigError for one without a query. */
function withQueryOf(path: string, link: string, setting: string): string | undefined {
  if (link === '') return undefined;
  const query = URL.canParse(link, 'http://erp') ? new URL(link, 'http://erp').search : '';
  if (query === '')
    throw new ConfigError(
      `The next page of ${path} is ${link}, which has no query, and only a query is followed: read a cursor or a page number instead (${setting}.next).`,
    );
  return `${new URL(`http://erp${path}`).pathname}${query}`;
}
