/**
 * Who is calling: an API key of an organisation with its scopes, or the operator. Keys are stored as hashes only; a key
 * has 256 random bits, so a plain SHA-256 is enough and a lookup by it gives nothing away in its timing.
 */
import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';
import type { Request } from 'express';
import type { Scope } from '#contract/admin.ts';
import type { LimitsRequest } from '#contract/limits.ts';
import { type Clock, timestampNow } from '#platform/clock.ts';
import { type Database, prepared } from '#platform/database/database.ts';
import { AppError } from '#platform/errors.ts';
import type { UnitOfWork } from './unit-of-work.ts';

/** What an API key says of its bearer. */
export interface KeyIdentity {
  readonly organisationId: string;
  readonly apiKeyId: string;
  /** What the operator has set for the organisation. */
  readonly limits: LimitsRequest;
}

/** The operator's token says no more than that it is the operator's. */
export interface OperatorIdentity {
  readonly operator: true;
}

interface InUnit {
  /** The transaction of this request, with the wake-ups that follow it. */
  readonly unit: UnitOfWork;
}

export type Caller = KeyIdentity & InUnit;
export type Operator = OperatorIdentity & InUnit;

const keyPrefix = 'sb_';

export function newApiKey(): string {
  return keyPrefix + randomBytes(32).toString('base64url');
}

export function hashApiKey(key: string): Buffer {
  return createHash('sha256').update(key).digest();
}

const unauthorized = () =>
  new AppError('unauthorized', 'This call needs the header "Authorization: Bearer <API key>" with a valid key.');

function bearerOf(request: Request): string {
  const match = /^Bearer ([\x21-\x7e]{1,512})$/i.exec(request.get('authorization') ?? '');
  if (!match?.[1]) throw unauthorized();
  return match[1];
}

interface KeyRow {
  id: string;
  organisation_id: string;
  scopes: Scope[];
  limits: LimitsRequest;
}

const findKey = prepared(
  `select k.id, k.organisation_id, k.scopes, o.limits
   from service.api_keys k join service.organisations o on o.id = k.organisation_id
   where k.key_hash = $1 and k.revoked_at is null and (k.expires_at is null or k.expires_at > $2)`,
);

/** Finds the key's organisation. Unknown, expired and revoked keys are told apart to nobody. */
export function createKeyAuthentication({ database, clock }: { database: Database; clock: Clock }) {
  return async (request: Request, scope: string): Promise<KeyIdentity> => {
    const [key] = await database.query<KeyRow>(findKey, [hashApiKey(bearerOf(request)), timestampNow(clock)]);
    if (!key) throw unauthorized();
    if (!key.scopes.includes(scope as Scope))
      throw new AppError('forbidden', `This API key does not have the scope "${scope}".`);
    return { organisationId: key.organisation_id, apiKeyId: key.id, limits: key.limits };
  };
}

export function createOperatorAuthentication(adminToken: string) {
  const expected = hashApiKey(adminToken);
  return async (request: Request): Promise<OperatorIdentity> => {
    if (!timingSafeEqual(hashApiKey(bearerOf(request)), expected))
      throw new AppError('unauthorized', 'This call needs the header "Authorization: Bearer <operator token>".');
    return { operator: true };
  };
}
