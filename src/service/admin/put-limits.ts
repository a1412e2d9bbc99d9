import {
  effectiveLimit,
  type LimitName,
  type LimitsRequest,
  limitsAnswer,
  limitsRequest,
  webhooksMaxDefault,
} from '#contract/limits.ts';
import { endpoint } from '#platform/http/endpoint.ts';
import type { Operator } from '../caller.ts';
import type { Profile } from '../profile/profile.ts';
import { findOrganisation } from './find-organisation.ts';

/**
 * PUT /admin/organisations/{id}/limits: the organisation's limits, from the next request on. They replace the limits that
 * were set before. A limit that is left out is the contract's; `{}` restores all of the contract's. `enabled: false`
 * switches off the rate limits only: a `webhooks_max` and a `file_bytes_max` that were set before stay. Requests that were counted stay counted.
 */
export function putLimits({ fileBytesMax, profile }: { fileBytesMax: number; profile: Pick<Profile, 'limits'> }) {
  return endpoint<Operator, typeof limitsRequest>({
    method: 'PUT',
    path: '/admin/organisations/:id/limits',
    scope: 'operator',
    summary: "Set an organisation's limits",
    answers: { 200: limitsAnswer },
    body: limitsRequest,
    handle: async ({ body, params, caller: { unit } }) => {
      const organisation = await findOrganisation(unit.tx, params['id']);
      const [row] = await unit.tx.query<{ limits: LimitsRequest }>(
        `update service.organisations set limits =
           case when $3 then jsonb_strip_nulls(jsonb_build_object(
             'webhooks_max', limits -> 'webhooks_max', 'file_bytes_max', limits -> 'file_bytes_max'))
           else '{}' end || $2::jsonb
         where id = $1 returning limits`,
        [organisation, JSON.stringify(body), body.enabled === false],
      );
      return { status: 200, body: render(profile.limits, { file_bytes_max: fileBytesMax, ...(row?.limits ?? body) }) };
    },
  });
}

/** Shows each limit that is in force, or that would be if the rate limits were enabled. */
function render(
  limits: Profile['limits'],
  { enabled = true, webhooks_max = webhooksMaxDefault, file_bytes_max, ...own }: LimitsRequest,
) {
  const names = Object.keys(limits) as LimitName[];
  const effective = names.map((name) => {
    const limit = effectiveLimit(own, name, limits);
    return [name, { burst: limit?.burst.requests, sustained: limit?.sustained.requests }];
  });
  return { enabled, ...Object.fromEntries(effective), webhooks_max, file_bytes_max };
}
