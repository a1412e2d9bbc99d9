import { randomUUID } from 'node:crypto';
import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { uploadFile } from '../../harness/files.ts';
import { questionLists } from '../../harness/rfi.ts';
import { createEvent, createSuppliers, desk, endedJob, eventPayload, readEvent } from '../../harness/sourcing.ts';
import { startTestService } from '../../harness/test-service.ts';

const service = await startTestService();
const organisation = await service.organisation();
const other = await service.organisation();
await createSuppliers(organisation, ['S1', 'S2']);
await createSuppliers(other, ['S1']);

const newEvent = () => createEvent(organisation, eventPayload({ suppliers: ['S1', 'S2'] }));
const put = (event: string, questions: unknown, by = organisation) =>
  by.call('PUT', `/desk/events/${event}/questions`, questions);
const shown = async (event: string, by = organisation) => (await readEvent(by, event)).questions;
const text = (identifier: string, members: object = {}) => ({
  identifier,
  question_text: `Question ${identifier}`,
  input_type: 'TEXT',
  ...members,
});

describe('PUT questions', () => {
  test('takes a bare list, answers with the stored questions, and makes an id for a question without one', async () => {
    const event = await newEvent();
    const [parent, file] = [randomUUID(), await uploadFile(organisation)];
    const answer = await put(event, [
      {
        identifier: '1.1',
        question_text: 'Which certificates do you hold?',
        description: 'As of today. 東京',
        question_type: 'GATING',
        input_type: 'MULTIPLE_CHOICE',
        parent_question_uuid: parent,
        categories: ['Quality', 'Law'],
        options: [{ value: 'ISO 9001', satisfies_gating: true }, { value: 'none' }],
        allow_comments: true,
        supporting_documents_enabled: true,
        attachment_file_uuids: [file],
      },
      { uuid: parent.toUpperCase(), identifier: '1', question_text: 'Quality', input_type: 'TEXT' },
      {
        identifier: '2',
        question_text: 'Turnover',
        question_type: 'MANDATORY',
        input_type: 'CURRENCY',
        currency: 'USD',
        minimum_value: '0.00',
        maximum_value: '99999999999999999999',
        precision: 2,
      },
    ]);
    expect(answer.status).toBe(200);
    const common = {
      id: expect.stringMatching(/^[0-9a-f-]{36}$/),
      sourcing_event: event,
      modified: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$/),
      categories: [],
      options: [],
      allow_comments: false,
      supporting_documents_enabled: false,
      attachment_file_uuids: [],
    };
    expect(answer.body).toEqual([
      {
        ...common,
        identifier: '1.1',
        question_text: 'Which certificates do you hold?',
        description: 'As of today. 東京',
        question_type: 'GATING',
        input_type: 'MULTIPLE_CHOICE',
        parent_question_uuid: parent,
        categories: ['Quality', 'Law'],
        options: [
          { value: 'ISO 9001', satisfies_gating: true },
          { value: 'none', satisfies_gating: false },
        ],
        allow_comments: true,
        supporting_documents_enabled: true,
        attachment_file_uuids: [file],
      },
      {
        ...common,
        id: parent,
        identifier: '1',
        question_text: 'Quality',
        question_type: 'OPTIONAL',
        input_type: 'TEXT',
      },
      {
        ...common,
        identifier: '2',
        question_text: 'Turnover',
        question_type: 'MANDATORY',
        input_type: 'CURRENCY',
        currency: 'USD',
        minimum_value: '0.00',
        maximum_value: '99999999999999999999',
        precision: 2,
      },
    ]);
    expect(await shown(event)).toEqual(answer.body);
  });

  test('replaces the list in the order of the body; `modified` changes only for edited questions', async () => {
    const event = await newEvent();
    const [a, b, c] = [randomUUID(), randomUUID(), randomUUID()];
    const before = await put(event, [text('a', { uuid: a }), text('b', { uuid: b }), text('c', { uuid: c })]);
    const after = await put(event, [
      text('new'),
      text('c', { uuid: c, question_text: 'Why?' }),
      text('a', { uuid: a }),
    ]);
    expect(after.body.map((question: { identifier: string }) => question.identifier)).toEqual(['new', 'c', 'a']);
    expect(after.body[2]).toEqual(before.body[0]);
    expect(after.body[1]).toEqual({
      ...before.body[2],
      question_text: 'Why?',
      modified: expect.any(String),
    });
    expect(after.body[1].modified > before.body[2].modified).toBe(true);
    expect(await shown(event)).toEqual(after.body);
    expect((await put(event, [])).body).toEqual([]);
    expect(await shown(event)).toEqual([]);
  });

  const cases: [string, unknown, string | undefined][] = [
    ['that is no list', { questions: [] }, ''],
    ['without an identifier', [{ question_text: 'a', input_type: 'TEXT' }], '[0].identifier'],
    ['with an identifier of 21 characters', [text('x'.repeat(21))], '[0].identifier'],
    ['with a text of 256 characters', [text('1', { question_text: 'x'.repeat(256) })], '[0].question_text'],
    ['with a description of 20,001', [text('1', { description: 'x'.repeat(20_001) })], '[0].description'],
    [
      'with an option of 51',
      [text('1', { input_type: 'SINGLE_CHOICE', options: [{ value: 'x'.repeat(51) }] })],
      '[0].options[0].value',
    ],
    ['with an input type that does not exist', [text('1', { input_type: 'NUMERIC' })], '[0].input_type'],
    ['with a member that does not exist', [text('1', { required: true })], '[0].required'],
    [
      'with an option twice',
      [text('1'), text('2', { input_type: 'SINGLE_CHOICE', options: [{ value: 'a' }, { value: 'a' }] })],
      '[1].options[1].value',
    ],
    [
      'with a file that does not exist',
      [text('1', { attachment_file_uuids: [randomUUID()] })],
      '[0].attachment_file_uuids[0]',
    ],
  ];
  test.each(cases)(
    'with a list %s is refused with the path of the fault, and changes nothing',
    async (_what, questions, path) => {
      const event = await newEvent();
      const before = (await put(event, [text('kept')])).body;
      const answer = await put(event, questions);
      expect([answer.status, answer.body.errors[0].path]).toEqual([400, path]);
      expect(await shown(event)).toEqual(before);
    },
  );

  test('accepts every text at its maximum length', async () => {
    const event = await newEvent();
    const full = text('x'.repeat(20), {
      question_text: '東'.repeat(255),
      description: 'x'.repeat(20_000),
      input_type: 'SINGLE_CHOICE',
      options: [{ value: 'ö'.repeat(50) }],
    });
    expect((await put(event, [full])).body).toMatchObject([full]);
  });

  test('is 409 in a state that does not allow it, and 404 for an event of another organisation', async () => {
    const event = await newEvent();
    const before = (await put(event, [text('1')])).body;
    expect((await put(event, [], other)).status).toBe(404);
    await desk(organisation, 'POST', `${event}/publish`);
    expect((await put(event, [text('1', { uuid: before[0].id })])).status).toBe(200);
    await desk(organisation, 'POST', `${event}/close`);
    expect((await put(event, [])).status).toBe(409);
    expect(await shown(event)).toEqual(before);
  });

  test("with another organisation's file is refused as for a file that does not exist", async () => {
    const event = await newEvent();
    const file = await uploadFile(other);
    const foreign = await put(event, [text('1', { attachment_file_uuids: [file] })]);
    const missing = await put(event, [text('1', { attachment_file_uuids: [randomUUID()] })]);
    expect([foreign.status, foreign.body]).toEqual([400, missing.body]);
  });
});

