/**
 * The metrics that are read from SQL when Prometheus scrapes. Every process of the bridge exports the same values, so
 * that any process may be down: queries take `max by (…)` of them. docs/bridge.md lists all metrics.
 */
import { msFromTimestamp, type Timestamp } from '#contract/timestamp.ts';
import { type Clock, timestampNow } from '#platform/clock.ts';
import type { Database } from '#platform/database/database.ts';
import { Gauge, type Registry } from '#platform/metrics.ts';
import { alertKinds } from '../alerts/alert.ts';
import type { BridgeSettings } from '../settings.ts';
import { type BridgeStatus, isChannelFailing, readStatus } from './status.ts';

type ReadStatus = () => Promise<BridgeStatus>;

/**
 * Registers the metrics. While the database is not available a scrape fails: old values would look like current ones.
 */
export function registerStatusMetrics(deps: {
  settings: BridgeSettings;
  database: Database;
  clock: Clock;
  registry: Registry;
}): void {
  const { settings, database, clock, registry } = deps;
  let reading: Promise<BridgeStatus> | undefined;
  // A scrape collects all metrics concurrently: they share one read of the status.
  const read: ReadStatus = () => {
    reading ??= readStatus(database, { settings, now: timestampNow(clock) }).finally(() => {
      reading = undefined;
    });
    return reading;
  };
  registerFeedMetrics(read, registry);
  registerFlowMetrics(read, registry, clock);
  registerIntakeMetrics(read, registry);
  const audits = new Gauge({
    name: 'bridge_audit_failures_in_a_row',
    help: 'How often the last audit of the feed stopped without having come further; 0 once it is finished',
    labelNames: ['source', 'feed'] as const,
    registers: [registry],
    async collect() {
      const shown = (await read()).audits;
      audits.reset();
      for (const { source, feed, finished, cancelled, failures } of shown)
        audits.set({ source, feed }, finished === null && cancelled === null ? failures : 0);
    },
  });
  const missed = new Gauge({
    name: 'bridge_needed_fields_gone',
    help: 'Fields that a flow needs and that the records of the feed no longer have',
    labelNames: ['source', 'feed'] as const,
    registers: [registry],
    async collect() {
      const { feeds, changes } = await read();
      missed.reset();
      for (const { source, feed } of feeds) {
        const gone = changes.filter((change) => change.isMissed && change.source === source && change.feed === feed);
        missed.set({ source, feed }, gone.length);
      }
    },
  });
  registerComparisonMetrics(read, registry);
  const alerts = new Gauge({
    name: 'bridge_alerts_open',
    help: 'Open alerts, where a channel for alerts is configured',
    labelNames: ['kind'] as const,
    registers: [registry],
    async collect() {
      const { alerts: open, alertChannels } = await read();
      alerts.reset();
      if (alertChannels.length === 0) return;
      for (const kind of alertKinds) alerts.set({ kind }, open.filter((alert) => alert.kind === kind).length);
    },
  });
  const channels = new Gauge({
    name: 'bridge_alert_channel_failing',
    help: '1 while a message about alerts cannot be sent to the channel, or was given up within the last day; else 0',
    labelNames: ['channel'] as const,
    registers: [registry],
    async collect() {
      const { alertChannels } = await read();
      channels.reset();
      for (const state of alertChannels) channels.set({ channel: state.channel }, Number(isChannelFailing(state)));
    },
  });
  const backfills = new Gauge({
    name: 'bridge_backfills_open',
    help: 'Backfills and audits that have not been read to their end yet',
    registers: [registry],
    async collect() {
      const open = (await read()).backfills.filter(
        ({ finished, cancelled }) => finished === null && cancelled === null,
      );
      backfills.set(open.length);
    },
  });
}

/** Returns a function that registers a gauge with a value for each of these rows. */
function gaugesOf<Label extends string, Row>(
  registry: Registry,
  labelNames: readonly Label[],
  rows: { readonly read: () => Promise<readonly Row[]>; readonly labelsOf: (row: Row) => Record<Label, string> },
) {
  return (name: string, help: string, valueOf: (row: Row) => number): void => {
    const made = new Gauge({
      name,
      help,
      labelNames,
      registers: [registry],
      async collect() {
        const all = await rows.read();
        made.reset();
        for (const row of all) made.set(rows.labelsOf(row), valueOf(row));
      },
    });
  };
}

function registerComparisonMetrics(read: ReadStatus, registry: Registry): void {
  const gauge = gaugesOf(registry, ['flow'], {
    read: async () => (await read()).comparisons,
    labelsOf: ({ flow }) => ({ flow }),
  });
  gauge(
    'bridge_comparison_differences',
    'Documents and records that differed, or were unclear, in the latest comparison with the ERP',
    ({ differing }) => differing,
  );
  gauge(
    'bridge_comparison_ended_seconds',
    'When the latest comparison with the ERP ended, in seconds since 1970; 0: none has',
    ({ ended }) => (ended === null ? 0 : msFromTimestamp(ended) / 1_000),
  );
  gauge(
    'bridge_comparison_overdue',
    '1 while the comparison with the ERP fails, or its schedule was missed twice; else 0',
    ({ overdue }) => Number(overdue),
  );
}

