/**
 * The stage in which the ERP is told what became of its requisitions. What it is to be told follows from what is stored,
 * so no news is lost: it is compared with what the ERP was told last. The intent is committed before the call, the
 * outcome after it, and a repetition is made under the same key, which leaves what one call leaves.
 *
 *     12:00  intent   PR-7: created, event e4.., key K1
 *     12:00  call     the ERP shows it
 *     12:00  told     the outcome is stored
 *     14:00           the mirror shows the event as OPEN: published, key K2
 *
 *     killed between the intent and the outcome   once the call can no longer take effect, it is made again under its key
 *     killed, and there are newer news by then    these are told, after the same wait: so the older never come last
 */
import { eventLink } from '#bridge/settings/event-link.ts';
import { retrySchedules, retryWaitMs } from '#bridge/settings/retry-schedules.ts';
import type { SourceSettings } from '#bridge/settings/settings.ts';
import type { Acknowledgement } from '#connector/acknowledgements.ts';
import type { Outcome } from '#connector/connector.ts';
import { shortened } from '#connector/human-text.ts';
import { timestampFromMs } from '#contract/timestamp.ts';
import { timestampNow } from '#platform/clock.ts';
import type { Sql } from '#platform/database/sql.ts';
import type { IntakeWork } from '../intake-deps.ts';
import { readIntake } from '../intake-store.ts';
import {
  beginTelling,
  type DueNews,
  delayNews,
  type News,
  restNews,
  storeNewsRefused,
  storeNewsTold,
  storeNewsWaiting,
} from './acknowledgement-store.ts';
import { intakeEventText } from './event-texts.ts';

const textMax = 2_000;

/** Tells the ERP all that is due, or until it takes nothing. Rejects with LeaseLost. */
export async function acknowledgeRequisitions(work: IntakeWork): Promise<void> {
  const { intake, teller, lease, clock, signal } = work;
  if (!teller || !intake.acknowledge) {
    await lease.transaction((tx) => restNews(tx, intake.name));
    return;
  }
  for (;;) {
    signal.throwIfAborted();
    // A call that was given up and still runs could come after the next one.
    if (teller.isStuck()) return delayAll(work);
    const due = await lease.transaction(async (tx) => {
      const state = await readIntake(tx, intake);
      if (!state || state.pausedKind !== null) return [];
      const ends = timestampFromMs(clock.nowMs() + teller.timeoutMs + teller.lateEffectMs);
      const { name, source } = intake;
      return beginTelling(tx, { intake: name, source, now: timestampNow(clock), limit: teller.batchMax, ends });
    });
    if (due.length === 0) return;
    const told = due.map((each) => acknowledgementOf(work.source, each));
    const outcomes = await lease.during((lost) => teller.acknowledge(told, AbortSignal.any([signal, lost])));
    await lease.transaction(async (tx) => {
      for (const [index, each] of due.entries()) await settle(tx, work, each, outcomes[index]);
    });
    if (outcomes.every(({ status }) => status === 'retry' || status === 'unknown')) return delayAll(work);
  }
}

async function delayAll({ intake, lease, clock }: IntakeWork): Promise<void> {
  const nowMs = clock.nowMs();
  const [now, next] = [timestampFromMs(nowMs), timestampFromMs(nowMs + retryWaitMs(retrySchedules.acknowledgement, 0))];
  await lease.transaction((tx) => delayNews(tx, intake.name, { now, next }));
}

async function settle(tx: Sql, work: IntakeWork, due: DueNews, outcome: Outcome | undefined): Promise<void> {
  const { intake, teller, clock, log } = work;
  const of = { intake: intake.name, erpKey: due.erpKey };
  const nowMs = clock.nowMs();
  if (outcome && 'reference' in outcome) {
    await storeNewsTold(tx, of, { reference: outcome.reference, now: timestampFromMs(nowMs) });
    return;
  }
  const why = outcome === undefined ? 'no outcome' : 'error' in outcome ? outcome.error.message : outcome.message;
  log.warn({ ...of, why }, 'the ERP was not told what became of a requisition');
  const askedMs =
    outcome && 'error' in outcome && outcome.error.type === 'rate-limited' ? outcome.error.retryAfterMs : 0;
  const lateMs = outcome?.status === 'unknown' ? (teller?.lateEffectMs ?? 0) : 0;
  const floorMs = Math.max(askedMs ?? 0, lateMs);
  const next = timestampFromMs(nowMs + retryWaitMs(retrySchedules.acknowledgement, due.failures, { floorMs }));
  if (outcome?.status === 'rejected') await storeNewsRefused(tx, of, { why, now: timestampFromMs(nowMs), next });
  else await storeNewsWaiting(tx, of, { why, next });
}

/** What the connector is given of the news. */
function acknowledgementOf(source: SourceSettings, { erpKey, id, news }: DueNews): Acknowledgement {
  const { status, make = '', entity, name, reference, reason } = news;
  const base = { requisition: erpKey, status, idempotencyKey: id, text: shortened(newsText(source, news), textMax) };
  if (entity === undefined) return reason == null ? base : { ...base, reason };
  const url = entity === null ? undefined : eventLink(source, entity);
  const kind = make === 'request' ? 'request' : 'event';
  const event = {
    kind,
    id: entity,
    name: name ?? '',
    reference: reference ?? '',
    ...(url === undefined ? {} : { url }),
  };
  return { ...base, event } as Acknowledgement;
}

/** `The event "Steel" (e4.., https://..) is published`, on one line. */
export function newsText(source: Pick<SourceSettings, 'event_url'>, news: News): string {
  const { status, entity, name = null, make = '', reason } = news;
  const text =
    entity === undefined
      ? `Nothing was made of it at the sourcing service: ${reason ?? ''}`
      : `At the sourcing service, ${intakeEventText(source, { name, entity, make })} ${endings[status]}`;
  return text.replaceAll(/\s+/gu, ' ').trim();
}

const endings: Readonly<Record<News['status'], string>> = {
  created: 'was made of it',
  published: 'is published',
  closed: 'is closed',
  awarded: 'is awarded',
  deleted: 'was deleted',
  removed: 'has no lot of it any more',
  failed: 'was not made',
};
