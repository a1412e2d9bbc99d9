/** An event's RFI questions in SQL. */
import { randomUUID } from 'node:crypto';
import type { QuestionInput } from '#contract/rfi.ts';
import type { Timestamp } from '#contract/timestamp.ts';
import type { Sql } from '#platform/database/sql.ts';
import { AppError, throwIssues } from '#platform/errors.ts';
import { renderQuestion, replaceQuestions } from '../domain/rfi.ts';
import type { Question, SourcingEvent } from '../domain/sourcing-event.ts';
import { missingFileIssues } from '../files/find-files.ts';

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

/** The organisation's questions with these ids, of any event, as the contract shows them. Unknown ids are left out. */
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
 * Replaces the questions of an event by a list that `checkQuestions` passed. The caller has locked or just inserted the
 * event. `edited` is true when a question that existed before has changed: then the RFI trigger fires. Throws `invalid`
 * for an id that another event has and for files that do not exist, and `conflict` when the list leaves out a question
 * that has answers; the caller must then roll the transaction back. `path` is the path of the list in the body, empty
 * when the list is the whole body.
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
  const issues = await missingFileIssues(
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
  const saved = await upsertQuestions(tx, event, questions);
  for (const [index, { id }] of questions.entries())
    if (!saved.has(id)) issues.push({ path: `${path}[${index}].uuid`, message: 'is a question of another event' });
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
 * Writes the list, and returns the ids that now belong to this event. An id of another event is not taken over. If the
 * other event has inserted it in a transaction that is not committed yet, the insert waits for that transaction.
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