function registerFeedMetrics(read: ReadStatus, registry: Registry): void {
  const gauge = gaugesOf(registry, ['source', 'feed'], {
    read: async () => (await read()).feeds,
    labelsOf: ({ source, feed }) => ({ source, feed }),
  });
  gauge(
    'bridge_feed_lag_seconds',
    'How far the mirror is behind the source; infinite until the feed has been read once',
    ({ lag }) => lag.seconds ?? Number.POSITIVE_INFINITY,
  );
  gauge('bridge_feed_last_pull_timestamp_seconds', 'When the feed was last read to its end; 0 before', ({ lastPull }) =>
    secondsOf(lastPull),
  );
  gauge(
    'bridge_feed_failures_in_a_row',
    'Pulls that failed since the last one that did not',
    ({ failures }) => failures,
  );
  gauge(
    'bridge_feed_still_seconds',
    'How long the watermark has stood still although newer records are known; 0 while it moves',
    ({ stillSeconds }) => stillSeconds,
  );
  gauge(
    'bridge_feed_stalled',
    '1 when the watermark stands still for longer than the lateness bound and the poll allow, else 0',
    ({ stalled }) => Number(stalled),
  );
  gauge(
    'bridge_feed_lateness_seconds',
    'The lateness bound of the feed, as set or as raised by an audit',
    ({ latenessSeconds }) => latenessSeconds,
  );
  gauge('bridge_notifications_waiting', 'Notifications that no pull has answered yet', ({ waiting }) => waiting);
  gauge(
    'bridge_suspect_versions',
    'Suspect versions: older than those in the mirror, perhaps from a replica that lags',
    ({ suspects }) => suspects,
  );
  gauge(
    'bridge_feed_late_arrivals',
    'Records that audits have found and that the feed had not shown in time',
    ({ lateArrivals }) => lateArrivals,
  );
}

function registerFlowMetrics(read: ReadStatus, registry: Registry, clock: Clock): void {
  const gauge = gaugesOf(registry, ['flow'], {
    read: async () => (await read()).flows,
    labelsOf: ({ flow }) => ({ flow }),
  });
  gauge(
    'bridge_flow_lag_seconds',
    'How far the ERP is behind the source: by the oldest undelivered document, or the feed furthest behind',
    ({ lag }) => lag.seconds ?? Number.POSITIVE_INFINITY,
  );
  gauge(
    'bridge_oldest_undelivered_seconds',
    'How long the oldest undelivered document has differed from what the ERP holds, without dead letters; 0: none does',
    ({ oldestWaiting }) =>
      oldestWaiting === null ? 0 : Math.max(0, (clock.nowMs() - msFromTimestamp(oldestWaiting)) / 1000),
  );
  gauge(
    'bridge_documents_due',
    'Documents that differ from what the ERP holds, without dead letters',
    ({ due }) => due,
  );
  gauge('bridge_documents_retrying', 'Due documents that failed and are tried again', ({ retrying }) => retrying);
  gauge('bridge_dead_letters', 'Documents that the ERP refused', ({ deadLetters }) => deadLetters);
  gauge('bridge_flow_paused', '1 while the flow is paused', ({ pausedReason }) => (pausedReason === null ? 0 : 1));
  gauge(
    'bridge_flow_circuit_open',
    '1 while too many failures in a row keep the flow from the ERP',
    ({ circuitUntil }) => (circuitUntil !== null && msFromTimestamp(circuitUntil) > clock.nowMs() ? 1 : 0),
  );
}

function registerIntakeMetrics(read: ReadStatus, registry: Registry): void {
  const gauge = gaugesOf(registry, ['intake'], {
    read: async () => (await read()).intakes,
    labelsOf: ({ intake }) => ({ intake }),
  });
  gauge(
    'bridge_intake_lag_seconds',
    'How far the service is behind the ERP; infinite until the ERP has been read once',
    ({ lag }) => lag.seconds ?? Number.POSITIVE_INFINITY,
  );
  gauge(
    'bridge_intake_suppliers_due',
    'Suppliers or requisitions that differ from what the service holds',
    ({ backlog, inSubmissions }) => backlog.suppliers + inSubmissions,
  );
  gauge(
    'bridge_intake_dead_letters',
    'Suppliers or requisitions that the service refused, or that a person has to look at',
    ({ deadLetters }) => deadLetters,
  );
  gauge('bridge_intake_paused', '1 while the intake is paused', ({ pausedReason }) => Number(pausedReason !== null));
  gauge(
    'bridge_intake_read_failures_in_a_row',
    'Reads of the ERP that failed since the last one that did not',
    ({ readFailures }) => readFailures,
  );
  gauge(
    'bridge_intake_submissions_uncertain',
    'Open submissions of which it is not known whether the service has them',
    ({ uncertain }) => uncertain,
  );
}

function secondsOf(timestamp: Timestamp | null): number {
  return timestamp === null ? 0 : msFromTimestamp(timestamp) / 1000;
}
