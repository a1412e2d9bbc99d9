/**
 * Reading the list of suppliers: it has no feed, so that it is read wholly from time to time. Its pages are numbered, and
 * a row that moves to another page while it is read may be passed over: the list counts as read when as many suppliers
 * were seen as it says that it has, or when two passes saw the same. What is passed over all the same is found by the
 * next sweep, or the one after it. A kill costs reading the list once more; two that sweep wait for each other's lease.
 */

import { type AcquireLease, type Lease, LeaseLost, unlessLost } from '#bridge/leases/lease.ts';
import { storeResources } from '#bridge/mirror/store-resources.ts';
import { waitForRateLimit } from '#bridge/quota/wait-for-rate-limit.ts';
import { retrySchedules, retryWaitMs } from '#bridge/retry-schedules.ts';
import type { SourceSettings } from '#bridge/settings.ts';
import type { SourceClient } from '#client/source-client.ts';
import { type Timestamp, timestampFromMs } from '#contract/timestamp.ts';
import { type Clock, timestampNow } from '#platform/clock.ts';
import type { Database } from '#platform/database/database.ts';
import { AppError, askedToWaitMs, errorText } from '#platform/errors.ts';
import type { Logger } from '#platform/log.ts';
import { failListPull, finishListPull, isListDue, readListFailures } from './supplier-list-store.ts';

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
 * Creates the worker that reads the source's list of suppliers, if it is due. Failures end in SQL; only a database that
 * is away makes it reject.
 */
export function createSupplierListPull(deps: SupplierListDeps) {
  const { source, database, clock } = deps;
  return async (signal: AbortSignal): Promise<void> => {
    // Looked at again without the lease: a wake-up that came while it was held went to a worker that did not get it.
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
    await sweep(deps, lease, signal);
    await lease.transaction((tx) =>
      finishListPull(tx, source.name, {
        now: timestampNow(clock),
        next: timestampFromMs(beganMs + source.suppliers_poll_seconds * 1000),
      }),
    );
  } catch (error) {
    if (error instanceof LeaseLost || signal.aborted) return;
    log.warn({ err: error, source: source.name }, 'reading the list of suppliers failed');
    const noted = lease.transaction(async (tx) => {
      const failures = await readListFailures(tx, source.name);
      const waitMs = retryWaitMs(retrySchedules.supplierList, failures, { floorMs: askedToWaitMs(error) });
      await failListPull(tx, source.name, { error: errorText(error), next: timestampFromMs(clock.nowMs() + waitMs) });
    });
    await unlessLost(noted);
  }
}

/** Passes over the list until it was seen whole, or has not held still for too long. */
async function sweep(deps: SupplierListDeps, lease: Lease, signal: AbortSignal): Promise<void> {
  let before: Pass | undefined;
  let pageSize = deps.source.page_size;
  for (let passes = 1; ; ) {
    let pass: Pass;
    try {
      pass = await readList(deps, lease, pageSize, signal);
    } catch (error) {
      // Suppliers may have a thousand contacts each.
      if (!(error instanceof AppError) || error.code !== 'too-large' || pageSize === 1) throw error;
      pageSize = Math.ceil(pageSize / 4);
      continue;
    }
    if (isWhole(pass) || (before !== undefined && sawTheSame(before, pass))) return;
    if (passes === passesMax) {
      const { ids, count } = pass;
      deps.log.warn(
        { source: deps.source.name, seen: ids.size, count },
        'the list of suppliers does not hold still, or counts wrongly; the next sweep reads it again',
      );
      return;
    }
    before = pass;
    passes += 1;
  }
}

/** One reading of the list from its first page to its last. */
interface Pass {
  readonly ids: ReadonlySet<unknown>;
  /** How many rows were shown, one that came twice counted twice. */
  readonly rows: number;
  /** What every page said that the list has; undefined when they did not say it, or not the same. */
  readonly count: number | undefined;
}

function isWhole({ ids, count }: Pass): boolean {
  return ids.size === count;
}

function sawTheSame(before: Pass, now: Pass): boolean {
  const isStill = (pass: Pass) => pass.rows === pass.ids.size;
  return isStill(before) && isStill(now) && before.ids.size === now.ids.size && before.ids.isSubsetOf(now.ids);
}

type At = Parameters<SourceClient['listSuppliers']>[0];

async function readList(deps: SupplierListDeps, lease: Lease, pageSize: number, signal: AbortSignal): Promise<Pass> {
  const ids = new Set<unknown>();
  const links = new Set<string>();
  const counts = new Set<number | undefined>();
  let rows = 0;
  for (let at: At = { pageNumber: 1, pageSize }; ; ) {
    const page = await readPage(deps, lease, at, signal);
    await storePage(deps, lease, page.items, page.observed);
    for (const item of page.items) ids.add(item['external_id']);
    rows += page.items.length;
    counts.add(page.count);
    if (page.next === undefined) return { ids, rows, count: counts.size === 1 ? page.count : undefined };
    if (page.items.length === 0 || links.has(page.next))
      throw new AppError(
        'unavailable',
        'A page of the list of suppliers leads nowhere: its "next" gives nothing new.',
        {
          recovery: { do: 'halt' },
        },
      );
    links.add(page.next);
    at = { next: page.next };
  }
}

/**
 * Where the source allows no more requests for now, the wait is sat out here: the list begins at its first page, and with
 * more pages than are allowed at once it would never be read to its end.
 */
async function readPage(
  { client, clock }: SupplierListDeps,
  lease: Lease,
  at: At,
  signal: AbortSignal,
): Promise<Awaited<ReturnType<SourceClient['listSuppliers']>> & { observed: Timestamp }> {
  return lease.during(async (lost) => {
    const ends = AbortSignal.any([signal, lost]);
    const ask = async () => {
      const observed = timestampNow(clock);
      return { ...(await client.listSuppliers(at, ends)), observed };
    };
    return waitForRateLimit(ask, clock, ends);
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
      'suppliers of the list have no external_id that can be stored; they are passed over',
    );
  if (stored.changed > 0) deps.wakeFlows();
}
