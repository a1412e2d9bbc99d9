/**
 * What needs a person now, from what the bridge knows of itself. Pure: the same rules as those of `bridge doctor`, as
 * far as they say that something is wrong. Docs/operations.md lists them.
 */
import { X509Certificate } from 'node:crypto';
import { msFromTimestamp, type Timestamp } from '#contract/timestamp.ts';
import { agreementText } from '../agreements.ts';
import { countText, type IntakeStatus } from '../intake/intake-status.ts';
import type { RefusalsInARow } from '../receive/refusals.ts';
import type { ComparisonStatus } from '../reconcile/reconcile-status.ts';
import type { BridgeStatus, FeedStatus, FlowStatus } from '../status/status.ts';
import type { Condition } from './alert.ts';
import type { AlertSettings } from './alert-settings.ts';
import type { DeadLetterGroup } from './dead-letter-groups.ts';

/** What the bridge knows of itself now. */
export interface Observed {
  readonly status: Pick<BridgeStatus, 'feeds' | 'flows' | 'intakes' | 'comparisons' | 'changes'>;
  readonly deadLetters: readonly DeadLetterGroup[];
  /** Dead letters of intakes. */
  readonly refusedRecords: readonly DeadLetterGroup[];
  readonly refusals: readonly RefusalsInARow[];
  /** PEM of the webhook endpoint's certificate; undefined when it cannot be read. */
  readonly certificatePem: string | undefined;
}

type Limits = Pick<AlertSettings, 'feed_behind_minutes' | 'erp_behind_minutes' | 'certificate_days'>;

/** So many refusals in a row are no chance. */
const refusalsMany = 10;
/** A feed that has never been read counts as behind after so many failures in a row: about a minute. */
const failuresMany = 5;
const dayMs = 86_400_000;
const textMax = 300;

/** Returns everything that is wrong at `now`; no two have the same kind, subject and group. */
export function findConditions(found: Observed, limits: Limits, now: Timestamp): Condition[] {
  const nowMs = msFromTimestamp(now);
  return [
    ...found.deadLetters.map(deadLettersOf),
    ...found.refusedRecords.map((group) => refusedRecordsOf(group, found.status.intakes)),
    ...found.status.flows.flatMap((flow) => flowConditions(flow, limits, nowMs)),
    ...found.status.intakes.flatMap((intake) => intakeConditions(intake, limits, nowMs)),
    ...found.status.comparisons.flatMap(comparisonConditions),
    ...found.status.feeds.flatMap((feed) => feedConditions(feed, limits)),
    ...fieldsGone(found.status),
    ...found.refusals.filter(({ count }) => count >= refusalsMany).map(refusedOf),
    ...certificateConditions(found.certificatePem, limits, nowMs),
  ];
}

function deadLettersOf({ flow, words, wordsHash, count, first, example }: DeadLetterGroup): Condition {
  const documents = count === 1 ? '1 document' : `${count} documents`;
  const named = example === null ? '' : ` (${example}${count === 1 ? '' : ', …'})`;
  return {
    kind: 'dead-letters',
    subject: `flow ${flow}`,
    group: wordsHash,
    summary: `Flow ${flow}: ${documents} refused since ${toMinute(first)}${named}: ${short(words)}`,
    action: `See them: bridge dead-letters --flow ${flow}. When the cause is fixed: bridge replay --flow ${flow} --dead`,
  };
}

function refusedRecordsOf(
  { flow: intake, words, wordsHash, count, first, example }: DeadLetterGroup,
  intakes: readonly IntakeStatus[],
): Condition {
  const stream = intakes.find(({ intake: name }) => name === intake)?.stream ?? 'supplier';
  // A person is also told of requisitions that were changed or withdrawn too late.
  const what = stream === 'supplier' ? 'refused' : 'to be looked at';
  const named = example === null ? '' : ` (${short(example)}${count === 1 ? '' : ', …'})`;
  return {
    kind: 'suppliers-refused',
    subject: `intake ${intake}`,
    group: wordsHash,
    summary: `Intake ${intake}: ${countText(count, stream)} ${what} since ${toMinute(first)}${named}: ${short(words)}`,
    action: `See them: bridge dead-letters --flow ${intake}. When the cause is fixed: bridge replay --flow ${intake} --dead`,
  };
}

