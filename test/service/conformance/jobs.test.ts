/** Jobs: every field with its exact value in each state, for each type; and the document's example of a payload. */
import { randomUUID } from 'node:crypto';
import { expect, test } from 'vitest';
import { uploadFile } from '../../harness/files.ts';
import { createEvent, endedJob, jobEnd, readEvent } from '../../harness/sourcing.ts';
import { at, holdWorkers, someUuid, startConformanceService } from './conformance-service.ts';

const conformance = await startConformanceService();
const { service, organisation, requests } = conformance;
const uuid = expect.stringMatching(someUuid);

test('a pending job has id, type, status and created, and a completed one also created_entity', async () => {
  conformance.moveTo(1);
  const release = await holdWorkers(conformance);
  const submitted = await organisation.call('POST', '/api/jobs/create-sourcing-events', { name: 'Chairs' });
  const pending = { id: uuid, type: 'CREATE_SOURCING_EVENT', status: 'PENDING', created: at(1) };
  expect([submitted.status, submitted.body]).toEqual([202, pending]);
  expect((await organisation.call('GET', `/api/jobs/${submitted.body.id}`)).body).toEqual(submitted.body);
  conformance.moveTo(5);
  await release();
  const done = await jobEnd(organisation, submitted.body.id);
  expect(done).toEqual({ ...submitted.body, status: 'COMPLETED', created_entity: uuid });
  expect((await readEvent(organisation, done.created_entity)).name).toBe('Chairs');
});

test('a completed job of each type has exactly these fields', async () => {
  conformance.moveTo(10);
  const file = await uploadFile(organisation, 'certificate.pdf');
  const event = await createEvent(organisation, { name: 'Template', settings: { is_template: true } });
  const attached = [{ file_name: 'a.txt', content: '' }];
  const detail = { data: [{ file_uuid: uuid, file_name: 'a.txt' }], errors: [] };
  const expected: [string, string, object, object][] = [
    ['CREATE_SOURCING_EVENT', 'create-sourcing-events', { name: 'x' }, { created_entity: uuid }],
    [
      'CREATE_SOURCING_EVENT_FROM_TEMPLATE',
      'create-sourcing-events-from-template',
      { template: event },
      { created_entity: uuid },
    ],
    ['CREATE_SOURCING_REQUEST', 'create-sourcing-requests', { name: 'x' }, { created_entity: uuid }],
    ['UPDATE_SOURCING_EVENT', 'update-sourcing-event', { sourcing_event: event, description: 'y' }, {}],
    [
      'ATTACH_FILES_TO_SOURCING_REQUEST',
      'attach-files-to-sourcing-request',
      { sourcing_request: requests[0], files: attached },
      { detail },
    ],
    [
      'ATTACH_FILES_TO_SOURCING_EVENT',
      'attach-files-to-sourcing-event',
      { sourcing_event: event, files: attached },
      { detail },
    ],
    [
      'GENERATE_FILE_DOWNLOAD_LINKS',
      'generate-file-download-links',
      { file_uuids: [file] },
      {
        detail: {
          data: [
            {
              file_uuid: file,
              file_name: 'certificate.pdf',
              download_url: expect.stringMatching(new RegExp(`^${service.url}/downloads/`)),
            },
          ],
          errors: [],
        },
      },
    ],
  ];
  for (const [type, path, payload, shown] of expected)
    expect(await endedJob(organisation, `/api/jobs/${path}`, payload)).toEqual({
      id: uuid,
      type,
      status: 'COMPLETED',
      created: at(10),
      ...shown,
    });
});

test('a failed job has the reason in errors, and neither an entity nor a detail', async () => {
  const missing = randomUUID();
  const reasons: [string, object, object][] = [
    [
      'create-sourcing-events',
      { name: 'x', suppliers: [{ external_id: 'NONE' }] },
      { path: 'suppliers[0].external_id', message: 'there is no supplier "NONE"' },
    ],
    [
      'update-sourcing-event',
      { sourcing_event: missing },
      { path: 'sourcing_event', message: 'There is no such sourcing event.' },
    ],
    [
      'attach-files-to-sourcing-request',
      { sourcing_request: missing, files: [{ file_name: 'a', content: '' }] },
      { path: 'sourcing_request', message: 'there is no such sourcing request' },
    ],
  ];
  for (const [path, payload, error] of reasons) {
    const job = await endedJob(organisation, `/api/jobs/${path}`, payload);
    expect(Object.keys(job).sort()).toEqual(['created', 'errors', 'id', 'status', 'type']);
    expect([job.status, job.errors]).toEqual(['FAILED', [error]]);
  }
});

