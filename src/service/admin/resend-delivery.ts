import { resentDelivery } from '#contract/admin.ts';
import { uuid } from '#contract/scalars.ts';
import type { Timestamp } from '#contract/timestamp.ts';
import { type Clock, timestampNow } from '#platform/clock.ts';
import type { Sql } from '#platform/database/sql.ts';
import { AppError } from '#platform/errors.ts';
import { endpoint } from '#platform/http/endpoint.ts';
import type { Operator } from '../caller.ts';

interface LockedDelivery {
  id: string;
  webhook_id: string;
  state: string;
}

/**
 * POST /admin/deliveries/{id}/resend: sends the notification again now, with the same bytes and the same `webhook-id`.
 * The count of its attempts goes on, and its retry schedule starts again. A notification that waits for a retry is sent
 * at once; one that is being sent is left alone. A disabled webhook becomes active again: this is how an operator
 * enables one, and the notifications that it has kept are sent, too.
 */
export function resendDelivery({ clock }: { clock: Clock }) {
  return endpoint<Operator>({
    method: 'POST',
    path: '/admin/deliveries/:id/resend',
    scope: 'operator',
    summary: 'Send a notification again',
    answers: { 202: resentDelivery },
    handle: async ({ params, caller: { unit } }) => {
      const delivery = await lockDelivery(unit.tx, params['id']);
      const now = timestampNow(clock);
      const state = delivery.state === 'sending' ? 'sending' : await makeDue(unit.tx, delivery.id, now);
      await unit.tx.query(
        'update service.webhooks set is_active = true, failing_since = null where id = $1 and not is_active',
        [delivery.webhook_id],
      );
      unit.wake('deliveries', delivery.webhook_id);
      return { status: 202, body: { id: delivery.id, webhook: delivery.webhook_id, state } };
    },
  });
}

/**
 * Locks the delivery, and its webhook's row before it: every transaction that changes deliveries locks in this order,
 * so they cannot deadlock. Throws `not-found`.
 */
async function lockDelivery(tx: Sql, id: string | undefined): Promise<LockedDelivery> {
  const parsed = uuid.safeParse(id);
  const [locked] = parsed.success
    ? await tx.query<{ id: string }>(
        `select w.id from service.webhooks w
         where id = (select webhook_id from service.deliveries where id = $1) for update`,
        [parsed.data],
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
