/** How a service pages, by the names in the query of a `next`. */
export type Paging = 'cursor' | 'page number' | 'offset' | 'unknown';

export function pagingOf(next: string): Paging {
  const names = [...new URLSearchParams(next).keys()].map((name) => name.toLowerCase());
  const has = (pattern: RegExp) => names.some((name) => pattern.test(name));
  if (has(/cursor|token|continu|scroll|after_id|starting_after/)) return 'cursor';
  if (has(/offset|skip|^start$/)) return 'offset';
  return has(/^page$|page_?(number|no|index)|^p$/) ? 'page number' : 'unknown';
}
