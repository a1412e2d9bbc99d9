/** Writes down who looks after a refused document, and what was decided. */
import type { DocumentNote, DocumentPlace } from '#bridge/ledger/attempts/document-rows.ts';
import type { Sql } from '#platform/database/sql.ts';
import { AppError } from '#platform/errors.ts';

/** Replaces the note of a document; one that says nothing empties it. Throws `not-found`. */
export async function noteDocument(sql: Sql, { flow, kind, key }: DocumentPlace, note: DocumentNote): Promise<void> {
  const isEmpty = note.lookedAfterBy === null && note.decision === null;
  const noted = await sql.query(
    'update bridge.flow_documents set note = $4 where flow = $1 and kind = $2 and key = $3 returning 1',
    [flow, kind, key, isEmpty ? null : JSON.stringify(note)],
  );
  if (noted.length === 0)
    throw new AppError('not-found', `The flow ${flow} has no ${kind} document with the key ${key}.`);
}
