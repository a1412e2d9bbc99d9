/** Random RFIs for property tests: lists of questions and valid answers to them. */
import * as fc from 'fast-check';
import type { AnswerInput, QuestionInput } from '#contract/rfi.ts';

type InputType = QuestionInput['input_type'];

/** Text as people write it, in any script; never half of a surrogate pair, never NUL. */
export const someText = (min: number, max: number): fc.Arbitrary<string> =>
  fc
    .string({
      unit: fc.oneof(
        fc.constantFrom('é', '東', '🪑', '"', '\\', '\n', ' ', ','),
        fc.string({ minLength: 1, maxLength: 1 }),
      ),
      maxLength: max,
    })
    .map((text) => text.slice(0, max).replaceAll('\u0000', '').toWellFormed())
    .filter((text) => text.length >= min);

const digits = (min: number, max: number) =>
  fc.string({
    unit: fc.constantFrom('0', '1', '2', '3', '4', '5', '6', '7', '8', '9'),
    minLength: min,
    maxLength: max,
  });

/** Decimal text of at most 20 digits, up to `decimals` of them after the decimal point. */
export const decimalText = (decimals = 10): fc.Arbitrary<string> =>
  fc
    .tuple(fc.constantFrom('', '-'), digits(1, 20 - decimals), digits(0, decimals))
    .map(([sign, whole, fraction]) => `${sign}${whole}${fraction === '' ? '' : `.${fraction}`}`);

const inputTypes: readonly InputType[] = [
  'TEXT',
  'NUMBER',
  'CURRENCY',
  'SINGLE_CHOICE',
  'MULTIPLE_CHOICE',
  'DATE',
  'FILE',
];

/** Lists of options of which at least one satisfies the gating. */
const optionLists = fc
  .tuple(fc.uniqueArray(someText(1, 50), { minLength: 1, maxLength: 5 }), fc.nat({ max: 31 }))
  .map(([values, flags]) =>
    values.map((value, index) => ({ value, satisfies_gating: index === 0 || (flags & (1 << index)) > 0 })),
  );

function membersOf(type: InputType): fc.Arbitrary<Partial<QuestionInput>> {
  if (type === 'SINGLE_CHOICE' || type === 'MULTIPLE_CHOICE') return optionLists.map((options) => ({ options }));
  if (type !== 'NUMBER' && type !== 'CURRENCY') return fc.constant({});
  const currency =
    type === 'CURRENCY' ? fc.option(fc.constantFrom('EUR', 'USD', 'JPY'), { nil: undefined }) : fc.constant(undefined);
  return fc.record(
    {
      currency,
      precision: fc.integer({ min: 2, max: 10 }),
      minimum_value: fc.constantFrom('-99999999999999999999', '-10', '0', '0.25'),
      maximum_value: fc.constantFrom('0.25', '1', '12345678901234567890', '99999999999999999999'),
    },
    { requiredKeys: [] },
  );
}

function questionOf(uuid: string, identifier: string): fc.Arbitrary<QuestionInput> {
  return fc.constantFrom(...inputTypes).chain((input_type) =>
    fc
      .tuple(
        fc.record({
          question_text: someText(1, 255),
          question_type: fc.constantFrom<QuestionInput['question_type']>(
            'GATING',
            'EVENT_GATING',
            'MANDATORY',
            'OPTIONAL',
          ),
          categories: fc.array(someText(1, 255), { maxLength: 3 }),
          allow_comments: fc.boolean(),
          supporting_documents_enabled: fc.boolean(),
        }),
        membersOf(input_type),
      )
      .map(([all, own]) => ({ uuid, identifier, input_type, options: [], attachment_file_uuids: [], ...all, ...own })),
  );
}

/** Lists as a client may send them: with the client's own ids, parents anywhere in the list, and no circles. */
export const questionLists = (maxLength = 8): fc.Arbitrary<QuestionInput[]> =>
  fc
    .tuple(
      fc.uniqueArray(fc.uuid(), { minLength: 1, maxLength }),
      fc.uniqueArray(someText(1, 20), { minLength: maxLength, maxLength }),
      fc.array(fc.nat(), { minLength: maxLength, maxLength }),
      fc.nat(),
    )
    .chain(([uuids, identifiers, parents, turn]) =>
      fc.tuple(...uuids.map((uuid, index) => questionOf(uuid, identifiers[index] ?? ''))).map((questions) => {
        const grown = questions.map((question, index) => {
          // The parent is an earlier question, or none. Afterwards the list is rotated, so that parents stand anywhere.
          const parent = (parents[index] ?? 0) % (index + 1);
          return parent === index ? question : { ...question, parent_question_uuid: questions[parent]?.uuid };
        });
        const start = turn % grown.length;
        return [...grown.slice(start), ...grown.slice(0, start)];
      }),
    );

/** Valid answers to a question; `files` are ids of existing files. */
export function answersTo(question: QuestionInput, files: readonly string[]): fc.Arbitrary<AnswerInput> {
  const { input_type: type, options } = question;
  const chosen = (maxLength: number) =>
    fc.uniqueArray(fc.constantFrom(...options.map(({ value }) => value)), { minLength: 1, maxLength });
  const values: Record<InputType, () => fc.Arbitrary<Partial<AnswerInput>>> = {
    TEXT: () => someText(1, 200).map((value) => ({ value })),
    NUMBER: () => numberIn(question).map((value) => ({ value })),
    CURRENCY: () =>
      fc.record({ value: numberIn(question), currency: fc.constantFrom('EUR', 'GBP') }, { requiredKeys: ['value'] }),
    SINGLE_CHOICE: () => chosen(1).map((selected_options) => ({ selected_options })),
    MULTIPLE_CHOICE: () => chosen(options.length).map((selected_options) => ({ selected_options })),
    DATE: () =>
      fc
        .date({ min: new Date('1900-01-01'), max: new Date('2199-12-31'), noInvalidDate: true })
        .map((date) => ({ value: date.toISOString().slice(0, 10) })),
    FILE: () => fc.subarray([...files], { minLength: 1 }).map((document_file_uuids) => ({ document_file_uuids })),
  };
  const beside = fc.record(
    {
      ...(question.allow_comments ? { comment: someText(1, 255) } : {}),
      ...(question.supporting_documents_enabled && type !== 'FILE'
        ? { document_file_uuids: fc.subarray([...files], { minLength: 1 }) }
        : {}),
    },
    { requiredKeys: [] },
  );
  return fc
    .tuple(values[type](), beside)
    .map(([value, more]) => ({ question_uuid: question.uuid ?? '', ...value, ...more }));
}

/** One of the question's bounds, or 0.25, which lies within every pair of the bounds of `membersOf`. */
function numberIn({ minimum_value: min, maximum_value: max }: QuestionInput): fc.Arbitrary<string> {
  if (min === undefined && max === undefined) return decimalText(2);
  return fc.constantFrom('0.25', ...[min, max].filter((bound) => bound !== undefined));
}
