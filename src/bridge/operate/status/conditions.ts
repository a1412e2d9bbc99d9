/**
 * The conditions: what needs a person now. This is the one list that `status`, `doctor`, `/metrics`, the console and the
 * alerts read. Pure.
 */
import { X509Certificate } from 'node:crypto';
import { agreementText } from '#bridge/ledger/flows/agreements.ts';
import type { RefusedConfiguration } from '#bridge/ledger/leases/liveness.ts';
import { type FeedStatus } from '#bridge/mirror/feed-statuses.ts';
import type { UnreadJobs } from '#bridge/mirror/jobs-to-read.ts';
import { msFromTimestamp, type Timestamp, timestampFromMs } from '#contract/timestamp.ts';
import type { ServerCertificate } from '#platform/http/server-certificate.ts';
import { type ComparisonStatus } from '../reconcile/reconcile-status.ts';
import { type SourceFault } from '../webhooks/webhook-looks.ts';
import { countText, type IntakeStatus } from './intake-status.ts';
import { type AuditStatus, type FlowStatus } from './part-statuses.ts';

/** When each is listed, for people; docs/reference/conditions.md is made of it. */
export const conditionMeanings = {
  'feed-behind': 'a feed fails, or is further behind than `behind_minutes`',
  'feed-stalled': 'the watermark of a feed stands still: new records are read, late ones may not be found',
  'feed-unfiltered': 'the read for records without a time fails; it is tried again by itself',
  'audit-failing': 'an audit has failed five times in a row',
  'webhook-off': 'the service has switched the webhook off, or no longer has it',
  'webhook-failing': 'the last three deliveries failed, says the service',
  'jobs-unread':
    'jobs could not be read three times, as the API key may not; or, for a day, the service does not know one',
  'flow-paused': 'an operator, a refused login, a wrong setting or too many withdrawals paused a flow',
  'circuit-open': 'the ERP of a flow fails or refuses everything',
  'documents-stuck': 'documents were tried many times, or the connector gives answers that cannot be used',
  'erp-behind': 'a document has waited for its ERP for longer than `behind_minutes`',
  'dead-letters': 'an ERP refused documents, or a service records of an intake, or a person has to look at them',
  'erp-differs': 'the latest comparison of a flow found differences, or could not read something',
  'comparison-late': 'a scheduled comparison fails, or was missed twice',
  'intake-paused':
    'an operator, a first run, a refused login, too many archivings or an unknown attribute paused an intake',
  'intake-behind':
    'the ERP of an intake cannot be read, its records have waited for longer than `behind_minutes`, or the service has not processed a submission for an hour',
  certificate: 'a certificate ends within two weeks or cannot be read, or a renewed one is not served',
  'alerts-not-sent': 'a receiver did not take a message about conditions',
  'logins-failing': 'ten logins in a row fail for an account of the console, or thirty from an address',
  'configuration-refused':
    'the changed configuration file of a running process cannot be used: the old settings stay in force',
} as const;
export type ConditionKind = keyof typeof conditionMeanings;
export const conditionKinds = Object.keys(conditionMeanings) as ConditionKind[];

/** No two of a list have the same kind and subject. */
export interface Condition {
  readonly kind: ConditionKind;
  /**
   * What it is about: `flow sap`, `intake vendors`, `feed main/awards`, `source main`, `certificate`,
   * `certificate file`, `alerts webhook`, `console logins`,
   * `configuration of bridge-push host 17`.
   */
  readonly subject: string;
  /** Since when; null: not known. */
  readonly since: Timestamp | null;
  /** One sentence for a person, without secrets. */
  readonly summary: string;
  /** What to do about it. */
  readonly action: string;
  /** `warn`: the work goes on all the same. */
  readonly level: 'fail' | 'warn';
}

/** These usually pass by themselves: people are told when they have lasted. */
export const passingKinds: readonly ConditionKind[] = [
  'feed-behind',
  'webhook-failing',
  'erp-behind',
  'intake-behind',
  'alerts-not-sent',
];

