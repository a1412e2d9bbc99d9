import { answersRequest, answersResult } from '#contract/desk.ts';
import type { Issue } from '#contract/issue.ts';
import type { Clock } from '#platform/clock.ts';
import { AppError } from '#platform/errors.ts';
import { readAnswers } from '../domain/rfi.ts';
import { announceAnswers } from '../events/announce-answers.ts';
import { missingFileIssues } from '../files/find-files.ts';
import { loadQuestions } from '../rfi/question-store.ts';
import { saveResponses } from '../rfi/response-store.ts';
import { invitationOf } from './bid-entries.ts';
import { deskCommand } from './command.ts';

/**
 * POST answers: one submission of one supplier, stored as a whole or not at all. An answer replaces the supplier's
 * earlier answer to that question and keeps its record id; other answers stay.
 */
export function submitAnswers({ clock }: { clock: Clock }) {
  return deskCommand({
    command: 'answer',
    method: 'POST',
    path: '/answers',
    summary: "Answer RFI questions in a supplier's name",
    answers: { 200: answersResult },
    body: answersRequest,
    clock,
    run: async ({ event, body, unit, now }) => {
      const { supplierId } = invitationOf(event, body.supplier);
      const questions = await loadQuestions(unit.tx, event.id);
      const read = readAnswers({ questions, primaryCurrency: event.primaryCurrency }, body.answers);
      const files = body.answers.flatMap(({ document_file_uuids: ids = [] }, index) =>
        ids.map((id, place) => ({ id, path: `answers[${index}].document_file_uuids[${place}]` })),
      );
      const missing = await missingFileIssues(unit.tx, event.organisationId, files);
      if (!read.ok) throw invalid([...read.issues, ...missing]);
      if (missing.length > 0) throw invalid(missing);
      await saveResponses(unit.tx, event.id, supplierId, read.answered, now);
      await unit.tx.query(
        `update service.invitations set accepted = true, participated = true, last_accessed = $3
         where event_id = $1 and supplier_id = $2`,
        [event.id, supplierId, now],
      );
      const records = await announceAnswers(unit, {
        domainEvent: 'answers-confirmed',
        event,
        supplierId,
        questionIds: read.answered.map(({ questionId }) => questionId),
        now,
      });
      return { status: 200, body: { supplier: body.supplier, answers: records.map(({ content }) => content) } };
    },
  });
}

function invalid(issues: readonly Issue[]): AppError {
  return new AppError('invalid', `The answers are not valid: ${issues[0]?.path} ${issues[0]?.message}.`, { issues });
}
