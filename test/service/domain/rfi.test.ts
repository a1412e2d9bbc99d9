import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { type AnswerInput, answer, type QuestionInput, question, questionList, rfiQuestion } from '#contract/rfi.ts';
import { checkQuestions, readAnswers, renderQuestion, replaceQuestions } from '#service/domain/rfi.ts';
import type { Question } from '#service/domain/sourcing-event.ts';
import { answersTo, questionLists } from '../../harness/rfi.ts';

const now = '2030-01-01T00:00:00.000000Z';
const later = '2030-01-02T00:00:00.000000Z';
const id = (number: number) => `00000000-0000-4000-8000-${String(number).padStart(12, '0')}`;

/** As the schema returns it, with its defaults. */
const asked = (members: Record<string, unknown>): QuestionInput =>
  question.parse({ identifier: '1', question_text: 'Which?', input_type: 'TEXT', ...members });
const kept = (members: Record<string, unknown>): Question =>
  replaceQuestions([], [asked({ uuid: id(1), ...members })], now, () => id(99)).questions[0] as Question;
const pathsOf = (issues: readonly { path: string }[]) => issues.map(({ path }) => path);
const yesNo = [{ value: 'Yes', satisfies_gating: true }, { value: 'No' }];

describe('a list of questions', () => {
  test.each<[string, Record<string, unknown>, string[]]>([
    ['a choice without options', { input_type: 'SINGLE_CHOICE' }, ['questions[0].options']],
    ['several choices without options', { input_type: 'MULTIPLE_CHOICE' }, ['questions[0].options']],
    ['options of a text', { options: yesNo }, ['questions[0].options']],
    ['options of a file', { input_type: 'FILE', options: yesNo }, ['questions[0].options']],
    [
      'an option twice',
      { input_type: 'SINGLE_CHOICE', options: [...yesNo, { value: 'Yes' }] },
      ['questions[0].options[2].value'],
    ],
    [
      'a gate that no option opens',
      { input_type: 'SINGLE_CHOICE', question_type: 'GATING', options: [{ value: 'Yes' }, { value: 'No' }] },
      ['questions[0].options'],
    ],
    ['a currency of a number', { input_type: 'NUMBER', currency: 'EUR' }, ['questions[0].currency']],
    [
      'bounds and precision of a date',
      { input_type: 'DATE', minimum_value: '1', maximum_value: '2', precision: 0 },
      ['questions[0].minimum_value', 'questions[0].maximum_value', 'questions[0].precision'],
    ],
    [
      'a minimum above the maximum, by the last of 20 digits',
      { input_type: 'NUMBER', minimum_value: '9999999999999999999.2', maximum_value: '9999999999999999999.1' },
      ['questions[0].maximum_value'],
    ],
    [
      'bounds with more decimals than its precision',
      { input_type: 'CURRENCY', minimum_value: '0.125', maximum_value: '1.001', precision: 2 },
      ['questions[0].minimum_value', 'questions[0].maximum_value'],
    ],
    ['itself as its parent', { uuid: id(1), parent_question_uuid: id(1) }, ['questions[0].parent_question_uuid']],
    ['a parent outside the list', { parent_question_uuid: id(7) }, ['questions[0].parent_question_uuid']],
    ['a file twice', { attachment_file_uuids: [id(5), id(6), id(5)] }, ['questions[0].attachment_file_uuids[2]']],
  ])('is refused with %s', (_what, members, paths) => {
    expect(pathsOf(checkQuestions([asked(members)]))).toEqual(paths);
  });

  test.each<[string, Record<string, unknown>]>([
    ['bounds that are equal', { input_type: 'NUMBER', minimum_value: '1', maximum_value: '1.00', precision: 0 }],
    ['one bound', { input_type: 'NUMBER', maximum_value: '-5' }],
    ['any gate but a choice without a way through', { input_type: 'FILE', question_type: 'EVENT_GATING' }],
    ['options that differ in case', { input_type: 'SINGLE_CHOICE', options: [{ value: 'a' }, { value: 'A' }] }],
  ])('may have %s', (_what, members) => {
    expect(checkQuestions([asked(members)])).toEqual([]);
  });

  test("reports repeated identifiers and uuids under the caller's path", () => {
    const twice = [asked({ uuid: id(1) }), asked({ uuid: id(1), identifier: '1' })];
    expect(pathsOf(checkQuestions(twice))).toEqual(['questions[1].identifier', 'questions[1].uuid']);
    expect(pathsOf(checkQuestions(twice, ''))).toEqual(['[1].identifier', '[1].uuid']);
  });

  test('with a cycle is refused once at each question of the cycle, and not at questions below it', () => {
    const parents = [1, 4, 1, 2, 3, undefined, 2];
    const list = parents.map((parent, index) =>
      asked({
        uuid: id(index),
        identifier: String(index),
        ...(parent === undefined ? {} : { parent_question_uuid: id(parent) }),
      }),
    );
    expect(pathsOf(checkQuestions(list)).sort()).toEqual(
      [1, 2, 3, 4].map((index) => `questions[${index}].parent_question_uuid`),
    );
  });

  test('may be 64 levels deep and no deeper, in any order, and 5,000 questions in a chain do no harm', () => {
    const chain = (length: number) =>
      Array.from({ length }, (_none, index) =>
        asked({
          uuid: id(index),
          identifier: String(index),
          ...(index === 0 ? {} : { parent_question_uuid: id(index - 1) }),
        }),
      );
    expect(checkQuestions(chain(64))).toEqual([]);
    expect(checkQuestions(chain(64).reverse())).toEqual([]);
    expect(pathsOf(checkQuestions(chain(66)))).toEqual(['questions[64].parent_question_uuid']);
    expect(pathsOf(checkQuestions(chain(65).reverse()))).toEqual(['questions[0].parent_question_uuid']);
    expect(pathsOf(checkQuestions(chain(5_000)))).toEqual(['questions[64].parent_question_uuid']);
  });

  test('that is valid is accepted, and is rendered as it was written', () => {
    fc.assert(
      fc.property(questionLists(), (list) => {
        const parsed = questionList.parse(list);
        expect(checkQuestions(parsed)).toEqual([]);
        const { questions, removed, edited } = replaceQuestions([], parsed, now, () => '');
        expect({ removed, edited }).toEqual({ removed: [], edited: false });
        const read = questions.map((one) => rfiQuestion.strict().parse(renderQuestion(id(0), one)));
        expect(
          read.map(({ id: uuid, sourcing_event: _event, modified: _modified, ...rest }) => ({ uuid, ...rest })),
        ).toEqual(parsed.map((one) => JSON.parse(JSON.stringify(one))));
        expect(replaceQuestions(questions, parsed, later, () => '')).toEqual({ questions, removed: [], edited: false });
      }),
    );
  });

  type Fault = [(one: QuestionInput, other: QuestionInput) => QuestionInput, string];
  const faults: Fault[] = [
    [(one, other) => ({ ...one, identifier: other.identifier }), 'identifier'],
    [(one, other) => ({ ...one, uuid: other.uuid }), 'uuid'],
    [(one) => ({ ...one, parent_question_uuid: id(404) }), 'parent_question_uuid'],
    [(one) => ({ ...one, input_type: 'TEXT', options: [{ value: 'a', satisfies_gating: true }] }), 'options'],
    [(one) => ({ ...one, input_type: 'NUMBER', options: [], minimum_value: '2', maximum_value: '1' }), 'maximum_value'],
    [(one) => ({ ...one, attachment_file_uuids: [id(1), id(1)] }), 'attachment_file_uuids[1]'],
  ];

  test('with one fault is refused at its place', () => {
    fc.assert(
      fc.property(
        questionLists().filter((list) => list.length > 1),
        fc.nat(),
        fc.constantFrom(...faults),
        (list, place, [spoil, member]) => {
          const index = place % list.length;
          const other = list[(index + 1) % list.length] as QuestionInput;
          const spoiled = list.with(index, spoil(list[index] as QuestionInput, other));
          const at = pathsOf(checkQuestions(spoiled));
          // Of two equal values, the later one is reported.
          const twin = Math.max(index, (index + 1) % list.length);
          expect(at).toContain(`questions[${['identifier', 'uuid'].includes(member) ? twin : index}].${member}`);
        },
      ),
    );
  });
});

