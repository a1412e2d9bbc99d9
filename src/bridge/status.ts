/** What the bridge is doing, read from SQL: for the console, the metrics, and whoever waits for it to be idle. */
import { msFromTimestamp, type Timestamp } from '#contract/timestamp.ts';
import type { Clock } from '#platform/clock.ts';
import type { Database, Sql } from '#platform/database/database.ts';
import { Gauge, type Registry } from '#platform/metrics.ts';

export interface BridgeStatus {
  feeds: {
    source: string;
    feed: string;
    watermark: Timestamp | null;
    lastPull: Timestamp | null;
    nextPull: Timestamp;
    waiting: number;
    lastError: string | null;
  }[];
  flows: {
    flow: string;
    pausedReason: string | null;
    documents: number;
    due: number;
    deadLetters: number;
    oldestDue: Timestamp | null;
  }[];
  recent: {
    flow: string;
    key: string;
    delivered: Timestamp | null;
    reference: string | null;
    lastError: string | null;
  }[];
}

/** Of what is configured: a flow that is not any more keeps its documents, and waits for nothing. */
export async function readStatus(sql: Sql): Promise<BridgeStatus> {
  return {
    feeds: await sql.query<BridgeStatus['feeds'][number]>(
      `select source, feed, watermark, last_pull as "lastPull", next_pull as "nextPull", last_error as "lastError",
         (select count(*)::int from bridge.inbox i
          where i.source = c.source and i.feed = c.feed and i.processed is null) as waiting
       from bridge.checkpoints c order by source, feed`,
    ),
    flows: await sql.query<BridgeStatus['flows'][number]>(
      `select f.name as flow, f.paused_reason as "pausedReason", count(d.key)::int as documents,
         count(*) filter (where d.due is not null)::int as due,
         count(*) filter (where d.dead_since is not null)::int as "deadLetters", min(d.due) as "oldestDue"
       from bridge.flows f left join bridge.flow_documents d on d.flow = f.name
       where f.kinds <> '{}' group by f.name order by f.name`,
    ),
    recent: await sql.query<BridgeStatus['recent'][number]>(
      `select flow, key, delivered, reference, last_error as "lastError" from bridge.flow_documents
       order by coalesce(delivered, due) desc nulls last limit 20`,
    ),
  };
}

/** True when nothing waits: no feed is due, no notification is unanswered, no document but dead letters is to be pushed. */
export function isIdle({ feeds, flows }: BridgeStatus, now: Timestamp): boolean {
  return feeds.every(({ waiting, nextPull }) => waiting === 0 && nextPull > now) && flows.every(({ due }) => due === 0);
}

/** Gauges that are read from SQL when Prometheus asks. */
export function registerStatusMetrics(deps: { database: Database; clock: Clock; registry: Registry }): void {
  const { database, clock, registry } = deps;
  const sinceS = (timestamp: Timestamp | null) =>
    timestamp === null ? 0 : Math.max(0, (clock.nowMs() - msFromTimestamp(timestamp)) / 1000);
  const backlog = new Gauge({
    name: 'bridge_notifications_waiting',
    help: 'Notifications that no pull has answered yet',
    labelNames: ['source', 'feed'] as const,
    registers: [registry],
  });
  const sinceLastPull = new Gauge({
    name: 'bridge_feed_last_pull_seconds',
    help: 'Time since the feed was last read to its end',
    labelNames: ['source', 'feed'] as const,
    registers: [registry],
  });
  const due = new Gauge({
    name: 'bridge_documents_due',
    help: 'Documents that the ERP does not hold yet as they should be',
    labelNames: ['flow'] as const,
    registers: [registry],
  });
  const deadLetters = new Gauge({
    name: 'bridge_dead_letters',
    help: 'Documents that the ERP refused',
    labelNames: ['flow'] as const,
    registers: [registry],
    async collect() {
      const status = await readStatus(database);
      for (const { source, feed, waiting, lastPull } of status.feeds) {
        backlog.set({ source, feed }, waiting);
        sinceLastPull.set({ source, feed }, sinceS(lastPull));
      }
      for (const { flow, due: count, deadLetters: dead } of status.flows) {
        due.set({ flow }, count);
        deadLetters.set({ flow }, dead);
      }
    },
  });
}
