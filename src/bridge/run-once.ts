/**
 * One complete run: every feed is read to its end, then every document that is due is pushed, then every intake reads its
 * ERP and submits what differs. It uses the workers of
 * the daemon and calls them directly instead of through the queue. Leases keep it and running daemons from doing the
 * same work twice; work that a daemon does meanwhile counts as done. A kill at any point leaves what a killed daemon
 * leaves: the next run, or a daemon, goes on from there.
 */
import type { Timestamp } from '#contract/timestamp.ts';
import { timestampNow } from '#platform/clock.ts';
import type { Database } from '#platform/database/database.ts';
import type { Signals, Work } from '#platform/queue.ts';
import { prepareBridge } from './create-bridge.ts';
import { readIntakeNow } from './intake/control-intakes.ts';
import { startIntake } from './intake/start-intake.ts';
import { startAlerts } from './operate/alerts/start-alerts.ts';
import { type IntakeStatus, isThrough, progressText } from './operate/status/intake-status.ts';
import { type BridgeStatus, readStatus } from './operate/status/status.ts';
import { startPull } from './pull/start-pull.ts';
import { startPush } from './push/start-push.ts';
import { channelsOf } from './settings/alert-settings.ts';
import { type BridgeDeps, lanes, type WorkingPart } from './settings/bridge-deps.ts';

export interface RunProgress {
  readonly stage: 'pull' | 'push' | 'intake';
  /** Feeds in the stage `pull`, documents in the stage `push`, intakes in the last. */
  readonly done: number;
  readonly total: number;
}

export interface RunResult {
  /** Feeds that could not be read to their end, `<source>/<feed>`. */
  readonly failedFeeds: readonly string[];
  /** Documents that were due and were not delivered, without the dead letters. */
  readonly undelivered: number;
  /** Intakes whose suppliers are not all at the service, without the dead letters; paused ones do not count. */
  readonly unfinishedIntakes: readonly string[];
  readonly status: BridgeStatus;
}

/** The wait before it checks again whether something is due. */
const checkAgainMs = 250;

/**
 * Runs until all feeds are read, all due documents are delivered and all intakes are through. While documents or
 * suppliers wait for another attempt, the run ends when none was delivered for `patienceMs`. It ends early when `signal` aborts. Rejects as the start of the
 * bridge does.
 */