/** What is looked at of the certificates of this process: the webhook endpoint's, if it shows one, and the console's. */
export function shownCertificates(
  tls: ServerCertificate | undefined,
  consoleTls: ServerCertificate | undefined,
): ShownCertificates {
  return { certificatePem: tls?.certPem, certificateRefused: tls?.refused ?? consoleTls?.refused };
}

/** What the bridge knows of itself now. */
export interface Observed extends ShownCertificates {
  readonly feeds: readonly FeedStatus[];
  readonly flows: readonly FlowStatus[];
  readonly intakes: readonly IntakeStatus[];
  readonly audits: readonly AuditStatus[];
  readonly comparisons: readonly ComparisonStatus[];
  /** What the services say of their webhooks to this bridge; at most one fault a source. */
  readonly webhookFaults: readonly SourceFault[];
  readonly unreadJobs: readonly UnreadJobs[];
  readonly unsent: readonly UnsentAlerts[];
  /** For whom logins at the console fail again and again. */
  readonly failingLogins: readonly string[];
  readonly refusedConfigurations: readonly RefusedConfiguration[];
}

/** Of the certificates of this process; undefined: it has none, or they are not looked at here. */
export interface ShownCertificates {
  /** PEM of the webhook endpoint's. */
  readonly certificatePem?: string | undefined;
  /** Why a certificate that stands in its file is not served. */
  readonly certificateRefused?: string | undefined;
}

/** A channel whose message was not taken. */
export interface UnsentAlerts {
  readonly channel: string;
  readonly since: Timestamp;
  readonly error: string;
}

/** From so many failures in a row on an audit needs a look: about three minutes. */
const auditFailuresMany = 5;
const certificateDays = 14;
const dayMs = 86_400_000;
const textMax = 300;

/** Returns everything that needs a person at `now`. What is further behind than `behindMinutes` is late. */
export function findConditions(
  found: Observed,
  { now, behindMinutes }: { now: Timestamp; behindMinutes: number },
): Condition[] {
  const nowMs = msFromTimestamp(now);
  const lateBefore = timestampFromMs(nowMs - behindMinutes * 60_000);
  return [
    ...found.feeds.flatMap((feed) => ofFeed(feed, nowMs, behindMinutes)),
    ...found.audits
      .filter(isAuditFailing)
      .map((audit) => (audit.kind === 'untimed' ? ofUntimed(audit) : ofAudit(audit))),
    ...found.webhookFaults.map(ofWebhook),
    ...found.unreadJobs.map(ofUnreadJobs),
    ...found.flows.flatMap((flow) => ofFlow(flow, lateBefore)),
    ...found.comparisons.flatMap(ofComparison),
    ...found.intakes.flatMap((intake) => ofIntake(intake, lateBefore)),
    ...(found.certificatePem === undefined ? [] : ofCertificate(found.certificatePem, nowMs)),
    ...(found.certificateRefused === undefined ? [] : [ofRefusedCertificate(found.certificateRefused)]),
    ...found.unsent.map(ofUnsent),
    ...(found.failingLogins.length === 0 ? [] : [ofFailingLogins(found.failingLogins)]),
    ...found.refusedConfigurations.map(ofRefusedConfiguration),
  ];
}

function ofFeed(feed: FeedStatus, nowMs: number, behindMinutes: number): Condition[] {
  const name = `${feed.source}/${feed.feed}`;
  const subject = `feed ${name}`;
  const conditions: Condition[] = [];
  const { seconds, inStep } = feed.lag;
  // Of a feed in step the lag may reach back to its last record, hours before the one that is new.
  const isLate = !inStep && seconds !== null && seconds > behindMinutes * 60 + feed.pollSeconds;
  if (feed.stalled)
    conditions.push({
      kind: 'feed-stalled',
      subject,
      since: feed.unprovedSince,
      level: 'fail',
      summary: `The feed ${name} is read, but not proved to be complete since ${toMinute(feed.unprovedSince)}: ${short(feed.stalledWhy)}`,
      action:
        'New records are delivered, late ones are not found. `bridge doctor` tests it; tell the source’s operator.',
    });
  else if (feed.failures > 0 || isLate)
    conditions.push({
      kind: 'feed-behind',
      subject,
      since: seconds === null ? null : timestampFromMs(nowMs - Math.round(seconds * 1000)),
      level: 'fail',
      summary: `The feed ${name} is read up to ${toMinute(feed.watermark)}: ${short(feed.lag.why)}`,
      action: '`bridge doctor` tests the source. The puller tries again by itself; nothing is lost.',
    });
  return conditions;
}

