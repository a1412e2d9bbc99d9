/** What the doctor finds of the work itself: feeds, flows, dead letters, lag. */
import type { BridgeStatus, FeedStatus, FlowStatus } from '#bridge/status/status.ts';
import { whysOf } from '../feed-words.ts';
import { lagText } from '../output.ts';
import { type DoctorFinding, fail, ok, warn } from './finding.ts';

export function findWork({ feeds, flows }: BridgeStatus): DoctorFinding[] {
  const whys = whysOf(feeds);
  return [...feeds.flatMap((feed, index) => findFeed(feed, whys[index] ?? feed.lag.why)), ...flows.flatMap(findFlow)];
}

function findFeed(feed: FeedStatus, why: string): DoctorFinding[] {
  const name = `feed ${feed.source}/${feed.feed}`;
  const text = `behind by ${lagText(feed.lag.seconds)}: ${why}`;
  const findings: DoctorFinding[] = [];
  if (feed.failures > 0)
    findings.push(fail(name, text, `The source says why; \`bridge check\` tries it. Pulls go on by themselves.`));
  else if (feed.lag.inStep) findings.push(ok(name, text));
  else
    findings.push(warn(name, text, 'Look again in a minute; if it grows, look at the processes with the role pull.'));
  if (feed.warning !== null) findings.push(warn(`${name}: warning`, feed.warning, 'The feed is read all the same.'));
  if (feed.lateArrivals > 0)
    findings.push(
      warn(
        `${name}: late arrivals`,
        `audits found ${feed.lateArrivals} records later than ${feed.latenessSeconds} s after their time`,
        'They are in now. Raise lateness_seconds of the source if the number grows.',
      ),
    );
  return findings;
}

function findFlow(flow: FlowStatus): DoctorFinding[] {
  const name = `flow ${flow.flow}`;
  const findings = [flowFinding(name, flow)];
  if (flow.deadLetters > 0)
    findings.push(
      fail(
        `${name}: dead letters`,
        `the ERP refused ${flow.deadLetters} documents`,
        `See why: bridge dead-letters --flow ${flow.flow}. When it is mended: bridge replay --flow ${flow.flow} --dead.`,
      ),
    );
  return findings;
}

function flowFinding(name: string, flow: FlowStatus): DoctorFinding {
  const text = `behind by ${lagText(flow.lag.seconds)}: ${flow.lag.why}`;
  if (flow.pausedReason !== null) {
    const agree = flow.pausedKind === 'withdrawals' ? ' --agree-to-withdrawals, if they are meant' : '';
    return fail(name, text, `Mend the cause, then: bridge resume ${flow.flow}${agree}.`);
  }
  if (flow.circuitUntil !== null)
    return fail(name, text, 'The ERP fails or refuses everything: mend that. The flow tries again by itself.');
  if (flow.lag.inStep || (flow.due === 0 && flow.deadLetters > 0)) return ok(name, text);
  if (flow.stuck > 0)
    return fail(
      name,
      text,
      'Its connector, or the ERP, answers what does not help: see the words, and the connector’s README.',
    );
  if (flow.retrying > 0)
    return warn(
      name,
      text,
      'It is tried again by itself; mend what the words name, as in the ERP, and it goes through.',
    );
  if (flow.due === 0 && flow.lag.seconds !== null)
    return warn(name, text, 'The flow itself has delivered all there is: see the line of the feed.');
  return warn(name, text, 'Look again in a minute; if it grows, look at the processes with the role push.');
}
