/**
 * Pulls a source's supplier list. The list has no feed, so the whole of it is read on a schedule. Its pages are
 * numbered, and a supplier that moves to another page during the read may be skipped. So the list counts as read when
 * as many suppliers were seen as the list says that it has, or when two passes saw the same suppliers. A supplier that
 * was skipped all the same is found by the next pull, or by the one after it. A kill costs reading the list once more.
 * A lease keeps two processes from pulling the same list at once.
 */

import { type AcquireLease, type Lease, LeaseLost, unlessLost } from '#bridge/ledger/leases/lease.ts';
import { waitForRateLimit } from '#bridge/mirror/source/wait-for-rate-limit.ts';
import { storeResources } from '#bridge/mirror/store-resources.ts';
import { failListPull, finishListPull, isListDue, readListFailures } from '#bridge/mirror/supplier-list-store.ts';
import { retrySchedules, retryWaitMs } from '#bridge/settings/retry-schedules.ts';
import type { SourceSettings } from '#bridge/settings/settings.ts';
import { readPages } from '#client/list-page.ts';
import type { SourceClient } from '#client/source-client.ts';
import { supplierQuery } from '#client/supplier-calls.ts';
import { type Timestamp, timestampFromMs } from '#contract/timestamp.ts';
import { type Clock, timestampNow } from '#platform/clock.ts';
import type { Database } from '#platform/database/database.ts';
import { AppError, askedToWaitMs, errorText } from '#platform/errors.ts';
import type { Logger } from '#platform/log.ts';

export interface SupplierListDeps {
  source: SourceSettings;
  client: Pick<SourceClient, 'listSuppliers'>;
  database: Database;
  acquireLease: AcquireLease;
  clock: Clock;
  log: Logger;
  /** Wakes the flows of this source, after a commit that marked documents. */
  wakeFlows: () => void;
}

const passesMax = 4;

/**
 * Creates the worker that pulls the source's supplier list, if it is due. A failure is stored in SQL; the worker
 * rejects only when the database is away.
 */
export function createSupplierListPull(deps: SupplierListDeps) {
  const { source, database, clock } = deps;
  return async (signal: AbortSignal): Promise<void> => {
    // Checked again after the lease was released: a worker that was woken while it was held did not get it.
    while (!signal.aborted && (await isListDue(database, source.name, timestampNow(clock)))) {
      const lease = await deps.acquireLease(`suppliers/${source.name}`);
      if (!lease) return;
      try {
        await pullListIfDue(deps, lease, signal);
      } finally {
        await lease.release();
      }
    }
  };
}

async function pullListIfDue(deps: SupplierListDeps, lease: Lease, signal: AbortSignal): Promise<void> {
  const { source, clock, log } = deps;
  const beganMs = clock.nowMs();
  try {
    if (!(await lease.transaction((tx) => isListDue(tx, source.name, timestampFromMs(beganMs))))) return;
    await pullWholeList(deps, lease, signal);
    await lease.transaction((tx) =>
      finishListPull(tx, source.name, {
        now: timestampNow(clock),
        next: timestampFromMs(beganMs + source.suppliers_poll_seconds * 1000),
      }),
    );
  } catch (error) {
    if (error instanceof LeaseLost || signal.aborted) return;
    log.warn({ err: error, source: source.name }, 'pull of the supplier list failed');
    const stored = lease.transaction(async (tx) => {
      const failures = await readListFailures(tx, source.name);
      const waitMs = retryWaitMs(retrySchedules.supplierList, failures, { floorMs: askedToWaitMs(error) });
      await failListPull(tx, source.name, { error: errorText(error), next: timestampFromMs(clock.nowMs() + waitMs) });
    });
    await unlessLost(stored);
  }
}

/** Reads the list in passes until it was seen whole, or has changed during every pass. */
async function pullWholeList(deps: SupplierListDeps, lease: Lease, signal: AbortSignal): Promise<void> {
  let passBefore: Pass | undefined;
  let pageSize = deps.source.page_size;
  for (let passes = 1; ; ) {
    let pass: Pass;
    try {
      pass = await readList(deps, lease, pageSize, signal);
    } catch (error) {
      // A supplier may have a thousand contacts.
      if (!(error instanceof AppError) || error.code !== 'too-large' || pageSize === 1) throw error;
      pageSize = Math.ceil(pageSize / 4);
      continue;
    }
    if (isWhole(pass) || (passBefore !== undefined && sawTheSame(passBefore, pass))) return;
    if (passes === passesMax) {
      const { ids, count } = pass;
      deps.log.warn(
        { source: deps.source.name, seen: ids.size, count },
        'the supplier list changed during every pass, or states a wrong count; the next pull reads it again',
      );
      return;
    }
    passBefore = pass;
    passes += 1;
  }
}

/** One read of the list from its first page to its last. */
interface Pass {
  readonly ids: ReadonlySet<unknown>;
  /** How many rows were shown; a supplier that was shown twice counts twice. */
  readonly rows: number;
  /** How many suppliers the list has by its own count; undefined when its pages state none, or different ones. */
  readonly count: number | undefined;
}

function isWhole({ ids, count }: Pass): boolean {
  return ids.size === count;
}

function sawTheSame(before: Pass, now: Pass): boolean {
  const hasNoRepeats = (pass: Pass) => pass.rows === pass.ids.size;
  return (
    hasNoRepeats(before) && hasNoRepeats(now) && before.ids.size === now.ids.size && before.ids.isSubsetOf(now.ids)
  );
}

async function readList(deps: SupplierListDeps, lease: Lease, pageSize: number, signal: AbortSignal): Promise<Pass> {
  const ids = new Set<unknown>();
  const counts = new Set<number | undefined>();
  let rows = 0;
  const read = async (query: string) => {
    const page = await readPage(deps, lease, query, signal);
    await storePage(deps, lease, page.items, page.observed);
    return page;
  };
  for await (const { items, count } of readPages(read, supplierQuery({ pageNumber: 1, pageSize }))) {
    for (const item of items) ids.add(item['external_id']);
    rows += items.length;
    counts.add(count);
  }
  return { ids, rows, count: counts.size === 1 ? [...counts][0] : undefined };
}

/**
 * Reads one page, and waits for the source's quota where it is spent. A pull that ended there would begin again at the
 * first page: a list with more pages than the quota allows at once would never be read to its end.
 */
async function readPage(
  { client, clock }: SupplierListDeps,
  lease: Lease,
  next: string,
  signal: AbortSignal,
): Promise<Awaited<ReturnType<SourceClient['listSuppliers']>> & { observed: Timestamp }> {
  return lease.during(async (lost) => {
    const stopped = AbortSignal.any([signal, lost]);
    const ask = async () => {
      const observed = timestampNow(clock);
      return { ...(await client.listSuppliers({ next }, stopped)), observed };
    };
    return waitForRateLimit(ask, { clock, signal: stopped });
  });
}

async function storePage(
  deps: SupplierListDeps,
  lease: Lease,
  objects: readonly Record<string, unknown>[],
  observed: Timestamp,
): Promise<void> {
  const { source, clock, log } = deps;
  const stored = await lease.transaction((tx) =>
    storeResources(tx, { source: source.name, kind: 'supplier-master', objects, observed, now: timestampNow(clock) }),
  );
  if (stored.unreadable > 0)
    log.warn(
      { source: source.name, count: stored.unreadable },
      'suppliers of the list have no external_id that can be stored; they are skipped',
    );
  if (stored.changed > 0) deps.wakeFlows();
}
