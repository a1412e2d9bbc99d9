import { answerFilePath, noBody } from '#contract/desk.ts';
import type { Clock } from '#platform/clock.ts';
import { AppError } from '#platform/errors.ts';
import { announceAnswers } from '../events/announce-answers.ts';
import { removeResponseFile } from '../rfi/response-store.ts';
import { deskCommand } from './command.ts';

/**
 * DELETE answers/{supplier}/{question}/files/{file}: removes a file from an answer. The response keeps its record id,
 * also when its last file is removed: the record then shows readers that it has no file any more.
 */
export function removeAnswerFile({ clock }: { clock: Clock }) {
  return deskCommand({
    command: 'remove-answer-file',
    method: 'DELETE',
    path: '/answers/:supplier/:question/files/:file',
    summary: "Remove a file from a supplier's answer",
    answers: { 204: null },
    body: noBody.optional(),
    clock,
    run: async ({ event, params, unit, now }) => {
      const path = answerFilePath.safeParse(params);
      const invited = event.invitations.find((invitation) => invitation.externalId === path.data?.supplier);
      const found =
        path.success &&
        invited &&
        (await removeResponseFile(
          unit.tx,
          {
            eventId: event.id,
            supplierId: invited.supplierId,
            questionId: path.data.question,
            fileId: path.data.file,
          },
          now,
        ));
      if (!found) throw new AppError('not-found', 'The event has no such answer of this supplier with such a file.');
      await unit.tx.query(
        'update service.invitations set last_accessed = $3 where event_id = $1 and supplier_id = $2',
        [event.id, invited.supplierId, now],
      );
      await announceAnswers(unit, {
        domainEvent: 'answer-files-changed',
        event,
        supplierId: invited.supplierId,
        questionIds: [path.data.question],
        now,
      });
      return { status: 204 };
    },
  });
}
