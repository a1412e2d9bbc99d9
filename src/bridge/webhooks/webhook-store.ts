/** The rows of `bridge.webhooks`. One operation a function. */
import { addMicros, type Timestamp } from '#contract/timestamp.ts';
import type { Sql } from '#platform/database/database.ts';
import { AppError } from '#platform/errors.ts';
import type { SecretBox } from '#platform/secrets.ts';

/** A webhook that this bridge has registered, or was about to. */
export interface OwnWebhook {
  readonly id: string;
  readonly source: string;
  /** The service's name for it; null while only the intent is known. */
  readonly uuid: string | null;
  readonly name: string;
  readonly url: string;
  /** Null while only the intent is known. */
  readonly secret: Buffer | null;
  readonly created: Timestamp;
  /** Another one has taken its place, or it is to go. */
  readonly retired: Timestamp | null;
  /** It is gone from the service. */
  readonly deleted: Timestamp | null;
}

/**
 * How long a retired key still signs. What the service had under way when the webhook was deleted is in within seconds;
 * a key is also retired because somebody knows it who should not.
 */
export const retiredKeyMs = 3_600_000;

const intentMs = 7 * 86_400_000;

const columns = 'id, source, uuid, name, url, secret, created, retired, deleted';

/** Those of a source, the oldest first. */
export function readOwnWebhooks(sql: Sql, source: string): Promise<OwnWebhook[]> {
  return sql.query<OwnWebhook>(`select ${columns} from bridge.webhooks where source = $1 order by created, id`, [
    source,
  ]);
}

/** Committed before the service is asked: what it makes is then known to be ours, whatever becomes of the answer. */
export async function insertIntent(
  sql: Sql,
  { id, source, name, url }: Pick<OwnWebhook, 'id' | 'source' | 'name' | 'url'>,
  now: Timestamp,
): Promise<void> {
  await sql.query('insert into bridge.webhooks (id, source, name, url, created) values ($1, $2, $3, $4, $5)', [
    id,
    source,
    name,
    url,
    now,
  ]);
}

/** From its commit on every receiver takes what the new key signs. Throws when the intent is not there any more. */
export async function storeKey(
  tx: Sql,
  secrets: SecretBox,
  made: { id: string; uuid: string; signingKey: string },
): Promise<void> {
  const stored = await tx.query('update bridge.webhooks set uuid = $2, secret = $3 where id = $1 returning id', [
    made.id,
    made.uuid,
    secrets.seal(made.signingKey, secretContext(made.id)),
  ]);
  if (stored.length === 0)
    throw new AppError('conflict', 'Another command has changed the webhooks meanwhile. Run this one again.');
}

/** From now on the key is good for `retiredKeyMs` only. One that is retired already keeps its time. */
export async function retire(tx: Sql, ids: readonly string[], now: Timestamp): Promise<void> {
  await tx.query('update bridge.webhooks set retired = coalesce(retired, $2) where id = any($1)', [ids, now]);
}

/** The service does not have it any more. */
export async function markDeleted(tx: Sql, id: string, now: Timestamp): Promise<void> {
  await tx.query('update bridge.webhooks set retired = coalesce(retired, $2), deleted = $2 where id = $1', [id, now]);
}

/** An intent of which nothing came, or whose webhook is gone. */
export async function deleteIntents(tx: Sql, ids: readonly string[]): Promise<void> {
  await tx.query('delete from bridge.webhooks where id = any($1) and secret is null', [ids]);
}

/** What the service still had to announce through a webhook that is gone: all of it is read now. */
export async function markFeedsDue(tx: Sql, source: string, now: Timestamp): Promise<void> {
  await tx.query('update bridge.checkpoints set next_pull = least(next_pull, $2) where source = $1', [source, now]);
}

export interface SealedKey {
  readonly id: string;
  readonly source: string;
  readonly secret: Buffer;
}

/** The keys that are good now: those that are not retired, and those that were not long ago. */
export function readGoodKeys(sql: Sql, now: Timestamp): Promise<SealedKey[]> {
  return sql.query<SealedKey>(
    `select id, source, secret from bridge.webhooks where secret is not null and (retired is null or retired > $1)
     order by created desc, id`,
    [addMicros(now, -retiredKeyMs * 1000)],
  );
}

/**
 * Forgets webhooks that are gone from the service, and whose keys are good for nothing any more; and intents of long ago,
 * which the service does not remember either.
 */
export async function pruneWebhooks(sql: Sql, now: Timestamp): Promise<void> {
  await sql.query(
    'delete from bridge.webhooks where (deleted is not null and retired <= $1) or (secret is null and created <= $2)',
    [addMicros(now, -retiredKeyMs * 1000), addMicros(now, -intentMs * 1000)],
  );
}

/** Throws AppError `internal` where it was sealed under another master key. */
export function openKey(secrets: SecretBox, { id, secret }: Pick<SealedKey, 'id' | 'secret'>): string {
  return secrets.open(secret, secretContext(id));
}

function secretContext(id: string): string {
  return `bridge.webhooks.secret:${id}`;
}
