/** The set-up of the push tests: a flow with a fake ERP, on a database of its own. */

import { onTestFinished } from 'vitest';
import { createSecretRedactor } from '#bridge/connectors/secret-redactor.ts';
import { registerFlows } from '#bridge/ledger/flows/register-flows.ts';
import { createLeases } from '#bridge/ledger/leases/lease.ts';
import type { NewestAttempt } from '#bridge/ledger/lost-commits/watch-loss.ts';
import { storeRecords } from '#bridge/mirror/store-records.ts';
import type { LoadFiles } from '#bridge/push/batch/attach-files.ts';
import { createFlowPush } from '#bridge/push/push-flow.ts';
import type { ProcessIdentity } from '#bridge/settings/process-identity.ts';
import type { FlowSettings } from '#bridge/settings/settings.ts';
import type { FeedName } from '#contract/feed.ts';
import { timestampNow } from '#platform/clock.ts';
import type { Database } from '#platform/database/database.ts';
import { type Logger, silentLogger } from '#platform/log.ts';
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
  error_type: string | null;
  waiting_since: string | null;
  reference: string | null;
}

export interface FlowRow {
  paused_kind: string | null;
  paused_reason: string | null;
  failures_in_row: number;
  circuit_until: string | null;
}

export interface Pusher {
  readonly db: TestDatabase;
  readonly clock: TestClock;
  readonly flow: ReturnType<typeof flowOf>;
  store(feed: FeedName, ...records: TestRecord[]): Promise<void>;
  /** Stores who has won the event's only lot, and at which cost. Without winners the award is taken back. */
  award(...winners: [supplier: number, cost: string][]): Promise<void>;
  /** A worker in a process of its own, or in the given one. */
  worker(
    erp: FakeErp,
    options?: {
      process?: TestProcess;
      database?: Database;
      loadFiles?: LoadFiles;
      processIdentity?: ProcessIdentity;
      log?: Logger;
      flow?: FlowSettings;
      newestAttempt?: NewestAttempt;
    },
  ): Promise<PushWorker>;
  row(n: number): Promise<DocumentRow | undefined>;
  flowRow(): Promise<FlowRow | undefined>;
}

/** To this process every other process is over. */
export const testProcess: ProcessIdentity = { own: 'this process', isOver: () => true };

export interface PushWorker {
  readonly process: TestProcess;
  readonly push: () => Promise<void>;
  /** Asks the worker to stop, as the end of the process does. */
  readonly stop: AbortController;
}

export async function createPusher(suppliers = 4, settings: Partial<FlowSettings> = {}): Promise<Pusher> {
  const db = await createTestDatabase();
  onTestFinished(() => db.drop());
  const clock = testClock();
  const flow = flowOf({ name: 'erp', ...settings });
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
        flow: options.flow ?? flow,
        connector: erp.connector,
        session: erp.session,
        secrets: createSecretRedactor(flow.settings),
        database,
        acquireLease: options.database ? createLeases({ database, liveness: process.liveness }) : process.acquireLease,
        clock,
        processIdentity: options.processIdentity ?? testProcess,
        log: options.log ?? silentLogger,
        outcomes: new Counter({ name: 'o', help: 'o', labelNames: ['flow', 'status'], registers: [new Registry()] }),
        abortGraceMs: 20,
        recheckMs: 5,
        loadFiles: options.loadFiles,
        newestAttempt: options.newestAttempt,
      });
      return { process, stop, push: () => push(stop.signal) };
    },
    row: async (n) =>
      (
        await db.database.query<DocumentRow>(
          `select key, due, attempts, last_error, dead_since, intent_id, delivered_hash, error_type, waiting_since,
             reference
           from bridge.flow_documents where key = $1`,
          [keyOf(n)],
        )
      )[0],
    flowRow: async () =>
      (
        await db.database.query<FlowRow>(
          'select paused_kind, paused_reason, failures_in_row, circuit_until from bridge.flows',
        )
      )[0],
  };
}
