import { randomBytes, randomUUID } from 'node:crypto';
import { webhooksMaxDefault } from '#contract/limits.ts';
import { createStandardKey } from '#contract/signature.ts';
import { createdWebhook, createWebhookRequest } from '#contract/webhook.ts';
import { type Clock, timestampNow } from '#platform/clock.ts';
import type { Sql } from '#platform/database/sql.ts';
import { AppError } from '#platform/errors.ts';
import { endpoint, type NoQuery } from '#platform/http/endpoint.ts';
import { domainAllowed } from '#platform/network-guard.ts';
import type { SecretBox } from '#platform/secrets.ts';
import type { Caller } from '../caller.ts';
import type { AccessTokens } from './access-tokens.ts';
import { invalidBody, networkRulesOf, type ObtainedToken, obtainToken } from './obtain-token.ts';
import { authenticationContext, renderWebhook, signingKeyContext, standardKeyContext } from './webhook-row.ts';

interface Deps {
  clock: Clock;
  secrets: SecretBox;
  accessTokens: AccessTokens;
}

/**
 * POST /api/webhooks: creates a webhook. Its keys are in this answer and in no other. With OAuth parameters a
 * token is obtained first, while no transaction is open; when the token server returns none, no webhook is created. Throws
 * `conflict` when the organisation has as many webhooks as it may have.
 */
export function createWebhook({ clock, secrets, accessTokens }: Deps) {
  return endpoint<Caller, typeof createWebhookRequest, NoQuery, ObtainedToken | undefined>({
    method: 'POST',
    path: '/api/webhooks',
    scope: 'webhooks',
    limit: 'webhooks',
    summary: 'Register a webhook',
    answers: { 201: createdWebhook },
    body: createWebhookRequest,
    prepare: async ({ body, caller: { unit, organisationId } }) => {
      const { domains, networks } = await networkRulesOf(unit.tx, organisationId);
      const host = new URL(body.url).hostname;
      if (!domainAllowed(host, domains))
        throw invalidBody({
          path: 'url',
          message: `names the host "${host}", which is not whitelisted: ask the operator to add it to the domains`,
        });
      await refuseBeyondLimit(unit.tx, organisationId);
      return body.authentication && obtainToken(accessTokens, body.authentication, { organisationId, networks });
    },
    handle: async ({ body, caller: { unit, organisationId } }, obtained) => {
      // Creations of one organisation count one after the other. Only they and the operator's settings wait for this lock.
      await unit.tx.query('select from service.organisations where id = $1 for no key update', [organisationId]);
      await refuseBeyondLimit(unit.tx, organisationId);
      const id = randomUUID();
      const signingKey = randomBytes(32).toString('base64url');
      const standardKey = body.standard_webhooks ? createStandardKey() : undefined;
      const { name, description, url, triggers, signing_alg } = body;
      await unit.tx.query(
        `insert into service.webhooks (id, organisation_id, name, description, url, triggers, signing_alg, signing_key,
           authentication, standard_key, created)
         values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)`,
        [
          id,
          organisationId,
          name,
          description,
          url,
          triggers,
          signing_alg,
          secrets.seal(signingKey, signingKeyContext(id)),
          obtained ? secrets.seal(JSON.stringify(obtained.used), authenticationContext(id)) : null,
          standardKey === undefined ? null : secrets.seal(standardKey, standardKeyContext(id)),
          timestampNow(clock),
        ],
      );
      if (obtained) accessTokens.keep(id, obtained.used, obtained.grant);
      const row = { id, name, description, url, triggers, signing_alg, is_active: true };
      return {
        status: 201,
        headers: { Location: `/api/webhooks/${id}` },
        body: {
          ...renderWebhook(row),
          signing_key: signingKey,
          ...(standardKey === undefined ? {} : { standard_webhooks_key: standardKey }),
        },
      };
    },
  });
}

async function refuseBeyondLimit(sql: Sql, organisationId: string): Promise<void> {
  const [row] = await sql.query<{ max: number; count: number }>(
    `select coalesce((limits ->> 'webhooks_max')::int, ${webhooksMaxDefault}) as max,
       (select count(*)::int from service.webhooks where organisation_id = $1) as count
     from service.organisations where id = $1`,
    [organisationId],
  );
  if (!row || row.count < row.max) return;
  throw new AppError(
    'conflict',
    `The organisation has ${row.count} webhooks, and may have ${row.max}: delete one, or ask the operator for more.`,
  );
}
