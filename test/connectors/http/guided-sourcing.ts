/**
 * A target whose API needs several requests for one document, as that of a guided sourcing system: events with states,
 * their bidders, items with a bid sheet, and awards. Bidders and items change only while the event is a draft, which ends
 * its awards; a change takes effect when the event is published. It is strict: what is done twice is kept in `faults`, and
 * more requests than its limits allow are answered 429.
 */
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { json } from 'node:stream/consumers';
import type { Clock } from '#platform/clock.ts';

export const apiKey = 'the key of the target';
/** Longer titles are refused. */
export const titleMax = 200;

export interface Item {
  readonly externalId: string;
  status: 'open' | 'removing';
  hash: string;
  title: string;
  /** A CSV with a header. */
  sheet: string;
  award: Award | null;
}

interface Award {
  hash: string;
  total: string;
  currency: string;
  lots: { lot: string; vendor: string; share: string; cost: string }[];
}

interface Event {
  state: 'draft' | 'published' | 'awarded';
  readonly bidders: { vendor: string; name: string }[];
  /** By their id in the other system. */
  readonly items: Map<string, Item>;
  /** What was done, in its order: `draft`, `bidder V-1`, `sheet of 2 rows`, `remove`, `publish`, `award V-1 10, V-2 5`. */
  readonly done: string[];
}

/** What happens to a request: it is carried out or not, and its answer comes, is lost, or never comes. */
export type Disturbance = 'none' | 'drop' | 'lose' | 'hang' | 'busy' | 'refuse';

export interface GuidedSourcing {
  readonly address: string;
  readonly events: ReadonlyMap<string, Event>;
  readonly faults: string[];
  /** When each request came, by the clock. */
  readonly arrivalsMs: number[];
  addEvent(id: string, ...vendors: string[]): void;
  /** Decides about each request; `n` counts those of its event, from 1. */
  disturb: (event: string, n: number, line: string) => Disturbance;
  /** Counts the requests of each event from 1 again. */
  recount(): void;
  /** Resolves when a request hangs. */
  untilHung(): Promise<void>;
  close(): Promise<void>;
}

type Answer = readonly [status: number, body: object];

const missing: Answer = [404, { error: 'there is nothing' }];
const conflict = (error: string): Answer => [409, { error }];

