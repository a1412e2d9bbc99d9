import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { makeRfiAnswersDocument } from '#bridge/documents/rfi-answers-document.ts';
import { compareLabels, labelParts } from '#bridge/documents/text-order.ts';
import { documentSchemas } from '#connector/documents.ts';
import { eventRecord, idOf } from '../parts.ts';
import { answerRecord, documentOf, inFlow, questionObject, standing } from './records.ts';

const event = idOf(0xe1);
const s1 = idOf(11);
const [q1, q2, q3] = [idOf(31), idOf(32), idOf(33)];

function make(responses: readonly unknown[], questions: Record<string, unknown> = {}, status = 'CLOSED') {
  return makeRfiAnswersDocument({
    eventId: event,
    supplierId: s1,
    event: inFlow({ record: eventRecord(event, [s1], { status }) }),
    supplier: undefined,
    responses: standing(responses),
    questions: new Map(Object.entries(questions)),
  });
}

describe('RFI answers', () => {
  test('are in the order of their questions, 1.2 before 1.10, answers to unknown questions last', () => {
    const made = make(
      [
        answerRecord(1, event, s1, q3, { value: 'whose question was not read' }),
        answerRecord(2, event, s1, q1, { value: 'yes', comment: 'so', currency: 'EUR' }),
        answerRecord(3, event, s1, q2, {
          selected_options: [{ value: 'red', satisfies_gating: true, colour: 1 }],
          document_file_uuids: [idOf(41), idOf(41)],
        }),
      ],
      {
        [q1]: questionObject(q1, event, '1.10', { categories: ['Legal'], parent_question_uuid: q2 }),
        [q2]: questionObject(q2, event, '1.2', { question_type: 'GATING', input_type: 'FILE' }),
      },
    );
    expect(documentOf(made).lines).toEqual([
      {
        question: {
          id: q2,
          identifier: '1.2',
          text: 'What of 1.2?',
          type: 'GATING',
          input_type: 'FILE',
          categories: [],
        },
        options: [{ value: 'red', satisfies_gating: true }],
        files: [idOf(41)],
      },
      {
        question: {
          id: q1,
          identifier: '1.10',
          text: 'What of 1.10?',
          type: 'OPTIONAL',
          input_type: 'TEXT',
          parent: q2,
          categories: ['Legal'],
        },
        value: 'yes',
        options: [],
        comment: 'so',
        currency: 'EUR',
        files: [],
      },
      { question: { id: q3, categories: [] }, value: 'whose question was not read', options: [], files: [] },
    ]);
    expect(documentSchemas['rfi-answers'].parse(documentOf(made))).toEqual(documentOf(made));
  });

  test('lose an answer that is empty now, and are withdrawn when none is left', () => {
    const emptied = answerRecord(1, event, s1, q1, { document_file_uuids: [] });
    expect(make([emptied])).toMatchObject({ wanted: false, document: { lines: [] } });
    expect(make([{ ...emptied, document_file_uuids: [idOf(41)] }])).toMatchObject({ wanted: true });
    expect(make([answerRecord(1, event, s1, q1, { value: '0' })])).toMatchObject({ wanted: true });
    expect(make([answerRecord(1, event, s1, q1, { value: '0' })], {}, 'DELETED')).toMatchObject({ wanted: false });
  });

  test('keep an answer that has any content, and lose one that has only blanks', () => {
    const wanted = (more: Record<string, unknown>) => make([answerRecord(1, event, s1, q1, more)]);
    for (const more of [
      { value: 'x' },
      { comment: 'x' },
      { selected_options: [{ value: '', satisfies_gating: false }] },
      { document_file_uuids: [idOf(41)] },
    ])
      expect(wanted(more)).toMatchObject({ wanted: true });
    for (const more of [{}, { value: '', comment: '' }, { value: null, selected_options: [], currency: 'EUR' }])
      expect(wanted(more)).toMatchObject({ wanted: false });
  });

  test('are those of one supplier, the same whatever the order of the records', () => {
    const responses = [
      answerRecord(10, event, s1, q1, { value: 'later' }),
      answerRecord(9, event, s1, q1.toUpperCase(), { value: 'earlier' }),
      answerRecord(8, event, idOf(12), q1, { value: 'of another' }),
    ];
    const questions = { [q1]: questionObject(q1, event.toUpperCase(), '1') };
    for (const order of [responses, responses.toReversed()]) {
      const { lines } = documentOf(make(order, questions));
      expect(lines.map(({ value }) => value)).toEqual(['earlier', 'later']);
      expect(lines.map(({ question }) => question.identifier)).toEqual(['1', '1']);
    }
  });

  test('leave out what is unknown of an option or a question, and show files in a fixed order', () => {
    const made = make(
      [
        answerRecord(1, event, s1, q1, {
          selected_options: [{ value: 'red', satisfies_gating: null }],
          document_file_uuids: [idOf(42), idOf(41), idOf(42)],
        }),
      ],
      { [q1]: questionObject(q1, event, '1', { parent_question_uuid: '' }) },
    );
    const [line] = documentOf(made).lines;
    expect(line).toMatchObject({ options: [{ value: 'red' }], files: [idOf(41), idOf(42)] });
    expect(line?.options[0]).not.toHaveProperty('satisfies_gating');
    expect(line?.question).not.toHaveProperty('parent');
    expect(documentSchemas['rfi-answers'].parse(documentOf(made))).toEqual(documentOf(made));
  });

  test('show nothing of a question of another event', () => {
    const [line] = documentOf(
      make([answerRecord(1, event, s1, q1, { value: '0' })], { [q1]: questionObject(q1, idOf(2), '1.1') }),
    ).lines;
    expect(line?.question).toEqual({ id: q1, categories: [] });
  });
});

const label = fc.stringMatching(/^[0-9a.\- ]{0,6}$/);

describe('the order of labels', () => {
  const sorted = (labels: readonly string[]) => labels.toSorted((a, b) => compareLabels(labelParts(a), labelParts(b)));

  test('compares numbers in them by value', () => {
    expect(sorted(['1.10', '10', '1.2', '2', '1', '1.2.1', 'A.10', 'A.9', '1.02'])).toEqual([
      '1',
      '1.2',
      '1.02',
      '1.2.1',
      '1.10',
      '2',
      '10',
      'A.9',
      'A.10',
    ]);
  });

  test('is a total order for any labels', () => {
    fc.assert(
      fc.property(label, label, label, (a, b, c) => {
        const order = (one: string, other: string) => Math.sign(compareLabels(labelParts(one), labelParts(other)));
        expect(order(a, b)).toBe(-order(b, a) || 0);
        const isChain = order(a, b) <= 0 && order(b, c) <= 0;
        expect(isChain && order(a, c) > 0).toBe(false);
      }),
      { numRuns: 2_000 },
    );
  });
});
