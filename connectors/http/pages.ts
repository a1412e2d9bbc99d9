/**
 * The pages of a list of the ERP: how the next one is asked for. Every page is asked for below the base URL only, so no
 * answer can send the login elsewhere, and a list that goes in a circle, or never ends, is found out.
 */
import { createHash } from 'node:crypto';
import { ConfigError, compileJsonPath, type HttpResponse } from 'sourcing-bridge/connector';
import type { ListSettings } from './settings.ts';

/** A page that was read. */
interface Asked {
  readonly path: string;
  /** How many pages were asked for. */
  readonly pages: number;
  readonly entries: number;
  readonly answer: unknown;
  readonly response: HttpResponse;
}

/**
 * Returns a function for one walk through a list: it returns the path of the page after this one, and undefined after the
 * last. It throws ConfigError, which names `setting`, for a list that does not end.
 */
export function compilePages(
  settings: Pick<ListSettings, 'next' | 'pages_max'>,
  baseUrl: string,
  setting: string,
): (asked: Asked) => string | undefined {
  const nextOf = compileNext(settings, baseUrl);
  let last: string | undefined;
  return (asked) => {
    const { path, pages, entries, response } = asked;
    const next = nextOf(asked);
    // A list that does not change from page to page would never end.
    const body = next === undefined ? undefined : createHash('sha256').update(response.bytes).digest('hex');
    if (next === path || (body !== undefined && body === last && entries > 0))
      throw new ConfigError(`${path} returns the same page again and again: ${setting}.next is wrong.`);
    last = body;
    if (pages >= settings.pages_max && next !== undefined)
      throw new ConfigError(`The list has more than ${settings.pages_max} pages (${setting}.pages_max).`);
    return next;
  };
}

/** Returns the path of the page after this one; undefined after the last. */
function compileNext({ next }: Pick<ListSettings, 'next'>, baseUrl: string): (asked: Asked) => string | undefined {
  if (next === undefined) return () => undefined;
  if (next === 'link')
    return ({ path, response }) => {
      const target = linkOf(response.headers['link'] ?? '');
      return target === undefined ? undefined : pathBelow(baseUrl, path, target);
    };
  if ('url' in next) {
    const read = compileJsonPath(next.url);
    return ({ path, answer }) => {
      const target = read(answer);
      return typeof target === 'string' && target !== '' ? pathBelow(baseUrl, path, target) : undefined;
    };
  }
  if ('cursor' in next) {
    const read = compileJsonPath(next.cursor);
    return ({ path, answer }) => {
      const cursor = read(answer);
      return typeof cursor === 'string' && cursor !== '' ? withParameter(path, next.parameter, cursor) : undefined;
    };
  }
  if ('page' in next) {
    return ({ path, pages, entries }) =>
      entries === 0 || entries < (next.size ?? 0)
        ? undefined
        : withParameter(path, next.page, String(next.first + pages));
  }
  return ({ path, entries }) => {
    if (entries === 0 || entries < (next.size ?? 0)) return undefined;
    const before = Number(new URL(`http://erp${path}`).searchParams.get(next.offset) ?? 0);
    return withParameter(path, next.offset, String(before + entries));
  };
}

function withParameter(path: string, name: string, value: string): string {
  const url = new URL(`http://erp${path}`);
  url.searchParams.set(name, value);
  return `${url.pathname}${url.search}`;
}

/** The target of `<…>; rel="next"` (RFC 8288). */
function linkOf(header: string): string | undefined {
  for (const [, target, params = ''] of header.matchAll(/<([^<>]*)>((?:"[^"]*"|[^",])*)/g)) {
    const [, quoted, plain = ''] = /;\s*rel\s*=\s*(?:"([^"]*)"|([^\s;"]+))/i.exec(params) ?? [];
    // A link may have several relations: `rel="next last"`.
    if ((quoted ?? plain).toLowerCase().split(/\s+/).includes('next')) return target;
  }
  return undefined;
}

/** The path, below the base URL, of a URL that an answer names. Throws ConfigError for any other place. */
function pathBelow(baseUrl: string, path: string, target: string): string {
  const base = new URL(baseUrl);
  const prefix = base.pathname.replace(/\/$/, '');
  const url = URL.canParse(target, `${base.origin}${prefix}${path}`)
    ? new URL(target, `${base.origin}${prefix}${path}`)
    : undefined;
  if (url?.origin !== base.origin || !`${url.pathname}/`.startsWith(`${prefix}/`))
    throw new ConfigError('The next page is not below base_url: the login is not sent there.');
  return `${url.pathname.slice(prefix.length)}${url.search}`;
}
