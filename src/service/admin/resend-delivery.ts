import { resentDelivery } from '#contract/admin.ts';
import { type Clock, timestampNow } from '#platform/clock.ts';
import { endpoint } from '#platform/http/endpoint.ts';
import type { Operator } from '../caller.ts';
import { resend } from '../webhooks/resend.ts';

/** POST /admin/deliveries/{id}/resend: sends the notification again, as `resend` says. */
export function resendDelivery({ clock }: { clock: Clock }) {
  return endpoint<Operator>({
    method: 'POST',
    path: '/admin/deliveries/:id/resend',
    scope: 'operator',
    summary: 'Send a notification again',
    answers: { 202: resentDelivery },
    handle: async ({ params, caller: { unit } }) => ({
      status: 202,
      body: await resend(unit, timestampNow(clock), params['id']),
    }),
  });
}
