/**
 * The `file` document: one for each file that an answer or a question names. Where several name it, it shows the one of
 * the event whose id comes first, of those that the flow takes; removed from all of them it is withdrawn.
 */
import { z } from 'zod';
import type { FileDocument } from '#connector/documents.ts';
import { uuid } from '#contract/scalars.ts';
import { idOf, plainKey } from './document-keys.ts';
import { type EventInFlow, eventHead, supplierHead } from './event-parts.ts';
import { type MadeDocument, making, type NotMade, readRecord, rejected } from './made-document.ts';
import { questionHead } from './question-head.ts';
import { compareText } from './text-order.ts';

/** An answer or a question that names the file, or did. */
export interface FileReference {
  readonly part: 'rfi-responses' | 'question';
  /** Of which it was when it named the file: a record that was moved since then does not take the file with it. */
  readonly event: string;
  readonly record: unknown;
  /** Of an answer: two complete sweeps did not show it any more. */
  readonly gone: boolean;
}

const referenceForm = z.looseObject({
  id: z.union([z.string(), z.int().transform(String)]),
  supplier: uuid.optional(),
  question_uuid: uuid.optional(),
  document_file_uuids: z.array(z.unknown()).default([]),
  attachment_file_uuids: z.array(z.unknown()).default([]),
});

interface ReadReference {
  readonly part: FileReference['part'];
  readonly gone: boolean;
  readonly event: string;
  readonly question: string;
  readonly supplier: string | undefined;
  readonly id: string;
  readonly namesIt: boolean;
}

/**
 * Made of everything that is known to name it or to have named it, in any order. `eventOf`, `questionOf` and
 * `includedSupplierOf` look up what they are given the id of.
 */
export function makeFileDocument(input: {
  fileId: string;
  references: readonly FileReference[];
  eventOf: (id: string) => EventInFlow | NotMade;
  questionOf: (id: string) => unknown;
  includedSupplierOf: (id: string) => unknown;
}): MadeDocument<FileDocument> {
  const { fileId, eventOf } = input;
  return making(() => {
    // The service would refuse a request for links that names it, with all the others in it.
    if (!uuid.safeParse(fileId).success) throw rejected("the file's id is no UUID");
    const references = input.references.map((reference) => readReference(fileId, reference)).sort(compareReferences);
    let reason: NotMade | undefined;
    let withdrawn: MadeDocument<FileDocument> | undefined;
    for (const reference of references) {
      const event = eventOf(reference.event);
      if ('made' in event) {
        if (reference.namesIt) reason ??= event;
        continue;
      }
      const wanted = event.wanted && reference.namesIt && (!reference.gone || event.isDraft);
      if (wanted) return { made: 'document', wanted, document: documentOf(input, reference, event) };
      withdrawn ??= { made: 'document', wanted, document: documentOf(input, reference, event) };
    }
    // Where an event that may want it is not known or held, nothing is withdrawn.
    if (reason !== undefined) return reason;
    return withdrawn ?? { made: 'held', reason: 'nothing that is known names this file' };
  });
}

function readReference(fileId: string, { part, event, record, gone }: FileReference): ReadReference {
  const what = part === 'question' ? "a question's record" : "an answer's record";
  const read = readRecord(referenceForm, record, what);
  const question = part === 'question' ? idOf(read.id) : read.question_uuid;
  if (question === undefined) throw rejected(`${what}: question_uuid is missing`);
  const files = part === 'question' ? read.attachment_file_uuids : read.document_file_uuids;
  return {
    part,
    gone,
    event,
    question,
    supplier: part === 'question' ? undefined : read.supplier,
    id: read.id,
    namesIt: files.some((file) => idOf(file) === fileId),
  };
}

/** Those of a question before those of its answers. */
function compareReferences(a: ReadReference, b: ReadReference): number {
  return (
    compareText(a.event, b.event) ||
    compareText(a.question, b.question) ||
    compareText(a.supplier ?? '', b.supplier ?? '') ||
    compareText(a.part, b.part) ||
    compareText(a.id, b.id)
  );
}

function documentOf(
  { fileId, questionOf, includedSupplierOf }: Parameters<typeof makeFileDocument>[0],
  reference: ReadReference,
  event: EventInFlow,
): FileDocument {
  const { supplier } = reference;
  const head =
    supplier === undefined
      ? undefined
      : (supplierHead(event, supplier, includedSupplierOf(supplier)) ?? { id: supplier, name: '' });
  return {
    kind: 'file',
    key: plainKey(fileId),
    event: eventHead(event, reference.event),
    ...(head === undefined ? {} : { supplier: head }),
    question: questionHead(reference.question, reference.event, questionOf(reference.question)),
  };
}
