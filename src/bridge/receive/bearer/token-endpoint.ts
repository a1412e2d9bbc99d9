/**
 * POST /oauth/token: the token endpoint for sources whose bearer is `issued`. Client credentials (RFC 6749, 4.4), sent
 * by HTTP Basic or in the body (2.3.1); answers and errors as in 5.1 and 5.2.
 */
import { createHash, timingSafeEqual } from 'node:crypto';
import type { Express, Request, Response } from 'express';
import type { Clock } from '#platform/clock.ts';
import { AppError } from '#platform/errors.ts';
import { readBody } from '#platform/http/body.ts';
import { protectConnection } from '#platform/http/connections.ts';
import { refuseMethod } from '#platform/http/problem.ts';
import type { TokenGuard } from '#platform/http/token-guard.ts';
import type { UnverifiedBounds } from '#platform/http/unverified-bytes.ts';
import type { SecretBox } from '#platform/secrets.ts';
import { type IssuedClient, issueToken, tokenLifetimeS } from './issued-token.ts';

export const tokenPath = '/oauth/token';
const bodyBytesMax = 16 * 1024;

type Refusal = 'invalid_request' | 'invalid_client' | 'unsupported_grant_type';

interface Credentials {
  readonly id: string;
  readonly secret: string;
}

interface TokenEndpointDeps {
  clients: readonly IssuedClient[];
  secrets: SecretBox;
  clock: Clock;
  bodies: UnverifiedBounds;
  tokenGuard: Pick<TokenGuard, 'countWrong'>;
}

/** Mounts the endpoint; `clients` are the clients of all sources. */
export function mountTokenEndpoint(
  app: Express,
  { clients, secrets, clock, bodies, tokenGuard }: TokenEndpointDeps,
): void {
  app.post(tokenPath, async (request, response) => {
    response.locals.route = tokenPath;
    response.setHeader('Cache-Control', 'no-store');
    response.setHeader('Pragma', 'no-cache');
    const client = await authenticateClient(request, clients, bodies);
    if (typeof client === 'string') {
      const tooMany = client === 'invalid_client' ? tokenGuard.countWrong('client', request.ip) : undefined;
      if (tooMany) throw tooMany;
      refuse(request, response, client);
      return;
    }
    protectConnection(request, `client ${client.client_id}`);
    const token = issueToken(secrets, client, clock.nowMs());
    response.json({ access_token: token, token_type: 'Bearer', expires_in: tokenLifetimeS });
  });
  app.route(tokenPath).all((request, response) => refuseMethod(request, response, tokenPath, 'POST'));
}

/**
 * Returns the client that the request authenticates, or why it does not. A `scope` may be requested and has no meaning.
 */
async function authenticateClient(
  request: Request,
  clients: readonly IssuedClient[],
  { withinMs, unverified }: UnverifiedBounds,
): Promise<IssuedClient | Refusal> {
  if (!request.is('application/x-www-form-urlencoded'))
    throw new AppError('unsupported-media', 'The body must be sent as application/x-www-form-urlencoded.');
  const counted = unverified.begin();
  const bytes = await readBody(request, bodyBytesMax, { withinMs, unverified: counted }).finally(() => counted.end());
  const form = new URLSearchParams(bytes.toString('utf8'));
  const hasDuplicates = new Set(form.keys()).size < form.size;
  const inBody = { id: form.get('client_id'), secret: form.get('client_secret') };
  const authorization = request.get('authorization');
  const candidates = authorization === undefined ? [] : basicCredentials(authorization);
  if (hasDuplicates || (authorization !== undefined && inBody.secret !== null) || !form.get('grant_type'))
    return 'invalid_request';
  if (authorization === undefined && inBody.id !== null && inBody.secret !== null)
    candidates.push({ id: inBody.id, secret: inBody.secret });
  // All clients are compared, so that the time it takes does not reveal which one matches.
  const [client] = clients.filter((known) => candidates.map((sent) => matches(known, sent)).includes(true));
  if (!client) return 'invalid_client';
  return form.get('grant_type') === 'client_credentials' ? client : 'unsupported_grant_type';
}

/**
 * Id and secret are form-encoded before they are joined. Some clients leave that out, so the undecoded texts are
 * returned as well.
 */
function basicCredentials(authorization: string): Credentials[] {
  const encoded = /^Basic +([A-Za-z0-9+/]+=*) *$/i.exec(authorization)?.[1];
  const text = Buffer.from(encoded ?? '', 'base64').toString('utf8');
  const colon = text.indexOf(':');
  if (colon < 0) return [];
  const plain = { id: text.slice(0, colon), secret: text.slice(colon + 1) };
  return [{ id: formDecoded(plain.id), secret: formDecoded(plain.secret) }, plain];
}

function formDecoded(text: string): string {
  return new URLSearchParams(`v=${text.replaceAll('&', '%26')}`).get('v') ?? '';
}

/** Compares in constant time. */
function matches(client: IssuedClient, { id, secret }: Credentials): boolean {
  const digest = (text: string) => createHash('sha256').update(text, 'utf8').digest();
  const given = Buffer.concat([digest(id), digest(secret)]);
  return timingSafeEqual(given, Buffer.concat([digest(client.client_id), digest(client.client_secret)]));
}

const descriptions: Record<Refusal, string> = {
  invalid_request: 'A parameter is missing or duplicated, or the credentials are sent in two ways.',
  invalid_client: 'The client id and the secret are not known here.',
  unsupported_grant_type: 'Only the grant type client_credentials is supported.',
};

function refuse(request: Request, response: Response, error: Refusal): void {
  if (error === 'invalid_client' && request.get('authorization') !== undefined)
    response.setHeader('WWW-Authenticate', 'Basic realm="webhooks"');
  response.status(error === 'invalid_client' ? 401 : 400).json({ error, error_description: descriptions[error] });
}
