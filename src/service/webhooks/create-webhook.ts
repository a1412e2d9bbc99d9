import { randomBytes, randomUUID } from 'node:crypto';
import type { Issue } from '#contract/issue.ts';
import { createdWebhook, createWebhookRequest, type WebhookAuthentication } from '#contract/webhook.ts';
import { type Clock, timestampNow } from '#platform/clock.ts';
import type { Sql } from '#platform/database/sql.ts';
import { AppError } from '#platform/errors.ts';
import { endpoint, type NoQuery } from '#platform/http/endpoint.ts';
import { type Cidr, domainAllowed, parseCidrs } from '#platform/network-guard.ts';
import type { SecretBox } from '#platform/secrets.ts';
import type { Caller } from '../caller.ts';
import type { AccessTokens } from './access-tokens.ts';
import { authenticationContext, renderWebhook, signingKeyContext } from './webhook-row.ts';

interface Deps {
  clock: Clock;
  secrets: SecretBox;
  accessTokens: AccessTokens;
}

type Obtained = Awaited<ReturnType<AccessTokens['obtain']>> | undefined;

/**
 * POST /api/webhooks: creates a webhook. The signing key is in this answer and in no other. With OAuth parameters a
 * token is obtained first, while no transaction is open; when the token server returns none, no webhook is created.
 */
export function createWebhook({ clock, secrets, accessTokens }: Deps) {
  return endpoint<Caller, typeof createWebhookRequest, NoQuery, Obtained>({
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
        throw invalid({
          path: 'url',
          message: `names the host "${host}", which is not whitelisted: ask the operator to add it to the domains`,
        });
      return body.authentication && obtainToken(accessTokens, body.authentication, networks);
    },
    handle: async ({ body, caller: { unit, organisationId } }, obtained) => {
      const id = randomUUID();
      const signingKey = randomBytes(32).toString('base64url');
      const { name, description, url, triggers, signing_alg } = body;
      await unit.tx.query(
        `insert into service.webhooks (id, organisation_id, name, description, url, triggers, signing_alg, signing_key,
           authentication, created)
         values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)`,
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
          timestampNow(clock),
        ],
      );
      if (obtained) accessTokens.keep(id, obtained.grant);
      const row = { id, name, description, url, triggers, signing_alg, is_active: true };
      return {
        status: 201,
        headers: { Location: `/api/webhooks/${id}` },
        body: { ...renderWebhook(row), signing_key: signingKey },
      };
    },
  });
}

async function networkRulesOf(sql: Sql, organisationId: string): Promise<{ domains: string[]; networks: Cidr[] }> {
  const [row] = await sql.query<{ webhook_domains: string[]; allowed_networks: string[] }>(
    'select webhook_domains, allowed_networks from service.organisations where id = $1',
    [organisationId],
  );
  return { domains: row?.webhook_domains ?? [], networks: parseCidrs(row?.allowed_networks ?? []) };
}

/** Throws `invalid` with the path of the parameter that failed, also when the fault is the token server's. */
async function obtainToken(
  accessTokens: AccessTokens,
  { parameters }: WebhookAuthentication,
  allowedNetworks: readonly Cidr[],
): Promise<Obtained> {
  try {
    return await accessTokens.obtain(parameters, { allowedNetworks });
  } catch (error) {
    const issue = error instanceof AppError ? error.issues[0] : undefined;
    if (!issue) throw error;
    throw invalid({ ...issue, path: `authentication.parameters.${issue.path}` });
  }
}

function invalid(issue: Issue): AppError {
  const text = issue.message.replace(/\.$/, '');
  return new AppError('invalid', `The body is not valid: ${issue.path} ${text}.`, {
    issues: [{ ...issue, message: text }],
  });
}
