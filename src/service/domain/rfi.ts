/**
 * The RFI: the rules for a list of questions, the rules for an answer to each question, and the form in which an answer
 * is stored. Pure functions; the callers look up files. Sources: API document, "SupplierQuestionResponse" and
 * "RfiQuestion"; decisions, "Limits on values".
 */
import { hasAtMostDecimals, parseDecimal } from '#contract/decimal.ts';
import type { Issue } from '#contract/issue.ts';
import type { AnswerInput, QuestionInput, rfiQuestion } from '#contract/rfi.ts';
import { addMicros, laterOf, parseTimestamp, type Timestamp } from '#contract/timestamp.ts';
import type { Written } from '#contract/written.ts';
import { repeated, repeatsIn } from './issue.ts';
import type { Question, RfiResponse } from './sourcing-event.ts';

/** As deep as a JSON body may be, so that a client can build the tree of questions as JSON. */
const levelsMax = 64;

const choices: ReadonlySet<string> = new Set(['SINGLE_CHOICE', 'MULTIPLE_CHOICE']);
const numerics: ReadonlySet<string> = new Set(['NUMBER', 'CURRENCY']);
const gates: ReadonlySet<string> = new Set(['GATING', 'EVENT_GATING']);

/**
 * Returns all faults of an event's list of questions that its schema cannot find: repeated values, members that do not
 * fit the input type, parents that are not in the list or form a cycle. `path` is the path of the list, empty when the
 * list is the whole body.
 */
export function checkQuestions(questions: readonly QuestionInput[], path = 'questions'): Issue[] {
  const issues: Issue[] = [];
  const repeatedIdentifiers = repeatsIn(questions.map(({ identifier }) => identifier));
  const repeatedIds = repeatsIn(questions.map(({ uuid }) => uuid));
  for (const [index, question] of questions.entries()) {
    const at = `${path}[${index}]`;
    if (repeatedIdentifiers.has(index))
      issues.push({ path: `${at}.identifier`, message: 'is the identifier of another question, too' });
    if (repeatedIds.has(index)) issues.push({ path: `${at}.uuid`, message: 'is the uuid of another question, too' });
    issues.push(
      ...checkOptions(question, at),
      ...checkNumbers(question, at),
      ...repeated(
        question.attachment_file_uuids,
        (place) => `${at}.attachment_file_uuids[${place}]`,
        'names the same file twice',
      ),
    );
  }
  issues.push(...checkParents(questions, path));
  return issues;
}

function checkOptions({ input_type: type, question_type: role, options }: QuestionInput, at: string): Issue[] {
  const path = `${at}.options`;
  if (!choices.has(type)) return options.length === 0 ? [] : [{ path, message: `are not taken by a ${type} question` }];
  if (options.length === 0) return [{ path, message: `must have at least 1 entry for a ${type} question` }];
  const issues = repeated(
    options.map(({ value }) => value),
    (index) => `${path}[${index}].value`,
    'is another option, too',
  );
  // A missing flag is false. If it is missing in all options, no supplier can pass the gate.
  if (gates.has(role) && !options.some((option) => option.satisfies_gating))
    issues.push({
      path,
      message: `of a ${role} question must have one with satisfies_gating, or no supplier can pass`,
    });
  return issues;
}

function checkNumbers(question: QuestionInput, at: string): Issue[] {
  const { input_type: type, currency, minimum_value: least, maximum_value: most, precision } = question;
  const issues: Issue[] = [];
  const refuse = (member: string, message: string) => issues.push({ path: `${at}.${member}`, message });
  if (currency !== undefined && type !== 'CURRENCY') refuse('currency', `is not taken by a ${type} question`);
  if (!numerics.has(type)) {
    for (const [member, value] of Object.entries({ minimum_value: least, maximum_value: most, precision }))
      if (value !== undefined) refuse(member, `is not taken by a ${type} question`);
    return issues;
  }
  if (least !== undefined && most !== undefined && parseDecimal(least)?.greaterThan(most))
    refuse('maximum_value', 'must not be less than minimum_value');
  for (const [member, value] of Object.entries({ minimum_value: least, maximum_value: most }))
    if (value !== undefined && precision !== undefined && !hasAtMostDecimals(value, precision))
      refuse(member, `has more decimals than precision allows (${precision})`);
  return issues;
}

