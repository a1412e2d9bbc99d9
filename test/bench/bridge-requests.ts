/** What a bridge has asked its sources, from its metrics; and waiting until it holds what the service shows. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Bridge } from '#bridge/create-bridge.ts';
import type { Installation } from '#cli/installation.ts';
import type { FeedName } from '#contract/feed.ts';

export interface CountedRequests {
  /** By the limit they count against and the status, as `feeds.awards 200`. */
  readonly each: ReadonlyMap<string, number>;
  readonly all: number;
}

export async function countRequests(bridge: Bridge): Promise<CountedRequests> {
  const text = await (await fetch(new URL('/metrics', bridge.consoleUrl))).text();
  const lines = text.matchAll(/^bridge_source_requests_total\{(.*)\} (\d+)$/gm);
  const each = new Map<string, number>();
  for (const [, labels = '', count] of lines) {
    const label = (name: string) => new RegExp(`${name}="([^"]*)"`).exec(labels)?.[1] ?? '';
    each.set(`${label('bucket')} ${label('status')}`, Number(count));
  }
  return { each, all: [...each.values()].reduce((sum, count) => sum + count, 0) };
}

/** Resolves when the mirror holds the newest version of every record that the feed shows; rejects after `giveUpMs`. */
export async function untilMirrored(
  { open: { database } }: Installation,
  feed: FeedName,
  giveUpMs: number,
): Promise<void> {
  for (const until = performance.now() + giveUpMs; performance.now() < until; await sleep(20)) {
    // The newest one first: comparing all of them is dear.
    const [newest] = await database.query<{ shown: string | null; held: string | null }>(
      `select (select last_modified from service.feed_heads where feed = $1 order by last_modified desc nulls last limit 1)
           as shown, (select max(watermark) from bridge.checkpoints where feed = $1) as held`,
      [feed],
    );
    if (newest?.shown !== newest?.held) continue;
    const [missing] = await database.query<{ count: number }>(
      `select count(*)::int as count from service.feed_records s
       where s.feed = $1 and s.visible and not exists (
         select from bridge.mirror m where m.feed = s.feed and m.record_id = s.id and m.body = s.body)`,
      [feed],
    );
    if (missing?.count === 0) return;
    throw new Error(`The watermark has passed ${missing?.count} records that the mirror does not hold.`);
  }
  throw new Error(`The bridge has not caught up after ${giveUpMs} ms.`);
}
