/**
 * The `file` document: one for each file that an answer or a question references. When several records reference a
 * file, the document shows the record whose event id comes first, among the events that the flow takes. When no record
 * references the file any more, the document is withdrawn.
 */
import { z } from 'zod';
import type { FileDocument } from '#connector/documents.ts';
import { type FeedWithFiles, feeds } from '#contract/feed.ts';
import { uuid } from '#contract/scalars.ts';
import { idOf, plainKey } from './document-keys.ts';
import { type EventInFlow, eventHead, supplierHead } from './event-parts.ts';
import { type MadeDocument, making, type NotMade, readRecord, rejected } from './made-document.ts';
import { questionHead } from './question-head.ts';
import { compareText } from './text-order.ts';

/** An answer or a question that references the file, or once did. */
export interface FileReference {
  readonly part: FeedWithFiles | 'question';
  /**
   * The event of the record when it referenced the file: a record that was moved since does not take the file along.
   */
  readonly event: string;
  readonly record: unknown;
  /** Of an answer: two full audits did not find it any more. */
  readonly gone: boolean;
}

const referenceForm = z.looseObject({
  id: z.union([z.string(), z.int().transform(String)]),
  supplier: uuid.optional(),
  question_uuid: uuid.optional(),
  document_file_uuids: z.array(z.unknown()).default([]),
  attachment_file_uuids: z.array(z.unknown()).default([]),
});

/** What a record that names files is called in messages, and which members hold its question and its files. */
const membersOf = {
  question: { what: "a question's record", questionIn: 'id', filesIn: 'attachment_file_uuids' },
  'rfi-responses': {
    what: "an answer's record",
    questionIn: 'question_uuid',
    filesIn: feeds['rfi-responses'].files,
  },
} as const satisfies Record<FileReference['part'], object>;

interface ReadReference {
  readonly part: FileReference['part'];
  readonly gone: boolean;
  readonly event: string;
  readonly question: string;
  readonly supplier: string | undefined;
  readonly id: string;
  /** Whether the current version of the record references the file. */
  readonly isCurrent: boolean;
}

/**
 * Makes the document of a file from all records that reference it or once did, in any order. `eventOf`, `questionOf`
 * and `includedSupplierOf` look things up by their ids.
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
    // The service would refuse a whole request for links if it contained this id.
    if (!uuid.safeParse(fileId).success) throw rejected("the file's id is no UUID");
    const references = input.references.map((reference) => readReference(fileId, reference)).sort(compareReferences);
    let reason: NotMade | undefined;
    let withdrawn: MadeDocument<FileDocument> | undefined;
    for (const reference of references) {
      const event = eventOf(reference.event);
      if ('made' in event) {
        if (reference.isCurrent) reason ??= event;
        continue;
      }
      const wanted = event.wanted && reference.isCurrent && (!reference.gone || event.isDraft);
      if (wanted) return { made: 'document', wanted, document: documentOf(input, reference, event) };
      withdrawn ??= { made: 'document', wanted, document: documentOf(input, reference, event) };
    }
    // Nothing is withdrawn while an event that may want the file has not been read or is on hold.
    if (reason !== undefined) return reason;
    return withdrawn ?? { made: 'held', reason: 'no record that has been read references this file' };
  });
}

function readReference(fileId: string, { part, event, record, gone }: FileReference): ReadReference {
  const { what, questionIn, filesIn } = membersOf[part];
  const read = readRecord(referenceForm, record, what);
  const question = questionIn === 'id' ? idOf(read.id) : read[questionIn];
  if (question === undefined) throw rejected(`${what}: ${questionIn} is missing`);
  const files = read[filesIn];
  return {
    part,
    gone,
    event,
    question,
    supplier: part === 'question' ? undefined : read.supplier,
    id: read.id,
    isCurrent: files.some((file) => idOf(file) === fileId),
  };
}

/** By event and question; a question comes before its answers. */
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
