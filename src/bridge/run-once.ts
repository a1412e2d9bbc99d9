/**
 * One run to the end: every feed is read as far as it goes now, everything that is then due is pushed, and that is all.
 * The same workers as the daemon's do it, called directly instead of by the queue; leases keep them and running daemons
 * out of each other's way, and what a daemon does meanwhile counts as done. Killed at any point it leaves what a killed
 * daemon leaves: the next run, or a daemon, goes on from there.
 */
import type { Timestamp } from '#contract/timestamp.ts';
import { timestampNow } from '#platform/clock.ts';
import type { Database } from '#platform/database/database.ts';
import type { Signals, Work } from '#platform/queue.ts';
import { type BridgeDeps, lanes, type WorkingPart } from './bridge-deps.ts';
import { prepareBridge } from './create-bridge.ts';
import { startPull } from './pull/start-pull.ts';
import { startPush } from './push/start-push.ts';
import { type BridgeStatus, readStatus } from './status/status.ts';

export interface RunProgress {
  readonly stage: 'pull' | 'push';
  /** Feeds, or documents. */
  readonly done: number;
  readonly total: number;
}

export interface RunResult {
  /** Feeds that could not be read to their end, `<source>/<feed>`. */
  readonly failedFeeds: readonly string[];
  /** Documents that should have been delivered and were not, dead letters not among them. */
  readonly undelivered: number;
  readonly status: BridgeStatus;
}

const lookAgainMs = 250;

/**
 * `patienceMs` is how long nothing may move while documents wait for another try, before the run gives up on them. Stops
 * early when `signal` aborts. Throws as the start of the bridge does.
 */
export async function runOnce(
  deps: Omit<BridgeDeps, 'signals' | 'role'>,
  options: { patienceMs: number; tell: (progress: RunProgress) => void; signal: AbortSignal },
): Promise<RunResult> {
  const { settings, database, clock } = deps;
  await using opened = new AsyncDisposableStack();
  const began = timestampNow(clock);
  const { acquireLease, flows } = await prepareBridge(deps, opened);
  // All feeds are due by now; one whose pull fails from here on is put off beyond it.
  const prepared = timestampNow(clock);
  const workers = new Map<string, Worker>();
  const signals = directSignals(workers);
  const pull = startPull({ ...deps, signals }, acquireLease);
  const push = await startPush({ ...deps, signals }, acquireLease, flows);
  const runDue = (part: Pick<WorkingPart, 'lanes'>) => workDue(part, workers, options.signal);
  const others = { lanes: pull.lanes.filter(({ lane }) => lane !== lanes.pull) };

  const read = () => readStatus(database, { settings, now: timestampNow(clock) });
  const feedsDone = ({ feeds }: BridgeStatus) =>
    feeds.filter(
      ({ lastPull, nextPull, failures }) =>
        (failures > 0 && nextPull !== null && nextPull > prepared) || (lastPull !== null && lastPull >= began),
    ).length;
  let status = await read();
  for (;;) {
    options.tell({ stage: 'pull', done: feedsDone(status), total: status.feeds.length });
    if (options.signal.aborted) break;
    // Notifications may go on asking for feeds that have been read: the other lanes come to an end by themselves.
    if (feedsDone(status) === status.feeds.length && !(await runDue(others))) break;
    if (!(await runDue(pull))) await pause(deps, options.signal);
    status = await read();
  }
  const until = timestampNow(clock);
  let undelivered = await countUndelivered(database, until);
  const total = undelivered;
  let movedMs = clock.nowMs();
  for (;;) {
    options.tell({ stage: 'push', done: Math.max(0, total - undelivered), total: Math.max(total, undelivered) });
    if (undelivered === 0 || options.signal.aborted || clock.nowMs() - movedMs > options.patienceMs) break;
    if (!(await runDue(push))) await pause(deps, options.signal);
    const before = undelivered;
    undelivered = await countUndelivered(database, until);
    if (undelivered !== before) movedMs = clock.nowMs();
  }
  status = await read();
  return {
    failedFeeds: status.feeds
      .filter(({ lastPull, failures }) => failures > 0 || lastPull === null || lastPull < began)
      .map(({ source, feed }) => `${source}/${feed}`),
    undelivered,
    status,
  };
}

interface Worker {
  concurrency: number;
  work: Work;
}

/** Keeps the workers to be called; what is signalled is found again in SQL. */
function directSignals(workers: Map<string, Worker>): Signals {
  return {
    signal: async () => false,
    work: (lane, { concurrency }, work) => void workers.set(lane, { concurrency, work }),
    ping: async () => undefined,
    close: async () => undefined,
  };
}

/** Works everything that is due in the part's lanes once; false when nothing was. */
async function workDue(
  part: Pick<WorkingPart, 'lanes'>,
  workers: ReadonlyMap<string, Worker>,
  signal: AbortSignal,
): Promise<boolean> {
  let worked = false;
  for (const { lane, due } of part.lanes) {
    const worker = workers.get(lane);
    const keys = await due();
    if (!worker || keys.length === 0) continue;
    worked = true;
    const next = async () => {
      for (let key = keys.shift(); key !== undefined && !signal.aborted; key = keys.shift())
        await worker.work(key, signal);
    };
    await Promise.all(Array.from({ length: worker.concurrency }, next));
  }
  return worked;
}

/** Documents of flows that are not paused which have differed from what the ERP holds since before `until`. */
async function countUndelivered(database: Database, until: Timestamp): Promise<number> {
  const [row] = await database.query<{ count: number }>(
    `select count(*)::int as count from bridge.flow_documents d join bridge.flows f on f.name = d.flow
     where d.kind = any(f.kinds) and f.paused_reason is null and d.due is not null and d.dead_since is null
       and d.waiting_since <= $1`,
    [until],
  );
  return row?.count ?? 0;
}

function pause({ clock }: Pick<BridgeDeps, 'clock'>, signal: AbortSignal): Promise<void> {
  return clock.sleep(lookAgainMs, signal).catch(() => undefined);
}
