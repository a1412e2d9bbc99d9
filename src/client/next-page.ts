/**
 * Where an answer says that its next page is: the member `next` of the body, or the header `Link` with `rel="next"`
 * (RFC 8288), which some services send alone. Example, with the link in a header that also names the first page:
 *
 *     Link: <https://s.example.com/api/feeds/awards?cursor=a%2Cb>; rel="next", </api/feeds/awards>; rel="first"
 *
 * Only the query of a link is used, `cursor=a%2Cb`. Its origin and path are ignored, so no request ever goes to another
 * origin or path.
 */
import { AppError } from '#platform/errors.ts';

/**
 * Returns the query of the next page; undefined on the last one. Throws AppError `unavailable` for a next page without
 * a query.
 */
export function nextQueryOf(next: string | null | undefined, headers: Readonly<Record<string, string>>) {
  const link = next ?? linkToNext(headers['link']);
  if (link === undefined) return undefined;
  const query = URL.parse(link, 'http://relative.invalid')?.search.slice(1);
  if (query === undefined || query === '')
    throw new AppError('unavailable', 'A page has a "next" link without a query.', { recovery: { do: 'halt' } });
  return query;
}

/** One link: its target in angle brackets, and its parameters up to the next comma that is not in quotes. */
const linkForm = /<([^<>]*)>((?:"(?:[^"\\]|\\.)*"|[^",])*)/g;
/** One parameter: `; rel="next"`. */
const parameterForm = /;\s*([\w-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s";]+))/g;

function linkToNext(header = ''): string | undefined {
  for (const [, target, parameters = ''] of header.matchAll(linkForm))
    for (const [, name, quoted, plain = ''] of parameters.matchAll(parameterForm)) {
      // A link may have several relations: `rel="next last"`.
      const relations = (quoted ?? plain).toLowerCase().split(/\s+/);
      if (name?.toLowerCase() === 'rel' && relations.includes('next')) return target;
    }
  return undefined;
}
