/**
 * The outbox: a notification is written in the transaction of the change that it announces. A notification of a feed
 * replaces the pending one of the same webhook and trigger, so an outage of a day ends with one POST for each trigger.
 */
import { laterOf, msFromTimestamp, type Timestamp } from '#contract/timestamp.ts';
import type { Trigger } from '#contract/webhook.ts';
import type { Sql } from '#platform/database/sql.ts';
import { timeOrderedId } from '#platform/time-ordered-id.ts';
import type { UnitOfWork } from '../unit-of-work.ts';

export interface Notification {
  trigger: Trigger;
  /** Whether a newer notification of the same trigger replaces this one while it is pending. */
  coalesces: boolean;
  payload: Readonly<Record<string, unknown>>;
}

/** A notification for one webhook. */
interface Addressed {
  readonly webhook: Webhook;
  readonly notification: Notification;
}

interface Webhook {
  readonly id: string;
  readonly is_active: boolean;
  readonly triggers: readonly string[];
}

/**
 * Writes notifications, no two of one trigger, for the webhooks that subscribe to them, in the unit's transaction, and
 * wakes the deliverer after its commit. With `webhookId` they go to this webhook only, whatever it subscribes to.
 */
export async function enqueueNotifications(
  unit: UnitOfWork,
  { organisationId, now, webhookId }: { organisationId: string; now: Timestamp; webhookId?: string },
  notifications: readonly Notification[],
): Promise<void> {
  // Webhook rows are locked before delivery rows, in the deliverer's order: the two cannot deadlock.
  const webhooks = await unit.tx.query<Webhook>(
    `select id, is_active, triggers from service.webhooks
     where organisation_id = $1 and ($3::uuid = id or ($3 is null and $2::text[] && triggers))
     order by id for key share`,
    [organisationId, notifications.map(({ trigger }) => trigger), webhookId ?? null],
  );
  const addressed = webhooks.flatMap((webhook) =>
    notifications
      .filter(({ trigger }) => webhookId !== undefined || webhook.triggers.includes(trigger))
      .map((notification): Addressed => ({ webhook, notification })),
  );
  if (addressed.length === 0) return;
  const replaced = await replacePending(unit.tx, addressed, now);
  const replacedBy = ({ webhook, notification }: Addressed) => replaced.get(`${webhook.id} ${notification.trigger}`);
  await unit.tx.query(
    `insert into service.deliveries
       (id, created, state, webhook_id, trigger, coalesces, payload, due, earlier_failures)
     select id, $1, 'pending', webhook_id, trigger, coalesces, payload, due, earlier_failures
     from unnest($2::uuid[], $3::uuid[], $4::text[], $5::boolean[], $6::jsonb[], $7::timestamptz[], $8::int[])
       as delivery (id, webhook_id, trigger, coalesces, payload, due, earlier_failures)
     on conflict (webhook_id, coalescing_trigger) where coalescing_trigger is not null
       do update set payload = excluded.payload, created = excluded.created`,
    [
      now,
      addressed.map(() => timeOrderedId(msFromTimestamp(now))),
      addressed.map(({ webhook }) => webhook.id),
      addressed.map(({ notification }) => notification.trigger),
      addressed.map(({ notification }) => notification.coalesces),
      addressed.map(({ notification }) => JSON.stringify(notification.payload)),
      addressed.map((one) => laterOf(now, replacedBy(one)?.due)),
      addressed.map((one) => replacedBy(one)?.failures ?? 0),
    ],
  );
  for (const { webhook } of addressed) if (webhook.is_active) unit.wake('deliveries', webhook.id);
}

/**
 * Ends the pending notifications that the new ones replace, and returns for each webhook and trigger the due time and the
 * number of failed attempts that the new one takes over. A new one has its own id, because the receiver may have seen the old
 * one's bytes. (A pending notification that was never sent is overwritten by the caller's upsert.) A disabled webhook
 * keeps only the newest notification of each trigger, also of triggers that do not coalesce.
 */
async function replacePending(
  tx: Sql,
  addressed: readonly Addressed[],
  now: Timestamp,
): Promise<Map<string, { due: Timestamp; failures: number }>> {
  const rows = await tx.query<{ webhook_id: string; trigger: string; due: Timestamp; failures: number }>(
    `update service.deliveries old set state = 'superseded', finished = $4
     from unnest($1::uuid[], $2::text[], $3::boolean[]) as new (webhook_id, trigger, is_active)
     where old.webhook_id = new.webhook_id and old.trigger = new.trigger and old.finished is null and old.state = 'pending'
       and ((old.coalesces and old.attempts > 0) or not new.is_active)
     returning old.webhook_id, old.trigger, old.due, old.attempts + old.earlier_failures as failures`,
    [
      addressed.map(({ webhook }) => webhook.id),
      addressed.map(({ notification }) => notification.trigger),
      addressed.map(({ webhook }) => webhook.is_active),
      now,
    ],
  );
  return new Map(rows.map((row) => [`${row.webhook_id} ${row.trigger}`, row]));
}
