import { resentDelivery } from '#contract/admin.ts';
import { uuid } from '#contract/scalars.ts';
import type { Timestamp } from '#contract/timestamp.ts';
import { type Clock, timestampNow } from '#platform/clock.ts';
import type { Sql } from '#platform/database/database.ts';
import { AppError } from '#platform/errors.ts';
import { endpoint } from '#platform/http/endpoint.ts';
import type { Operator } from '../caller.ts';

interface Found {
  id: string;
  webhook_id: string;
  state: string;
}

/**
 * POST: the notification is sent again now: the same bytes under the same `webhook-id`, its attempts numbered on and its
 * schedule begun anew. One that waits for its next try goes at once, one that is being sent is left alone. A disabled
 * webhook is active again from here on: it is how an operator sets one right, and what it has kept goes out with it.
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

/** The webhook's row first, as everybody does who changes its deliveries: so nobody waits for the other for ever. */
async function lockDelivery(tx: Sql, id: string | undefined): Promise<Found> {
  const parsed = uuid.safeParse(id);
  const [locked] = parsed.success
    ? await tx.query<{ id: string }>(
        `select w.id from service.webhooks w
         where id = (select webhook_id from service.deliveries where id = $1) for update`,
        [parsed.data],
      )
    : [];
  // A statement of its own: it sees what the holder of the lock has done.
  const [delivery] = locked
    ? await tx.query<Found>('select id, webhook_id, state from service.deliveries where id = $1 for update', [
        parsed.data,
      ])
    : [];
  if (!delivery) throw new AppError('not-found', 'There is no such delivery. Deliveries are kept for a limited time.');
  return delivery;
}

/**
 * One that has ended takes its own turn and nobody else's: it does not coalesce any more, so that neither is it replaced
 * by a newer one before it goes, nor does it stand in the way of one that waits. Its failures are counted from here.
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