function intakeConditions(intake: IntakeStatus, limits: Limits, nowMs: number): Condition[] {
  const { intake: name, pausedReason, pausedKind, oldestWaiting, lastRead, readFailures, stuck, lag } = intake;
  const base = { subject: `intake ${name}`, group: '' };
  if (pausedReason !== null) {
    const agree = agreementText(pausedKind);
    return [
      {
        ...base,
        kind: 'intake-paused',
        summary: `Intake ${name} is paused; ${waitingText(intake)}: ${short(pausedReason)}`,
        action: `Look at it: bridge intake plan ${name}. Then: bridge resume ${name}${agree}`,
      },
    ];
  }
  const isOld = (since: Timestamp | null) =>
    since !== null && nowMs - msFromTimestamp(since) > limits.erp_behind_minutes * 60_000;
  const cannotRead = readFailures > 0 && (lastRead === null ? readFailures >= failuresMany : isOld(lastRead));
  if (!cannotRead && !stuck && !isOld(oldestWaiting)) return [];
  return [
    {
      ...base,
      kind: 'intake-behind',
      summary: `Intake ${name} is behind: ${short(lag.why)}`,
      action: `See bridge intake status ${name} and bridge check. It tries again by itself; nothing is lost.`,
    },
  ];
}

function waitingText({ backlog, stream }: IntakeStatus): string {
  const { suppliers: records } = backlog;
  return `${countText(records, stream)} ${records === 1 ? 'waits' : 'wait'}`;
}

function flowConditions(flow: FlowStatus, limits: Limits, nowMs: number): Condition[] {
  const subject = `flow ${flow.flow}`;
  if (flow.pausedReason !== null) {
    const agree = agreementText(flow.pausedKind);
    return [
      {
        kind: 'flow-paused',
        subject,
        group: '',
        summary: `Flow ${flow.flow} is paused; ${flow.due} documents wait: ${short(flow.pausedReason)}`,
        action: `Fix the cause, then: bridge resume ${flow.flow}${agree}`,
      },
    ];
  }
  const { oldestWaiting } = flow;
  if (oldestWaiting === null || nowMs - msFromTimestamp(oldestWaiting) <= limits.erp_behind_minutes * 60_000) return [];
  return [
    {
      kind: 'erp-behind',
      subject,
      group: '',
      summary: `Flow ${flow.flow}: documents have waited for the ERP since ${toMinute(oldestWaiting)}: ${short(flow.lag.why)}`,
      action: 'See which: bridge lag, bridge find. They are tried again by themselves; fix what the message names.',
    },
  ];
}

function feedConditions(feed: FeedStatus, limits: Limits): Condition[] {
  const name = `${feed.source}/${feed.feed}`;
  const base = { subject: `feed ${name}`, group: '' };
  const conditions: Condition[] = [];
  const { seconds } = feed.lag;
  const isBehind = seconds === null ? feed.failures >= failuresMany : seconds > limits.feed_behind_minutes * 60;
  if (feed.stalled)
    conditions.push({
      ...base,
      kind: 'feed-stalled',
      summary: `The watermark of ${name} stands still since ${toMinute(feed.stalledSince)}: ${short(feed.stalledWhy)}`,
      action: 'New records are delivered, late ones are not found. See bridge status; tell the source’s operator.',
    });
  else if (isBehind)
    conditions.push({
      ...base,
      kind: 'feed-behind',
      summary: `The feed ${name} is read up to ${toMinute(feed.watermark)} only: ${short(feed.lag.why)}`,
      action: 'See bridge lag and bridge check. The puller tries again by itself; nothing is lost.',
    });
  if (feed.unfilteredWhy !== null)
    conditions.push({
      ...base,
      kind: 'feed-unfiltered',
      summary: `Records of ${name} without a time may be missing: its pages break off (${short(feed.unfilteredWhy)})`,
      action: 'See bridge status. It is read again by itself; tell the source’s operator.',
    });
  return conditions;
}

