import { randomUUID } from 'node:crypto';
import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { QuestionInput } from '#contract/rfi.ts';
import { uploadFile } from '../../harness/files.ts';
import { answersTo, questionLists } from '../../harness/rfi.ts';
import { createEvent, createSuppliers, desk, eventPayload, readEvent, readWholeFeed } from '../../harness/sourcing.ts';
import { startTestService } from '../../harness/test-service.ts';

const service = await startTestService();
const organisation = await service.organisation();
await createSuppliers(organisation, ['S1', 'S2', 'S3']);
const other = await service.organisation();

type Members = Record<string, unknown>;

/** An open event with these questions and the suppliers S1 and S2. `id` returns a question's uuid by its identifier. */
async function openEvent(
  questions: readonly Members[],
): Promise<{ event: string; id: (identifier: string) => string }> {
  const event = await createEvent(organisation, eventPayload({ suppliers: ['S1', 'S2'] }));
  const asked = await desk(
    organisation,
    'PUT',
    `${event}/questions`,
    questions.map((question, index) => ({
      identifier: String(index + 1),
      question_text: 'Which?',
      input_type: 'TEXT',
      ...question,
    })),
  );
  await desk(organisation, 'POST', `${event}/publish`);
  return { event, id: (identifier) => asked.find((question: Members) => question['identifier'] === identifier).id };
}

const submit = (event: string, answers: readonly object[], supplier = 'S1') =>
  organisation.call('POST', `/desk/events/${event}/answers`, { supplier, answers });
const records = (event: string) => readWholeFeed(organisation, 'rfi-responses', `sourcing_event=${event}`);

