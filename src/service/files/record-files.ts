/**
 * Turns uploaded bytes into file rows. First the row of an upload is committed, then its bytes are made durable, then
 * the row of the file replaces the row of the upload, in the transaction of the caller that needs the file. A crash at
 * any instant leaves at most an upload row, and `sweep-uploads.ts` removes it with its bytes after a day; no upload
 * takes that long. So there is never a file without bytes, and there are never bytes without a row.
 */
import { randomUUID } from 'node:crypto';
import type { Timestamp } from '#contract/timestamp.ts';
import type { Sql } from '#platform/database/sql.ts';
import { AppError } from '#platform/errors.ts';
import type { StoredBytes } from '#platform/file-storage.ts';

/** A file whose bytes are stored. */
export interface NewFile extends StoredBytes {
  readonly id: string;
  readonly fileName: string;
  readonly contentType: string;
}

/** Inserts `count` upload rows and returns their ids. `sql` must not be in a transaction that may be rolled back. */
export async function beginUploads(sql: Sql, count: number, now: Timestamp): Promise<string[]> {
  const ids = Array.from({ length: count }, () => randomUUID());
  await sql.query('insert into service.file_uploads (id, created) select id, $2 from unnest($1::uuid[]) as id', [
    ids,
    now,
  ]);
  return ids;
}

/** Inserts the file rows. Throws `unavailable` when the sweep has abandoned one of the uploads: it must be repeated. */
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
