import { createHash, randomUUID } from 'node:crypto';
import { z } from 'zod';
import { apiKeyList, createApiKeyRequest, createdApiKey } from '#contract/admin.ts';
import { listQuery } from '#contract/list.ts';
import { uuid } from '#contract/scalars.ts';
import type { Timestamp } from '#contract/timestamp.ts';
import { type Clock, timestampNow } from '#platform/clock.ts';
import { AppError, throwIssues } from '#platform/errors.ts';
import { endpoint } from '#platform/http/endpoint.ts';
import { hashApiKey, newApiKey, type Operator } from '../caller.ts';
import { answerList, renderList } from '../list-envelope.ts';
import { findOrganisation } from './find-organisation.ts';

const path = '/admin/organisations/:id/api-keys';

/** POST /admin/organisations/{id}/api-keys: the key is in this answer and in no other; the database holds its hash. */
export function createApiKey({ clock }: { clock: Clock }) {
  return endpoint<Operator, typeof createApiKeyRequest>({
    method: 'POST',
    path,
    scope: 'operator',
    summary: 'Issue an API key',
    answers: { 201: createdApiKey },
    body: createApiKeyRequest,
    handle: async ({ body, params, caller: { unit } }) => {
      const organisation = await findOrganisation(unit.tx, params['id']);
      const { name, scopes, expires_at: expiresAt, user } = body;
      const now = timestampNow(clock);
      if (expiresAt !== undefined && expiresAt <= now)
        throwIssues([{ path: 'expires_at', message: 'must be in the future' }], ({ path, message }) => {
          return `The body is not valid: ${path} ${message}.`;
        });
      const key = newApiKey();
      const id = randomUUID();
      await unit.tx.query(
        `insert into service.api_keys (id, organisation_id, name, scopes, key_hash, created, expires_at, user_id,
           user_name, user_email)
         values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)`,
        [
          id,
          organisation,
          name,
          scopes,
          hashApiKey(key),
          now,
          expiresAt ?? null,
          user ? userId(organisation, user.email) : null,
          user?.name ?? null,
          user?.email ?? null,
        ],
      );
      return { status: 201, body: { id, name, scopes, key, ...(user && { user }) } };
    },
  });
}

/**
 * A user is known by the e-mail address: every key of the organisation that names it stands for the same user, also after
 * the first one was revoked. The form is a UUID of version 8 (RFC 9562, 5.8).
 */
function userId(organisationId: string, email: string): string {
  const hash = createHash('sha256').update(`user ${organisationId} ${email.toLowerCase()}`).digest('hex');
  return `${hash.slice(0, 8)}-${hash.slice(8, 12)}-8${hash.slice(13, 16)}-a${hash.slice(17, 20)}-${hash.slice(20, 32)}`;
}

interface ApiKeyRow {
  id: string;
  name: string;
  scopes: string[];
  created: Timestamp;
  expires_at: Timestamp | null;
  revoked_at: Timestamp | null;
  user_name: string | null;
  user_email: string | null;
  last_used: Timestamp | null;
  last_used_address: string | null;
}

function renderApiKey(row: ApiKeyRow) {
  const { user_name, user_email, last_used, last_used_address, ...key } = row;
  return {
    ...key,
    user: user_name === null ? null : { name: user_name, email: user_email },
    last_used: last_used === null ? null : { time: last_used, address: last_used_address },
  };
}

const listApiKeysQuery = z.strictObject(listQuery);

/** GET /admin/organisations/{id}/api-keys: without the keys themselves. */
export const listApiKeys = endpoint<Operator, z.ZodUndefined, typeof listApiKeysQuery>({
  method: 'GET',
  path,
  scope: 'operator',
  summary: 'List API keys',
  answers: { 200: apiKeyList },
  query: listApiKeysQuery,
  handle: async ({ params, query, baseUrl, caller: { unit } }) => {
    const organisation = await findOrganisation(unit.tx, params['id']);
    const body = await renderList(
      unit.tx,
      {
        select: `select id, name, scopes, created, expires_at, revoked_at, user_name, user_email, last_used,
            last_used_address
          from service.api_keys where organisation_id = $1`,
        orderBy: 'created, id',
        params: [organisation],
        query,
        url: baseUrl + path.replace(':id', organisation),
      },
      renderApiKey,
    );
    return answerList(body);
  },
});

/** DELETE /admin/organisations/{id}/api-keys/{keyId}: the key is refused as soon as this is committed. */
export function revokeApiKey({ clock }: { clock: Clock }) {
  return endpoint<Operator>({
    method: 'DELETE',
    path: `${path}/:keyId`,
    scope: 'operator',
    summary: 'Revoke an API key',
    answers: { 204: null },
    handle: async ({ params, caller: { unit } }) => {
      const organisation = await findOrganisation(unit.tx, params['id']);
      const keyId = uuid.safeParse(params['keyId']);
      const rows = keyId.success
        ? await unit.tx.query(
            `update service.api_keys set revoked_at = coalesce(revoked_at, $3)
             where organisation_id = $1 and id = $2 returning id`,
            [organisation, keyId.data, timestampNow(clock)],
          )
        : [];
      if (rows.length === 0) throw new AppError('not-found', 'This organisation has no such API key.');
      return { status: 204 };
    },
  });
}
