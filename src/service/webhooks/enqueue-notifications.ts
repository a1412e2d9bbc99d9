/**
 * The outbox: a notification is written in the transaction of the change that it announces. A notification of a feed
 * replaces the pending one of the same webhook and trigger, so an outage of a day ends with one POST for each trigger.
 */
import { randomUUID } from 'node:crypto';
import { laterOf, type Timestamp } from '#contract/timestamp.ts';
import type { Trigger } from '#contract/webhook.ts';
import type { Sql } from '#platform/database/sql.ts';
import type { UnitOfWork } from '../unit-of-work.ts';

export interface Notification {
  organisationId: string;
  trigger: Trigger;
  /** Whether a newer notification of the same trigger replaces this one while it is pending. */
  coalesces: boolean;
  now: Timestamp;
  payload: Readonly<Record<string, unknown>>;
  /** Set for TEST: the notification goes to this webhook only, whatever it subscribes to. */
  webhookId?: string;
}

/**
 * Writes a notification for each webhook that subscribes to the trigger, in the unit's transaction, and wakes the
 * deliverer after its commit.
 */
export async function enqueueNotifications(unit: UnitOfWork, notification: Notification): Promise<void> {
  const { organisationId, trigger, coalesces, now, payload } = notification;
  // Webhook rows are locked before delivery rows, in the deliverer's order: the two cannot deadlock.
  const webhooks = await unit.tx.query<{ id: string; is_active: boolean }>(
    `select id, is_active from service.webhooks
     where organisation_id = $1 and ($3::uuid = id or ($3 is null and $2 = any(triggers)))
     order by id for key share`,
    [organisationId, trigger, notification.webhookId ?? null],
  );
  if (webhooks.length === 0) return;
  const replaced = await replacePending(unit.tx, webhooks, trigger, now);
  await unit.tx.query(
    `insert into service.deliveries
       (id, organisation_id, webhook_id, trigger, coalesces, payload, created, state, due, earlier_failures)
     select id, $1, webhook_id, $2, $3, $4, $5, 'pending', due, earlier_failures
     from unnest($6::uuid[], $7::uuid[], $8::timestamptz[], $9::int[])
       as delivery (id, webhook_id, due, earlier_failures)
     on conflict (webhook_id, trigger) where state = 'pending' and coalesces
       do update set payload = excluded.payload, created = excluded.created`,
    [
      organisationId,
      trigger,
      coalesces,
      JSON.stringify(payload),
      now,
      webhooks.map(() => randomUUID()),
      webhooks.map(({ id }) => id),
      webhooks.map(({ id }) => laterOf(now, replaced.get(id)?.due)),
      webhooks.map(({ id }) => replaced.get(id)?.failures ?? 0),
    ],
  );
  for (const webhook of webhooks) if (webhook.is_active) unit.wake('deliveries', webhook.id);
}

/**
 * Ends the pending notifications that the new one replaces, and returns for each webhook the due time and the number of
 * failed attempts that the new one takes over. The new one has its own id, because the receiver may have seen the old
 * one's bytes. (A pending notification that was never sent is overwritten by the caller's upsert.) A disabled webhook
 * keeps only the newest notification of each trigger, also of triggers that do not coalesce.
 */
async function replacePending(
  tx: Sql,
  webhooks: readonly { id: string; is_active: boolean }[],
  trigger: Trigger,
  now: Timestamp,
): Promise<Map<string, { due: Timestamp; failures: number }>> {
  const rows = await tx.query<{ webhook_id: string; due: Timestamp; failures: number }>(
    `update service.deliveries set state = 'superseded', finished = $4
     where webhook_id = any($1) and trigger = $2 and state = 'pending'
       and ((coalesces and attempts > 0) or webhook_id = any($3))
     returning webhook_id, due, attempts + earlier_failures as failures`,
    [webhooks.map(({ id }) => id), trigger, webhooks.filter((webhook) => !webhook.is_active).map(({ id }) => id), now],
  );
  return new Map(rows.map((row) => [row.webhook_id, row]));
}