/** Whether the audit is not finished and has failed for minutes. */
function isAuditFailing({ kind, finished, cancelled, failures }: AuditStatus): boolean {
  return finished === null && cancelled === null && failures >= (kind === 'untimed' ? 1 : auditFailuresMany);
}

/** The reading of the records without a time, which has failed. */
function ofUntimed({ source, feed, lastError }: AuditStatus): Condition {
  return {
    kind: 'feed-unfiltered',
    subject: `feed ${source}/${feed}`,
    since: null,
    level: 'warn',
    summary: `Records of ${source}/${feed} without a time may be missing: ${short(lastError)}`,
    action: 'They are read again by themselves; tell the source’s operator.',
  };
}

function ofAudit({ source, feed, position, to, failures, lastError }: AuditStatus): Condition {
  const read = position === null ? 'has proved nothing yet' : `has read up to ${toMinute(position)}`;
  return {
    kind: 'audit-failing',
    subject: `feed ${source}/${feed}`,
    since: null,
    level: 'fail',
    summary: `The audit of ${source}/${feed} ${read}, not to ${toMinute(to)}; it failed ${failures} times: ${short(lastError)}`,
    action: 'Records that appear late are found only up to there. It goes on by itself; tell the source’s operator.',
  };
}

/** A fault of a source's webhook, by the service's own word. The doctor asks the service itself. */
export function ofWebhook({ source, uuid, url, kind, why, status, since }: SourceFault): Condition {
  const base = { subject: `source ${source}`, since } as const;
  const register = `bridge webhooks register --source ${source}`;
  const meanwhile = 'Until then the feeds are read on schedule; nothing is lost.';
  if (kind === 'failing')
    return {
      ...base,
      kind: 'webhook-failing',
      level: 'fail',
      summary: `The deliveries of ${source}’s webhook to ${url} fail since ${toMinute(since)}: ${short(why)}`,
      action:
        status === 401
          ? `The signing key (or the bearer token) differs on the two sides: bridge webhooks rotate --source ${source}; or set signing_keys to the key of ${uuid}. ${meanwhile}`
          : `Fix what the message names: bridge webhooks test --source ${source} tries it. ${meanwhile}`,
    };
  const what =
    kind === 'gone'
      ? 'is gone from the service: it was deleted there'
      : `is switched off by the service${why === null ? '' : `; its last delivery: ${short(why)}`}`;
  return {
    ...base,
    kind: 'webhook-off',
    level: 'fail',
    summary: `The webhook ${uuid} of ${source} to ${url} ${what}`,
    action: `${kind === 'gone' ? 'Register it again' : 'Make the endpoint reachable, then'}: ${register}. ${meanwhile}`,
  };
}

function ofUnreadJobs({ source, jobs, unknown, since, why }: UnreadJobs): Condition {
  const isPassed = unknown === jobs;
  return {
    kind: 'jobs-unread',
    subject: `source ${source}`,
    since,
    level: isPassed ? 'warn' : 'fail',
    summary: `${countText(jobs, 'job')} of ${source} could not be read, so no document says what became of ${jobs === 1 ? 'it' : 'them'}; the latest: ${short(why)}`,
    action: isPassed
      ? 'Look at the service what became of it; this is shown for a day.'
      : 'Fix what the message names; `bridge doctor` tests the source. They are read again by themselves.',
  };
}