test("the document's example of a payload makes exactly that event", async () => {
  const payload = {
    name: 'Office supplies',
    description: 'Paper and pens',
    bid_sheet: {
      column_roles: { lot_identifier: 'Article' },
      columns: [
        { name: 'Article', column_type: 'INPUT', input_by: 'BUYER_INPUT', input_type: 'TEXT' },
        { name: 'Quantity', column_type: 'INPUT', input_by: 'BUYER_INPUT', input_type: 'NUMBER', precision: 0 },
        { name: 'Unit Price', column_type: 'INPUT', input_by: 'SUPPLIER_INPUT', input_type: 'CURRENCY', precision: 2 },
      ],
      lots: [
        {
          name: 'Paper',
          values: [
            { column: 'Article', value: 'A4, 80 g' },
            { column: 'Quantity', value: '500' },
          ],
        },
        { name: 'Pens', values: [{ column: 'Quantity', value: '20' }] },
      ],
    },
    primary_cost_calculation: '[Quantity] * [Unit Price]',
    settings: { is_test: true },
  };
  const event = await readEvent(organisation, await createEvent(organisation, payload));
  const { bid_sheet: sheet } = payload;
  expect(event).toMatchObject({
    name: 'Office supplies',
    description: 'Paper and pens',
    status: 'DRAFT',
    column_roles: { lot_identifier: 'Article' },
    primary_cost_calculation: '[Quantity] * [Unit Price]',
    settings: { is_test: true },
    // Without suppliers, formulas and rounds.
    suppliers: [],
    rounds: [],
  });
  expect(event.columns).toEqual(sheet.columns.map((column) => ({ ...column, allow_negative: false, scope: 'LOT' })));
  const plain = ({ name, values }: { name: string; values: object }) => ({ name, values });
  expect(event.lots.map(plain)).toEqual([
    { name: 'Paper', values: { Article: 'A4, 80 g', Quantity: '500' } },
    { name: 'Pens', values: { Quantity: '20' } },
  ]);
});

const column = { name: 'Q', column_type: 'INPUT', input_by: 'BUYER_INPUT', input_type: 'NUMBER' };
const ofSheet = (sheet: object) => ({ bid_sheet: sheet });

test.each<[object, string]>([
  [{ name: 1 }, 'name'],
  [{ description: 5 }, 'description'],
  [{ bid_sheet: [] }, 'bid_sheet'],
  [ofSheet({ column_roles: [] }), 'bid_sheet.column_roles'],
  [ofSheet({ column_roles: { lot_identifier: 1 } }), 'bid_sheet.column_roles.lot_identifier'],
  [ofSheet({ column_roles: { lot_identifier: 'Nothing' } }), 'bid_sheet.column_roles.lot_identifier'],
  [ofSheet({ columns: {} }), 'bid_sheet.columns'],
  [ofSheet({ columns: [{ ...column, name: undefined }] }), 'bid_sheet.columns[0].name'],
  [ofSheet({ columns: [{ ...column, column_type: 'OUTPUT' }] }), 'bid_sheet.columns[0].column_type'],
  [ofSheet({ columns: [{ ...column, input_by: 'ANYBODY' }] }), 'bid_sheet.columns[0].input_by'],
  [ofSheet({ columns: [{ ...column, input_type: 'DATE' }] }), 'bid_sheet.columns[0].input_type'],
  [ofSheet({ columns: [{ ...column, precision: '2' }] }), 'bid_sheet.columns[0].precision'],
  [ofSheet({ columns: [{ ...column, precision: 0.5 }] }), 'bid_sheet.columns[0].precision'],
  [ofSheet({ lots: {} }), 'bid_sheet.lots'],
  [ofSheet({ lots: [{ values: [] }] }), 'bid_sheet.lots[0].name'],
  [ofSheet({ lots: [{ name: 'A', values: {} }] }), 'bid_sheet.lots[0].values'],
  [
    ofSheet({ columns: [column], lots: [{ name: 'A', values: [{ column: 'Q', value: 5 }] }] }),
    'bid_sheet.lots[0].values[0].value',
  ],
  [
    ofSheet({ columns: [column], lots: [{ name: 'A', values: [{ column: 'Z', value: '5' }] }] }),
    'bid_sheet.lots[0].values[0]',
  ],
  [{ primary_cost_calculation: 5 }, 'primary_cost_calculation'],
  [{ primary_cost_calculation: '[Q] *' }, 'primary_cost_calculation'],
  [{ settings: [] }, 'settings'],
  [{ settings: { is_test: 'true' } }, 'settings.is_test'],
])('a payload with %j is refused by its path, without an identifier', async (wrong, path) => {
  const answer = await organisation.call('POST', '/api/jobs/create-sourcing-events', { name: 'x', ...wrong });
  expect([answer.status, answer.body.errors.map((error: { path: string }) => error.path)]).toEqual([400, [path]]);
  expect(answer.body.id).toBeUndefined();
});
