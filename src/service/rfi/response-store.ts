/** The suppliers' answers to an event's RFI questions in SQL. */
import type { Timestamp } from '#contract/timestamp.ts';
import type { Sql } from '#platform/database/sql.ts';
import type { Answered } from '../domain/rfi.ts';
import type { RfiResponse } from '../domain/sourcing-event.ts';

/** The answers of all suppliers in an event, or of one supplier. */
export async function loadResponses(sql: Sql, eventId: string, supplierId?: string): Promise<RfiResponse[]> {
  return sql.query<RfiResponse>(
    `select id, supplier_id as "supplierId", question_id as "questionId", value, selected_options as "selectedOptions",
       comment, currency, document_file_ids as "documentFileIds"
     from service.rfi_responses where event_id = $1 and ($2::uuid is null or supplier_id = $2) order by id`,
    [eventId, supplierId ?? null],
  );
}

/** Stores a supplier's answers, at most one to a question. An answer that replaces an earlier one keeps its id. */
export async function saveResponses(
  tx: Sql,
  eventId: string,
  supplierId: string,
  answers: readonly Answered[],
  now: Timestamp,
): Promise<void> {
  await tx.query(
    `insert into service.rfi_responses as r (event_id, supplier_id, modified, question_id, value, selected_options,
       comment, currency, document_file_ids)
     select $1, $2, $3, question_id, value, selected_options, comment, currency,
       array(select file::uuid from jsonb_array_elements_text(files) with ordinality as given (file, place)
             order by place)
     from unnest($4::uuid[], $5::text[], $6::jsonb[], $7::text[], $8::text[], $9::jsonb[]) with ordinality
       as given (question_id, value, selected_options, comment, currency, files, place)
     order by place
     on conflict (event_id, supplier_id, question_id) do update
       set value = excluded.value, selected_options = excluded.selected_options, comment = excluded.comment,
           currency = excluded.currency, document_file_ids = excluded.document_file_ids, modified = excluded.modified
       where (r.value, r.selected_options, r.comment, r.currency, r.document_file_ids) is distinct from
         (excluded.value, excluded.selected_options, excluded.comment, excluded.currency, excluded.document_file_ids)`,
    [
      eventId,
      supplierId,
      now,
      answers.map((answer) => answer.questionId),
      answers.map((answer) => answer.value),
      answers.map((answer) => answer.selectedOptions && JSON.stringify(answer.selectedOptions)),
      answers.map((answer) => answer.comment),
      answers.map((answer) => answer.currency),
      answers.map((answer) => JSON.stringify(answer.documentFileIds)),
    ],
  );
}

/** Removes a file from an answer. Returns false when there is no such answer, or when it has no such file. */
export async function removeResponseFile(
  tx: Sql,
  response: { eventId: string; supplierId: string; questionId: string; fileId: string },
  now: Timestamp,
): Promise<boolean> {
  const rows = await tx.query(
    `update service.rfi_responses set document_file_ids = array_remove(document_file_ids, $4), modified = $5
     where event_id = $1 and supplier_id = $2 and question_id = $3 and $4 = any(document_file_ids) returning id`,
    [response.eventId, response.supplierId, response.questionId, response.fileId, now],
  );
  return rows.length > 0;
}