describe('replacing the questions', () => {
  const before = [kept({}), { ...kept({ identifier: '2' }), id: id(2) }];
  const same = [asked({ uuid: id(1) }), asked({ uuid: id(2), identifier: '2' })] as const;

  test.each<[string, QuestionInput[], boolean]>([
    ['nothing changed', [...same], false],
    ['one added', [...same, asked({ identifier: '3' })], false],
    ['one removed', [same[0]], false],
    ['another order', [same[1], same[0]], false],
    ['another text', [same[0], { ...same[1], question_text: 'Why?' }], true],
    ['another type', [same[0], { ...same[1], question_type: 'MANDATORY' }], true],
    ['another parent', [same[0], { ...same[1], parent_question_uuid: id(1) }], true],
    ['another identifier', [same[0], { ...same[1], identifier: '2a' }], true],
    ['another description', [same[0], { ...same[1], description: 'In short.' }], true],
    ['an empty description', [same[0], { ...same[1], description: '' }], false],
  ])('by a list with %s', (_what, given, edited) => {
    const replaced = replaceQuestions(before, given, later, () => id(99));
    expect(replaced.edited).toBe(edited);
    expect(replaced.questions.map((one) => one.id)).toEqual(given.map((one) => one.uuid ?? id(99)));
    const modifiedOf = (of: string, otherwise: string) =>
      replaced.questions.find((one) => one.id === of)?.modified ?? otherwise;
    expect(modifiedOf(id(1), now)).toBe(now);
    const expected = edited ? later : now;
    expect(modifiedOf(id(2), expected)).toBe(expected);
  });

  test('by a list in which one question lacks an option edits that question', () => {
    const options = [...yesNo, { value: 'Maybe' }];
    const choice = [kept({ input_type: 'SINGLE_CHOICE', options })];
    const given = asked({ uuid: id(1), input_type: 'SINGLE_CHOICE', options: yesNo });
    expect(replaceQuestions(choice, [given], later, () => '').edited).toBe(true);
  });

  test('gives an edited question a later `modified`, also when the clock went back', () => {
    const [edited] = replaceQuestions(
      [{ ...kept({}), modified: later }],
      [asked({ uuid: id(1), question_text: 'Why?' })],
      now,
      () => '',
    ).questions;
    expect(edited?.modified).toBe('2030-01-02T00:00:00.000001Z');
  });
});

