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

let pages: Buffer[] = [];
let pageSize = 1;

function build(order: PageServerOrder, port: number): void {
  pageSize = order.pageSize;
  const bodies = bodiesOf(order.feed, order.from, order.to);
  pages = [];
  for (let first = 0; first < bodies.length; first += pageSize) {
    const last = first + pageSize >= bodies.length;
    const next = last ? null : `http://127.0.0.1:${port}/api/feeds/${order.feed}?cursor=${pages.length + 1}`;
    pages.push(
      Buffer.from(`{"data":[${bodies.slice(first, first + pageSize).join(',')}],"next":${JSON.stringify(next)}}`),
    );
  }
}

const server = createServer((request, response) => {
  const { searchParams } = new URL(request.url ?? '/', 'http://127.0.0.1');
  const page = pages[Number(searchParams.get('cursor') ?? 0)] ?? Buffer.from('{"data":[],"next":null}');
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
