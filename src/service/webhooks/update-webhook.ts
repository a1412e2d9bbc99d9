import { updateWebhookRequest, webhook } from '#contract/webhook.ts';
import { type Clock, timestampNow } from '#platform/clock.ts';
import { endpoint, type NoQuery } from '#platform/http/endpoint.ts';
import type { SecretBox } from '#platform/secrets.ts';
import type { Caller } from '../caller.ts';
import type { AccessTokens } from './access-tokens.ts';
import { resumeWebhook } from './delivery-store.ts';
import { networkRulesOf, type ObtainedToken, obtainToken } from './obtain-token.ts';
import { authenticationContext, findWebhook, renderWebhook } from './webhook-row.ts';

interface Deps {
  clock: Clock;
  secrets: SecretBox;
  accessTokens: AccessTokens;
}

/**
 * PATCH /api/webhooks/{uuid}: changes the name, the triggers or the whole authentication, and resumes a disabled webhook.
 * What waits to be delivered stays, also notifications of a trigger that is left out now. New OAuth parameters are taken
 * only when the token server returns a token; they are used from the next claim of deliveries on.
 */
export function updateWebhook({ clock, secrets, accessTokens }: Deps) {
  return endpoint<Caller, typeof updateWebhookRequest, NoQuery, ObtainedToken | undefined>({
    method: 'PATCH',
    path: '/api/webhooks/:uuid',
    scope: 'webhooks',
    limit: 'webhooks',
    summary: 'Change or resume a webhook',
    answers: { 200: webhook },
    body: updateWebhookRequest,
    prepare: async ({ body, params, caller: { unit, organisationId } }) => {
      await findWebhook(unit.tx, organisationId, params['uuid']);
      if (!body.authentication) return undefined;
      const { networks } = await networkRulesOf(unit.tx, organisationId);
      return obtainToken(accessTokens, body.authentication, { organisationId, networks });
    },
    handle: async ({ body, params, caller: { unit, organisationId } }, obtained) => {
      const { id } = await findWebhook(unit.tx, organisationId, params['uuid'], 'lock');
      const sealed = obtained && secrets.seal(JSON.stringify(obtained.used), authenticationContext(id));
      await unit.tx.query(
        `update service.webhooks set name = coalesce($3, name), triggers = coalesce($4, triggers),
           authentication = case when $5 then $6 else authentication end
         where id = $1 and organisation_id = $2`,
        [
          id,
          organisationId,
          body.name ?? null,
          body.triggers ?? null,
          body.authentication !== undefined,
          sealed ?? null,
        ],
      );
      if (obtained) accessTokens.keep(id, obtained.used, obtained.grant);
      if (body.is_active && (await resumeWebhook(unit.tx, id, timestampNow(clock)))) unit.wake('deliveries', id);
      return { status: 200, body: renderWebhook(await findWebhook(unit.tx, organisationId, id)) };
    },
  });
}
