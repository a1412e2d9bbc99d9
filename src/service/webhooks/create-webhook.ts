import { randomBytes, randomUUID } from 'node:crypto';
import { createWebhookRequest } from '#contract/webhook.ts';
import { type Clock, timestampNow } from '#platform/clock.ts';
import { AppError } from '#platform/errors.ts';
import { endpoint } from '#platform/http/endpoint.ts';
import { domainAllowed } from '#platform/network-guard.ts';
import type { SecretBox } from '#platform/secrets.ts';
import type { Caller } from '../caller.ts';
import { renderWebhook, signingKeyContext } from './webhook-row.ts';

/** POST /api/webhooks: the signing key is in this answer and in no other. */
export function createWebhook({ clock, secrets }: { clock: Clock; secrets: SecretBox }) {
  return endpoint<Caller, typeof createWebhookRequest>({
    method: 'POST',
    path: '/api/webhooks',
    scope: 'webhooks',
    body: createWebhookRequest,
    handle: async ({ body, caller: { unit, organisationId } }) => {
      const [organisation] = await unit.tx.query<{ webhook_domains: string[] }>(
        'select webhook_domains from service.organisations where id = $1',
        [organisationId],
      );
      const host = new URL(body.url).hostname;
      if (!domainAllowed(host, organisation?.webhook_domains ?? [])) {
        const issue = {
          path: 'url',
          message: `names the host "${host}", which is not whitelisted: ask the operator to add it to the webhook domains`,
        };
        throw new AppError('invalid', `The body is not valid: ${issue.path} ${issue.message}.`, { issues: [issue] });
      }
      const id = randomUUID();
      const signingKey = randomBytes(32).toString('base64url');
      const row = { id, ...body, is_active: true };
      await unit.tx.query(
        `insert into service.webhooks
           (id, organisation_id, name, description, url, triggers, signing_alg, signing_key, created)
         values ($1, $2, $3, $4, $5, $6, $7, $8, $9)`,
        [
          id,
          organisationId,
          body.name,
          body.description,
          body.url,
          body.triggers,
          body.signing_alg,
          secrets.seal(signingKey, signingKeyContext(id)),
          timestampNow(clock),
        ],
      );
      return {
        status: 201,
        headers: { Location: `/api/webhooks/${id}` },
        body: { ...renderWebhook(row), signing_key: signingKey },
      };
    },
  });
}