describe("a question's uuid", () => {
  test('of another event of the organisation is refused; that of another organisation may be used', async () => {
    const [first, second] = [await newEvent(), await newEvent()];
    const uuid = randomUUID();
    const before = (await put(first, [text('1', { uuid })])).body;
    const answer = await put(second, [text('0'), text('1', { uuid, question_text: 'mine' })]);
    expect([answer.status, answer.body.errors[0].path]).toEqual([400, '[1].uuid']);
    expect(await shown(second)).toEqual([]);
    expect(await shown(first)).toEqual(before);
    const theirs = await createEvent(other, eventPayload());
    expect((await put(theirs, [text('1', { uuid })], other)).status).toBe(200);
    expect(await shown(first)).toEqual(before);
  });

  test('that two events claim at once belongs to one of them, also with several in another order', async () => {
    const events = [await newEvent(), await newEvent()];
    const uuids = Array.from({ length: 20 }, () => randomUUID());
    const list = uuids.map((uuid, index) => text(String(index), { uuid }));
    const answers = await Promise.all([put(events[0] ?? '', list), put(events[1] ?? '', list.toReversed())]);
    const winner = answers.findIndex(({ status }) => status === 200);
    expect(answers[1 - winner]?.status).toBe(400);
    const kept = await Promise.all(events.map((event) => shown(event)));
    expect([kept[winner].length, kept[1 - winner].length]).toEqual([20, 0]);
  });
});

