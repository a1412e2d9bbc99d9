/** Reads one feed, `awards`, of a source in memory, as a bridge does: pulls, backfills and audits, with their SQL. */
import { createLeases } from '#bridge/ledger/leases/lease.ts';
import type { Liveness } from '#bridge/ledger/leases/liveness.ts';
import { openDueAudits } from '#bridge/pull/backfill/audit-store.ts';
import type { BackfillKind } from '#bridge/pull/backfill/backfill-store.ts';
import { createBackfillWorker } from '#bridge/pull/backfill/run-backfills.ts';
import { openCheckpoints } from '#bridge/pull/feed/checkpoint-store.ts';
import type { SourceProfile } from '#bridge/pull/feed/source-profile.ts';
import { createFeedPull } from '#bridge/pull/pull-feed.ts';
import type { SourceSettings } from '#bridge/settings/settings.ts';
import type { SourceClient } from '#client/source-client.ts';
import { timestampNow } from '#platform/clock.ts';
import type { Database } from '#platform/database/database.ts';
import { silentLogger } from '#platform/log.ts';
import { Counter, Registry } from '#platform/metrics.ts';
import { plainFeed } from '#service/misbehave/feed-quirks.ts';
import { settingsOf, type TestClock } from '../parts.ts';
import type { HostileQuirks } from './hostile-source.ts';

/** A source that does nothing wrong, and does not declare its order. */
export const calm: HostileQuirks = { ...plainFeed, future: false, commitOrdered: false };

export interface CheckpointRow {
  watermark: string | null;
  last_error: string | null;
  failures: number;
  next_pull: string;
  source_profile: SourceProfile;
  stalled_why: string | null;
}

let readers = 0;

/** Each reader has a source of its own name. */
export async function startReader(options: {
  database: Database;
  liveness: Liveness;
  client: Pick<SourceClient, 'readFeed'>;
  /** Of window scans; the same, if it is left out. */
  background?: Pick<SourceClient, 'readFeed'>;
  clock: TestClock;
  settings?: Partial<SourceSettings>;
  renewEveryMs?: number;
}) {
  const { database, liveness, client, clock, renewEveryMs } = options;
  readers += 1;
  const name = `reader-${readers}`;
  const [source] = settingsOf({
    name,
    page_size: 8,
    poll_seconds: 5,
    audit_hours: 0,
    audit_full_days: 0,
    ...options.settings,
  }).sources;
  if (!source) throw new Error('no source');
  const feed = { source: name, feed: 'awards' };
  await openCheckpoints(database, [feed], timestampNow(clock));
  const registry = new Registry();
  const counter = <Label extends string>(metric: string, labelNames: readonly Label[]) =>
    new Counter({ name: metric, help: metric, labelNames, registers: [registry] });
  const base = {
    source,
    client,
    background: options.background ?? client,
    database,
    acquireLease: createLeases({ database, liveness, ...(renewEveryMs === undefined ? {} : { renewEveryMs }) }),
    clock,
    log: silentLogger,
    records: counter('records', ['feed', 'result']),
    wakeFlows: () => undefined,
    throttleMs: () => 0,
  };
  const pull = createFeedPull(base);
  const backfill = createBackfillWorker({
    ...base,
    lateArrivals: counter('late_arrivals', ['source', 'feed']),
    refusals: counter('refusals', ['source', 'feed']),
  });
  const never = new AbortController().signal;
  const readRow = async <Row extends object>(text: string) => (await database.query<Row>(text, [name]))[0];
  return {
    feed,
    source,
    pull: (signal: AbortSignal = never) => pull('awards', signal),
    /** Pulls every `seconds` of the clock. */
    pullFor: async (seconds: number, everySeconds = 20) => {
      for (let passed = 0; passed < seconds; passed += everySeconds) {
        clock.advance(everySeconds * 1_000);
        await pull('awards', never);
      }
    },
    backfill: (signal: AbortSignal = never) => backfill('awards', signal),
    /** Opens the audit that is due, if there is one, and works all open backfills. */
    audit: async () => {
      await openDueAudits(database, [source], timestampNow(clock));
      await backfill('awards', never);
    },
    /** The `value` of each record. */
    mirror: async () => {
      const rows = await database.query<{ record_id: string; body: string }>(
        'select record_id, body from bridge.mirror where source = $1 and gone is null',
        [name],
      );
      return new Map(rows.map((row) => [row.record_id, (JSON.parse(row.body) as { value: number }).value]));
    },
    checkpoint: async (): Promise<CheckpointRow> => {
      const row = await readRow<CheckpointRow>('select * from bridge.checkpoints where source = $1');
      if (!row) throw new Error('no checkpoint');
      return row;
    },
    readRow,
    /** The latest audit or read of that kind. */
    lastOf: (kind: BackfillKind) =>
      readRow<Record<string, unknown>>(
        `select *, to_json(finished) as finished from bridge.backfills where source = $1 and kind = '${kind}' order by id desc limit 1`,
      ),
    metric: async (metric: string) => {
      const { values } = (await registry.getSingleMetric(metric)?.get()) ?? { values: [] };
      return values.reduce((sum, { value }) => sum + value, 0);
    },
  };
}
