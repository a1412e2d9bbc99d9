/**
 * Stands in for another vendor's sourcing service: a small source of feeds on node:http that does what a well-behaved
 * service would not do. Tests choose its exact pages, failures at a certain request, and wrong orders.
 */
import type { ServerResponse } from 'node:http';
import { listen } from '#platform/http/server.ts';
import { closeAtEnd } from '../harness/close-at-end.ts';
import type { TestRecord } from './parts.ts';

export interface FeedSource {
  readonly url: string;
  /** The feeds' records in the order in which they are shown. */
  readonly records: Map<string, TestRecord[]>;
  /** The requests so far, as `awards?page_size=2`. */
  readonly asked: string[];
  commitOrdered: boolean;
  /** Called for each request; returns true when it has answered itself. */
  onRequest: (query: URLSearchParams, response: ServerResponse) => boolean | undefined | Promise<boolean | undefined>;
  /** Appends records, or moves them to the end as a changed record does. */
  append(feed: string, ...records: TestRecord[]): void;
}

export async function startFeedSource(): Promise<FeedSource> {
  const source: FeedSource & { url: string } = {
    url: '',
    records: new Map(),
    asked: [],
    commitOrdered: true,
    onRequest: () => undefined,
    append: (feed, ...records) => {
      const before = source.records.get(feed) ?? [];
      const changed = new Set(records.map(({ id }) => id));
      source.records.set(feed, [...before.filter(({ id }) => !changed.has(id)), ...records]);
    },
  };
  const answer = async (url: URL, response: ServerResponse) => {
    const feed = url.pathname.split('/').at(-1) ?? '';
    source.asked.push(`${feed}${url.search}`);
    if (await source.onRequest(url.searchParams, response)) return;
    const after = url.searchParams.get('modified_after') ?? '';
    // A record without a time passes every filter.
    const before = url.searchParams.get('modified_before');
    const shown = (source.records.get(feed) ?? []).filter(
      ({ modified }) => !(modified < after || (before !== null && modified > before)),
    );
    const cursor = url.searchParams.get('cursor');
    const from = cursor === null ? 0 : shown.findIndex(({ id }) => id === cursor) + 1;
    const to = from + Number(url.searchParams.get('page_size'));
    const next = new URL(url);
    next.searchParams.set('cursor', shown[to - 1]?.id ?? '');
    const order = source.commitOrdered ? { 'feed-order': 'commit' } : {};
    // The tests have a clock of their own.
    response.sendDate = false;
    response.writeHead(200, { 'content-type': 'application/json', ...order });
    response.end(JSON.stringify({ data: shown.slice(from, to), next: to < shown.length ? next.href : null }));
  };
  const server = await listen(
    (request, response) => {
      // An expectation that fails in `onRequest` makes the pull fail.
      answer(new URL(request.url ?? '/', source.url), response).catch((error: unknown) =>
        response.destroy(error instanceof Error ? error : undefined),
      );
    },
    { host: '127.0.0.1', port: 0 },
  );
  closeAtEnd(() => server.close(0));
  source.url = server.url;
  return source;
}