describe('a question with answers', () => {
  const answered = async () => {
    const event = await newEvent();
    const [asked, free] = [randomUUID(), randomUUID()];
    const options = [{ value: 'Yes', satisfies_gating: true }, { value: 'No' }];
    const choice = text('1.2', { uuid: asked, input_type: 'SINGLE_CHOICE', question_type: 'GATING', options });
    await put(event, [choice, text('2', { uuid: free })]);
    await desk(organisation, 'POST', `${event}/publish`);
    await desk(organisation, 'POST', `${event}/answers`, {
      supplier: 'S1',
      answers: [{ question_uuid: asked, selected_options: ['No'] }],
    });
    return { event, asked, free, choice };
  };

  test('cannot be removed: 409 names it, and the whole list stays', async () => {
    const { event, asked, free } = await answered();
    const before = await shown(event);
    const answer = await put(event, [text('2', { uuid: free, question_text: 'changed' })]);
    expect(answer.status).toBe(409);
    expect(answer.body.detail).toContain(`"1.2" (${asked})`);
    expect(await shown(event)).toEqual(before);
    // A question without answers may be removed.
    expect((await put(event, [])).status).toBe(409);
    expect((await put(event, before.slice(0, 1).map(asInput))).body).toEqual(before.slice(0, 1));
  });

  test('may lose the option that a supplier chose; the answer stays as it was', async () => {
    const { event, asked, choice } = await answered();
    const { answers } = await readEvent(organisation, event);
    const edited = await put(event, [{ ...choice, options: [{ value: 'Yes', satisfies_gating: true }] }]);
    expect([edited.status, edited.body[0].options.length]).toEqual([200, 1]);
    expect((await readEvent(organisation, event)).answers).toEqual(answers);
    const again = { supplier: 'S1', answers: [{ question_uuid: asked, selected_options: ['No'] }] };
    expect((await organisation.call('POST', `/desk/events/${event}/answers`, again)).status).toBe(400);
  });
});

/** The question of an answer, in the form of a request. */
function asInput({ id, sourcing_event: _event, modified: _modified, ...rest }: Record<string, unknown>) {
  return { uuid: id, ...rest };
}

test('any valid list is stored and reads back equal; sent again, it changes nothing', async () => {
  const event = await newEvent();
  await fc.assert(
    fc.asyncProperty(questionLists(), async (list) => {
      const answer = await put(event, list);
      expect([answer.status, answer.body]).toEqual([200, expect.any(Array)]);
      expect(await shown(event)).toEqual(answer.body);
      expect(answer.body.map(asInput)).toEqual(JSON.parse(JSON.stringify(list)));
      expect((await put(event, answer.body.map(asInput))).body).toEqual(answer.body);
    }),
    { numRuns: 8 },
  );
});

test('a create job takes questions with parents by uuid; an unknown file fails it with its path', async () => {
  const parent = randomUUID();
  const questions = [text('1.1', { parent_question_uuid: parent }), text('1', { uuid: parent })];
  const event = await createEvent(organisation, { ...eventPayload(), questions });
  expect(await shown(event)).toMatchObject([{ identifier: '1.1', parent_question_uuid: parent }, { id: parent }]);
  const failed = await endedJob(organisation, '/api/jobs/create-sourcing-events', {
    ...eventPayload(),
    questions: [text('1'), text('2', { attachment_file_uuids: [randomUUID()] })],
  });
  expect(failed).toMatchObject({
    status: 'FAILED',
    errors: [{ path: 'questions[1].attachment_file_uuids[0]', message: expect.any(String) }],
  });
  const refused = await organisation.call('POST', '/api/jobs/create-sourcing-events', {
    ...eventPayload(),
    questions: [text('1'), text('1')],
  });
  expect([refused.status, refused.body.errors[0].path]).toEqual([400, 'questions[1].identifier']);
});