function checkParents(questions: readonly QuestionInput[], path: string): Issue[] {
  const issues: Issue[] = [];
  const indexOf = new Map(questions.map(({ uuid }, index) => [uuid, index]));
  const refuse = (index: number, message: string) =>
    issues.push({ path: `${path}[${index}].parent_question_uuid`, message });
  const parents = questions.map(({ parent_question_uuid: parent }, index) => {
    const found = parent === undefined ? undefined : indexOf.get(parent);
    if (parent !== undefined && found === undefined) refuse(index, 'is no question of this list');
    return found;
  });
  // The level of each question whose path to the top is known; 0 if there is no such path.
  const levels = new Map<number, number>();
  for (const start of questions.keys()) {
    const chain: number[] = [];
    const inChain = new Set<number>();
    let at: number | undefined = start;
    while (at !== undefined && !levels.has(at) && !inChain.has(at)) {
      chain.push(at);
      inChain.add(at);
      at = parents[at];
    }
    const isCycle = at !== undefined && inChain.has(at);
    if (at !== undefined && isCycle)
      for (const index of chain.slice(chain.indexOf(at))) refuse(index, 'makes a circle: the question is above itself');
    let level = at === undefined ? 0 : (levels.get(at) ?? 0);
    const reachesTop = !isCycle && (at === undefined || level > 0);
    for (const index of chain.reverse()) {
      level = reachesTop ? level + 1 : 0;
      levels.set(index, level);
      if (level === levelsMax + 1) refuse(index, `makes more than ${levelsMax} levels of questions`);
    }
  }
  return issues;
}

/** An event's list of questions after it was replaced. */
export interface ReplacedQuestions {
  /** The list to store. */
  readonly questions: Question[];
  /** The questions that the new list leaves out. */
  readonly removed: Question[];
  /** Whether an existing question has changed. Adding, removing and moving questions edits none. */
  readonly edited: boolean;
}

/** Replaces the list. An unchanged question keeps its `modified`; an edited question gets a later one. */
export function replaceQuestions(
  before: readonly Question[],
  given: readonly QuestionInput[],
  now: Timestamp,
  newId: () => string,
): ReplacedQuestions {
  const known = new Map(before.map((question) => [question.id, question]));
  let edited = false;
  const questions = given.map(({ uuid, parent_question_uuid: parent, ...definition }): Question => {
    const question = { ...definition, id: uuid ?? newId(), parentId: parent ?? null, modified: now };
    const previous = known.get(question.id);
    if (!previous) return question;
    if (contentOf(previous) === contentOf(question)) return previous;
    edited = true;
    return { ...question, modified: laterOf(now, addMicros(previous.modified, 1)) ?? now };
  });
  const kept = new Set(questions.map(({ id }) => id));
  return { questions, removed: before.filter(({ id }) => !kept.has(id)), edited };
}

/** A text that is equal for two questions exactly when they have the same content. */
function contentOf(question: Question): string {
  return JSON.stringify(renderQuestion('', { ...question, modified: '' }));
}

/** The question as the contract's RfiQuestion; members without a value and an empty description are left out. */
export function renderQuestion(eventId: string, question: Question): Written<typeof rfiQuestion> {
  return {
    id: question.id,
    sourcing_event: eventId,
    identifier: question.identifier,
    question_text: question.question_text,
    ...(question.description ? { description: question.description } : {}),
    question_type: question.question_type,
    input_type: question.input_type,
    ...(question.parentId === null ? {} : { parent_question_uuid: question.parentId }),
    categories: question.categories,
    options: question.options.map((option) => ({ value: option.value, satisfies_gating: option.satisfies_gating })),
    allow_comments: question.allow_comments,
    supporting_documents_enabled: question.supporting_documents_enabled,
    ...(question.currency === undefined ? {} : { currency: question.currency }),
    ...(question.minimum_value === undefined ? {} : { minimum_value: question.minimum_value }),
    ...(question.maximum_value === undefined ? {} : { maximum_value: question.maximum_value }),
    ...(question.precision === undefined ? {} : { precision: question.precision }),
    attachment_file_uuids: question.attachment_file_uuids,
    modified: question.modified,
  };
}

/** An answer as it is stored: a response without its id and supplier. */
export type Answered = Omit<RfiResponse, 'id' | 'supplierId'>;

/**
 * Checks a supplier's submission against the event's questions. Returns all answers in the form to store or, if there
 * is any fault, all faults with their paths in `answers`. Does not check whether the files exist.
 */
export function readAnswers(
  event: { readonly questions: readonly Question[]; readonly primaryCurrency: string },
  answers: readonly AnswerInput[],
): { ok: true; answered: Answered[] } | { ok: false; issues: Issue[] } {
  const byId = new Map(event.questions.map((question) => [question.id, question]));
  const issues: Issue[] = [];
  const answered = answers.flatMap((answer, index) => {
    const at = `answers[${index}]`;
    const question = byId.get(answer.question_uuid);
    if (!question) {
      issues.push({ path: `${at}.question_uuid`, message: 'is no question of this event' });
      return [];
    }
    const found = [...checkMembers(question, answer, at), ...checkValue(question, answer, at)];
    issues.push(...found);
    return found.length > 0 ? [] : [keptAnswer(question, answer, event.primaryCurrency)];
  });
  return issues.length > 0 ? { ok: false, issues } : { ok: true, answered };
}

