/**
 * Turns uploaded bytes into files. First the row of an upload is committed, then its bytes are made durable, then the
 * upload becomes a file, in the transaction of the caller that needs the file. A crash at any instant leaves at most an
 * upload, and `sweep-uploads.ts` removes it with its bytes after a day; no upload takes that long. The row also reserves
 * room for the bytes, so that uploads at once cannot exceed the organisation's. So there is never a file without bytes,
 * and there are never bytes without a row.
 */
import { randomUUID } from 'node:crypto';
import type { Timestamp } from '#contract/timestamp.ts';
import type { Sql } from '#platform/database/sql.ts';
import { AppError } from '#platform/errors.ts';
import type { StoredBytes } from './storage/file-storage.ts';

/** A file whose bytes are stored. */
export interface NewFile extends StoredBytes {
  readonly id: string;
  readonly fileName: string;
  readonly contentType: string;
}

/** How much the files of an organisation may have together. Uploads under way count with what is reserved for them. */
export interface FileRoom {
  readonly limitBytes: number;
  readonly usedBytes: number;
  readonly leftBytes: number;
}

/**
 * Inserts an upload row and returns its id; undefined when fewer than `bytes` are left for the organisation. `sql` must
 * not be in a transaction that may be rolled back.
 */
export async function beginUpload(
  sql: Sql,
  { organisationId, bytes, fileBytesMax }: { organisationId: string; bytes: number; fileBytesMax: number },
  now: Timestamp,
): Promise<string | undefined> {
  const id = randomUUID();
  // The row of the organisation is locked by the update: of two uploads at once, the second sees what the first has left.
  const begun = await sql.query(
    `with counted as (
       update service.organisations set file_bytes = file_bytes + $3
       where id = $2 and file_bytes + $3 <= coalesce((limits ->> 'file_bytes_max')::bigint, $4)
       returning id)
     insert into service.files (id, organisation_id, state, size, created) select $1, id, 'upload', $3, $5 from counted
     returning id`,
    [id, organisationId, bytes, fileBytesMax, now],
  );
  return begun.length > 0 ? id : undefined;
}

/** Frees the room of uploads that have failed. Their bytes are removed by the sweep, with their rows. */
export async function releaseUploads(sql: Sql, ids: readonly string[]): Promise<void> {
  await sql.query(
    `with held as (
       select id, organisation_id, size from service.files
       where id = any($1::uuid[]) and state <> 'file' order by id for update),
     freed as (update service.files f set size = 0 from held where f.id = held.id)
     update service.organisations o set file_bytes = file_bytes - held.bytes
     from (select organisation_id, sum(size) as bytes from held group by organisation_id) as held
     where o.id = held.organisation_id`,
    [ids],
  );
}

/** The room that an organisation has for files. */
export async function readFileRoom(sql: Sql, organisationId: string, fileBytesMax: number): Promise<FileRoom> {
  const [row] = await sql.query<{ used: number; limit: number }>(
    `select file_bytes as used, coalesce((limits ->> 'file_bytes_max')::bigint, $2) as limit
     from service.organisations where id = $1`,
    [organisationId, fileBytesMax],
  );
  const { used = 0, limit = 0 } = row ?? {};
  return { limitBytes: limit, usedBytes: used, leftBytes: Math.max(0, limit - used) };
}

/** Makes files of the uploads. Throws `unavailable` when the sweep has abandoned one of the uploads: it must be repeated. */
export async function recordFiles(
  tx: Sql,
  organisationId: string,
  files: readonly NewFile[],
  now: Timestamp,
): Promise<void> {
  if (files.length === 0) return;
  const recorded = await tx.query(
    `with given as (
       select * from unnest($2::uuid[], $3::text[], $4::text[], $5::bigint[], $6::bytea[])
         as f (id, file_name, content_type, size, sha256)),
     held as (
       select id, size from service.files where id = any($2::uuid[]) and state = 'upload' order by id for update),
     counted as (
       update service.organisations set file_bytes = file_bytes
         + (select sum(given.size - held.size) from given join held on held.id = given.id)
       where id = $1 and exists (select from held))
     update service.files f set state = 'file', file_name = given.file_name, content_type = given.content_type,
       size = given.size, sha256 = given.sha256, created = $7
     from given join held on held.id = given.id where f.id = given.id
     returning f.id`,
    [
      organisationId,
      files.map((file) => file.id),
      files.map((file) => file.fileName),
      files.map((file) => file.contentType),
      files.map((file) => file.size),
      files.map((file) => file.sha256),
      now,
    ],
  );
  if (recorded.length !== files.length)
    throw new AppError('unavailable', 'The upload took longer than a day and was given up. Send it again.');
}
