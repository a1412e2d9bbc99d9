/** The operators who may call `/admin`, and the token of the settings that was replaced. Only hashes are stored. */
import { createHash, randomBytes, randomUUID } from 'node:crypto';
import type { Timestamp } from '#contract/timestamp.ts';
import type { Sql } from '#platform/database/sql.ts';

/** The name of the token of the settings in the audit log: it identifies no person. */
export const settingsOperator = 'operator';

const tokenBytes = 32;

/** A new random token. */
export function newOperatorToken(): string {
  return randomBytes(tokenBytes).toString('base64url');
}

/** The form in which a token is stored and looked up. */
export function hashOperatorToken(token: string): Buffer {
  return createHash('sha256').update(token).digest();
}

/** Who may come in with these tokens, in their order; undefined for a wrong, revoked, expired or replaced one. */
export async function findOperators(
  sql: Sql,
  hashes: readonly Buffer[],
  { ofSettings, now }: { ofSettings: Buffer; now: Timestamp },
): Promise<(string | undefined)[]> {
  const rows = await sql.query<{ hash: Buffer; name: string | null }>(
    `select token_hash as hash, name from service.operators
     where token_hash = any($1::bytea[]) and revoked_at is null and (expires_at is null or expires_at > $2)
     union all
     select token_hash, null from service.replaced_tokens where token_hash = any($1::bytea[])`,
    [hashes, now],
  );
  return hashes.map((hash) => {
    const own = rows.filter((row) => row.hash.equals(hash));
    const named = own.find(({ name }) => name !== null)?.name ?? undefined;
    return named ?? (hash.equals(ofSettings) && own.length === 0 ? settingsOperator : undefined);
  });
}

/** Adds an operator; undefined when there is one of this name. */
export async function addOperator(
  tx: Sql,
  { name, token, expiresAt, now }: { name: string; token: string; expiresAt: Timestamp | null; now: Timestamp },
): Promise<string | undefined> {
  const [row] = await tx.query<{ id: string }>(
    `insert into service.operators (id, name, token_hash, created, expires_at) values ($1, $2, $3, $4, $5)
     on conflict (name) where revoked_at is null do nothing returning id`,
    [randomUUID(), name, hashOperatorToken(token), now, expiresAt],
  );
  return row?.id;
}

/**
 * From the commit on `token` takes the place of the token of the settings, in every process: the one that has the place now
 * is refused, also by a process that still has it in its settings.
 */
export async function replaceSettingsToken(
  tx: Sql,
  { ofSettings, token, now }: { ofSettings: Buffer; token: string; now: Timestamp },
): Promise<void> {
  // Two at once: the second waits for the first.
  await tx.query('lock table service.replaced_tokens in share row exclusive mode');
  await tx.query('insert into service.replaced_tokens (token_hash, replaced) values ($1, $2) on conflict do nothing', [
    ofSettings,
    now,
  ]);
  await tx.query('update service.operators set revoked_at = $1 where replaces_setting and revoked_at is null', [now]);
  await tx.query(
    `insert into service.operators (id, name, token_hash, created, replaces_setting) values ($1, $2, $3, $4, true)`,
    [randomUUID(), settingsOperator, hashOperatorToken(token), now],
  );
}