describe('POST answers', () => {
  test('makes a feed record of each answer', async () => {
    const { event, id } = await openEvent([
      { allow_comments: true, supporting_documents_enabled: true },
      { input_type: 'CURRENCY', currency: 'USD', precision: 2 },
      {
        input_type: 'MULTIPLE_CHOICE',
        options: [{ value: 'a', satisfies_gating: true }, { value: 'b' }, { value: 'c' }],
      },
      { input_type: 'FILE' },
      { input_type: 'DATE' },
    ]);
    const files = [await uploadFile(organisation), await uploadFile(organisation)];
    const answer = await submit(event, [
      { question_uuid: id('1'), value: 'Ångström 🪑', comment: 'so far', document_file_uuids: [files[0]] },
      { question_uuid: id('2'), value: '12345678901234567.89' },
      { question_uuid: id('3').toUpperCase(), selected_options: ['c', 'a'] },
      { question_uuid: id('4'), document_file_uuids: files.toReversed() },
      { question_uuid: id('5'), value: '2028-02-29' },
    ]);
    expect(answer.status).toBe(200);
    const { suppliers } = await readEvent(organisation, event);
    const common = { id: expect.any(Number), sourcing_event: event, supplier: suppliers[0].id };
    const expected = [
      { ...common, question_uuid: id('1'), value: 'Ångström 🪑', comment: 'so far', document_file_uuids: [files[0]] },
      { ...common, question_uuid: id('2'), value: '12345678901234567.89', currency: 'USD' },
      {
        ...common,
        question_uuid: id('3'),
        value: 'a, c',
        selected_options: [
          { value: 'a', satisfies_gating: true },
          { value: 'c', satisfies_gating: false },
        ],
      },
      { ...common, question_uuid: id('4'), document_file_uuids: files.toReversed() },
      { ...common, question_uuid: id('5'), value: '2028-02-29' },
    ];
    expect(answer.body).toEqual({ supplier: 'S1', answers: expected });
    expect(await records(event)).toEqual(expected.map((one) => ({ ...one, modified: expect.any(String) })));
    expect(suppliers).toMatchObject([
      { external_id: 'S1', accepted: true, participated: true, last_accessed: expect.any(String) },
      { external_id: 'S2', accepted: false, participated: false },
    ]);
  });

  test('answering again replaces the answer, which keeps its id, and leaves the others', async () => {
    const { event, id } = await openEvent([{ allow_comments: true }, {}]);
    const first = await submit(event, [
      { question_uuid: id('1'), value: 'a', comment: 'b' },
      { question_uuid: id('2'), value: 'c' },
    ]);
    const second = await submit(event, [{ question_uuid: id('1'), value: 'd' }]);
    const [before] = first.body.answers;
    const { comment: _comment, ...kept } = before;
    expect(second.body.answers).toEqual([{ ...kept, value: 'd' }]);
    expect((await records(event)).map((one) => [one.id, one.value, one.comment])).toEqual([
      [first.body.answers[1].id, 'c', undefined],
      [before.id, 'd', undefined],
    ]);
  });

  test.each<[string, object, string]>([
    ['of 10,001 characters', { value: 'x'.repeat(10_001) }, 'answers[1].value'],
    ['with a comment of 256', { value: 'x', comment: 'x'.repeat(256) }, 'answers[1].comment'],
    ['to an unknown question', { question_uuid: randomUUID(), value: 'x' }, 'answers[1].question_uuid'],
    ['without a value', {}, 'answers[1].value'],
    [
      'with a file that does not exist',
      { value: 'x', document_file_uuids: [randomUUID()] },
      'answers[1].document_file_uuids[0]',
    ],
    ['with a member that does not exist', { value: 'x', note: 'y' }, 'answers[1].note'],
  ])('with one answer %s is refused with the path of the fault, and stores no answer', async (_what, wrong, path) => {
    const { event, id } = await openEvent([{}, { allow_comments: true, supporting_documents_enabled: true }]);
    const answers = [
      { question_uuid: id('1'), value: 'fine' },
      { question_uuid: id('2'), ...wrong },
    ];
    const answer = await submit(event, answers);
    expect([answer.status, answer.body.errors[0].path]).toEqual([400, path]);
    expect(await records(event)).toEqual([]);
    const { suppliers } = await readEvent(organisation, event);
    expect(suppliers[0]).toMatchObject({ accepted: false, participated: false, last_accessed: null });
  });

  test('names every fault of a submission, also unknown files', async () => {
    const { event, id } = await openEvent([{ input_type: 'NUMBER', maximum_value: '5' }, { input_type: 'FILE' }]);
    const answer = await submit(event, [
      { question_uuid: id('1'), value: '5.1' },
      { question_uuid: id('2'), document_file_uuids: [await uploadFile(other)] },
    ]);
    expect(answer.body.errors.map(({ path }: { path: string }) => path)).toEqual([
      'answers[0].value',
      'answers[1].document_file_uuids[0]',
    ]);
    const twice = await submit(
      event,
      [1, 2].map(() => ({ question_uuid: id('1'), value: '5' })),
    );
    expect([twice.status, twice.body.errors[0].path]).toEqual([400, 'answers[1].question_uuid']);
  });

  test('is possible for invited suppliers of an open event, also without an active round', async () => {
    const { event, id } = await openEvent([{}]);
    const answers = [{ question_uuid: id('1'), value: 'a' }];
    expect((await submit(event, answers, 'S3')).status).toBe(409);
    expect((await submit(event, answers, 'nobody')).status).toBe(409);
    expect((await other.call('POST', `/desk/events/${event}/answers`, { supplier: 'S1', answers })).status).toBe(404);
    await desk(organisation, 'POST', `${event}/rounds/1/close`);
    expect((await submit(event, answers)).status).toBe(200);
    await desk(organisation, 'POST', `${event}/pause`);
    const paused = await submit(event, answers, 'S2');
    expect(paused.status).toBe(409);
    expect(paused.body.detail).toContain('PAUSED');
    const draft = await createEvent(organisation, eventPayload({ suppliers: ['S1'] }));
    expect((await submit(draft, answers)).status).toBe(409);
    expect((await records(event)).length).toBe(1);
  });

  test('of several suppliers at once, and repeatedly: each has one record for each question', async () => {
    const { event, id } = await openEvent([{}, {}, {}]);
    const ids = ['1', '2', '3'].map(id);
    const rounds = Array.from({ length: 5 }, (_none, index) => String(index));
    const answers = await Promise.all(
      rounds.flatMap((round) =>
        ['S1', 'S2'].map((supplier) =>
          submit(
            event,
            ids.map((question_uuid) => ({ question_uuid, value: `${supplier} ${round}` })),
            supplier,
          ),
        ),
      ),
    );
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]));
    const all = await records(event);
    expect(new Set(all.map((one) => `${one.supplier} ${one.question_uuid}`)).size).toBe(6);
    expect(new Set(all.map((one) => one.id)).size).toBe(6);
    // A submission is stored as a whole: no supplier has answers of two submissions.
    expect(new Set(all.map((one) => one.value)).size).toBe(2);
  });

  test('any valid answers are stored and read back equal; if one of them is invalid, none is stored', async () => {
    const files = [await uploadFile(organisation), await uploadFile(organisation)];
    const event = await createEvent(organisation, eventPayload({ suppliers: ['S1'] }));
    await desk(organisation, 'POST', `${event}/publish`);
    const submissions = questionLists(5).chain((list) =>
      fc.tuple(fc.constant(list), fc.tuple(...list.map((question) => answersTo(question, files))), fc.nat()),
    );
    const questions: QuestionInput[] = [];
    await fc.assert(
      fc.asyncProperty(submissions, async ([list, answers, place]) => {
        // Questions with answers cannot be removed, so the list grows.
        const fresh = list.map((question, index) => ({ ...question, identifier: `${questions.length + index}` }));
        questions.push(...fresh);
        await desk(organisation, 'PUT', `${event}/questions`, questions);
        const before = await records(event);
        const index = place % answers.length;
        const invalid = answers.with(index, { ...answers[index], question_uuid: randomUUID() });
        const refused = await submit(event, invalid);
        expect([refused.status, refused.body.errors[0].path]).toEqual([400, `answers[${index}].question_uuid`]);
        expect(await records(event)).toEqual(before);
        const accepted = await submit(event, answers);
        expect([accepted.status, accepted.body]).toEqual([200, expect.objectContaining({ supplier: 'S1' })]);
        const added = (await records(event)).slice(before.length);
        for (const given of answers) {
          const record = added.find((one) => one.question_uuid === given.question_uuid);
          expect(record).toMatchObject(JSON.parse(JSON.stringify({ ...given, selected_options: undefined })));
          const values = record.selected_options?.map(({ value }: { value: string }) => value);
          expect(values?.toSorted()).toEqual(given.selected_options?.toSorted());
        }
        expect(added.map(({ modified: _modified, ...one }) => one)).toEqual(accepted.body.answers);
      }),
      { numRuns: 20 },
    );
  });
});