export async function runOnce(
  deps: Omit<BridgeDeps, 'signals' | 'role'>,
  options: { patienceMs: number; onProgress: (progress: RunProgress) => void; signal: AbortSignal },
): Promise<RunResult> {
  const { settings, database, clock } = deps;
  await using opened = new AsyncDisposableStack();
  const began = timestampNow(clock);
  const { acquireLease, clients, flows, intakes, lossWatch } = await prepareBridge(deps, opened);
  // Preparing has made all feeds due. A pull that fails from here on makes its feed due later than this time.
  const prepared = timestampNow(clock);
  const workers = new Map<string, Worker>();
  const signals = directSignals(workers);
  const pull = startPull({ ...deps, signals }, acquireLease, clients);
  const push = await startPush({ ...deps, signals }, acquireLease, clients.clientOf, flows, lossWatch);
  const intake = startIntake({ ...deps, signals }, acquireLease, clients.clientOf, intakes);
  const runDue = (part: Pick<WorkingPart, 'lanes'>) => workDue(part, workers, options.signal);
  const otherLanes = { lanes: pull.lanes.filter(({ lane }) => lane !== lanes.pull) };

  const read = () => readStatus(database, { settings, now: timestampNow(clock) });
  const feedsDone = ({ feeds }: BridgeStatus) =>
    feeds.filter(
      ({ lastPull, nextPull, failures }) =>
        (failures > 0 && nextPull !== null && nextPull > prepared) || (lastPull !== null && lastPull >= began),
    ).length;
  let status = await read();
  for (;;) {
    options.onProgress({ stage: 'pull', done: feedsDone(status), total: status.feeds.length });
    if (options.signal.aborted) break;
    // New notifications make feeds due again and again, so the run ends when each was read once. The other lanes, of
    // backfills and supplier lists, come to an end by themselves.
    if (feedsDone(status) === status.feeds.length && !(await runDue(otherLanes))) break;
    if (!(await runDue(pull))) await pause(deps, options.signal);
    status = await read();
  }
  const until = timestampNow(clock);
  let undelivered = await countUndelivered(database, until);
  const total = undelivered;
  let lastDeliveryMs = clock.nowMs();
  for (;;) {
    options.onProgress({ stage: 'push', done: Math.max(0, total - undelivered), total: Math.max(total, undelivered) });
    if (options.signal.aborted || clock.nowMs() - lastDeliveryMs > options.patienceMs) break;
    const worked = await runDue(push);
    if (!worked && undelivered === 0) break;
    if (!worked) await pause(deps, options.signal);
    const before = undelivered;
    undelivered = await countUndelivered(database, until);
    if (undelivered !== before) lastDeliveryMs = clock.nowMs();
  }
  // After the documents: what a flow has written to an ERP is known before the ERP is read.
  for (const { name } of settings.intakes) await readIntakeNow(database, name, timestampNow(clock));
  const readIntakes = async () => (await read()).intakes;
  let intakesNow = await readIntakes();
  let shown = '';
  let movedMs = clock.nowMs();
  for (;;) {
    const open = intakesNow.filter((each) => !isThrough(each) || isUnread(each, until));
    options.onProgress({ stage: 'intake', done: intakesNow.length - open.length, total: intakesNow.length });
    const before = shown;
    shown = progressText(intakesNow);
    if (shown !== before) movedMs = clock.nowMs();
    if (open.length === 0 || options.signal.aborted || clock.nowMs() - movedMs > options.patienceMs) break;
    if (!(await runDue(intake))) await pause(deps, options.signal);
    intakesNow = await readIntakes();
  }
  // Once: what gathers now is sent by the next run.
  if (channelsOf(settings.alerts).length > 0)
    await runDue(startAlerts({ ...deps, signals }, acquireLease, { receives: false }));
  status = await read();
  return {
    failedFeeds: status.feeds
      .filter(({ lastPull, failures }) => failures > 0 || lastPull === null || lastPull < began)
      .map(({ source, feed }) => `${source}/${feed}`),
    undelivered,
    unfinishedIntakes: status.intakes
      .filter((each) => !isThrough(each) || isUnread(each, until))
      .map((each) => each.intake),
    status,
  };
}

/** Whether its ERP has not been read in this run. A paused intake may not read. */
function isUnread({ lastRead, pausedReason }: IntakeStatus, began: Timestamp): boolean {
  return pausedReason === null && (lastRead === null || lastRead < began);
}

interface Worker {
  concurrency: number;
  work: Work;
}

/** Collects the workers, to be called directly. A signal needs no queue: SQL shows what is due. */
function directSignals(workers: Map<string, Worker>): Signals {
  return {
    signal: async () => undefined,
    wakeHere: () => undefined,
    work: (lane, { concurrency }, work) => void workers.set(lane, { concurrency, work }),
    close: async () => undefined,
  };
}

/** Works every key once that is due in the part's lanes; returns false when none was. */
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

/**
 * Returns how many documents have differed from what the ERP holds since `until` or longer, in flows that are not
 * paused nor wait for their source after a loss of commits, and without the dead letters.
 */
async function countUndelivered(database: Database, until: Timestamp): Promise<number> {
  const [row] = await database.query<{ count: number }>(
    `select count(*)::int as count from bridge.flow_documents d join bridge.flows f on f.name = d.flow
     where d.kind = any(f.kinds) and f.paused_reason is null and d.due is not null and d.dead_since is null
       and d.waiting_since <= $1 and (f.commits_lost is null or f.source_reread is not null)`,
    [until],
  );
  return row?.count ?? 0;
}

function pause({ clock }: Pick<BridgeDeps, 'clock'>, signal: AbortSignal): Promise<void> {
  return clock.sleep(checkAgainMs, signal).catch(() => undefined);
}
