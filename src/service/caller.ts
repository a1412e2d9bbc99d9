/**
 * The caller of a request: an organisation's API key with its scopes, or the operator. Keys are stored as hashes only.
 * A key has 256 random bits, so a plain SHA-256 is enough, and the timing of a lookup by the hash reveals nothing.
 */
import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';
import type { Request } from 'express';
import type { Scope } from '#contract/admin.ts';
import type { LimitsRequest } from '#contract/limits.ts';
import type { ActionOrigin } from '#platform/audit-log.ts';
import { type Clock, timestampNow } from '#platform/clock.ts';
import type { Database } from '#platform/database/database.ts';
import { prepared } from '#platform/database/sql.ts';
import { AppError } from '#platform/errors.ts';
import { protectConnection } from '#platform/http/connections.ts';
import type { AccessRecord } from './audit/access-record.ts';
import { type KeyUses, plainAddress } from './key-uses.ts';
import type { TokenGuard } from './token-guard.ts';
import type { UnitOfWork } from './unit-of-work.ts';

/** The organisation that an API key belongs to. */
export interface KeyIdentity {
  readonly organisationId: string;
  readonly apiKeyId: string;
  /** The rate limits that the operator has set for the organisation. */
  readonly limits: LimitsRequest;
  /** For the audit log. */
  readonly origin: ActionOrigin;
}

/** The operator: the token of the settings, which identifies no person. */
export interface OperatorIdentity {
  readonly operator: true;
  readonly origin: ActionOrigin;
}

interface InUnit {
  /** The transaction of this request, with the wake-ups that follow its commit. */
  readonly unit: UnitOfWork;
}

export type Caller = KeyIdentity & InUnit;
export type Operator = OperatorIdentity & InUnit;

const keyPrefix = 'sb_';

/** A new random API key. */
export function newApiKey(): string {
  return keyPrefix + randomBytes(32).toString('base64url');
}

/** The form in which a key is stored and looked up. */
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
  name: string;
  scopes: Scope[];
  limits: LimitsRequest;
  key_hash: Buffer;
}

const findKeys = prepared(
  `select k.id, k.organisation_id, k.name, k.scopes, o.limits, k.key_hash
   from service.api_keys k join service.organisations o on o.id = k.organisation_id
   where k.key_hash = any($1::bytea[]) and k.revoked_at is null and (k.expires_at is null or k.expires_at > $2)`,
);

/**
 * Authenticates by API key. Throws `unauthorized` with the same text for unknown, expired and revoked keys, `too-many`
 * for wrong ones when many have come from the address, and `forbidden` for a key that has none of the scopes.
 */
export function createKeyAuthentication({
  database,
  clock,
  keyUses,
  tokenGuard,
  accessRecord,
}: {
  database: Database;
  clock: Clock;
  keyUses: Pick<KeyUses, 'used'>;
  tokenGuard: Pick<TokenGuard, 'protect'>;
  accessRecord: Pick<AccessRecord, 'cameIn' | 'refused'>;
}) {
  const findAll = async (hashes: readonly Buffer[]) => {
    const rows = await database.query<KeyRow>(findKeys, [hashes, timestampNow(clock)]);
    return hashes.map((hash) => rows.find((row) => row.key_hash.equals(hash)));
  };
  const check = tokenGuard.protect({ by: 'api-key', findAll, unauthorized });
  return async (request: Request, scopes: readonly string[]): Promise<KeyIdentity> => {
    const key = await check(request.ip, hashApiKey(bearerOf(request)));
    protectConnection(request);
    // Behind a trusted proxy Express reads the client's address from `X-Forwarded-For`.
    const address = plainAddress(request.ip);
    keyUses.used(key.id, address);
    const origin = { who: { kind: 'key', name: `${key.name} (${key.id})` }, from: address ?? null } as const;
    accessRecord.cameIn(origin);
    if (!key.scopes.some((scope) => scopes.includes(scope))) {
      const object = `scope ${scopes.join(' or ')}`;
      accessRecord.refused(origin, { what: 'api.call', object, details: { organisation: key.organisation_id } });
      throw new AppError(
        'forbidden',
        `This API key does not have the scope ${scopes.map((name) => `"${name}"`).join(' or ')}.`,
      );
    }
    return {
      organisationId: key.organisation_id,
      apiKeyId: key.id,
      limits: key.limits,
      origin,
    };
  };
}

/** Who shows the token of the settings, rightly or not. */
const operator = { kind: 'token', name: 'operator' } as const;

/** Who a wrong token claims to be. */
export function refusedTokenOrigin(by: string, address: string | undefined): ActionOrigin {
  const who = by === 'operator' ? operator : ({ kind: 'key', name: 'unknown' } as const);
  return { who, from: plainAddress(address) ?? null };
}

/** Authenticates by the token of the settings. Throws `unauthorized`, and `too-many` as for API keys. */
export function createOperatorAuthentication({
  adminToken,
  tokenGuard,
  accessRecord,
}: {
  adminToken: string;
  tokenGuard: Pick<TokenGuard, 'protect'>;
  accessRecord: Pick<AccessRecord, 'cameIn'>;
}) {
  const hashOf = (token: string) => createHash('sha256').update(token).digest();
  const expected = hashOf(adminToken);
  const check = tokenGuard.protect({
    by: 'operator',
    findAll: async (hashes) => hashes.map((hash) => (timingSafeEqual(hash, expected) ? operator : undefined)),
    unauthorized: () =>
      new AppError('unauthorized', 'This call needs the header "Authorization: Bearer <operator token>".'),
  });
  return async (request: Request): Promise<OperatorIdentity> => {
    const who = await check(request.ip, hashOf(bearerOf(request)));
    protectConnection(request);
    const origin = { who, from: plainAddress(request.ip) ?? null };
    accessRecord.cameIn(origin);
    return { operator: true, origin };
  };
}
