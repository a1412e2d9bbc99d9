import { describe, expect, test } from 'vitest';
import { type ListPage, readPages } from '#client/list-page.ts';
import { nextQueryOf } from '#client/next-page.ts';
import { AppError } from '#platform/errors.ts';

describe('the next page', () => {
  test.each<[what: string, next: string | null | undefined, link: string | undefined, query: string | undefined]>([
    ['is named by the body', 'https://s.example/api/feeds/awards?cursor=a', undefined, 'cursor=a'],
    ['is named by Link alone', null, '<https://s.example/api/feeds/awards?cursor=a%2Cb>; rel="next"', 'cursor=a%2Cb'],
    ['is named by Link where the body has no member', undefined, '</x?cursor=1>; rel=next', 'cursor=1'],
    ['is that of the body where both name one', '?cursor=body', '<?cursor=link>; rel="next"', 'cursor=body'],
    ['is found among other links', null, '</x?c=0>; rel="prev", </x?c=2>; title="a, <b>; rel=next"; rel="next"', 'c=2'],
    ['is found among several relations', null, '</x?c=3>; rel="last NEXT"', 'c=3'],
    ['may have a comma and a semicolon in its address', null, '</x?c=1,2;3>; rel="next"', 'c=1,2;3'],
    ['is not another relation', null, '</x?c=1>; rel="first", </x?c=2>; rel="prev"', undefined],
    ['is not a relation whose name only holds the word', null, '</x?c=1>; rel="next-archive"', undefined],
    ['is not read out of a title', null, '</x?c=1>; title="a; rel=next"', undefined],
    ['is not there without a link', null, undefined, undefined],
    ['is not there in a header of another form', null, 'next', undefined],
  ])('%s', (_what, next, link, query) => {
    expect(nextQueryOf(next, link === undefined ? {} : { link })).toBe(query);
  });

  test('without a query is an error, whichever way it is named', () => {
    for (const [next, link] of [
      ['https://s.example/api/feeds/awards', ''] as const,
      [null, '</x>; rel="next"'] as const,
    ])
      expect(() => nextQueryOf(next, { link })).toThrow(/without a query/);
  });

  test('a long header that is no link costs no time', () => {
    expect(nextQueryOf(null, { link: '<a>;'.repeat(4_000) + ' ;'.repeat(4_000) })).toBeUndefined();
  });
});

describe('the pages of a list', () => {
  const wholeList = Array.from({ length: 25 }, (_, index) => index);

  /** A list that puts at most ten items on a page. `shown` makes the answer of a page. */
  async function read(shown: (page: number[], number: number) => ListPage<number>) {
    const asked: string[] = [];
    const items: number[] = [];
    const pages = readPages(async (query) => {
      asked.push(query);
      const number = Number(new URLSearchParams(query).get('page_number'));
      return shown(wholeList.slice((number - 1) * 10, number * 10), number);
    }, 'page_number=1&page_size=100');
    for await (const page of pages) items.push(...page.items);
    return { items, asked: asked.length };
  }

  test('are read to the end where the list counts, and names no next page', async () => {
    const { items, asked } = await read((page) => ({ items: page, count: 25, next: undefined }));
    expect([items, asked]).toEqual([wholeList, 3]);
  });

  test('are read until one shows nothing where the list neither counts nor names a next page', async () => {
    const { items, asked } = await read((page) => ({ items: page, count: undefined, next: undefined }));
    expect([items, asked]).toEqual([wholeList, 4]);
  });

  test('end where a number beyond the last page is refused', async () => {
    const { items } = await read((page) => {
      if (page.length === 0) throw new AppError('not-found', 'Invalid page.', { recovery: { do: 'halt' } });
      return { items: page, count: undefined, next: undefined };
    });
    expect(items).toEqual(wholeList);
  });

  test('are not repeated where the list ignores the number', async () => {
    const { items, asked } = await read(() => ({ items: [1, 2], count: undefined, next: undefined }));
    expect([items, asked]).toEqual([[1, 2], 2]);
  });

  test('that cannot be asked for are an error, not the end', async () => {
    const failed = read((page, number) => {
      if (number === 2) throw new AppError('unavailable', 'Away.', { recovery: { do: 'retry' } });
      return { items: page, count: undefined, next: undefined };
    });
    await expect(failed).rejects.toThrow('Away.');
  });

  test('that loop are refused', async () => {
    const failed = read((page, number) => ({
      items: page,
      count: 25,
      next: `page_number=${(number % 2) + 1}&page_size=100`,
    }));
    await expect(failed).rejects.toMatchObject({ message: expect.stringMatching(/loop/) });
  });
});