/** Starts the target on a free port. Without limits it takes any number of requests. */
export async function startGuidedSourcing(
  clock: Clock,
  limits: { perSecond: number; perMinute: number } = { perSecond: Infinity, perMinute: Infinity },
): Promise<GuidedSourcing> {
  const events = new Map<string, Event>();
  const counts = new Map<string, number>();
  const faults: string[] = [];
  const arrivalsMs: number[] = [];
  let hung = Promise.withResolvers<void>();

  function isTooMany(): boolean {
    const nowMs = clock.nowMs();
    arrivalsMs.push(nowMs);
    const within = (ms: number) => arrivalsMs.filter((at) => at > nowMs - ms).length;
    return within(1_000) > limits.perSecond || within(60_000) > limits.perMinute;
  }

  function setState(event: Event, state: unknown): Answer {
    if (state === 'draft' && event.state !== 'draft') {
      event.state = 'draft';
      for (const item of event.items.values()) item.award = null;
      event.done.push('draft');
    }
    // An event that is awarded is published.
    if (state === 'published' && event.state === 'draft') {
      event.state = 'published';
      for (const [id, { status }] of event.items) if (status === 'removing') event.items.delete(id);
      event.done.push('publish');
    }
    return [200, {}];
  }

  function addBidders(event: Event, wanted: Event['bidders']): Answer {
    if (wanted.some(({ vendor }) => vendor === undefined)) return [422, { error: 'a bidder has no vendor' }];
    const known = new Set(event.bidders.map(({ vendor }) => vendor));
    const unknown = wanted.filter(({ vendor }) => !known.has(vendor));
    if (unknown.length > 0 && event.state !== 'draft') return conflict('the event is no draft');
    for (const { vendor, name } of unknown) {
      if (event.bidders.some((other) => other.vendor === vendor)) faults.push(`${vendor} was added twice`);
      event.bidders.push({ vendor, name });
      event.done.push(`bidder ${vendor}`);
    }
    return [200, {}];
  }

  function putItem(event: Event, externalId: string, { hash, title, sheet }: Item): Answer {
    if (event.state !== 'draft') return conflict('the event is no draft');
    if (title.length > titleMax) return [422, { error: `the title has more than ${titleMax} characters` }];
    const { hash: old, status } = event.items.get(externalId) ?? {};
    if (old === hash && status === 'open') faults.push(`${externalId} got the same sheet twice`);
    event.items.set(externalId, { externalId, status: 'open', hash, title, sheet, award: null });
    event.done.push(`sheet of ${sheet.split('\r\n').length - 2} rows`);
    return [200, {}];
  }

  function removeItem(event: Event, item: Item): Answer {
    if (event.state !== 'draft') return conflict('the event is no draft');
    if (item.status === 'open') event.done.push('remove');
    item.status = 'removing';
    return [200, {}];
  }

  function awardItem(event: Event, item: Item, award: Award): Answer {
    if (event.state === 'draft') return conflict('the event is a draft');
    const stranger = award.lots.find((lot) => !event.bidders.some(({ vendor }) => vendor === lot.vendor));
    if (stranger) return [422, { error: `${stranger.vendor} is no bidder` }];
    if (item.award?.hash === award.hash) faults.push(`${item.externalId} was awarded twice`);
    item.award = award;
    event.state = 'awarded';
    event.done.push(`award ${award.lots.map(({ vendor, cost }) => `${vendor} ${cost}`).join(', ')}`);
    return [200, {}];
  }

  function answerOf(method: string, url: URL, body: unknown): Answer {
    const [, , id = '', part, itemId = '', itemPart] = url.pathname.split('/').map(decodeURIComponent);
    if (id === '') return [200, {}];
    const event = events.get(id);
    if (!event) return missing;
    if (part === 'state') return setState(event, (body as { state: unknown }).state);
    if (part === 'bidders') return addBidders(event, (body as Event).bidders);
    if (method === 'PUT') return putItem(event, itemId, body as Item);
    const item = event.items.get(itemId);
    if (!item) return missing;
    if (method === 'GET') return [200, item];
    return itemPart === 'award' ? awardItem(event, item, body as Award) : removeItem(event, item);
  }

  async function handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { method = '', headers } = request;
    const body =
      headers['content-length'] === undefined || headers['content-length'] === '0' ? {} : await json(request);
    const url = new URL(request.url ?? '/', 'http://target.example');
    const send = ([status, answer]: Answer, more: object = {}) =>
      response
        .writeHead(status, { 'content-type': 'application/json', ...more })
        .end(JSON.stringify({ ok: status < 400, ...answer }));
    if (headers['apikey'] !== apiKey) return void send([401, { error: 'who are you?' }]);
    if (isTooMany()) return void send([429, { error: 'slow down' }], { 'retry-after': '3' });
    const event = url.pathname.split('/')[2] ?? '';
    const n = (counts.get(event) ?? 0) + 1;
    counts.set(event, n);
    const disturbance = target.disturb(event, n, `${method} ${url.pathname}`);
    if (disturbance === 'drop') return void request.socket.destroy();
    if (disturbance === 'busy') return void send(conflict('not ready yet'));
    if (disturbance === 'refuse') return void send([422, { error: 'the target does not like it' }]);
    const answer = answerOf(method, url, body);
    if (disturbance === 'lose') return void request.socket.destroy();
    if (disturbance === 'hang') return hung.resolve();
    send(answer);
  }

  const server = createServer((request, response) => {
    handle(request, response).catch((error: unknown) => void faults.push(String(error)));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const target: GuidedSourcing = {
    address: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    events,
    faults,
    arrivalsMs,
    addEvent: (id, ...vendors) => {
      if (events.has(id)) return;
      const bidders = vendors.map((vendor) => ({ vendor, name: vendor }));
      events.set(id, { state: 'published', bidders, items: new Map(), done: [] });
    },
    disturb: () => 'none',
    recount: () => counts.clear(),
    untilHung: async () => {
      await hung.promise;
      hung = Promise.withResolvers();
    },
    close: async () => {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
  return target;
}
