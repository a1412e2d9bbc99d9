/**
 * The `rfi-answers` document: what one supplier answered to the questions of one event. Made of the event, its RFI
 * responses and its questions. An answer whose question has not been read yet is shown with the question's id.
 */
import { z } from 'zod';
import type { RfiAnswer, RfiAnswersDocument } from '#connector/documents.ts';
import { supplierQuestionResponse } from '#contract/rfi.ts';
import { pairKey } from './document-keys.ts';
import { type EventInFlow, eventHead, ownSupplier } from './event-parts.ts';
import { type MadeDocument, making, type NotMade, readRecord } from './made-document.ts';
import { questionHead } from './question-head.ts';
import { type MirroredRecord, shownRecords } from './shown-records.ts';
import { compareLabels, compareText, labelParts } from './text-order.ts';

/**
 * Makes the answers of a supplier. `responses` are all records of this supplier in this event, in any order;
 * `questions` are resources by id; `supplier` is the supplier as a page included it. Never throws for any content of
 * the records.
 */
export function makeRfiAnswersDocument(input: {
  eventId: string;
  supplierId: string;
  event: EventInFlow | NotMade;
  supplier: unknown;
  responses: readonly MirroredRecord[];
  questions: ReadonlyMap<string, unknown>;
}): MadeDocument<RfiAnswersDocument> {
  const { eventId, supplierId, event, questions } = input;
  if ('made' in event) return event;
  return making(() => {
    const lines = shownRecords(event, input.responses)
      .map((record) => readRecord(responseForm, record, "an answer's record"))
      .filter((response) => response.supplier === supplierId && hasContent(response))
      .map((response) => {
        const question = questionHead(response.question_uuid, eventId, questions.get(response.question_uuid));
        return { id: response.id, line: lineOf(response, question), label: labelParts(question.identifier ?? '') };
      })
      .sort(
        (a, b) =>
          // Answers without a label come last.
          Number(a.label.length === 0) - Number(b.label.length === 0) ||
          compareLabels(a.label, b.label) ||
          compareText(a.line.question.identifier ?? '', b.line.question.identifier ?? '') ||
          compareText(a.line.question.id, b.line.question.id) ||
          a.id - b.id,
      )
      .map(({ line }) => line);
    const wanted = lines.length > 0;
    const supplier = ownSupplier(event, supplierId, input.supplier, wanted);
    return {
      made: 'document',
      wanted,
      document: {
        kind: 'rfi-answers',
        key: pairKey(eventId, supplierId),
        event: eventHead(event, eventId),
        supplier,
        lines,
      },
    };
  });
}

/** A source may leave out `modified`, which the document does not show, and whether an option satisfies a gate. */
const responseForm = supplierQuestionResponse.omit({ modified: true }).extend({
  selected_options: z.array(z.looseObject({ value: z.string(), satisfies_gating: z.boolean().optional() })).optional(),
});
type Response = z.output<typeof responseForm>;

/**
 * Whether the answer is not empty: when a file was the whole answer and was removed, the record stays without content.
 */
function hasContent({ value, selected_options: options, comment, document_file_uuids: files }: Response): boolean {
  return Boolean(value) || Boolean(comment) || (options?.length ?? 0) > 0 || (files?.length ?? 0) > 0;
}

function lineOf(response: Response, question: RfiAnswer['question']): RfiAnswer {
  const { value, selected_options: options, comment, currency, document_file_uuids: files } = response;
  return {
    question,
    ...(value === undefined ? {} : { value }),
    options: (options ?? []).map(({ value: option, satisfies_gating: gating }) => ({
      value: option,
      ...(gating === undefined ? {} : { satisfies_gating: gating }),
    })),
    ...(comment === undefined ? {} : { comment }),
    ...(currency === undefined ? {} : { currency }),
    files: [...new Set(files)].sort(compareText),
  };
}
