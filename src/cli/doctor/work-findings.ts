/** What the doctor finds about the work itself: feeds, flows, dead letters, lag. */
import { agreementText } from '#bridge/agreements.ts';
import { type IntakeStatus, intakeNeedsLook } from '#bridge/intake/intake-status.ts';
import type { ComparisonStatus } from '#bridge/reconcile/reconcile-status.ts';
import type { SourceChange } from '#bridge/status/source-changes.ts';
import {
  type AuditStatus,
  type BridgeStatus,
  type FeedStatus,
  type FlowStatus,
  isAuditFailing,
} from '#bridge/status/status.ts';
import { auditState, warningsOf, whysOf } from '../feed-words.ts';
import { lagText } from '../output.ts';
import { type DoctorFinding, fail, ok, warn } from './finding.ts';

/** One finding for each feed, flow and intake, and more for failing audits, late arrivals, warnings and dead letters. */
export function findWork({ feeds, flows, intakes, audits, comparisons, changes }: BridgeStatus): DoctorFinding[] {
  const whys = whysOf(feeds);
  return [
    ...feeds.flatMap((feed, index) => findFeed(feed, whys[index] ?? feed.lag.why)),
    ...audits.filter(isAuditFailing).map(findAudit),
    ...changes.filter(({ isMissed }) => isMissed).map(findMissed),
    ...flows.flatMap(findFlow),
    ...intakes.flatMap(findIntake),
    ...comparisons.map(findComparison),
  ];
}

function findFeed(feed: FeedStatus, why: string): DoctorFinding[] {
  const name = `feed ${feed.source}/${feed.feed}`;
  const text = `behind by ${lagText(feed.lag.seconds)}: ${why}`;
  const findings: DoctorFinding[] = [];
  if (feed.failures > 0)
    findings.push(
      fail(name, text, 'The error is the source’s own; `bridge check` tests it. The puller tries again by itself.'),
    );
  else if (feed.stalled)
    findings.push(
      fail(
        name,
        text,
        'The source answers, but so that nothing proves what is complete; the line names the request. New records are ' +
          'delivered meanwhile, late ones are not found. `bridge check` tests the source: tell its operator.',
      ),
    );
  else if (feed.lag.inStep) findings.push(ok(name, text));
  else
    findings.push(warn(name, text, 'Look again in a minute; if it grows, look at the processes with the role pull.'));
  for (const warning of warningsOf(feed))
    findings.push(warn(`${name}: warning`, warning, 'The feed is read nevertheless.'));
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

function findComparison(comparison: ComparisonStatus): DoctorFinding {
  const { flow, ended, documents, asDelivered, differing, lastError, overdue } = comparison;
  const name = `flow ${flow}: comparison`;
  const last =
    ended === null
      ? 'none has ended yet'
      : `report ${comparison.report} of ${ended}: ${asDelivered} of ${documents} documents as they were delivered`;
  if (overdue)
    return fail(
      name,
      `${last}; ${lastError ?? 'the next one is late'}`,
      'It goes on by itself where it was. `bridge check` tests the ERP; a process with the role push must run.',
    );
  if (differing > 0)
    return warn(
      name,
      `${last}; ${differing} differences`,
      `See them: bridge reconcile ${flow}. --repair writes again what differs.`,
    );
  return ok(name, last);
}

function findAudit(audit: AuditStatus): DoctorFinding {
  const name = `feed ${audit.source}/${audit.feed}: audit`;
  const readUpTo = audit.position === null ? 'it has proved nothing yet' : `it has read up to ${audit.position}`;
  return fail(
    name,
    `${readUpTo}, not to ${audit.to}: ${auditState(audit)}`,
    'The line names the request. Late arrivals after that time are not found until it succeeds; it goes on by itself.',
  );
}

function findMissed({ source, feed, subject, detail, noticed }: SourceChange): DoctorFinding {
  return fail(
    `feed ${source}/${feed}: field gone`,
    `${subject} ${detail} (${noticed})`,
    'Documents of such records become dead letters or lose the value. Ask the source’s operator, or correct the mapping.',
  );
}

function findFlow(flow: FlowStatus): DoctorFinding[] {
  const name = `flow ${flow.flow}`;
  const findings = [flowFinding(name, flow)];
  if (flow.deadLetters > 0)
    findings.push(
      fail(
        `${name}: dead letters`,
        `the ERP refused ${flow.deadLetters} documents`,
        `See why: bridge dead-letters --flow ${flow.flow}. When the cause is fixed: bridge replay --flow ${flow.flow} --dead.`,
      ),
    );
  return findings;
}

function findIntake(intake: IntakeStatus): DoctorFinding[] {
  const name = `intake ${intake.intake}`;
  const findings = [intakeFinding(name, intake)];
  if (intake.unreadable > 0)
    findings.push(
      warn(
        `${name}: left out`,
        `${intake.unreadable} times the ERP sent a record without a number that can be stored, or a line that cannot be read`,
        'The log names each with its reason. Correct them in the ERP.',
      ),
    );
  if (intake.deadLetters > 0)
    findings.push(
      fail(
        `${name}: dead letters`,
        `${intake.deadLetters} ${intake.stream}s were refused, or a person has to look at them`,
        `See why: bridge dead-letters --flow ${intake.intake}. When the cause is fixed: bridge replay --flow ${intake.intake} --dead.`,
      ),
    );
  return findings;
}

function intakeFinding(name: string, intake: IntakeStatus): DoctorFinding {
  const text = `behind by ${lagText(intake.lag.seconds)}: ${intake.lag.why}`;
  if (intake.pausedReason !== null) {
    const agree = agreementText(intake.pausedKind);
    return fail(
      name,
      text,
      `Look at it: bridge intake plan ${intake.intake}. Then: bridge resume ${intake.intake}${agree}.`,
    );
  }
  if (intake.readFailures > 0)
    return fail(name, text, 'The error is the ERP’s own; `bridge check` tests it. The intake tries again by itself.');
  if (intake.stuck)
    return fail(
      name,
      text,
      `The service has not processed a submission for an hour: ask its operator. bridge intake status ${intake.intake} names it.`,
    );
  if (intake.lag.inStep || (intake.deadLetters > 0 && !intakeNeedsLook({ ...intake, deadLetters: 0 })))
    return ok(name, text);
  return warn(name, text, 'Look again in a minute; if it grows, look at the processes with the role intake.');
}

function flowFinding(name: string, flow: FlowStatus): DoctorFinding {
  const text = `behind by ${lagText(flow.lag.seconds)}: ${flow.lag.why}`;
  if (flow.pausedReason !== null) {
    const agree = agreementText(flow.pausedKind);
    return fail(name, text, `Fix the cause, then: bridge resume ${flow.flow}${agree}.`);
  }
  if (flow.circuitUntil !== null)
    return fail(name, text, 'The ERP fails or refuses everything: fix that. The pusher tries again by itself.');
  if (flow.lag.inStep || (flow.due === 0 && flow.deadLetters > 0)) return ok(name, text);
  if (flow.stuck > 0)
    return fail(
      name,
      text,
      'The connector or the ERP returns an answer that cannot be used: see the message and the connector’s README.',
    );
  if (flow.retrying > 0)
    return warn(name, text, 'The pusher tries again by itself. Fix what the message names, in the ERP for example.');
  if (flow.due === 0 && flow.lag.seconds !== null)
    return warn(name, text, 'The flow has delivered everything that was read: see the line of the feed.');
  return warn(name, text, 'Look again in a minute; if it grows, look at the processes with the role push.');
}
