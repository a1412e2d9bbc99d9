/** The RFI in SQL: an event's questions, and what suppliers answered. */
import { randomUUID } from 'node:crypto';
import type { Issue } from '#contract/issue.ts';
import type { QuestionInput } from '#contract/rfi.ts';
import type { Timestamp } from '#contract/timestamp.ts';
import type { Sql } from '#platform/database/database.ts';
import { AppError, throwIssues } from '#platform/errors.ts';
import { type Answered, renderQuestion, replaceQuestions } from '../domain/rfi.ts';
import type { Question, RfiResponse, SourcingEvent } from '../domain/sourcing-event.ts';
import { missingFileIds } from '../files/find-files.ts';

type EventIds = Pick<SourcingEvent, 'id' | 'organisationId'>;

interface QuestionRow {
  id: string;
  parentId: string | null;
  definition: Omit<Question, 'id' | 'parentId' | 'modified'>;
  modified: Timestamp;
}

const questionColumns = 'id, parent_id as "parentId", definition, modified';

/** The questions of an event, in their order. */
export async function loadQuestions(sql: Sql, eventId: string): Promise<Question[]> {
  const rows = await sql.query<QuestionRow>(
    `select ${questionColumns} from service.questions where event_id = $1 order by position`,
    [eventId],
  );
  return rows.map(questionOf);
}

/** These questions of an organisation, of any of its events, as the contract shows them; ids it has not are left out. */
export async function loadQuestionsByIds(sql: Sql, organisationId: string, ids: readonly string[]): Promise<object[]> {
  const rows = await sql.query<QuestionRow & { eventId: string }>(
    `select ${questionColumns}, event_id as "eventId" from service.questions
     where organisation_id = $1 and id = any($2) order by event_id, position`,
    [organisationId, ids],
  );
  return rows.map((row) => renderQuestion(row.eventId, questionOf(row)));
}

function questionOf({ id, parentId, definition, modified }: QuestionRow): Question {
  return { ...definition, id, parentId, modified };
}

/**
 * Replaces the questions of an event, which the caller has locked or just made, by a list that `checkQuestions` passed.
 * `edited` tells that a question that was there before reads differently now: then the RFI trigger fires. Throws
 * `invalid` for an id that another event has and for files that do not exist (`path` is that of the list, empty when it
 * is the whole body), and `conflict` when the list leaves out a question that has answers. Nothing is kept then: the
 * transaction is to be rolled back.
 */
export async function saveQuestions(
  tx: Sql,
  event: EventIds,
  given: readonly QuestionInput[],
  now: Timestamp,
  path = 'questions',
): Promise<{ questions: Question[]; edited: boolean }> {
  const before = await loadQuestions(tx, event.id);
  const { questions, removed, edited } = replaceQuestions(before, given, now, randomUUID);
  const issues = await missingFiles(
    tx,
    event.organisationId,
    given.flatMap((question, index) =>
      question.attachment_file_uuids.map((id, place) => ({
        id,
        path: `${path}[${index}].attachment_file_uuids[${place}]`,
      })),
    ),
  );
  await removeQuestions(tx, event, removed);
  const kept = await upsertQuestions(tx, event, questions);
  for (const [index, { id }] of questions.entries())
    if (!kept.has(id)) issues.push({ path: `${path}[${index}].uuid`, message: 'is a question of another event' });
  throwIssues(issues, ({ path: at, message }) => `The questions are not valid: ${at} ${message}.`);
  return { questions, edited };
}

