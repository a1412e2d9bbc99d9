/** What a document shows of a question. */
import { z } from 'zod';
import type { QuestionHead } from '#connector/documents.ts';
import { idOf } from './document-keys.ts';
import { readRecord } from './made-document.ts';

const questionForm = z.looseObject({
  id: z.string(),
  sourcing_event: z.string(),
  identifier: z.string().optional(),
  question_text: z.string().optional(),
  question_type: z.string().optional(),
  input_type: z.string().optional(),
  parent_question_uuid: z.string().optional(),
  categories: z.array(z.string()).default([]),
});

/**
 * Returns what a document shows of a question: only its id when the question has not been read or belongs to another
 * event. Throws `Unmade`, rejected, when the question cannot be read.
 */
export function questionHead(questionId: string, eventId: string, question: unknown): QuestionHead {
  if (question === undefined) return { id: questionId, categories: [] };
  const read = readRecord(questionForm, question, `the question ${questionId}`);
  if (idOf(read.sourcing_event) !== eventId) return { id: questionId, categories: [] };
  const parent = idOf(read.parent_question_uuid);
  return {
    id: questionId,
    ...(read.identifier === undefined ? {} : { identifier: read.identifier }),
    ...(read.question_text === undefined ? {} : { text: read.question_text }),
    ...(read.question_type === undefined ? {} : { type: read.question_type }),
    ...(read.input_type === undefined ? {} : { input_type: read.input_type }),
    ...(parent === undefined ? {} : { parent }),
    categories: read.categories,
  };
}
