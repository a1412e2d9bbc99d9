import { describe, expect, test } from 'vitest';
import { type FileReference, makeFileDocument } from '#bridge/documents/file-document.ts';
import { documentSchemas } from '#connector/documents.ts';
import { eventRecord, idOf } from '../parts.ts';
import { answerRecord, documentOf, inFlow, questionObject } from './records.ts';

const [e1, e2] = [idOf(1), idOf(2)];
const s1 = idOf(11);
const q1 = idOf(31);
const file = idOf(41);

const answer = (event = e1, more: Record<string, unknown> = {}, gone = false): FileReference => ({
  part: 'rfi-responses',
  event,
  record: answerRecord(70, event, s1, q1, { document_file_uuids: [file], ...more }),
  gone,
});
const question = (event = e1, more: Record<string, unknown> = {}): FileReference => ({
  part: 'question',
  event,
  record: questionObject(q1, event, '1.1', { attachment_file_uuids: [file.toUpperCase()], ...more }),
  gone: false,
});
const statuses = new Map([
  [e1, 'CLOSED'],
  [e2, 'CLOSED'],
]);

function make(references: readonly FileReference[], given: ReadonlyMap<string, string | undefined> = statuses) {
  return makeFileDocument({
    fileId: file,
    references,
    eventOf: (id) => {
      const status = given.get(id);
      return inFlow(status === undefined ? {} : { record: eventRecord(id, [s1], { status }) }, {
        only: { tags: {}, status: ['CLOSED', 'DRAFT'] },
      });
    },
    questionOf: (id) => (id === q1 ? questionObject(q1, e1, '1.1') : undefined),
    includedSupplierOf: () => undefined,
  });
}

describe('a file', () => {
  test('shows the answer that it is attached to, with its supplier and question', () => {
    const made = make([answer()]);
    expect(made).toEqual({
      made: 'document',
      wanted: true,
      document: {
        kind: 'file',
        key: file,
        event: { id: e1, name: 'Office chairs', type: 'RFQ', is_test: false, tags: [] },
        supplier: { id: s1, name: 'Supplier 0' },
        question: {
          id: q1,
          identifier: '1.1',
          text: 'What of 1.1?',
          type: 'OPTIONAL',
          input_type: 'TEXT',
          categories: [],
        },
      },
    });
    expect(documentSchemas.file.parse(documentOf(made))).toEqual(documentOf(made));
  });

  test("shows no supplier when the question itself references it: it is the purchaser's", () => {
    expect(documentOf(make([answer(), question()]))).not.toHaveProperty('supplier');
  });

  test('that several records reference shows the event whose id comes first, whatever their order', () => {
    for (const references of [
      [answer(e2), answer(e1)],
      [answer(e1), answer(e2)],
    ])
      expect(documentOf(make(references)).event.id).toBe(e1);
    expect(documentOf(make([answer(e1), answer(e2)], new Map([...statuses, [e1, 'DELETED']]))).event.id).toBe(e2);
  });

  test('is withdrawn when no record references it any more, unless an event that may want it is unknown', () => {
    const removed = answer(e1, { document_file_uuids: [] });
    expect(make([removed])).toMatchObject({ made: 'document', wanted: false, document: { event: { id: e1 } } });
    expect(make([removed, answer(e2)])).toMatchObject({ wanted: true, document: { event: { id: e2 } } });
    expect(make([removed, answer(e2)], new Map([[e1, 'CLOSED']]))).toMatchObject({ made: 'not-yet' });
    expect(make([removed, answer(e2)], new Map([...statuses, [e2, 'OPEN']]))).toMatchObject({ made: 'held' });
    expect(make([removed, answer(e2, { document_file_uuids: [] })], new Map([[e1, 'CLOSED']]))).toMatchObject({
      made: 'document',
      wanted: false,
    });
    expect(make([])).toMatchObject({ made: 'held' });
  });

  test('is withdrawn with an answer that is gone, except in a draft, which hides its answers', () => {
    expect(make([answer(e1, {}, true)])).toMatchObject({ wanted: false });
    expect(make([answer(e1, {}, true)], new Map([[e1, 'DRAFT']]))).toMatchObject({ wanted: true });
  });

  test('whose id is no UUID is rejected: with it the service would refuse the links of other files', () => {
    const made = makeFileDocument({
      fileId: 'a',
      references: [answer(e1, { document_file_uuids: ['a'] })],
      eventOf: () => inFlow({}),
      questionOf: () => undefined,
      includedSupplierOf: () => undefined,
    });
    expect(made).toEqual({ made: 'rejected', reason: "the file's id is no UUID" });
  });
});
