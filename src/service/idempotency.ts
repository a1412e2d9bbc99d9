/**
 * `Idempotency-Key` on every POST under `/api/`: the first answer is kept in the transaction of the work itself, so a
 * repeated request is answered from it or does the work, never half of each. Two at once: the second waits for the
 * first's commit. Source: decisions, "Conventions".
 */
import { createHash } from 'node:crypto';
import { addMicros, type Timestamp } from '#contract/timestamp.ts';
import type { Sql } from '#platform/database/database.ts';
import { AppError } from '#platform/errors.ts';
import type { Answer } from '#platform/http/endpoint.ts';

const keptMs = 24 * 60 * 60 * 1000;

function keptSince(now: Timestamp): Timestamp {
  return addMicros(now, -keptMs * 1000);
}

interface KeptAnswer {
  body_hash: Buffer;
  status: number;
  body: string | null;
  headers: Record<string, string>;
}

export interface IdempotentRequest {
  readonly organisationId: string;
  readonly endpoint: string;
  readonly key: string;
  readonly bodyHash: Buffer;
}

/** PostgreSQL indexes no text of any length. A longer path names nothing that there is, so there is no answer to keep. */
const endpointMax = 1_000;

/** Throws `invalid` for a key that cannot be one; undefined where nothing is to be kept. */
export function idempotentRequest(
  organisationId: string,
  endpoint: string,
  key: string,
  bytes: Uint8Array,
): IdempotentRequest | undefined {
  if (!/^[\x21-\x7e]{1,255}$/.test(key))
    throw new AppError('invalid', 'The header Idempotency-Key must have 1 to 255 visible ASCII characters.');
  if (endpoint.length > endpointMax) return undefined;
  return { organisationId, endpoint, key, bodyHash: createHash('sha256').update(bytes).digest() };
}

/**
 * The kept answer, if there is one: to look before work that is done outside of the transaction. It may come meanwhile,
 * and `withIdempotency` looks again. Throws `conflict` as that does.
 */
export async function findKeptAnswer(
  sql: Sql,
  now: Timestamp,
  request: IdempotentRequest,
): Promise<Answer | undefined> {
  const { organisationId, endpoint, key } = request;
  const [kept] = await sql.query<KeptAnswer>(
    `select body_hash, status, body, headers from service.idempotency_keys
     where organisation_id = $1 and endpoint = $2 and key = $3 and created >= $4`,
    [organisationId, endpoint, key, keptSince(now)],
  );
  return kept && answerOf(kept, request);
}

/**
 * Runs the work, or gives the kept answer; throws `conflict` for the same key with another body.
 * A secret that is shown once (`signing_key`) is not kept.
 */
export async function withIdempotency(
  tx: Sql,
  now: Timestamp,
  request: IdempotentRequest,
  run: () => Promise<Answer>,
): Promise<Answer> {
  const { organisationId, endpoint, key, bodyHash } = request;
  await tx.query(
    'delete from service.idempotency_keys where organisation_id = $1 and endpoint = $2 and key = $3 and created < $4',
    [organisationId, endpoint, key, keptSince(now)],
  );
  // A row of the same key that is being written is waited for, by the update that changes nothing.
  const [kept] = await tx.query<KeptAnswer & { fresh: boolean }>(
    `insert into service.idempotency_keys (organisation_id, endpoint, key, body_hash, created)
     values ($1, $2, $3, $4, $5)
     on conflict (organisation_id, endpoint, key) do update set key = excluded.key
     returning body_hash, status, body, headers, status is null as fresh`,
    [organisationId, endpoint, key, bodyHash, now],
  );
  if (kept && !kept.fresh) return answerOf(kept, request);
  const answer = await run();
  const body =
    answer.json?.toString() ?? (answer.body === undefined ? null : JSON.stringify(withoutShownOnce(answer.body)));
  await tx.query(
    `update service.idempotency_keys set status = $4, body = $5, headers = $6
     where organisation_id = $1 and endpoint = $2 and key = $3`,
    [organisationId, endpoint, key, answer.status, body, JSON.stringify(answer.headers ?? {})],
  );
  return answer;
}

function answerOf({ body_hash: bodyHash, status, body, headers }: KeptAnswer, request: IdempotentRequest): Answer {
  if (!bodyHash.equals(request.bodyHash))
    throw new AppError('conflict', 'This Idempotency-Key was used before with another body. Use a new key.');
  return { status, headers, ...(body === null ? {} : { json: body }) };
}

/** Removes the answers that are no longer kept. */
export async function forgetOldAnswers(sql: Sql, now: Timestamp): Promise<void> {
  await sql.query('delete from service.idempotency_keys where created < $1', [keptSince(now)]);
}

function withoutShownOnce(body: unknown): unknown {
  if (typeof body !== 'object' || body === null || !('signing_key' in body)) return body;
  const { signing_key: _shownOnce, ...rest } = body;
  return rest;
}
