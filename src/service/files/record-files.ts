/**
 * Files from bytes to rows. First an upload is noted and committed, then its bytes are made durable, then the row of
 * the file takes the note's place, in the transaction of whoever wants the file. What a crash leaves at any instant is
 * a note, and `sweep-uploads.ts` removes what belongs to it after a day, which no upload takes: never a file without
 * bytes, never bytes that nobody knows of.
 */
import { randomUUID } from 'node:crypto';
import type { Timestamp } from '#contract/timestamp.ts';
import type { Sql } from '#platform/database/database.ts';
import { AppError } from '#platform/errors.ts';
import type { StoredBytes } from '#platform/file-storage.ts';

/** A file whose bytes are stored. */
export interface NewFile extends StoredBytes {
  readonly id: string;
  readonly fileName: string;
  readonly contentType: string;
}

/** Notes so many uploads and gives their ids; `sql` must not be in a transaction that may be rolled back. */
export async function noteUploads(sql: Sql, count: number, now: Timestamp): Promise<string[]> {
  const ids = Array.from({ length: count }, () => randomUUID());
  await sql.query('insert into service.file_uploads (id, created) select id, $2 from unnest($1::uuid[]) as id', [
    ids,
    now,
  ]);
  return ids;
}

/** Writes the rows; throws `unavailable` when the sweep has given up one of the uploads: it must be made anew. */
export async function recordFiles(
  tx: Sql,
  organisationId: string,
  files: readonly NewFile[],
  now: Timestamp,
): Promise<void> {
  if (files.length === 0) return;
  const recorded = await tx.query(
    `with noted as (delete from service.file_uploads where id = any($2::uuid[]) and not abandoned returning id)
     insert into service.files (id, organisation_id, file_name, content_type, size, sha256, created)
     select f.id, $1, f.file_name, f.content_type, f.size, f.sha256, $7
     from unnest($2::uuid[], $3::text[], $4::text[], $5::bigint[], $6::bytea[])
       as f (id, file_name, content_type, size, sha256)
     join noted on noted.id = f.id
     returning id`,
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