describe('DELETE a file of an answer', () => {
  const remove = (event: string, question: string, file: string, supplier = 'S1', by = organisation) =>
    by.call('DELETE', `/desk/events/${event}/answers/${encodeURIComponent(supplier)}/${question}/files/${file}`);

  test('removes it from that answer only; the record keeps its id, its other files and their uuids', async () => {
    const { event, id } = await openEvent([{ input_type: 'FILE' }, { supporting_documents_enabled: true }]);
    const files = [await uploadFile(organisation), await uploadFile(organisation)];
    const submitted = await submit(event, [
      { question_uuid: id('1'), document_file_uuids: files },
      { question_uuid: id('2'), value: 'a', document_file_uuids: files },
    ]);
    const removed = await remove(event, id('1'), files[0] ?? '');
    expect([removed.status, removed.body]).toEqual([204, '']);
    const [first, second] = submitted.body.answers;
    expect(await records(event)).toMatchObject([second, { ...first, document_file_uuids: [files[1]] }]);
    expect((await remove(event, id('2'), files[0] ?? '')).status).toBe(204);
    expect((await remove(event, id('2'), files[1] ?? '')).status).toBe(204);
    const last = (await records(event)).at(-1);
    expect(last).toEqual({
      id: second.id,
      sourcing_event: event,
      supplier: second.supplier,
      question_uuid: id('2'),
      value: 'a',
      modified: expect.any(String),
    });
  });

  test('that was the last one leaves a record without files', async () => {
    const { event, id } = await openEvent([{ input_type: 'FILE' }]);
    const file = await uploadFile(organisation);
    const answers = [{ question_uuid: id('1'), document_file_uuids: [file] }];
    const submitted = await submit(event, answers);
    expect((await remove(event, id('1'), file)).status).toBe(204);
    const [record] = submitted.body.answers;
    expect(await records(event)).toEqual([{ ...record, document_file_uuids: [], modified: expect.any(String) }]);
    expect((await submit(event, answers)).body.answers).toEqual([record]);
  });

  test('that does not exist is 404, and changes nothing', async () => {
    const { event, id } = await openEvent([{ input_type: 'FILE' }, { input_type: 'FILE' }]);
    const [file, unused] = [await uploadFile(organisation), await uploadFile(organisation)];
    await submit(event, [{ question_uuid: id('1'), document_file_uuids: [file] }]);
    const before = await records(event);
    const answers = await Promise.all([
      remove(event, id('1'), unused),
      remove(event, id('1'), randomUUID()),
      remove(event, id('1'), 'no-uuid'),
      remove(event, id('2'), file),
      remove(event, randomUUID(), file),
      remove(event, 'no-uuid', file),
      remove(event, id('1'), file, 'S2'),
      remove(event, id('1'), file, 'no/body'),
      remove(randomUUID(), id('1'), file),
      remove(event, id('1'), file, 'S1', other),
    ]);
    expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 404));
    expect(await records(event)).toEqual(before);
    const twice = await Promise.all([remove(event, id('1'), file), remove(event, id('1'), file)]);
    expect(new Set(twice.map(({ status }) => status))).toEqual(new Set([204, 404]));
  });

  test('is possible while the event is open', async () => {
    const { event, id } = await openEvent([{ input_type: 'FILE' }]);
    const file = await uploadFile(organisation);
    await submit(event, [{ question_uuid: id('1'), document_file_uuids: [file] }]);
    await desk(organisation, 'POST', `${event}/close`);
    expect((await remove(event, id('1'), file)).status).toBe(409);
    expect(await records(event)).toMatchObject([{ document_file_uuids: [file] }]);
  });
});
