/**
 * Sends a notification again now, with the same bytes and the same `webhook-id`. Its attempts are numbered on, and its
 * retry schedule starts anew. A notification that waits for a retry is sent at once; one that is being sent is left alone.
 * A disabled webhook becomes active again, and the notifications that it has kept are sent, too.
 */
import { uuid } from '#contract/scalars.ts';
import type { Timestamp } from '#contract/timestamp.ts';
import type { Sql } from '#platform/database/sql.ts';
import { AppError } from '#platform/errors.ts';
import type { UnitOfWork } from '../unit-of-work.ts';
import { resumeWebhook } from './delivery-store.ts';

interface LockedDelivery {
  id: string;
  webhook_id: string;
  state: string;
}

/** The webhook that a delivery must be of: an organisation names its own only. */
interface Owner {
  organisationId: string;
  webhookId: string;
}

/** Throws `not-found` for an unknown delivery, and for one that is not of `owner`. */
export async function resend(unit: UnitOfWork, now: Timestamp, id: string | undefined, owner?: Owner) {
  const delivery = await lockDelivery(unit.tx, id, owner);
  const state = delivery.state === 'sending' ? 'sending' : await makeDue(unit.tx, delivery.id, now);
  await resumeWebhook(unit.tx, delivery.webhook_id, now);
  // Who asks for it wants it now, whatever the receiver has said.
  await unit.tx.query('update service.webhooks set held_until = null where id = $1', [delivery.webhook_id]);
  unit.wake('deliveries', delivery.webhook_id);
  return { id: delivery.id, webhook: delivery.webhook_id, state };
}

/**
 * Locks the delivery, and its webhook's row before it: every transaction that changes deliveries locks in this order,
 * so they cannot deadlock. Throws `not-found`.
 */
async function lockDelivery(tx: Sql, id: string | undefined, owner: Owner | undefined): Promise<LockedDelivery> {
  const parsed = uuid.safeParse(id);
  const [locked] = parsed.success
    ? await tx.query<{ id: string }>(
        `select w.id from service.webhooks w
         where id = (select webhook_id from service.deliveries where id = $1)
           and ($2::uuid is null or (organisation_id = $2 and id = $3)) for update`,
        [parsed.data, owner?.organisationId ?? null, owner?.webhookId ?? null],
      )
    : [];
  // A second statement: it sees what the transaction that held the lock before has committed.
  const [delivery] = locked
    ? await tx.query<LockedDelivery>('select id, webhook_id, state from service.deliveries where id = $1 for update', [
        parsed.data,
      ])
    : [];
  if (!delivery) throw new AppError('not-found', 'There is no such delivery. Deliveries are kept for a limited time.');
  return delivery;
}

/**
 * A finished notification no longer coalesces: a newer one does not replace it before it is sent, and it does not
 * collide with the pending one of its trigger. Its failures are counted from here on: `-attempts` cancels the earlier
 * attempts.
 */
async function makeDue(tx: Sql, id: string, now: Timestamp): Promise<'pending'> {
  await tx.query(
    `update service.deliveries set state = 'pending', due = $2, finished = null,
       coalesces = coalesces and state = 'pending',
       first_attempt = case when state = 'pending' then first_attempt end,
       earlier_failures = case when state = 'pending' then earlier_failures else -attempts end
     where id = $1`,
    [id, now],
  );
  return 'pending';
}
