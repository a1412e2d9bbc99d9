/** Parts of a bridge for tests: a clock that stands still until a test moves it, processes on one database, records. */
import { randomUUID } from 'node:crypto';
import { onTestFinished } from 'vitest';
import { createLeases } from '#bridge/ledger/leases/lease.ts';
import { type Liveness, startLiveness } from '#bridge/ledger/leases/liveness.ts';
import {
  type BridgeSettings,
  bridgeSettings,
  type FlowSettings,
  type SourceSettings,
} from '#bridge/settings/settings.ts';
import type { Clock } from '#platform/clock.ts';
import { createDatabase, type Database } from '#platform/database/database.ts';
import { silentLogger } from '#platform/log.ts';
import type { TestDatabase } from '../harness/test-database.ts';

export interface TestClock extends Clock {
  advance(ms: number): void;
  /** The milliseconds of each sleep. */
  readonly slept: number[];
}

/** Stands at 2030-01-01 until a test moves it; a sleep moves it at once. */
export function testClock(): TestClock {
  let nowMs = Date.UTC(2030, 0, 1);
  const slept: number[] = [];
  return {
    nowMs: () => nowMs,
    sleep: async (ms) => {
      slept.push(ms);
      nowMs += ms;
    },
    advance: (ms) => {
      nowMs += ms;
    },
    slept,
  };
}

export interface TestProcess {
  readonly database: Database;
  readonly liveness: Liveness;
  readonly acquireLease: ReturnType<typeof createLeases>;
  /** Breaks the connections, and ends the heartbeats: from then on the process counts as dead. */
  die(): Promise<void>;
}

/** What each process of the bridge has: connections, heartbeats and leases. They are closed after the test. */
export async function startProcess(db: TestDatabase, options: { renewEveryMs?: number } = {}): Promise<TestProcess> {
  const applicationName = `process ${randomUUID()}`;
  const database = createDatabase({ url: db.url, log: silentLogger, applicationName });
  const liveness = await startLiveness({ database, log: silentLogger });
  onTestFinished(async () => {
    await liveness.close();
    await database.close();
  });
  return {
    database,
    liveness,
    acquireLease: createLeases({ database, liveness, ...options }),
    die: async () => {
      await db.database.query(
        'select pg_terminate_backend(pid, 10000) from pg_stat_activity where application_name = $1',
        [applicationName],
      );
      await liveness.close();
    },
  };
}

/** Settings with their defaults, one source and the given flows. */
export function settingsOf(
  source: Partial<SourceSettings> & { base_url?: string } = {},
  flows: readonly Partial<FlowSettings>[] = [],
): BridgeSettings {
  return bridgeSettings.parse({
    sources: [
      { name: 'main', base_url: 'http://127.0.0.1:1', api_key: 'feed-key', quotas: { enabled: false }, ...source },
    ],
    flows: flows.map((flow, index) => ({ name: `flow-${index}`, source: 'main', connector: 'scripted', ...flow })),
  });
}

export function flowOf(flow: Partial<FlowSettings> = {}): FlowSettings {
  const [made] = settingsOf({}, [{ name: 'erp', ...flow }]).flows;
  if (!made) throw new Error('no flow');
  return made;
}

let micros = 0;

/** A stamp that is later than all stamps before it. */
export function nextModified(): string {
  micros += 1;
  const seconds = String(Math.floor(micros / 1e6)).padStart(2, '0');
  return `2029-01-01T00:00:${seconds}.${String(micros % 1e6).padStart(6, '0')}Z`;
}

/** The n-th id: `00000000-0000-4000-8000-00000000000n`. */
export function idOf(n: number): string {
  return `00000000-0000-4000-8000-${n.toString(16).padStart(12, '0')}`;
}

export interface TestRecord extends Record<string, unknown> {
  id: string;
  modified: string;
}

/** A sourcing event's record with the suppliers of these numbers. */
export function eventRecord(
  id: string,
  supplierIds: readonly string[],
  more: Record<string, unknown> = {},
): TestRecord {
  return {
    id,
    name: 'Office chairs',
    type: 'RFQ',
    status: 'CLOSED',
    modified: nextModified(),
    primary_currency: 'EUR',
    suppliers: supplierIds.map((supplier, index) => ({ id: supplier, name: `Supplier ${index}` })),
    ...more,
  };
}

/** A lot's award: which suppliers won which share at which cost. */
export function lotAwardRecord(
  id: string,
  event: string,
  awards: readonly { supplier: string; cost?: string; share?: string; values?: readonly [string, string][] }[],
  more: Record<string, unknown> = {},
): TestRecord {
  return {
    id,
    sourcing_event: event,
    lot_name: `Lot ${id.slice(-3)}`,
    awards: awards.map(({ supplier, cost = '10', share = '1', values = [] }) => ({
      supplier,
      share_awarded: share,
      cost,
      bid_sheet_values: values.map(([column_name, value]) => ({ column_name, value })),
    })),
    modified: nextModified(),
    ...more,
  };
}
