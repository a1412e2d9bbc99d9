/**
 * A source of feeds whose pages were made beforehand, as bytes: `GET /api/feeds/<feed>` with `modified_after` or
 * `cursor`, in the order of commits. A process of its own, so that it is not what is measured.
 */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { bodiesOf } from './bench-records.ts';

export interface PageServerOrder {
  feed: 'awards' | 'sourcing-events';
  /** The numbers of the first record and of the one after the last. */
  from: number;
  to: number;
  pageSize: number;
}
export interface PageServerReport {
  port: number;
}

/** Of each feed, by their cursors; the first has an empty one. */
const pagesOf = new Map<string, ReadonlyMap<string, Buffer>>();

/** Opaque: a bridge does not believe that a number of a page is a place in the order of commits. */
function cursorOf(page: number): string {
  return page === 0 ? '' : Buffer.from(`page ${page}`).toString('base64url');
}

function build(order: PageServerOrder, port: number): void {
  const { pageSize } = order;
  const bodies = bodiesOf(order.feed, order.from, order.to);
  const pages: Buffer[] = [];
  for (let first = 0; first < bodies.length; first += pageSize) {
    const last = first + pageSize >= bodies.length;
    const next = last ? null : `http://127.0.0.1:${port}/api/feeds/${order.feed}?cursor=${cursorOf(pages.length + 1)}`;
    pages.push(
      Buffer.from(`{"data":[${bodies.slice(first, first + pageSize).join(',')}],"next":${JSON.stringify(next)}}`),
    );
  }
  pagesOf.set(order.feed, new Map(pages.map((page, index) => [cursorOf(index), page])));
}

const server = createServer((request, response) => {
  const { pathname, searchParams } = new URL(request.url ?? '/', 'http://127.0.0.1');
  const pages = pagesOf.get(pathname.split('/').at(-1) ?? '');
  const page = pages?.get(searchParams.get('cursor') ?? '') ?? Buffer.from('{"data":[],"next":null}');
  response
    .writeHead(200, { 'content-type': 'application/json', 'content-length': page.length, 'feed-order': 'commit' })
    .end(page);
});

server.listen(0, '127.0.0.1', () => {
  const { port } = server.address() as AddressInfo;
  const report = () => process.send?.({ port } satisfies PageServerReport);
  process.on('message', (order: PageServerOrder) => {
    build(order, port);
    report();
  });
  report();
});
