/** The rows of `bridge.webhooks`, one operation a function. */
import { addMicros, type Timestamp } from '#contract/timestamp.ts';
import type { Sql } from '#platform/database/sql.ts';
import { AppError } from '#platform/errors.ts';
import type { SealedColumn } from '#platform/sealed-columns.ts';
import type { SecretBox } from '#platform/secrets.ts';

/** A webhook that this bridge has registered, or the intent to register one. */
export interface OwnWebhook {
  readonly id: string;
  readonly source: string;
  /** The service's id of the webhook; null for an intent. */
  readonly uuid: string | null;
  readonly name: string;
  readonly url: string;
  /** The sealed signing key; null for an intent. */
  readonly secret: Buffer | null;
  readonly created: Timestamp;
  /** Since when it is retired: another webhook has replaced it, or it is to be deleted. */
  readonly retired: Timestamp | null;
  /** When the service was found not to have it any more, or it was deleted there. */
  readonly deleted: Timestamp | null;
}

/**
 * How long a retired key is still accepted. Notifications that were on their way when the webhook was deleted arrive
 * within seconds. The time must not be much longer, as a key may also be retired because it leaked.
 */
export const retiredKeyMs = 3_600_000;

const intentMs = 7 * 86_400_000;

const columns = 'id, source, uuid, name, url, secret, created, retired, deleted';

/** Returns the webhooks and intents of a source, the oldest first. */
export function readOwnWebhooks(sql: Sql, source: string): Promise<OwnWebhook[]> {
  return sql.query<OwnWebhook>(`select ${columns} from bridge.webhooks where source = $1 order by created, id`, [
    source,
  ]);
}

/**
 * Writes an intent. It is committed before the service is asked, so that the webhook is known to be of this bridge even
 * if the answer is lost.
 */
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

/**
 * Turns an intent into a webhook. Once this has committed, every receiver accepts the new key. Throws AppError
 * `conflict` when the intent is not there any more.
 */
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

/**
 * Retires webhooks: their keys are accepted for `retiredKeyMs` from now. A webhook that is retired already keeps its
 * time.
 */
export async function retire(tx: Sql, ids: readonly string[], now: Timestamp): Promise<void> {
  await tx.query('update bridge.webhooks set retired = coalesce(retired, $2) where id = any($1)', [ids, now]);
}

/** Notes that the service does not have the webhook any more, and retires it. */
export async function markDeleted(tx: Sql, id: string, now: Timestamp): Promise<void> {
  await tx.query('update bridge.webhooks set retired = coalesce(retired, $2), deleted = $2 where id = $1', [id, now]);
}

/** Deletes intents for which no webhook was created, or whose webhook was deleted. */
export async function deleteIntents(tx: Sql, ids: readonly string[]): Promise<void> {
  await tx.query('delete from bridge.webhooks where id = any($1) and secret is null', [ids]);
}

/** Makes all feeds of the source due now: a deleted webhook may have had changes to announce. */
export async function markFeedsDue(tx: Sql, source: string, now: Timestamp): Promise<void> {
  await tx.query('update bridge.checkpoints set next_pull = least(next_pull, $2) where source = $1', [source, now]);
}

export interface SealedKey {
  readonly id: string;
  readonly source: string;
  readonly secret: Buffer;
}

/** Returns the keys that are accepted now: those that are not retired, and those that were retired a short time ago. */
export function readAcceptedKeys(sql: Sql, now: Timestamp): Promise<SealedKey[]> {
  return sql.query<SealedKey>(
    `select id, source, secret from bridge.webhooks where secret is not null and (retired is null or retired > $1)
     order by created desc, id`,
    [addMicros(now, -retiredKeyMs * 1000)],
  );
}

/**
 * Deletes the rows of webhooks that the service does not have any more and whose keys are not accepted any more, and
 * old intents, which the service does not remember either.
 */
export async function pruneWebhooks(sql: Sql, now: Timestamp): Promise<void> {
  await sql.query(
    'delete from bridge.webhooks where (deleted is not null and retired <= $1) or (secret is null and created <= $2)',
    [addMicros(now, -retiredKeyMs * 1000), addMicros(now, -intentMs * 1000)],
  );
}

/** Returns the signing key. Throws AppError `internal` when it was sealed under another master key. */
export function openKey(secrets: SecretBox, { id, secret }: Pick<SealedKey, 'id' | 'secret'>): string {
  return secrets.open(secret, secretContext(id));
}

function secretContext(id: string): string {
  return `bridge.webhooks.secret:${id}`;
}

/** The signing keys, as they are sealed under the master key. */
export const webhookSecretColumn: SealedColumn = {
  table: 'bridge.webhooks',
  column: 'secret',
  context: secretContext,
};