describe('an answer', () => {
  const read = (members: Record<string, unknown>, given: Record<string, unknown>, primaryCurrency = 'EUR') =>
    readAnswers({ questions: [kept(members)], primaryCurrency }, [answer.parse({ question_uuid: id(1), ...given })]);
  const answered = (members: Record<string, unknown>, given: Record<string, unknown>) => {
    const result = read(members, given);
    if (!result.ok) throw new Error(JSON.stringify(result.issues));
    return result.answered[0];
  };
  const bounded = { input_type: 'NUMBER', minimum_value: '-1.5', maximum_value: '10', precision: 2 };
  const several = { input_type: 'MULTIPLE_CHOICE', options: [...yesNo, { value: 'Maybe', satisfies_gating: true }] };
  const single = { ...several, input_type: 'SINGLE_CHOICE' };

  test.each<[string, Record<string, unknown>, Record<string, unknown>, object]>([
    ['a text as it is', {}, { value: ' Å\n🪑 ' }, { value: ' Å\n🪑 ', selectedOptions: null, currency: null }],
    ['a text of 10,000 characters', {}, { value: 'x'.repeat(10_000) }, { value: 'x'.repeat(10_000) }],
    ['20 digits', { input_type: 'NUMBER' }, { value: '12345678901234567.890' }, { value: '12345678901234567.890' }],
    ['a bound', bounded, { value: '-1.5' }, { value: '-1.5' }],
    ['the other bound, with zeros behind', bounded, { value: '10.000' }, { value: '10.000' }],
    ['its currency', { input_type: 'CURRENCY' }, { value: '1', currency: 'USD' }, { value: '1', currency: 'USD' }],
    ["the question's currency", { input_type: 'CURRENCY', currency: 'GBP' }, { value: '1' }, { currency: 'GBP' }],
    ["the event's currency", { input_type: 'CURRENCY' }, { value: '1' }, { currency: 'EUR' }],
    ['a date', { input_type: 'DATE' }, { value: '2028-02-29' }, { value: '2028-02-29' }],
    [
      'a time as its day in UTC',
      { input_type: 'DATE' },
      { value: '2030-12-31T23:30:00-01:00' },
      { value: '2031-01-01' },
    ],
    [
      'one option with its gating',
      single,
      { selected_options: ['No'] },
      { value: 'No', selectedOptions: [{ value: 'No', satisfies_gating: false }] },
    ],
    [
      "several options in the question's order",
      several,
      { selected_options: ['Maybe', 'Yes'] },
      {
        value: 'Yes, Maybe',
        selectedOptions: [
          { value: 'Yes', satisfies_gating: true },
          { value: 'Maybe', satisfies_gating: true },
        ],
      },
    ],
    [
      'files in their order',
      { input_type: 'FILE' },
      { document_file_uuids: [id(6), id(5)] },
      { value: null, documentFileIds: [id(6), id(5)] },
    ],
    [
      'a comment and documents',
      { allow_comments: true, supporting_documents_enabled: true },
      { value: 'a', comment: 'é'.repeat(255), document_file_uuids: [id(5)] },
      { value: 'a', comment: 'é'.repeat(255), documentFileIds: [id(5)] },
    ],
    [
      'what says nothing as nothing',
      {},
      { value: 'a', comment: '', selected_options: [], document_file_uuids: [] },
      { value: 'a', comment: null, selectedOptions: null, documentFileIds: [] },
    ],
  ])('is kept: %s', (_what, members, given, expected) => {
    expect(answered(members, given)).toEqual({
      questionId: id(1),
      selectedOptions: null,
      comment: null,
      currency: null,
      documentFileIds: [],
      value: expect.anything(),
      ...expected,
    });
  });

  test.each<[string, Record<string, unknown>, Record<string, unknown>, string[]]>([
    ['to no question', {}, { question_uuid: id(7), value: 'a' }, ['question_uuid']],
    ['without a value', {}, {}, ['value']],
    ['with an empty value', {}, { value: '' }, ['value']],
    ['with a comment where none is taken', {}, { value: 'a', comment: 'b' }, ['comment']],
    ['with documents where none are taken', {}, { value: 'a', document_file_uuids: [id(5)] }, ['document_file_uuids']],
    ['with options to a text', {}, { value: 'a', selected_options: ['a'] }, ['selected_options']],
    ['with a currency to a number', { input_type: 'NUMBER' }, { value: '1', currency: 'EUR' }, ['currency']],
    ['with 21 digits', { input_type: 'NUMBER' }, { value: '123456789012345678.901' }, ['value']],
    ['with an exponent', { input_type: 'NUMBER' }, { value: '1e3' }, ['value']],
    ['with a comma', { input_type: 'NUMBER' }, { value: '1,5' }, ['value']],
    ['with a space', { input_type: 'NUMBER' }, { value: '1 ' }, ['value']],
    ['below the range', bounded, { value: '-1.51' }, ['value']],
    ['above the range', bounded, { value: '10.01' }, ['value']],
    [
      'above a bound by the last of 20 digits',
      { input_type: 'NUMBER', maximum_value: '1234567890123456789.1' },
      { value: '1234567890123456789.2' },
      ['value'],
    ],
    ['with too many decimals, out of range', bounded, { value: '10.001' }, ['value', 'value']],
    ['with a day that does not exist', { input_type: 'DATE' }, { value: '2030-02-29' }, ['value']],
    ['with a date as people write it', { input_type: 'DATE' }, { value: '31.12.2030' }, ['value']],
    ['with a time without an offset', { input_type: 'DATE' }, { value: '2030-12-31T10:00:00' }, ['value']],
    ['with no option', single, {}, ['selected_options']],
    ['with two options of one', single, { selected_options: ['Yes', 'No'] }, ['selected_options']],
    ['with none of several', several, { selected_options: [] }, ['selected_options']],
    ['with an option twice', several, { selected_options: ['Yes', 'No', 'Yes'] }, ['selected_options[2]']],
    ['with an option that is none', several, { selected_options: ['Yes', 'yes'] }, ['selected_options[1]']],
    ['with an option as its value', single, { value: 'Yes' }, ['value', 'selected_options']],
    ['without a file', { input_type: 'FILE' }, { document_file_uuids: [] }, ['document_file_uuids']],
    ['with a value to a file', { input_type: 'FILE' }, { value: 'a', document_file_uuids: [id(5)] }, ['value']],
    ['with a file twice', { input_type: 'FILE' }, { document_file_uuids: [id(5), id(5)] }, ['document_file_uuids[1]']],
  ])('%s is refused by its path', (_what, members, given, paths) => {
    const result = read(members, given);
    expect(result.ok ? [] : pathsOf(result.issues)).toEqual(paths.map((path) => `answers[0].${path}`));
  });

  test('with faults, among other answers: all faults are reported, and nothing is returned to store', () => {
    const questions = [kept({}), { ...kept({ input_type: 'NUMBER' }), id: id(2) }];
    const given: AnswerInput[] = [
      { question_uuid: id(1), value: 'fine' },
      { question_uuid: id(2), value: 'x' },
      { question_uuid: id(3), value: 'y' },
    ];
    expect(readAnswers({ questions, primaryCurrency: 'EUR' }, given)).toEqual({
      ok: false,
      issues: [
        { path: 'answers[1].value', message: expect.stringContaining('decimal') },
        { path: 'answers[2].question_uuid', message: expect.any(String) },
      ],
    });
  });

  test('that is generated as valid is stored as it was given', () => {
    const submissions = questionLists().chain((list) =>
      fc.tuple(fc.constant(list), fc.tuple(...list.map((one) => answersTo(one, [id(5), id(6)])))),
    );
    fc.assert(
      fc.property(submissions, ([list, answers]) => {
        const { questions } = replaceQuestions([], questionList.parse(list), now, () => '');
        const result = readAnswers(
          { questions, primaryCurrency: 'CHF' },
          answers.map((one) => answer.parse(one)),
        );
        if (!result.ok) throw new Error(JSON.stringify(result.issues));
        const expected = answers.map((given, index) => {
          const asks = list[index] as QuestionInput;
          const chosen =
            given.selected_options && asks.options.filter(({ value }) => given.selected_options?.includes(value));
          return {
            questionId: asks.uuid,
            value: chosen ? chosen.map(({ value }) => value).join(', ') : (given.value ?? null),
            selectedOptions: chosen ?? null,
            comment: given.comment ?? null,
            currency: asks.input_type === 'CURRENCY' ? (given.currency ?? asks.currency ?? 'CHF') : null,
            documentFileIds: given.document_file_uuids ?? [],
          };
        });
        expect(result.answered).toEqual(expected);
      }),
    );
  });
});