async function removeQuestions(tx: Sql, event: EventIds, removed: readonly Question[]): Promise<void> {
  if (removed.length === 0) return;
  const ids = removed.map(({ id }) => id);
  const answered = await tx.query<{ id: string }>(
    `select id from service.questions q
     where event_id = $1 and id = any($2)
       and exists (select from service.rfi_responses r where r.event_id = q.event_id and r.question_id = q.id)
     order by position`,
    [event.id, ids],
  );
  if (answered.length > 0) {
    const names = new Map(removed.map(({ id, identifier }) => [id, identifier]));
    const list = answered.slice(0, 5).map(({ id }) => `"${names.get(id)}" (${id})`);
    const more = answered.length > 5 ? ` and ${answered.length - 5} more` : '';
    throw new AppError(
      'conflict',
      `A question that has answers cannot be removed: ${list.join(', ')}${more}. Leave it in the list.`,
    );
  }
  await tx.query('delete from service.questions where event_id = $1 and id = any($2)', [event.id, ids]);
}

/**
 * Writes the list and gives the ids that are this event's now. An id that another event has stays there, also when that
 * event took it a moment ago and has not committed yet: the insert waits for it.
 */
async function upsertQuestions(tx: Sql, event: EventIds, questions: readonly Question[]): Promise<Set<string>> {
  if (questions.length === 0) return new Set();
  const rows = await tx.query<{ id: string }>(
    `insert into service.questions as q (organisation_id, event_id, position, id, parent_id, definition, modified)
     select $1, $2, position, id, parent_id, definition, modified
     from unnest($3::uuid[], $4::uuid[], $5::jsonb[], $6::timestamptz[]) with ordinality
       as given (id, parent_id, definition, modified, position)
     order by id
     on conflict (organisation_id, id) do update
       set position = excluded.position, parent_id = excluded.parent_id, definition = excluded.definition,
           modified = excluded.modified
       where q.event_id = excluded.event_id
     returning id`,
    [
      event.organisationId,
      event.id,
      questions.map(({ id }) => id),
      questions.map(({ parentId }) => parentId),
      questions.map(({ id: _id, parentId: _parent, modified: _modified, ...definition }) => JSON.stringify(definition)),
      questions.map(({ modified }) => modified),
    ],
  );
  return new Set(rows.map(({ id }) => id));
}

/** The answers of all suppliers, or of one. */
export async function loadResponses(sql: Sql, eventId: string, supplierId?: string): Promise<RfiResponse[]> {
  return sql.query<RfiResponse>(
    `select id, supplier_id as "supplierId", question_id as "questionId", value, selected_options as "selectedOptions",
       comment, currency, document_file_ids as "documentFileIds"
     from service.rfi_responses where event_id = $1 and ($2::uuid is null or supplier_id = $2) order by id`,
    [eventId, supplierId ?? null],
  );
}

/** Keeps a supplier's answers, at most one to a question; one that was answered before keeps its id. */
export async function saveResponses(
  tx: Sql,
  eventId: string,
  supplierId: string,
  answered: readonly Answered[],
  now: Timestamp,
): Promise<void> {
  await tx.query(
    `insert into service.rfi_responses as r (event_id, supplier_id, modified, question_id, value, selected_options, comment,
       currency, document_file_ids)
     select $1, $2, $3, question_id, value, selected_options, comment, currency,
       array(select file::uuid from jsonb_array_elements_text(files) with ordinality as given (file, place) order by place)
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
      answered.map((one) => one.questionId),
      answered.map((one) => one.value),
      answered.map((one) => one.selectedOptions && JSON.stringify(one.selectedOptions)),
      answered.map((one) => one.comment),
      answered.map((one) => one.currency),
      answered.map((one) => JSON.stringify(one.documentFileIds)),
    ],
  );
}

/** Takes a file out of an answer; false when there is no such answer, or it has no such file. */
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

/** An issue for each reference to a file that the organisation has not. */
export async function missingFiles(
  sql: Sql,
  organisationId: string,
  references: readonly { id: string; path: string }[],
): Promise<Issue[]> {
  const ids = references.map(({ id }) => id);
  const missing = new Set(await missingFileIds(sql, organisationId, ids));
  return references
    .filter(({ id }) => missing.has(id))
    .map(({ path }) => ({ path, message: 'is no file of this organisation' }));
}
