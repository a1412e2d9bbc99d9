/** What people have written down about documents that were refused: who looks after one, and what was decided. */
import type { DocumentPlace } from '#bridge/ledger/attempts/document-rows.ts';
import type { Timestamp } from '#contract/timestamp.ts';
import type { Sql } from '#platform/database/sql.ts';
import { AppError } from '#platform/errors.ts';

export interface DocumentNote {
  /** Who looks after it; null: nobody is named. */
  readonly lookedAfterBy: string | null;
  readonly decision: string | null;
  readonly notedBy: string;
  readonly noted: Timestamp;
}

/** Returns the notes of these documents, by flow, kind and key with a space between. */
export async function readNotes(sql: Sql, places: readonly DocumentPlace[]): Promise<Map<string, DocumentNote>> {
  if (places.length === 0) return new Map();
  const rows = await sql.query<DocumentPlace & DocumentNote>(
    `select n.flow, n.kind, n.key, n.looked_after_by as "lookedAfterBy", n.decision, n.noted_by as "notedBy", n.noted
     from unnest($1::text[], $2::text[], $3::text[]) as p (flow, kind, key)
     join bridge.document_notes n on n.flow = p.flow and n.kind = p.kind and n.key = p.key`,
    [places.map(({ flow }) => flow), places.map(({ kind }) => kind), places.map(({ key }) => key)],
  );
  return new Map(rows.map(({ flow, kind, key, ...note }) => [noteKey({ flow, kind, key }), note]));
}

export function noteKey({ flow, kind, key }: DocumentPlace): string {
  return `${flow} ${kind} ${key}`;
}

/** Replaces the note of a document; one that says nothing is deleted. Throws `not-found`. */
export async function writeNote(
  sql: Sql,
  { flow, kind, key }: DocumentPlace,
  { lookedAfterBy, decision, notedBy, noted }: DocumentNote,
): Promise<void> {
  if (lookedAfterBy === null && decision === null) {
    await sql.query('delete from bridge.document_notes where flow = $1 and kind = $2 and key = $3', [flow, kind, key]);
    return;
  }
  const written = await sql.query(
    `insert into bridge.document_notes (flow, kind, key, looked_after_by, decision, noted_by, noted)
     select d.flow, d.kind, d.key, $4, $5, $6, $7 from bridge.flow_documents d
     where d.flow = $1 and d.kind = $2 and d.key = $3
     on conflict (flow, kind, key) do update set looked_after_by = excluded.looked_after_by,
       decision = excluded.decision, noted_by = excluded.noted_by, noted = excluded.noted returning 1`,
    [flow, kind, key, lookedAfterBy, decision, notedBy, noted],
  );
  if (written.length === 0)
    throw new AppError('not-found', `The flow ${flow} has no ${kind} document with the key ${key}.`);
}
