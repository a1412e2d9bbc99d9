/** What the doctor finds about the work itself: the conditions, and a line for each feed, flow and intake without one. */
import type { FeedStatus } from '#bridge/mirror/feed-statuses.ts';
import type { Condition, ConditionKind } from '#bridge/operate/status/conditions.ts';
import type { BridgeStatus } from '#bridge/operate/status/status.ts';
import { warningsOf, whysOf } from '../feed-words.ts';
import { lagText } from '../output.ts';
import { type DoctorFinding, ok, warn } from './finding.ts';

/** The webhook endpoint's certificate has a finding of its own, and of webhooks the doctor asks the service itself. */
const kindsElsewhere: readonly ConditionKind[] = ['certificate', 'webhook-off', 'webhook-failing'];

export function findWork(status: BridgeStatus): DoctorFinding[] {
  const conditions = status.conditions.filter(({ kind }) => !kindsElsewhere.includes(kind));
  const whys = whysOf(status.feeds);
  const lines = [
    ...status.feeds.map(({ source, feed, lag }, index) =>
      lineOf(`feed ${source}/${feed}`, { ...lag, why: whys[index] ?? lag.why }),
    ),
    ...status.flows.map(({ flow, lag }) => lineOf(`flow ${flow}`, lag)),
    ...status.intakes.map(({ intake, lag }) => lineOf(`intake ${intake}`, lag)),
  ];
  return [
    ...lines.filter(({ name }) => conditions.every(({ subject }) => subject !== name)),
    ...status.feeds.flatMap(warningsOfFeed),
    ...status.intakes.flatMap(warningsOfIntake),
    ...conditions.map(findCondition),
  ];
}

function findCondition({ kind, subject, level, summary, action }: Condition): DoctorFinding {
  return { name: `${subject}: ${kind.replaceAll('-', ' ')}`, level, message: summary, todo: action };
}

function lineOf(name: string, { inStep, seconds, why }: FeedStatus['lag']): DoctorFinding {
  return ok(name, inStep || seconds === null ? why : `behind by ${lagText(seconds)}: ${why}`);
}

function warningsOfFeed(feed: FeedStatus): DoctorFinding[] {
  const name = `feed ${feed.source}/${feed.feed}`;
  const findings = warningsOf(feed).map((text) => warn(`${name}: warning`, text, 'The feed is read nevertheless.'));
  if (feed.lateArrivals > 0)
    findings.push(
      warn(
        `${name}: late arrivals`,
        `audits found ${feed.lateArrivals} records that appeared later than ${feed.latenessSeconds} s after their time`,
        'They are in the mirror now. If the number grows, raise lateness_seconds of the source.',
      ),
    );
  return findings;
}

function warningsOfIntake({ intake, unreadable }: BridgeStatus['intakes'][number]): DoctorFinding[] {
  if (unreadable === 0) return [];
  return [
    warn(
      `intake ${intake}: left out`,
      `${unreadable} times the ERP sent a record without a number that can be stored, or a line that cannot be read`,
      'The log names each with its reason. Correct them in the ERP.',
    ),
  ];
}