function comparisonConditions(comparison: ComparisonStatus): Condition[] {
  const { flow, differing, documents, report, overdue, lastError, ended, everyHours } = comparison;
  const base = { subject: `flow ${flow}`, group: '' };
  const conditions: Condition[] = [];
  if (differing > 0)
    conditions.push({
      ...base,
      kind: 'erp-differs',
      summary: `Flow ${flow}: ${differing} differences in the comparison of ${documents} documents with the ERP (report ${report})`,
      action: `See them: bridge reconcile ${flow}. Then: bridge reconcile ${flow} --repair, or accept what people have changed.`,
    });
  if (overdue)
    conditions.push({
      ...base,
      kind: 'comparison-late',
      summary: `Flow ${flow}: its comparison with the ERP, every ${everyHours} h, has not ended since ${toMinute(ended)}: ${short(lastError ?? 'it takes longer, or no process runs it')}`,
      action: 'See bridge status and bridge check. It goes on by itself where it was.',
    });
  return conditions;
}

/** One for each feed. */
function fieldsGone({ feeds, changes }: Observed['status']): Condition[] {
  return feeds.flatMap(({ source, feed }): Condition[] => {
    const gone = changes.filter((change) => change.isMissed && change.source === source && change.feed === feed);
    if (gone.length === 0) return [];
    const paths = gone.map(({ subject }) => subject).toSorted();
    return [
      {
        kind: 'field-gone',
        subject: `feed ${source}/${feed}`,
        group: '',
        summary: `Records of ${source}/${feed} no longer have what a flow needs: ${short(paths.join(', '))}`,
        action: 'See bridge status. Ask the source’s operator, or correct the mapping.',
      },
    ];
  });
}

function refusedOf({ source, count, first }: RefusalsInARow): Condition {
  return {
    kind: 'signatures-refused',
    subject: `source ${source}`,
    group: '',
    summary: `${count} notifications of ${source} were refused since ${toMinute(first)}, and none was accepted`,
    action: `The key differs on the two sides: bridge webhooks rotate --source ${source}. The feeds are read on schedule.`,
  };
}

function certificateConditions(
  pem: string | undefined,
  { certificate_days: days }: Limits,
  nowMs: number,
): Condition[] {
  const base = { kind: 'certificate', subject: 'certificate', group: '' } as const;
  const action = 'Renew it (bridge.tls) and restart the receivers; one of the local authority is renewed by a restart.';
  const ends = pem === undefined ? undefined : endOf(pem);
  if (ends === undefined)
    return [
      { ...base, summary: 'The certificate of the webhook endpoint cannot be read (bridge.tls.cert_file)', action },
    ];
  if (ends.getTime() - nowMs >= days * dayMs) return [];
  const verb = ends.getTime() < nowMs ? 'ended' : 'ends';
  return [
    { ...base, summary: `The certificate of the webhook endpoint ${verb} at ${toMinute(ends.toISOString())}`, action },
  ];
}

function endOf(pem: string): Date | undefined {
  try {
    return new X509Certificate(pem).validToDate;
  } catch {
    return undefined;
  }
}

/** `2030-01-01 00:00 UTC`: the text of an alert that lasts should not change with each look. */
function toMinute(timestamp: string | null): string {
  return timestamp === null ? 'its beginning' : `${timestamp.slice(0, 16).replace('T', ' ')} UTC`;
}

/** Foreign words in one line, without characters that could control a terminal or a message. */
function short(text: string | null): string {
  const line = (text ?? 'no reason known').replaceAll(/[\p{Cc}\p{Cf}\s]+/gu, ' ').trim();
  return line.length > textMax ? `${line.slice(0, textMax).toWellFormed()}…` : line;
}
