/**
 * The metrics that are read from SQL when Prometheus scrapes. Every process of the bridge exports the same values, so
 * that any process may be down: queries take `max by (…)` of them. docs/reference/metrics.md lists all metrics.
 *
 * However many sources there are, the number of lines is bounded: only the feeds, flows, intakes and conditions that are
 * the worst have lines of their own, and all of them are counted.
 */
import { furthestBehind } from '#bridge/mirror/feed-lag.ts';
import type { BridgeSettings } from '#bridge/settings/settings.ts';
import { msFromTimestamp, type Timestamp } from '#contract/timestamp.ts';
import { type Clock, timestampNow } from '#platform/clock.ts';
import type { Database } from '#platform/database/database.ts';
import type { ServerCertificate } from '#platform/http/server-certificate.ts';
import { Gauge, type Registry } from '#platform/metrics.ts';
import { type Condition, conditionKinds, shownCertificates } from './conditions.ts';
import { type BridgeStatus, readStatus } from './status.ts';

type ReadStatus = () => Promise<BridgeStatus>;

/** So many feeds, flows, intakes or conditions have lines of their own. */
const shownMax = 100;

/**
 * Registers the metrics. While the database is not available a scrape fails: old values would look like current ones.
 */
export function registerStatusMetrics(deps: {
  settings: BridgeSettings;
  database: Database;
  clock: Clock;
  registry: Registry;
  /** Of the webhook endpoint, if this process shows it, and of the console. */
  tls?: ServerCertificate | undefined;
  consoleTls?: ServerCertificate | undefined;
}): void {
  const { settings, database, clock, registry, tls, consoleTls } = deps;
  let reading: Promise<BridgeStatus> | undefined;
  // A scrape collects all metrics concurrently: they share one read of the status.
  const read: ReadStatus = () => {
    reading ??= readStatus(database, {
      settings,
      now: timestampNow(clock),
      ...shownCertificates(tls, consoleTls),
    }).finally(() => {
      reading = undefined;
    });
    return reading;
  };
  registerConditionMetrics(read, registry, clock);
  registerFeedMetrics(read, registry);
  registerFlowMetrics(read, registry, clock);
  registerIntakeMetrics(read, registry);
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

/** Registers a gauge of one value. */
function total(registry: Registry, name: string, help: string, read: () => Promise<number>): void {
  const made = new Gauge({
    name,
    help,
    registers: [registry],
    async collect() {
      made.set(await read());
    },
  });
}

function registerConditionMetrics(read: ReadStatus, registry: Registry, clock: Clock): void {
  const counted = gaugesOf(registry, ['kind'], {
    read: async () => {
      const { conditions } = await read();
      return conditionKinds.map((kind) => ({ kind, count: conditions.filter((one) => one.kind === kind).length }));
    },
    labelsOf: ({ kind }) => ({ kind }),
  });
  counted('bridge_conditions', 'Conditions that need a person, as bridge status lists them', ({ count }) => count);
  const shown = gaugesOf(registry, ['kind', 'subject'], {
    read: async () => {
      const { conditions } = await read();
      return conditions.toSorted(longestFirst).slice(0, shownMax);
    },
    labelsOf: ({ kind, subject }) => ({ kind, subject }),
  });
  shown(
    'bridge_condition_seconds',
    `How long the condition has lasted, 0 where that is not known; of the ${shownMax} that have lasted longest`,
    ({ since }) => secondsSince(since, clock),
  );
}

/** By the text of the timestamps, not by the rules of a language, which takes longer than all the rest of a scrape. */
function longestFirst({ since: a }: Condition, { since: b }: Condition): number {
  if (a === b) return 0;
  return (a ?? '') < (b ?? '') ? -1 : 1;
}

function registerFeedMetrics(read: ReadStatus, registry: Registry): void {
  const states = ['in step', 'behind', 'failing', 'stalled'] as const;
  const counted = gaugesOf(registry, ['state'], {
    read: async () => {
      const { feeds } = await read();
      return states.map((state) => ({ state, count: feeds.filter((feed) => stateOf(feed) === state).length }));
    },
    labelsOf: ({ state }) => ({ state }),
  });
  counted('bridge_feeds', 'Feeds by state: in step, behind, failing, stalled', ({ count }) => count);
  const shown = gaugesOf(registry, ['source', 'feed'], {
    read: async () => furthestBehind((await read()).feeds, shownMax),
    labelsOf: ({ source, feed }) => ({ source, feed }),
  });
  shown(
    'bridge_feed_lag_seconds',
    `How far the mirror is behind the source; infinite until the feed has been read once; of the ${shownMax} feeds furthest behind`,
    ({ lag }) => lag.seconds ?? Number.POSITIVE_INFINITY,
  );
  total(registry, 'bridge_notifications_waiting', 'Notifications that no pull has answered yet', async () =>
    sumOf((await read()).feeds, ({ waiting }) => waiting),
  );
  total(
    registry,
    'bridge_backfills_open',
    'Backfills and audits that have not been read to their end yet',
    async () =>
      (await read()).backfills.filter(({ finished, cancelled }) => finished === null && cancelled === null).length,
  );
}

function stateOf({ failures, stalled, lag }: BridgeStatus['feeds'][number]) {
  if (stalled) return 'stalled';
  if (failures > 0) return 'failing';
  return lag.inStep ? 'in step' : 'behind';
}

function registerFlowMetrics(read: ReadStatus, registry: Registry, clock: Clock): void {
  const gauge = gaugesOf(registry, ['flow'], {
    read: async () => furthestBehind((await read()).flows, shownMax),
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
    ({ oldestWaiting }) => secondsSince(oldestWaiting, clock),
  );
  gauge(
    'bridge_documents_due',
    'Documents that differ from what the ERP holds, without dead letters',
    ({ due }) => due,
  );
  gauge('bridge_documents_retrying', 'Due documents that failed and are tried again', ({ retrying }) => retrying);
  gauge('bridge_dead_letters', 'Documents that the ERP refused', ({ deadLetters }) => deadLetters);
}

function registerIntakeMetrics(read: ReadStatus, registry: Registry): void {
  const gauge = gaugesOf(registry, ['intake'], {
    read: async () => furthestBehind((await read()).intakes, shownMax),
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
}

function secondsSince(since: Timestamp | null, clock: Clock): number {
  return since === null ? 0 : Math.max(0, (clock.nowMs() - msFromTimestamp(since)) / 1000);
}

function sumOf<Row>(rows: readonly Row[], valueOf: (row: Row) => number): number {
  return rows.reduce((sum, row) => sum + valueOf(row), 0);
}
