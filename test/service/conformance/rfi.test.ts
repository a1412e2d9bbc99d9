/** RFI answers in the feed, and the included questions: every field with its exact value. */
import { expect, test } from 'vitest';
import { uploadFile } from '../../harness/files.ts';
import { createEvent, desk, readWholeFeed } from '../../harness/sourcing.ts';
import { at, startConformanceService } from './conformance-service.ts';

const conformance = await startConformanceService();
const { organisation, requests, supplierIds } = conformance;

const files = [await uploadFile(organisation, 'spec.pdf'), await uploadFile(organisation, 'drawing.pdf')] as const;
const uuidOf = (place: number) => `00000000-0000-4000-8000-00000000000${place}`;

/** A question of each input type, as they are sent. */
const questions = [
  {
    uuid: uuidOf(1),
    identifier: '1',
    question_text: 'What do you make?',
    description: 'In your own words. 東京',
    question_type: 'MANDATORY',
    input_type: 'TEXT',
    categories: ['General', 'Quality'],
    allow_comments: true,
    supporting_documents_enabled: true,
    attachment_file_uuids: [files[0], files[1]],
  },
  {
    uuid: uuidOf(2),
    identifier: '1.1',
    question_text: 'How many a year?',
    question_type: 'OPTIONAL',
    input_type: 'NUMBER',
    parent_question_uuid: uuidOf(1),
    minimum_value: '0.50',
    maximum_value: '1000',
    precision: 2,
  },
  {
    uuid: uuidOf(3),
    identifier: '1.2',
    question_text: 'Turnover?',
    question_type: 'OPTIONAL',
    input_type: 'CURRENCY',
    parent_question_uuid: uuidOf(1),
    currency: 'USD',
  },
  {
    uuid: uuidOf(4),
    identifier: '2',
    question_text: 'ISO 9001?',
    question_type: 'GATING',
    input_type: 'SINGLE_CHOICE',
    options: [{ value: 'Yes', satisfies_gating: true }, { value: 'No' }],
  },
  {
    uuid: uuidOf(5),
    identifier: '3',
    question_text: 'Which plants?',
    question_type: 'EVENT_GATING',
    input_type: 'MULTIPLE_CHOICE',
    options: [{ value: 'Ulm' }, { value: 'Köln', satisfies_gating: true }, { value: 'Lyon' }],
  },
  { uuid: uuidOf(6), identifier: '4', question_text: 'Since when?', input_type: 'DATE' },
  { uuid: uuidOf(7), identifier: '5', question_text: 'The certificate', input_type: 'FILE' },
  { uuid: uuidOf(8), identifier: '6', question_text: 'Nobody answers this', input_type: 'TEXT' },
];

const answers = [
  { question_uuid: uuidOf(1), value: 'Chairs', comment: 'and tables', document_file_uuids: [files[1]] },
  { question_uuid: uuidOf(2), value: '12.50' },
  { question_uuid: uuidOf(3), value: '1234567890.05' },
  { question_uuid: uuidOf(4), selected_options: ['Yes'] },
  { question_uuid: uuidOf(5), selected_options: ['Lyon', 'Köln'] },
  { question_uuid: uuidOf(6), value: '1999-12-31T23:30:00-01:00' },
  { question_uuid: uuidOf(7), document_file_uuids: [files[1], files[0]] },
];

conformance.moveTo(1);
const event = await createEvent(organisation, {
  name: 'Chairs',
  suppliers: [{ external_id: 'S1' }, { external_id: 'S2' }],
  sourcing_requests: [requests[0]],
  questions,
});
await desk(organisation, 'POST', `${event}/publish`);
conformance.moveTo(2);
await desk(organisation, 'POST', `${event}/answers`, { supplier: 'S1', answers });
conformance.moveTo(3);
const inPounds = [{ question_uuid: uuidOf(3), value: '5', currency: 'GBP' }];
await desk(organisation, 'POST', `${event}/answers`, { supplier: 'S2', answers: inPounds });

const stamp = (minute: number, micros: number) => at(minute).replace(/0Z$/, `${micros}Z`);

test('each answer of each supplier has a record with exactly these fields', async () => {
  const records = await readWholeFeed(organisation, 'rfi-responses');
  const of = (place: number, supplier = 'S1') => ({
    id: expect.any(Number),
    sourcing_event: event,
    sourcing_request: requests[0],
    supplier: supplierIds[supplier],
    question_uuid: uuidOf(place),
  });
  expect(records).toEqual([
    { ...of(1), value: 'Chairs', comment: 'and tables', document_file_uuids: [files[1]], modified: at(2) },
    { ...of(2), value: '12.50', modified: stamp(2, 1) },
    { ...of(3), value: '1234567890.05', currency: 'USD', modified: stamp(2, 2) },
    {
      ...of(4),
      value: 'Yes',
      selected_options: [{ value: 'Yes', satisfies_gating: true }],
      modified: stamp(2, 3),
    },
    {
      ...of(5),
      value: 'Köln, Lyon',
      selected_options: [
        { value: 'Köln', satisfies_gating: true },
        { value: 'Lyon', satisfies_gating: false },
      ],
      modified: stamp(2, 4),
    },
    // 23:30 with an offset west of Greenwich is the next day in UTC.
    { ...of(6), value: '2000-01-01', modified: stamp(2, 5) },
    { ...of(7), document_file_uuids: [files[1], files[0]], modified: stamp(2, 6) },
    { ...of(3, 'S2'), value: '5', currency: 'GBP', modified: at(3) },
  ]);
  const ids = records.map(({ id }) => id);
  expect(ids.every((id) => Number.isSafeInteger(id))).toBe(true);
  expect(new Set(ids).size).toBe(8);
});

