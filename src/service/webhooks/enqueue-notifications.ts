/**
 * The outbox: notifications written in the transaction of what they announce. A notification of a feed replaces the one
 * of the same webhook and trigger that still waits: an outage of a day ends with one POST for each trigger.
 */
import { randomUUID } from 'node:crypto';
import type { Timestamp } from '#contract/timestamp.ts';
import type { Trigger } from '#contract/webhook.ts';
import type { UnitOfWork } from '../unit-of-work.ts';

export interface Notification {
  organisationId: string;
  trigger: Trigger;
  /** Whether a newer one may take its place while it waits. */
  coalesces: boolean;
  now: Timestamp;
  payload: Readonly<Record<string, unknown>>;
  /** To this webhook only, whatever it subscribes to (TEST). */
  webhookId?: string;
}

export async function enqueueNotifications(unit: UnitOfWork, notification: Notification): Promise<void> {
  const { organisationId, trigger, coalesces, now, payload } = notification;
  // Webhook rows before delivery rows, as the deliverer locks them: neither waits for the other for ever.
  const webhooks = await unit.tx.query<{ id: string; is_active: boolean }>(
    `select id, is_active from service.webhooks
     where organisation_id = $1 and ($3::uuid = id or ($3 is null and $2 = any(triggers)))
     order by id for key share`,
    [organisationId, trigger, notification.webhookId ?? null],
  );
  if (webhooks.length === 0) return;
  await unit.tx.query(
    `insert into service.deliveries (id, organisation_id, webhook_id, trigger, coalesces, payload, created, state, due)
     select id, $1, webhook_id, $2, $3, $4, $5, 'pending', $5
     from unnest($6::uuid[], $7::uuid[]) as delivery (id, webhook_id)
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
    ],
  );
  for (const webhook of webhooks) if (webhook.is_active) unit.wake('deliveries', webhook.id);
}