function ofFlow(flow: FlowStatus, lateBefore: Timestamp): Condition[] {
  const { flow: name, oldestWaiting, deadLetters } = flow;
  const base = { subject: `flow ${name}`, level: 'fail' } as const;
  const conditions: Condition[] = [];
  if (flow.pausedReason !== null)
    conditions.push({
      ...base,
      kind: 'flow-paused',
      since: flow.pausedAt,
      summary: `Flow ${name} is paused; ${flow.due} documents wait: ${short(flow.pausedReason)}`,
      action: `Fix the cause, then: bridge resume ${name}${agreementText(flow.pausedKind)}`,
    });
  else if (flow.circuitUntil !== null)
    conditions.push({
      ...base,
      kind: 'circuit-open',
      since: oldestWaiting,
      summary: `Flow ${name}: the ERP fails or refuses everything: ${short(flow.lastError ?? flow.lag.why)}`,
      action: 'Fix what the message names. One document is tried from time to time; the others follow by themselves.',
    });
  else if (flow.stuck > 0)
    conditions.push({
      ...base,
      kind: 'documents-stuck',
      since: oldestWaiting,
      summary: `Flow ${name}: ${flow.stuck} documents were tried many times: ${short(flow.lastError ?? flow.lag.why)}`,
      action:
        'Fix what the message names, in the ERP or by the connector’s README. They are tried again by themselves.',
    });
  else if (oldestWaiting !== null && oldestWaiting < lateBefore)
    conditions.push({
      ...base,
      kind: 'erp-behind',
      since: oldestWaiting,
      summary: `Flow ${name}: documents have waited for the ERP since ${toMinute(oldestWaiting)}: ${short(flow.lag.why)}`,
      action: 'See which: bridge status, bridge find. They are tried again by themselves; fix what the message names.',
    });
  if (deadLetters > 0)
    conditions.push({
      ...base,
      kind: 'dead-letters',
      since: flow.deadSince,
      summary: `Flow ${name}: ${countText(deadLetters, 'document')} refused, the latest: ${short(flow.deadWhy)}`,
      action: replayText(name),
    });
  return conditions;
}

function replayText(name: string): string {
  return `See why: bridge dead-letters --flow ${name}. When the cause is fixed: bridge replay --flow ${name} --dead`;
}

function ofComparison(comparison: ComparisonStatus): Condition[] {
  const { flow, differing, documents, run, overdue, lastError, ended, open, everyHours } = comparison;
  const subject = `flow ${flow}`;
  const conditions: Condition[] = [];
  if (differing > 0)
    conditions.push({
      kind: 'erp-differs',
      subject,
      since: ended,
      level: 'warn',
      summary: `Flow ${flow}: ${differing} differences in the comparison of ${documents} documents with the ERP (comparison ${run})`,
      action: `See them: bridge reconcile ${flow}. Then: bridge reconcile ${flow} --repair, or accept what people have changed.`,
    });
  if (overdue)
    conditions.push({
      kind: 'comparison-late',
      subject,
      since: ended ?? open,
      level: 'fail',
      summary: `Flow ${flow}: its comparison with the ERP, every ${everyHours} h, has not ended since ${toMinute(ended)}: ${short(lastError ?? 'it takes longer, or no process runs it')}`,
      action:
        '`bridge doctor` tests the ERP; a process with the role push must run. It goes on by itself where it was.',
    });
  return conditions;
}

function ofIntake(intake: IntakeStatus, lateBefore: Timestamp): Condition[] {
  const { intake: name, stream, backlog, deadLetters } = intake;
  const base = { subject: `intake ${name}`, level: 'fail' } as const;
  const conditions: Condition[] = [];
  if (intake.pausedReason !== null) {
    const waiting = `${countText(backlog.suppliers, stream)} ${backlog.suppliers === 1 ? 'waits' : 'wait'}`;
    conditions.push({
      ...base,
      kind: 'intake-paused',
      since: intake.pausedAt,
      summary: `Intake ${name} is paused; ${waiting}: ${short(intake.pausedReason)}`,
      action: `Look at it: bridge plan ${name}. Then: bridge resume ${name}${agreementText(intake.pausedKind)}`,
    });
  } else if (intake.readFailures > 0 || intake.stuck || isBefore(intake.oldestWaiting, lateBefore))
    conditions.push({
      ...base,
      kind: 'intake-behind',
      since: intake.readFailures > 0 ? intake.lastRead : (intake.oldestSubmission ?? intake.oldestWaiting),
      summary: `Intake ${name} is behind: ${short(intake.lag.why)}`,
      action: `See bridge status and bridge doctor. It tries again by itself; nothing is lost.`,
    });
  if (deadLetters > 0)
    conditions.push({
      ...base,
      kind: 'dead-letters',
      since: intake.deadSince,
      // A person is also told of requisitions that were changed or withdrawn too late.
      summary: `Intake ${name}: ${countText(deadLetters, stream)} ${stream === 'supplier' ? 'refused' : 'to be looked at'}, the latest: ${short(intake.deadWhy)}`,
      action: replayText(name),
    });
  return conditions;
}

