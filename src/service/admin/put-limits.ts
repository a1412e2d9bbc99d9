import { effectiveLimit, type LimitsRequest, limits, limitsAnswer, limitsRequest } from '#contract/limits.ts';
import { endpoint } from '#platform/http/endpoint.ts';
import type { Operator } from '../caller.ts';
import { findOrganisation } from './find-organisation.ts';

/**
 * PUT: the organisation's rate limits, from the next request on. It replaces what was set before: what is left out is as
 * the contract says, `{}` brings all of that back. Counts go on.
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

/** Also what would count if the limits were switched on. */
function render({ enabled = true, ...own }: LimitsRequest) {
  const names = Object.keys(limits) as (keyof typeof limits)[];
  const effective = names.map((name) => {
    const limit = effectiveLimit(own, name);
    return [name, { burst: limit?.burst.requests, sustained: limit?.sustained.requests }];
  });
  return { enabled, ...Object.fromEntries(effective) };
}