/** An answer must have the members that its question asks for and no others: no given value may be lost silently. */
function checkMembers(question: Question, answer: AnswerInput, at: string): Issue[] {
  const { input_type: type } = question;
  const issues: Issue[] = [];
  const refuse = (member: string, message: string) => issues.push({ path: `${at}.${member}`, message });
  const files = answer.document_file_uuids ?? [];
  const takesValue = !choices.has(type) && type !== 'FILE';
  if (takesValue && !answer.value) refuse('value', 'is missing');
  if (!takesValue && answer.value !== undefined)
    refuse(
      'value',
      `is not taken by a ${type} question: use ${type === 'FILE' ? 'document_file_uuids' : 'selected_options'}`,
    );
  if (!choices.has(type) && answer.selected_options?.length)
    refuse('selected_options', `are not taken by a ${type} question`);
  if (type !== 'CURRENCY' && answer.currency !== undefined) refuse('currency', `is not taken by a ${type} question`);
  if (!question.allow_comments && answer.comment) refuse('comment', 'is not taken by this question');
  if (type === 'FILE' && files.length === 0) refuse('document_file_uuids', 'must have at least 1 entry');
  if (type !== 'FILE' && files.length > 0 && !question.supporting_documents_enabled)
    refuse('document_file_uuids', 'are not taken by this question');
  return [...issues, ...repeated(files, (place) => `${at}.document_file_uuids[${place}]`, 'names the same file twice')];
}

function checkValue(question: Question, { value, selected_options: chosen = [] }: AnswerInput, at: string): Issue[] {
  const path = `${at}.value`;
  switch (question.input_type) {
    case 'SINGLE_CHOICE':
    case 'MULTIPLE_CHOICE':
      return checkChosen(question, chosen, `${at}.selected_options`);
    case 'NUMBER':
    case 'CURRENCY':
      return value ? numberFaults(question, value).map((message) => ({ path, message })) : [];
    case 'DATE':
      return value && parseTimestamp(value) === undefined
        ? [{ path, message: 'must be an ISO 8601 date, like 2030-12-31' }]
        : [];
    case 'TEXT':
    case 'FILE':
      return [];
  }
}

function checkChosen({ input_type: type, options }: Question, chosen: readonly string[], path: string): Issue[] {
  const values = new Set(options.map((option) => option.value));
  const issues = repeated(chosen, (index) => `${path}[${index}]`, 'is chosen twice');
  if (type === 'SINGLE_CHOICE' && chosen.length !== 1) issues.push({ path, message: 'must have exactly 1 entry' });
  if (type === 'MULTIPLE_CHOICE' && chosen.length === 0) issues.push({ path, message: 'must have at least 1 entry' });
  for (const [index, value] of chosen.entries())
    if (!values.has(value)) issues.push({ path: `${path}[${index}]`, message: 'is no option of this question' });
  return issues;
}

function numberFaults({ minimum_value: least, maximum_value: most, precision }: Question, value: string): string[] {
  const number = parseDecimal(value);
  if (!number) return ['must be a decimal number of at most 20 digits, like "12.50"'];
  return [
    ...(least !== undefined && number.lessThan(least) ? [`must be at least ${least}`] : []),
    ...(most !== undefined && number.greaterThan(most) ? [`must be at most ${most}`] : []),
    ...(precision !== undefined && !hasAtMostDecimals(value, precision)
      ? [`must have at most ${precision} decimals`]
      : []),
  ];
}

function keptAnswer(question: Question, answer: AnswerInput, primaryCurrency: string): Answered {
  const chosen = new Set(answer.selected_options);
  // In the question's order, so that the same choice in another order is the same answer.
  const selected = question.options.filter(({ value }) => chosen.has(value));
  const isChoice = choices.has(question.input_type);
  return {
    questionId: question.id,
    value: isChoice ? selected.map(({ value }) => value).join(', ') : formattedValue(question, answer.value),
    selectedOptions: isChoice ? selected : null,
    comment: answer.comment || null,
    currency: question.input_type === 'CURRENCY' ? (answer.currency ?? question.currency ?? primaryCurrency) : null,
    documentFileIds: answer.document_file_uuids ?? [],
  };
}

/** Text and numbers as they were written, a date as its day in UTC; null for files. */
function formattedValue({ input_type: type }: Question, value: string | undefined): string | null {
  if (value === undefined) return null;
  return type === 'DATE' ? (parseTimestamp(value)?.slice(0, 10) ?? null) : value;
}
