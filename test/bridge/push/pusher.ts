/** A flow with a fake ERP on a database of its own: what the tests of the push set up. */

import { onTestFinished } from 'vitest';
import { createLeases } from '#bridge/lease.ts';
import { storeRecords } from '#bridge/mirror/store-records.ts';
import { createFlowPush } from '#bridge/push/push-flow.ts';
import { registerFlows } from '#bridge/push/register-flows.ts';
import { timestampNow } from '#platform/clock.ts';
import type { Database } from '#platform/database/database.ts';
import { silentLogger } from '#platform/log.ts';
import { Counter, Registry } from '#platform/metrics.ts';
import { createTestDatabase, type TestDatabase } from '../../harness/test-database.ts';
import {
  eventRecord,
  flowOf,
  idOf,
  lotAwardRecord,
  startProcess,
  type TestClock,
  type TestProcess,
  type TestRecord,
  testClock,
} from '../parts.ts';
import type { FakeErp } from './fake-erp.ts';

export const event = idOf(1);
export const supplier = (n: number) => idOf(100 + n);
export const keyOf = (n: number) => `${event}/${supplier(n)}`;

export interface DocumentRow {
  key: string;
  due: string | null;
  attempts: number;
  last_error: string | null;
  dead_since: string | null;
  intent_id: string | null;
  delivered_hash: string | null;
}

export interface Pusher {
  readonly db: TestDatabase;
  readonly clock: TestClock;
  readonly flow: ReturnType<typeof flowOf>;
  store(feed: 'awards' | 'sourcing-events', ...records: TestRecord[]): Promise<void>;
  /** Who has won the event's only lot, and at which cost; nobody: the award is taken back. */
  award(...winners: [supplier: number, cost: string][]): Promise<void>;
  /** A worker in a process of its own, or in the given one. */
  worker(erp: FakeErp, options?: { process?: TestProcess; database?: Database }): Promise<PushWorker>;
  row(n: number): Promise<DocumentRow | undefined>;
  pausedReason(): Promise<string | null | undefined>;
}

export interface PushWorker {
  readonly process: TestProcess;
  push(): Promise<void>;
  /** Asks it to stop, as the end of the process does. */
  readonly stop: AbortController;
}

export async function createPusher(suppliers = 4): Promise<Pusher> {
  const db = await createTestDatabase();
  onTestFinished(() => db.drop());
  const clock = testClock();
  const flow = flowOf({ name: 'erp' });
  await registerFlows(db.database, [flow], timestampNow(clock));
  const store: Pusher['store'] = async (feed, ...records) => {
    const page = { source: 'main', feed, records, now: timestampNow(clock) };
    await db.database.transaction((tx) => storeRecords(tx, page));
  };
  await store(
    'sourcing-events',
    eventRecord(
      event,
      Array.from({ length: suppliers }, (_, n) => supplier(n)),
    ),
  );
  return {
    db,
    clock,
    flow,
    store,
    award: (...winners) =>
      store(
        'awards',
        lotAwardRecord(
          idOf(500),
          event,
          winners.map(([n, cost]) => ({ supplier: supplier(n), cost })),
        ),
      ),
    worker: async (erp, options = {}) => {
      const process = options.process ?? (await startProcess(db));
      const stop = new AbortController();
      const database = options.database ?? process.database;
      const push = createFlowPush({
        flow,
        connector: erp.connector,
        session: erp.session,
        database,
        acquireLease: options.database ? createLeases({ database, presence: process.presence }) : process.acquireLease,
        clock,
        log: silentLogger,
        outcomes: new Counter({ name: 'o', help: 'o', labelNames: ['flow', 'status'], registers: [new Registry()] }),
        abortGraceMs: 20,
      });
      return { process, stop, push: () => push(stop.signal) };
    },
    row: async (n) =>
      (
        await db.database.query<DocumentRow>(
          `select key, due, attempts, last_error, dead_since, intent_id, delivered_hash
           from bridge.flow_documents where key = $1`,
          [keyOf(n)],
        )
      )[0],
    pausedReason: async () =>
      (await db.database.query<{ paused_reason: string | null }>('select paused_reason from bridge.flows'))[0]
        ?.paused_reason,
  };
}
