/** What the doctor finds about the work itself: the conditions, and a line for each feed, flow and intake without one. */
import type { FeedStatus } from '#bridge/mirror/feed-statuses.ts';
import type { Condition, ConditionKind } from '#bridge/operate/status/conditions.ts';
import type { FlowStatus } from '#bridge/operate/status/part-statuses.ts';
import type { BridgeStatus } from '#bridge/operate/status/status.ts';
import { warningsOf, whysOf } from '../feed-words.ts';
import { lagText } from '../output.ts';
import { type DoctorFinding, ok, warn } from './finding.ts';

/** They say how far something is: then its own line says nothing more. */
const kindsOfProgress: readonly ConditionKind[] = [
  'feed-behind',
  'feed-stalled',
  'flow-paused',
  'circuit-open',
  'documents-stuck',
  'erp-behind',
  'intake-paused',
  'intake-behind',
];

/** The webhook endpoint's certificate has a finding of its own, and of webhooks the doctor asks the service itself. */
const kindsElsewhere: readonly ConditionKind[] = ['certificate', 'webhook-off', 'webhook-failing'];

export function findWork(status: BridgeStatus): DoctorFinding[] {
  const conditions = status.conditions.filter(({ kind }) => !kindsElsewhere.includes(kind));
  const said = new Set(conditions.filter(({ kind }) => kindsOfProgress.includes(kind)).map(({ subject }) => subject));
  const whys = whysOf(status.feeds);
  return [
    ...status.feeds.flatMap((feed, index) => findFeed(feed, whys[index] ?? feed.lag.why, said)),
    ...status.flows.filter(({ flow }) => !said.has(`flow ${flow}`)).map(findFlow),
    ...status.intakes.flatMap((intake) => findIntake(intake, said)),
    ...status.comparisons.filter(({ differing, overdue }) => differing === 0 && !overdue).map(findComparison),
    ...conditions.map(findCondition),
  ];
}

function findCondition({ kind, subject, level, summary, action }: Condition): DoctorFinding {
  return { name: `${subject}: ${kind.replaceAll('-', ' ')}`, level, message: summary, todo: action };
}

function behindText(seconds: number | null, why: string): string {
  return seconds === null ? why : `behind by ${lagText(seconds)}: ${why}`;
}

function waitFor(role: string, seconds: number | null): string {
  return seconds === null
    ? `Start a process with the role ${role} or all, with this configuration.`
    : `Look again in a minute; if it grows, look at the processes with the role ${role}.`;
}

function findFeed(feed: FeedStatus, why: string, said: ReadonlySet<string>): DoctorFinding[] {
  const name = `feed ${feed.source}/${feed.feed}`;
  const text = feed.lag.inStep ? why : behindText(feed.lag.seconds, why);
  const findings = warningsOf(feed).map((warning) =>
    warn(`${name}: warning`, warning, 'The feed is read nevertheless.'),
  );
  if (feed.lateArrivals > 0)
    findings.push(
      warn(
        `${name}: late arrivals`,
        `audits found ${feed.lateArrivals} records that appeared later than ${feed.latenessSeconds} s after their time`,
        'They are in the mirror now. If the number grows, raise lateness_seconds of the source.',
      ),
    );
  if (said.has(name)) return findings;
  const todo = waitFor('pull', feed.lag.seconds);
  return [feed.lag.inStep ? ok(name, text) : warn(name, text, todo), ...findings];
}

function findFlow(flow: FlowStatus): DoctorFinding {
  const name = `flow ${flow.flow}`;
  const text = flow.lag.inStep ? flow.lag.why : behindText(flow.lag.seconds, flow.lag.why);
  if (flow.lag.inStep || (flow.due === 0 && flow.deadLetters > 0)) return ok(name, text);
  if (flow.retrying > 0)
    return warn(name, text, 'The pusher tries again by itself. Fix what the message names, in the ERP for example.');
  if (flow.due === 0 && flow.lag.seconds !== null)
    return warn(name, text, 'The flow has delivered everything that was read: see the line of the feed.');
  return warn(name, text, waitFor('push', flow.lag.seconds));
}

function findIntake(intake: BridgeStatus['intakes'][number], said: ReadonlySet<string>): DoctorFinding[] {
  const name = `intake ${intake.intake}`;
  const text = intake.lag.inStep ? intake.lag.why : behindText(intake.lag.seconds, intake.lag.why);
  const findings: DoctorFinding[] = [];
  if (intake.unreadable > 0)
    findings.push(
      warn(
        `${name}: left out`,
        `${intake.unreadable} times the ERP sent a record without a number that can be stored, or a line that cannot be read`,
        'The log names each with its reason. Correct them in the ERP.',
      ),
    );
  if (said.has(name)) return findings;
  const todo = waitFor('intake', intake.lag.seconds);
  return [intake.lag.inStep || intake.deadLetters > 0 ? ok(name, text) : warn(name, text, todo), ...findings];
}

function findComparison({ flow, run, ended, documents, asDelivered }: BridgeStatus['comparisons'][number]) {
  const last =
    ended === null
      ? 'none has ended yet'
      : `${run} of ${ended}: ${asDelivered} of ${documents} documents as they were delivered`;
  return ok(`flow ${flow}: comparison`, last);
}
