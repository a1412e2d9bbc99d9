/**
 * `Idempotency-Key` on every POST under `/api/`. The first answer is stored in the transaction of the work itself, so a
 * repeated request either does the work or returns the stored answer, never half of each. Of two requests at once, the
 * second waits for the first's commit. Source: decisions, "Conventions".
 */
import { addMicros, type Timestamp } from '#contract/timestamp.ts';
import type { Sql } from '#platform/database/sql.ts';
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

/** PostgreSQL cannot index longer text. A longer path names nothing that exists, so there is no answer to keep. */
const endpointMax = 1_000;

/** Throws `invalid` for a malformed key. Returns undefined when no answer is to be kept. */
export function idempotentRequest(
  organisationId: string,
  endpoint: string,
  key: string,
  bodyHash: Buffer,
): IdempotentRequest | undefined {
  if (!/^[\x21-\x7e]{1,255}$/.test(key))
    throw new AppError('invalid', 'The header Idempotency-Key must have 1 to 255 visible ASCII characters.');
  if (endpoint.length > endpointMax) return undefined;
  return { organisationId, endpoint, key, bodyHash };
}

/**
 * Returns the kept answer, if there is one: for a look before work that is done outside of the transaction. A
 * concurrent request may store an answer after the look, so `withIdempotency` looks again. Throws `conflict` as that
 * does.
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
 * Runs the work and keeps its answer, or returns the kept answer. Throws `conflict` for the same key with another body.
 * Secrets that are shown once (`signing_key`, `standard_webhooks_key`) are not kept.
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
  // The update changes nothing, but it waits for a concurrent transaction that is writing the row of this key.
  const [kept] = await tx.query<KeptAnswer & { is_first: boolean }>(
    `insert into service.idempotency_keys (organisation_id, endpoint, key, body_hash, created)
     values ($1, $2, $3, $4, $5)
     on conflict (organisation_id, endpoint, key) do update set key = excluded.key
     returning body_hash, status, body, headers, status is null as is_first`,
    [organisationId, endpoint, key, bodyHash, now],
  );
  if (kept && !kept.is_first) return answerOf(kept, request);
  const answer = await run();
  const body = answer.json ?? (answer.body === undefined ? null : JSON.stringify(withoutShownOnce(answer.body)));
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

/** Deletes the answers whose time has run out. */
export async function forgetOldAnswers(sql: Sql, now: Timestamp): Promise<void> {
  await sql.query('delete from service.idempotency_keys where created < $1', [keptSince(now)]);
}

function withoutShownOnce(body: unknown): unknown {
  if (typeof body !== 'object' || body === null || !('signing_key' in body)) return body;
  const { signing_key: _key, standard_webhooks_key: _standardKey, ...rest } = body as Record<string, unknown>;
  return rest;
}
