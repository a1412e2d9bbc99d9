/** What the doctor finds of a source: whether it answers, how its clock goes, and whether it notifies. */
import type { SourceSettings } from '#bridge/settings.ts';
import { durationOf } from '#console/duration.ts';
import type { FeedName } from '#contract/feed.ts';
import { msFromTimestamp, type Timestamp } from '#contract/timestamp.ts';
import { AppError, errorText } from '#platform/errors.ts';
import type { BridgeCommand } from '../bridge-command.ts';
import { type DoctorFinding, fail, ok, warn } from './finding.ts';

/** `Date` is cut to a second. */
const clockWarnSeconds = 3;

export async function checkSource(command: BridgeCommand, source: SourceSettings): Promise<DoctorFinding[]> {
  const name = `source ${source.name}`;
  const [feed] = source.feeds as [FeedName];
  const { clock } = command;
  const askedMs = clock.nowMs();
  try {
    const page = await command
      .clientOf(source.name)
      .readFeed(feed, { modifiedAfter: undefined, pageSize: 1 }, command.signal);
    const tookMs = clock.nowMs() - askedMs;
    const order = page.commitOrdered ? 'in commit order' : 'order not declared: read in closed ranges';
    return [ok(name, `answers in ${tookMs} ms; ${order}`), findClock(name, page.sourceMs, askedMs, tookMs)];
  } catch (error) {
    const todo =
      error instanceof AppError && (error.code === 'unauthorized' || error.code === 'forbidden')
        ? 'Issue an API key with the scope feeds and set it as api_key.'
        : 'Check base_url, the network and the service’s own state. What is delivered stays; the feeds wait.';
    return [fail(name, `does not answer: ${errorText(error)}`, todo)];
  }
}

function findClock(name: string, sourceMs: number | undefined, askedMs: number, tookMs: number): DoctorFinding {
  if (sourceMs === undefined)
    return warn(
      `${name}: clock`,
      'it does not tell its time (no Date header)',
      'Lags are worked out with this machine’s clock alone.',
    );
  // `sourceMs` lies at most a second and the way there and back before what its clock shows now.
  const late = (askedMs - sourceMs) / 1000;
  const early = (sourceMs - (askedMs + tookMs)) / 1000;
  const difference = Math.max(0, late - 2 - tookMs / 1000, early);
  const text = `${difference.toFixed(1)} s from this machine’s`;
  return difference > clockWarnSeconds
    ? warn(
        `${name}: clock`,
        text,
        'Nothing is lost by it; lags are off by that. Correct the clock that is wrong (NTP).',
      )
    : ok(`${name}: clock`, text);
}

/** When a notification of the source came last; one that never notifies is read on schedule only. */
export async function findNotifications(command: BridgeCommand, source: SourceSettings): Promise<DoctorFinding> {
  const { database, clock } = command;
  const name = `source ${source.name}: notifications`;
  const [row] = await database.query<{ received: Timestamp | null; waiting: number }>(
    `select max(received) as received, count(*) filter (where processed is null)::int as waiting
     from bridge.inbox where source = $1`,
    [source.name],
  );
  const received = row?.received ?? null;
  if (received === null)
    return warn(
      name,
      'none has been received within the time that they are kept',
      `See the line of its webhook. Until then its feeds are read every ${source.poll_seconds} s only.`,
    );
  const ago = durationOf((clock.nowMs() - msFromTimestamp(received)) / 1000);
  return ok(name, `the last came ${ago} ago, ${row?.waiting ?? 0} wait to be answered`);
}
