/**
 * A neighbour in a process of its own, so that the attacker's work is not measured with it. It has a webhook, and the
 * receiver of that webhook; it reads a feed page again and again, and waits for notifications that it causes. Its
 * receiver answers `/hook` and nothing else.
 */
import { once } from 'node:events';
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';

export interface NeighbourOrder {
  begin?: { url: string; key: string; certPem: string; keyPem: string };
  measure?: { pages: number; notifications: number };
}

/** What it reports: where its receiver is, then what it has measured. */
export interface NeighbourReport {
  receiver?: string;
  pagesMs?: number[];
  notificationsMs?: number[];
}

/** Between two measured calls, so that the neighbour itself is no load. */
const pauseMs = 20;

async function begin({ url, key, certPem, keyPem }: NonNullable<NeighbourOrder['begin']>) {
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
  const call = async (method: string, path: string, body?: object) => {
    const answer = await fetch(url + path, { method, headers, ...(body && { body: JSON.stringify(body) }) });
    const text = await answer.text();
    if (!answer.ok) throw new Error(`The neighbour was answered ${answer.status}: ${text.slice(0, 500)}`);
    return text;
  };
  let arrived = () => undefined as void;
  const receiver = createServer({ cert: certPem, key: keyPem }, (asked, answer) => {
    if (asked.url !== '/hook') return;
    arrived();
    answer.end();
  });
  receiver.listen(0, '127.0.0.1');
  await once(receiver, 'listening');
  const at = `https://localhost:${(receiver.address() as AddressInfo).port}`;
  const body = { name: 'hook', url: `${at}/hook`, triggers: ['JOB_UPDATED'] };
  const { uuid } = JSON.parse(await call('POST', '/api/webhooks', body)) as { uuid: string };

  const page = () => call('GET', '/api/feeds/awards');
  const notification = async () => {
    const { promise, resolve } = Promise.withResolvers<void>();
    arrived = resolve;
    await call('POST', `/api/webhooks/${uuid}/test`);
    await promise;
  };
  return {
    at,
    measure: async ({ pages, notifications }: NonNullable<NeighbourOrder['measure']>): Promise<NeighbourReport> => ({
      pagesMs: await times(pages, page),
      notificationsMs: await times(notifications, notification),
    }),
  };
}

async function times(count: number, call: () => Promise<unknown>): Promise<number[]> {
  const taken: number[] = [];
  for (let at = 0; at < count; at += 1) {
    const began = performance.now();
    await call();
    taken.push(performance.now() - began);
    await sleep(pauseMs);
  }
  return taken;
}

let neighbour: Awaited<ReturnType<typeof begin>> | undefined;

process.on('message', (order: NeighbourOrder) => {
  void (async () => {
    if (order.begin) {
      neighbour = await begin(order.begin);
      process.send?.({ receiver: neighbour.at } satisfies NeighbourReport);
    }
    if (order.measure && neighbour) process.send?.(await neighbour.measure(order.measure));
  })();
});
