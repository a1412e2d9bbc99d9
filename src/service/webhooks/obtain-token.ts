/** The OAuth parameters of a webhook are taken only when they work: a token is obtained before they are stored. */
import type { Issue } from '#contract/issue.ts';
import type { WebhookAuthentication } from '#contract/webhook.ts';
import type { Sql } from '#platform/database/sql.ts';
import { AppError } from '#platform/errors.ts';
import { type Cidr, parseCidrs } from '#platform/network-guard.ts';
import type { AccessTokens } from './access-tokens.ts';

/** A token, and the parameters that it was obtained with. */
export type ObtainedToken = Awaited<ReturnType<AccessTokens['obtain']>>;

/** Where the organisation's webhooks may go. */
export async function networkRulesOf(
  sql: Sql,
  organisationId: string,
): Promise<{ domains: string[]; networks: Cidr[] }> {
  const [row] = await sql.query<{ webhook_domains: string[]; allowed_networks: string[] }>(
    'select webhook_domains, allowed_networks from service.organisations where id = $1',
    [organisationId],
  );
  return { domains: row?.webhook_domains ?? [], networks: parseCidrs(row?.allowed_networks ?? []) };
}

/** Obtains a token for new parameters. Throws `invalid` with the path of the parameter that failed, also when the fault is the token server's. */
export async function obtainToken(
  accessTokens: AccessTokens,
  { parameters }: WebhookAuthentication,
  { organisationId, networks }: { organisationId: string; networks: readonly Cidr[] },
): Promise<ObtainedToken> {
  try {
    return await accessTokens.obtain(parameters, { allowedNetworks: networks, group: organisationId });
  } catch (error) {
    const issue = error instanceof AppError ? error.issues[0] : undefined;
    if (!issue) throw error;
    throw invalidBody({ ...issue, path: `authentication.parameters.${issue.path}` });
  }
}

/** The refusal of a body for one fault, with its path. */
export function invalidBody(issue: Issue): AppError {
  const text = issue.message.replace(/\.$/, '');
  return new AppError('invalid', `The body is not valid: ${issue.path} ${text}.`, {
    issues: [{ ...issue, message: text }],
  });
}
