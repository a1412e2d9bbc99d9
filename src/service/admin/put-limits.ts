import { effectiveLimit, type LimitsRequest, limits, limitsAnswer, limitsRequest } from '#contract/limits.ts';
import { endpoint } from '#platform/http/endpoint.ts';
import type { Operator } from '../caller.ts';
import { findOrganisation } from './find-organisation.ts';

/**
 * PUT /admin/organisations/{id}/limits: the organisation's rate limits, from the next request on. They replace the
 * limits that were set before. A limit that is left out is the contract's; `{}` restores all of the contract's.
 * Requests that were counted stay counted.
 */
export const putLimits = endpoint<Operator, typeof limitsRequest>({
  method: 'PUT',
  path: '/admin/organisations/:id/limits',
  scope: 'operator',
  summary: "Set an organisation's rate limits",
  answers: { 200: limitsAnswer },
  body: limitsRequest,
  handle: async ({ body, params, caller: { unit } }) => {
    const organisation = await findOrganisation(unit.tx, params['id']);
    await unit.tx.query('update service.organisations set limits = $2 where id = $1', [
      organisation,
      JSON.stringify(body),
    ]);
    return { status: 200, body: render(body) };
  },
});

/** Shows each limit that is in force, or that would be if the limits were enabled. */
function render({ enabled = true, ...own }: LimitsRequest) {
  const names = Object.keys(limits) as (keyof typeof limits)[];
  const effective = names.map((name) => {
    const limit = effectiveLimit(own, name);
    return [name, { burst: limit?.burst.requests, sustained: limit?.sustained.requests }];
  });
  return { enabled, ...Object.fromEntries(effective) };
}
