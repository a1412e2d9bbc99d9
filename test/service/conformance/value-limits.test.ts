/** Decisions, "Limits on values": a value at its limit is stored, and one beyond it is 400 with its path. */
import { randomUUID } from 'node:crypto';
import { expect, test } from 'vitest';
import { createEvent, createSuppliers, desk, endedJob, readEvent, readWholeFeed } from '../../harness/sourcing.ts';
import { startTestService } from '../../harness/test-service.ts';
import type { AnyRecord } from '../../harness/watch-feeds.ts';

const service = await startTestService();
const organisation = await service.organisation();
await createSuppliers(organisation, ['S1']);

const long = (length: number) => 'ü'.repeat(length);
const textColumn = (name: string, by = 'BUYER_INPUT') => ({
  name,
  column_type: 'INPUT',
  input_by: by,
  input_type: 'TEXT',
});

/** The limits of an event payload: its length, a payload with a text of that length, and where the text is shown. */
const ofEvent: [string, number, (text: string) => object, string, (event: AnyRecord) => unknown][] = [
  ['event name', 120, (name) => ({ name }), 'name', ({ name }) => name],
  ['description', 1_000, (description) => ({ description }), 'description', ({ description }) => description],
  [
    'column name',
    255,
    (name) => ({ bid_sheet: { columns: [textColumn(name)] } }),
    'bid_sheet.columns[0].name',
    ({ columns }) => columns[0].name,
  ],
  [
    'cell value',
    10_000,
    (value) => ({
      bid_sheet: { columns: [textColumn('T')], lots: [{ name: 'A', values: [{ column: 'T', value }] }] },
    }),
    'bid_sheet.lots[0].values[0].value',
    ({ lots }) => lots[0].values.T,
  ],
  ...(
    [
      ['question text', 255, 'question_text'],
      ["a question's description", 20_000, 'description'],
      ['identifier', 20, 'identifier'],
    ] as const
  ).map(([what, most, member]): (typeof ofEvent)[number] => [
    what,
    most,
    (text) => ({ questions: [{ identifier: '1', question_text: '?', input_type: 'TEXT', [member]: text }] }),
    `questions[0].${member}`,
    ({ questions }) => questions[0][member],
  ]),
  [
    'option',
    50,
    (value) => ({
      questions: [{ identifier: '1', question_text: '?', input_type: 'SINGLE_CHOICE', options: [{ value }] }],
    }),
    'questions[0].options[0].value',
    ({ questions }) => questions[0].options[0].value,
  ],
];

test.each(ofEvent)(
  '%s: %i characters are stored, and one more is refused',
  async (_what, most, payload, path, shown) => {
    const fits = await createEvent(organisation, { name: 'x', ...payload(long(most)) });
    expect(shown(await readEvent(organisation, fits))).toBe(long(most));
    const answer = await organisation.call('POST', '/api/jobs/create-sourcing-events', {
      name: 'x',
      ...payload(long(most + 1)),
    });
    expect([answer.status, answer.body.errors.map((error: { path: string }) => error.path)]).toEqual([400, [path]]);
    // The same limit holds for an update.
    const updated = await organisation.call('POST', '/api/jobs/update-sourcing-event', {
      sourcing_event: fits,
      ...payload(long(most + 1)),
    });
    expect([updated.status, updated.body.errors.map((error: { path: string }) => error.path)]).toEqual([400, [path]]);
    const ended = await endedJob(organisation, '/api/jobs/update-sourcing-event', {
      sourcing_event: fits,
      ...payload(long(most)),
    });
    expect(ended.status).toBe('COMPLETED');
  },
);

const text = randomUUID();
const number = randomUUID();
const event = await createEvent(organisation, {
  name: 'Asked',
  suppliers: [{ external_id: 'S1' }],
  primary_cost_calculation: '1',
  bid_sheet: { columns: [textColumn('T', 'SUPPLIER_INPUT')], lots: [{ name: 'A' }] },
  questions: [
    { uuid: text, identifier: '1', question_text: '?', input_type: 'TEXT', allow_comments: true },
    { uuid: number, identifier: '2', question_text: '?', input_type: 'NUMBER' },
  ],
});
await desk(organisation, 'POST', `${event}/publish`);

test.each<[string, object, object, string]>([
  [
    'a text answer has 10,000 characters',
    { question_uuid: text, value: long(10_000) },
    { value: long(10_001) },
    'value',
  ],
  [
    'a comment has 255 characters',
    { question_uuid: text, value: 'x', comment: long(255) },
    { comment: long(256) },
    'comment',
  ],
  [
    'a number answer has 20 digits',
    { question_uuid: number, value: '9'.repeat(20) },
    { value: '9'.repeat(21) },
    'value',
  ],
  [
    'digits behind the point count, and minus and point do not',
    { question_uuid: number, value: `-${'9'.repeat(18)}.99` },
    { value: `${'9'.repeat(18)}.999` },
    'value',
  ],
])('%s, and one more is refused', async (_what, fits, more, path) => {
  const submit = (answer: object) =>
    organisation.call('POST', `/desk/events/${event}/answers`, { supplier: 'S1', answers: [answer] });
  const refused = await submit({ ...fits, ...more });
  expect([refused.status, refused.body.errors[0].path]).toEqual([400, `answers[0].${path}`]);
  expect((await submit(fits)).status).toBe(200);
  const [record] = (await readWholeFeed(organisation, 'rfi-responses')).slice(-1);
  expect(record).toMatchObject(fits);
});

test("a supplier's cell may have 10,000 characters, and one more is refused", async () => {
  const bid = (value: string) =>
    organisation.call('POST', `/desk/events/${event}/bids`, {
      supplier: 'S1',
      lots: [{ lot: 'A', values: { T: value } }],
    });
  const refused = await bid(long(10_001));
  expect([refused.status, refused.body.errors[0].path]).toEqual([400, 'lots[0].values.T']);
  expect((await bid(long(10_000))).status).toBe(200);
  const [record] = await readWholeFeed(organisation, 'latest-bids');
  expect(record.bid_sheet_values).toEqual([{ column_name: 'T', value: long(10_000) }]);
});
