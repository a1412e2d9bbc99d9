import { questionList, questionsResult } from '#contract/rfi.ts';
import type { Clock } from '#platform/clock.ts';
import { throwIssues } from '#platform/errors.ts';
import { checkQuestions, renderQuestion } from '../domain/rfi.ts';
import { announce } from '../events/announce.ts';
import { saveQuestions } from '../rfi/question-store.ts';
import { deskCommand } from './command.ts';

/**
 * PUT questions: replaces the whole list, in the order of the body. Editing a question fires the RFI trigger and
 * changes no response; adding, moving and removing questions fires no trigger.
 */
export function putQuestions({ clock }: { clock: Clock }) {
  return deskCommand({
    command: 'questions',
    method: 'PUT',
    path: '/questions',
    summary: "Replace the questions of the event's RFI",
    answers: { 200: questionsResult },
    body: questionList,
    clock,
    run: async ({ event, body, unit, now }) => {
      throwIssues(checkQuestions(body, ''), ({ path, message }) => `The questions are not valid: ${path} ${message}.`);
      const { questions, edited } = await saveQuestions(unit.tx, event, body, now, '');
      if (edited)
        await announce(unit, { domainEvent: 'question-edited', event, now, records: { 'rfi-responses': [] } });
      return { status: 200, body: questions.map((question) => renderQuestion(event.id, question)) };
    },
  });
}