test('include=questions shows the question of each record with exactly these fields', async () => {
  const { body } = await organisation.call('GET', '/api/feeds/rfi-responses?include=questions');
  const defaults = {
    sourcing_event: event,
    question_type: 'OPTIONAL',
    categories: [],
    options: [],
    allow_comments: false,
    supporting_documents_enabled: false,
    attachment_file_uuids: [],
    modified: at(1),
  };
  const asShown = questions.slice(0, 7).map(({ uuid, ...question }) => ({ id: uuid, ...defaults, ...question }));
  const [, , , single, multiple] = asShown;
  expect(body.includes).toEqual({
    questions: [
      ...asShown.slice(0, 3),
      {
        ...single,
        options: [
          { value: 'Yes', satisfies_gating: true },
          { value: 'No', satisfies_gating: false },
        ],
      },
      {
        ...multiple,
        options: [
          { value: 'Ulm', satisfies_gating: false },
          { value: 'Köln', satisfies_gating: true },
          { value: 'Lyon', satisfies_gating: false },
        ],
      },
      ...asShown.slice(5),
    ],
  });
});

test('the feed is filtered by event, request, tag and time, and all given filters must match', async () => {
  conformance.moveTo(5);
  const question = '10000000-0000-4000-8000-000000000000';
  const other = await createEvent(organisation, {
    name: 'Desks',
    suppliers: [{ external_id: 'S1' }],
    tags: [{ name: 'Cost Center', value: 'R&D' }],
    sourcing_requests: [requests[1]],
    questions: [{ uuid: question, identifier: '1', question_text: '?', input_type: 'TEXT' }],
  });
  await desk(organisation, 'POST', `${other}/publish`);
  conformance.moveTo(6);
  const value = [{ question_uuid: question, value: 'Desks' }];
  await desk(organisation, 'POST', `${other}/answers`, { supplier: 'S1', answers: value });
  const all = await readWholeFeed(organisation, 'rfi-responses');
  const filtered = (parameters: Record<string, string>) =>
    readWholeFeed(organisation, 'rfi-responses', new URLSearchParams({ page_size: '2', ...parameters }).toString());
  expect(all).toHaveLength(9);
  const [first, last] = [all.slice(0, 8), all.slice(8)];
  const tag = 'filter[sourcing_event.tags.Cost Center]';
  const cases: [Record<string, string>, object[]][] = [
    [{ sourcing_event: event }, first],
    [{ sourcing_event: other }, last],
    [{ sourcing_request: requests[0] }, first],
    [{ sourcing_request: requests[1] }, last],
    [{ [tag]: 'R&D' }, last],
    [{ [tag]: 'R' }, []],
    [{ modified_after: at(3) }, all.slice(7)],
    [{ modified_before: at(3) }, first],
    [{ modified_after: at(3), modified_before: at(3) }, all.slice(7, 8)],
    [{ modified_after: '2030-01-02' }, []],
    [{ modified_before: '2030-01-02' }, all],
    [{ sourcing_event: other, [tag]: 'R&D', sourcing_request: requests[1], modified_after: at(6) }, last],
    [{ sourcing_event: event, [tag]: 'R&D' }, []],
  ];
  for (const [parameters, expected] of cases)
    expect([parameters, await filtered(parameters)]).toEqual([parameters, expected]);
  const { body } = await organisation.call(
    'GET',
    `/api/feeds/rfi-responses?sourcing_event=${other}&include=suppliers&include=sourcing_events`,
  );
  expect(body.includes).toMatchObject({
    suppliers: [{ id: supplierIds['S1'], external_id: 'S1' }],
    sourcing_events: [{ id: other, sourcing_requests: [requests[1]] }],
  });
});

test('a file keeps its uuid through answers, edits and feed updates, and can be downloaded', async () => {
  conformance.moveTo(10);
  const edited = questions.map((question) => ({ ...question, question_text: `${question.question_text} (edited)` }));
  await desk(organisation, 'PUT', `${event}/questions`, edited);
  await desk(organisation, 'POST', `${event}/pause`);
  await desk(organisation, 'POST', `${event}/resume`);
  await desk(organisation, 'POST', `${event}/unpublish`);
  await desk(organisation, 'POST', `${event}/publish`);
  const { body } = await organisation.call('GET', `/api/feeds/rfi-responses?include=questions&sourcing_event=${event}`);
  const named = [
    ...body.data.flatMap((record: { document_file_uuids?: string[] }) => record.document_file_uuids ?? []),
    ...body.includes.questions.flatMap(
      (question: { attachment_file_uuids: string[] }) => question.attachment_file_uuids,
    ),
  ];
  expect(named).toEqual([files[1], files[1], files[0], files[0], files[1]]);
  const submitted = await organisation.call('POST', '/api/jobs/generate-file-download-links', { file_uuids: named });
  await expect
    .poll(async () => (await organisation.call('GET', `/api/jobs/${submitted.body.id}`)).body.detail?.data)
    .toMatchObject([{ file_name: 'drawing.pdf' }, { file_name: 'spec.pdf' }]);
});
