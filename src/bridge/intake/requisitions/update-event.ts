/**
 * What happens to an event whose requisitions have changed since it was made. While it is a draft, it is updated; once
 * it is published, only a person is told: bids may have been made.
 */

import { timestampFromMs } from '#contract/timestamp.ts';
import { timestampNow } from '#platform/clock.ts';
import type { Sql } from '#platform/database/sql.ts';
import { storableText } from '#platform/database/storable-text.ts';
import { askedToWaitMs, errorText } from '#platform/errors.ts';
import type { IntakeDeps, IntakeWork } from '../intake-deps.ts';
import { holdSending } from '../intake-store.ts';
import { wishOfBody, withdrawnHash } from './compare-requisitions.ts';
import { eventContent, updateBody } from './event-payload.ts';
import {
  type IntakeEvent,
  type Member,
  readChangedEvent,
  readIntakeEvent,
  readMembers,
  storeTold,
} from './event-store.ts';
import { intakeEventText } from './event-texts.ts';
import { commitIntent, maySendJobs, type Pending } from './job-intent.ts';
import { readEventStatus } from './read-events.ts';
import type { Wish } from './requisition-need.ts';

const againMs = 60_000;

/** Returns the next update, its intent written; `again` when something else was done; undefined for nothing. */
export async function nextUpdate(work: IntakeWork): Promise<Pending | 'again' | undefined> {
  const { intake, lease, clock, signal } = work;
  const event = await lease.transaction(async (tx) =>
    (await maySendJobs(tx, work)) ? readChangedEvent(tx, intake.name, timestampNow(clock)) : undefined,
  );
  if (!event) return undefined;
  let status: string | undefined;
  if (event.make !== 'request') {
    try {
      // Asked for now: what the mirror holds may be older than the publication.
      status = await lease.during((lost) => readEventStatus(work, event, AbortSignal.any([signal, lost])));
    } catch (error) {
      signal.throwIfAborted();
      const until = timestampFromMs(clock.nowMs() + Math.max(5_000, askedToWaitMs(error)));
      await lease.transaction((tx) => holdSending(tx, intake.name, { until, error: errorText(error), failed: true }));
      return undefined;
    }
    if (status === undefined) {
      // A feed may lag: it has shown the event, or will.
      const due = timestampFromMs(clock.nowMs() + againMs);
      await lease.transaction((tx) =>
        tx.query('update bridge.intake_events set update_due = $2 where id = $1', [event.id, due]),
      );
      return 'again';
    }
  }
  return lease.transaction((tx) => decide(tx, work, event.id, status));
}

interface Changed {
  readonly member: Member;
  readonly wish: Wish;
  readonly hash: Buffer;
}

async function decide(tx: Sql, work: IntakeWork, id: string, status: string | undefined): Promise<Pending | 'again'> {
  const { intake, wishOf } = work;
  const event = await readIntakeEvent(tx, id);
  await tx.query('update bridge.intake_events set update_due = null where id = $1', [id]);
  if (!event) return 'again';
  const members = (await readMembers(tx, id)).map((member): Changed => {
    const wish = wishOfBody(wishOf, member.body);
    return { member, wish, hash: wish.is === 'wanted' ? wish.hash : withdrawnHash };
  });
  // One that cannot be read stays in the event as it is: nothing of the event is changed before it is corrected.
  const changed = members.filter(({ member, hash }) => !member.needHash.equals(hash));
  const news = changed.filter(({ member, hash, wish }) => wish.is !== 'refused' && !member.toldHash?.equals(hash));
  const isBlocked = members.some(({ wish }) => wish.is === 'refused');
  if (status !== 'DRAFT' || isBlocked) {
    await tell(tx, work, event, { news, status, isBlocked });
    return 'again';
  }
  if (changed.length === 0) {
    await settleUnchanged(tx, intake.name, members);
    return 'again';
  }
  const kept = members.flatMap(({ member, wish }) => (wish.is === 'wanted' ? [{ ...member, ...wish }] : []));
  const content = eventContent(
    intake,
    kept.map(({ need }) => need),
  );
  const name = content.name === '' ? (event.name ?? '') : content.name;
  const payload = JSON.stringify(updateBody(event.entity ?? '', { ...content, members: { ...content.members, name } }));
  const madeOf = {
    lots: content.lots,
    name,
    members: members.map(({ member: { erpKey }, wish, hash }) => ({
      erpKey,
      hash: wish.is === 'wanted' ? hash.toString('hex') : null,
      ...(wish.is === 'withdrawn' ? { why: wish.why } : {}),
    })),
  };
  return commitIntent(tx, work, { event, kind: 'update', payload, madeOf });
}

async function settleUnchanged(tx: Sql, intake: string, members: readonly Changed[]): Promise<void> {
  await tx.query(
    `update bridge.intake_records set due = null, waiting_since = null, action = null
     where intake = $1 and erp_key = any($2::text[]) and action = 'update'`,
    [intake, members.map(({ member }) => member.erpKey)],
  );
}

/** Ended by itself: that a requisition is done then is what it was raised for. */
const endedStatuses: ReadonlySet<string> = new Set(['CLOSED', 'DELETED']);

/** Makes dead letters of the changes that a person has to judge. */
async function tell(
  tx: Sql,
  work: IntakeWork,
  event: IntakeEvent,
  { news, status, isBlocked }: { news: readonly Changed[]; status: string | undefined; isBlocked: boolean },
): Promise<void> {
  const { intake, clock } = work;
  const what = intakeEventText(work.source, event);
  const told = [];
  for (const { member, wish, hash } of news) {
    const isDone = wish.is === 'withdrawn' && (endedStatuses.has(status ?? '') || (await isAwarded(tx, work, event)));
    const why = wish.is === 'withdrawn' ? `it was withdrawn (${wish.why})` : 'it was changed';
    const because = isBlocked
      ? 'another requisition of its event cannot be read'
      : event.make === 'request'
        ? 'the service does not change requests'
        : `it is ${status}`;
    const text = `${why}, and ${what} was not changed, as ${because}: change it there if it has to be`;
    await tx.query(
      `update bridge.intake_records
       set due = null, waiting_since = null, action = null, dead_since = case when $5 then null else $4::timestamptz end,
         error_type = case when $5 then null else $6 end, last_error = case when $5 then null else $3 end
       where intake = $1 and erp_key = $2 and submission is null and (due is null or action = 'update')`,
      [
        intake.name,
        member.erpKey,
        storableText(text),
        timestampNow(clock),
        isDone,
        wish.is === 'withdrawn' ? 'withdrawn' : 'changed',
      ],
    );
    told.push({ erpKey: member.erpKey, hash, isDone });
  }
  await storeTold(tx, event.id, told);
  const done = told.filter(({ isDone }) => isDone);
  for (const { erpKey, hash } of done)
    await tx.query('update bridge.intake_members set told_hash = $3 where event = $1 and erp_key = $2', [
      event.id,
      erpKey,
      hash,
    ]);
}

/** Whether the mirror holds an award of the event. */
async function isAwarded(tx: Sql, { source }: IntakeDeps, { entity }: IntakeEvent): Promise<boolean> {
  const rows = await tx.query(
    `select from bridge.mirror where source = $1 and feed = 'awards' and sourcing_event = $2 limit 1`,
    [source.name, entity],
  );
  return rows.length > 0;
}
