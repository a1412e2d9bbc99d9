/** What the doctor finds about a source: whether it answers, how far its clock is off, and whether it notifies. */
import { type RefusalReason, readRefusals } from '#bridge/receive/refusals.ts';
import type { SourceSettings } from '#bridge/settings/settings.ts';
import { durationOf } from '#console/duration.ts';
import type { FeedName } from '#contract/feed.ts';
import { msFromTimestamp, type Timestamp } from '#contract/timestamp.ts';
import { timestampNow } from '#platform/clock.ts';
import { AppError, errorText } from '#platform/errors.ts';
import type { BridgeCommand } from '../bridge-command.ts';
import { shortTime } from '../output.ts';
import { type DoctorFinding, fail, ok, warn } from './finding.ts';

/** Above the resolution of the `Date` header, which is a second. */
const clockWarnSeconds = 3;
/** Services of this kind refuse shorter pages. */
const pageSizeMin = 10;

/** Reads a short page of the source's first feed: whether it answers, its order, and the difference of its clock. */
export async function checkSource(command: BridgeCommand, source: SourceSettings): Promise<DoctorFinding[]> {
  const name = `source ${source.name}`;
  const [feed] = source.feeds as [FeedName];
  const { clock } = command;
  const askedMs = clock.nowMs();
  try {
    const page = await command
      .clientOf(source.name)
      .readFeed(feed, { modifiedAfter: undefined, pageSize: pageSizeMin }, command.signal);
    const tookMs = clock.nowMs() - askedMs;
    const order = page.commitOrdered ? 'in commit order' : 'commit order not declared: read in windows';
    return [ok(name, `answers in ${tookMs} ms; ${order}`), findClock(name, page.sourceMs, askedMs, tookMs)];
  } catch (error) {
    const todo =
      error instanceof AppError && (error.code === 'unauthorized' || error.code === 'forbidden')
        ? 'Issue an API key with the scope feeds and set it as api_key. The service’s words say whether it is unknown, expired or ' +
          'revoked, or lacks the scope; some services do not tell these apart.'
        : 'Check base_url, the network and the state of the service (a page for people means that base_url, or a proxy in ' +
          'front, leads elsewhere). Until it answers, its feeds are not read.';
    return [fail(name, `does not answer: ${errorText(error)}`, todo)];
  }
}

function findClock(name: string, sourceMs: number | undefined, askedMs: number, tookMs: number): DoctorFinding {
  if (sourceMs === undefined)
    return warn(
      `${name}: clock`,
      'its answers have no Date header',
      'Nothing needs to be done: lags are computed with this machine’s clock alone.',
    );
  // The source's clock now shows `sourceMs` plus at most one second and the time of the call.
  const late = (askedMs - sourceMs) / 1000;
  const early = (sourceMs - (askedMs + tookMs)) / 1000;
  const difference = Math.max(0, late - 2 - tookMs / 1000, early);
  const text = `${difference.toFixed(1)} s from this machine’s clock`;
  return difference > clockWarnSeconds
    ? warn(
        `${name}: clock`,
        text,
        'No data is lost, but lags are wrong by this difference. Correct the clock that is wrong (NTP).',
      )
    : ok(`${name}: clock`, text);
}

const whyRefused: Record<RefusalReason, string> = {
  'no-signature': 'without a signature',
  'no-key': 'while no signing key was known',
  'wrong-signature': 'with a signature of another key',
  'no-token': 'without a bearer token',
  'wrong-token': 'with a wrong bearer token',
};

/**
 * Notifications that were refused within the last day, by reason; undefined when there were none. Anybody can send such
 * ones, so they are no fault: the line of the webhook says what the service sees.
 */
export async function findRefusals(
  { database, clock }: BridgeCommand,
  source: SourceSettings,
): Promise<DoctorFinding | undefined> {
  const refusals = await readRefusals(database, source.name, timestampNow(clock));
  if (refusals.length === 0) return undefined;
  const since = refusals.reduce((first, refusal) => (refusal.first < first ? refusal.first : first), '9999');
  const last = refusals.reduce((newest, refusal) => (refusal.last > newest ? refusal.last : newest), '');
  const counts = refusals.map(({ count, reason }) => `${count} ${whyRefused[reason]}`).join(', ');
  return ok(
    `source ${source.name}: refused notifications`,
    `${counts}; since ${shortTime(since)}, the last at ${shortTime(last)}; they did nothing`,
  );
}

/** When the last notification of the source came. A source that never notifies is read on schedule only. */
export async function findNotifications(command: BridgeCommand, source: SourceSettings): Promise<DoctorFinding> {
  const { database, clock } = command;
  const name = `source ${source.name}: notifications`;
  const [row] = await database.query<{ received: Timestamp | null; waiting: number }>(
    `select max(i.received) as received, count(*) filter (where i.id > c.answered)::int as waiting
     from bridge.inbox i left join bridge.checkpoints c on c.source = i.source and c.feed = i.feed
     where i.source = $1`,
    [source.name],
  );
  const received = row?.received ?? null;
  if (received === null)
    return warn(
      name,
      'none has been received within the time for which they are kept',
      `See the line of its webhook. Without notifications its feeds are read every ${source.poll_seconds} s.`,
    );
  const ago = durationOf((clock.nowMs() - msFromTimestamp(received)) / 1000);
  return ok(name, `the last one came ${ago} ago; ${row?.waiting ?? 0} wait until their feed is read`);
}