function ofCertificate(pem: string, nowMs: number): Condition[] {
  const base = { kind: 'certificate', subject: 'certificate', since: null } as const;
  const action =
    'Renew it (bridge.tls): it is served without a restart. One of the local authority is renewed by a restart.';
  const endMs = endOf(pem)?.getTime();
  if (endMs === undefined) {
    const summary = 'The certificate of the webhook endpoint cannot be read (bridge.tls.cert_file)';
    return [{ ...base, level: 'fail', summary, action }];
  }
  if (endMs - nowMs >= certificateDays * dayMs) return [];
  const verb = endMs < nowMs ? 'ended' : 'ends';
  const summary = `The certificate of the webhook endpoint ${verb} at ${toMinute(timestampFromMs(endMs))}`;
  return [{ ...base, level: endMs < nowMs ? 'fail' : 'warn', summary, action }];
}

function ofRefusedCertificate(why: string): Condition {
  return {
    kind: 'certificate',
    subject: 'certificate file',
    since: null,
    level: 'fail',
    summary: `A renewed certificate is not served, the one before it is: ${short(why)}`,
    action: 'Put a certificate and its key into these files: they are served within 20 seconds, without a restart.',
  };
}

function endOf(pem: string): Date | undefined {
  try {
    return new X509Certificate(pem).validToDate;
  } catch {
    return undefined;
  }
}

function ofUnsent({ channel, since, error }: UnsentAlerts): Condition {
  return {
    kind: 'alerts-not-sent',
    subject: `alerts ${channel}`,
    since,
    level: 'fail',
    summary: `Alerts do not arrive by ${channel}: ${short(error)}`,
    action: 'Correct bridge.alerts or the receiver, then: bridge alerts test. The message is tried for a day.',
  };
}

function ofFailingLogins(subjects: readonly string[]): Condition {
  return {
    kind: 'logins-failing',
    subject: 'console logins',
    since: null,
    level: 'warn',
    summary: `Logins at the console fail again and again: ${short([...new Set(subjects)].join(', '))}`,
    action: 'See who it is: audit-log --what console.login --outcome refused. Each further try waits longer.',
  };
}

function ofRefusedConfiguration({ process, why }: RefusedConfiguration): Condition {
  return {
    kind: 'configuration-refused',
    subject: `configuration of ${process}`,
    since: null,
    level: 'fail',
    summary: `The changed configuration is not in force, the one before it is: ${short(why)}`,
    action: 'Correct the file: it is read again by itself, and at once at SIGHUP.',
  };
}

function isBefore(time: Timestamp | null, bound: Timestamp): boolean {
  return time !== null && time < bound;
}

/** `2030-01-01 00:00 UTC`: the text of a condition that lasts should not change with each look. */
function toMinute(timestamp: string | null): string {
  return timestamp === null ? 'its beginning' : `${timestamp.slice(0, 16).replace('T', ' ')} UTC`;
}

/** Foreign words in one line, without characters that could control a terminal or a message. */
function short(text: string | null): string {
  const line = (text ?? 'no reason known').replaceAll(/[\p{Cc}\p{Cf}\s]+/gu, ' ').trim();
  return line.length > textMax ? `${line.slice(0, textMax).toWellFormed()}…` : line;
}
