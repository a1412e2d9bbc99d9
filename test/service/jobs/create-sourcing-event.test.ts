/** CREATE_SOURCING_EVENT: every member of the payload is stored, and everything that it names must exist. */
import { randomUUID } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import {
  changeSuppliers,
  createEvent,
  createRequest,
  createSuppliers,
  endedJob,
  eventPayload,
  readEvent,
  readWholeFeed,
} from '../../harness/sourcing.ts';
import { startTestService } from '../../harness/test-service.ts';

const service = await startTestService();
const path = '/api/jobs/create-sourcing-events';

test('every member of the payload is stored', async () => {
  const organisation = await service.organisation();
  await changeSuppliers(
    organisation,
    {
      external_id: 'ALL',
      name: 'All',
      contacts: ['ann', 'bob'].map((name) => ({ name, email: `${name}@all.example` })),
    },
    { external_id: 'ONE', name: 'One', contacts: ['cy', 'di'].map((name) => ({ name, email: `${name}@one.example` })) },
    { external_id: 'NONE', name: 'None', contacts: [{ name: 'Ed', email: 'ed@none.example' }] },
  );
  const request = await createRequest(organisation);
  const parent = randomUUID();
  const payload = {
    name: 'Chairs 2030',
    description: 'Chairs for all offices',
    reference_id: 'PR-17',
    event_type: 'ENGLISH',
    primary_currency: 'USD',
    secondary_currencies: [{ code: 'EUR', exchange_rate: '1.10' }],
    tags: [{ name: 'Region', value: 'EMEA' }],
    category: 'Furniture',
    event_contact: { name: 'Ann', email: 'ann@buyer.example' },
    suppliers: [
      { external_id: 'ALL' },
      { external_id: 'ONE', contacts: ['DI@one.example'] },
      { external_id: 'NONE', contacts: [] },
    ],
    rounds: [
      { starts: '2031-01-01T10:00:00+02:00', ends: '2031-01-02' },
      { ends: '2031-01-03T00:00:00Z' },
      { starts: '2031-01-04T00:00:00.000001Z' },
    ],
    questions: [
      {
        uuid: parent,
        identifier: '1',
        question_text: 'ISO 9001?',
        input_type: 'SINGLE_CHOICE',
        options: [{ value: 'Yes' }],
      },
      { identifier: '1.1', question_text: 'Since?', input_type: 'DATE', parent_question_uuid: parent },
    ],
    sourcing_requests: [request],
    primary_cost_calculation: '[Volume] * [Total]',
    bid_sheet: {
      column_roles: { lot_identifier: 'Item', volume: 'Volume', historic_cost: 'Before', description: 'Item' },
      columns: [
        { name: 'Item', column_type: 'INPUT', input_by: 'BUYER_INPUT', input_type: 'TEXT' },
        { name: 'Volume', column_type: 'INPUT', input_by: 'BUYER_INPUT', input_type: 'NUMBER', precision: 0 },
        { name: 'Before', column_type: 'INPUT', input_by: 'BUYER_INPUT', input_type: 'CURRENCY' },
        { name: 'Freight', column_type: 'INPUT', input_by: 'BUYER_INPUT', input_type: 'CURRENCY', scope: 'EVENT' },
        { name: 'Price', column_type: 'INPUT', input_by: 'SUPPLIER_INPUT', input_type: 'CURRENCY', precision: 2 },
        { name: 'Total', column_type: 'FORMULA', formula: 'Price + Freight' },
      ],
      lots: [
        {
          name: 'B',
          values: [
            { column: 'Volume', value: '10' },
            { column: 'Before', value: '5.00', currency: 'EUR' },
          ],
          sourcing_request: request,
        },
        { name: 'A' },
      ],
      global_values: [{ column: 'Freight', value: '2.50' }],
    },
    settings: { is_test: true, close_after_last_round: true },
  };
  const id = await createEvent(organisation, payload);
  const event = await readEvent(organisation, id);
  expect(event).toMatchObject({
    id,
    name: 'Chairs 2030',
    description: 'Chairs for all offices',
    reference_id: 'PR-17',
    type: 'ENGLISH',
    status: 'DRAFT',
    primary_currency: 'USD',
    secondary_currencies: [{ code: 'EUR', exchange_rate: '1.10' }],
    tags: [{ name: 'Region', value: 'EMEA' }],
    category: 'Furniture',
    event_contact: { name: 'Ann', email: 'ann@buyer.example' },
    settings: { is_test: true, is_template: false, close_after_last_round: true },
    column_roles: payload.bid_sheet.column_roles,
    global_values: { Freight: '2.50' },
    primary_cost_calculation: '[Volume] * [Total]',
    sourcing_requests: [request],
    lots: [
      {
        name: 'B',
        values: { Volume: '10', Before: { value: '5.00', currency: 'EUR' } },
        sourcing_request: request,
      },
      { name: 'A', values: {}, sourcing_request: null },
    ],
    rounds: [
      { number: 1, status: 'PENDING', starts: '2031-01-01T08:00:00.000000Z', ends: '2031-01-02T00:00:00.000000Z' },
      { number: 2, status: 'PENDING', starts: null, ends: '2031-01-03T00:00:00.000000Z' },
      { number: 3, status: 'PENDING', starts: '2031-01-04T00:00:00.000001Z', ends: null },
    ],
    questions: [
      { id: parent, identifier: '1', options: [{ value: 'Yes', satisfies_gating: false }] },
      { identifier: '1.1', parent_question_uuid: parent },
    ],
  });
  expect(event.columns.map(({ name }: { name: string }) => name)).toEqual(
    payload.bid_sheet.columns.map(({ name }) => name),
  );
  expect(
    event.suppliers.map((supplier: { external_id: string; contacts: { email: string }[] }) => [
      supplier.external_id,
      supplier.contacts.map(({ email }) => email),
    ]),
  ).toEqual([
    ['ALL', ['ann@all.example', 'bob@all.example']],
    ['NONE', []],
    ['ONE', ['di@one.example']],
  ]);
});

test('members that are left out have their defaults', async () => {
  const organisation = await service.organisation();
  const event = await readEvent(organisation, await createEvent(organisation, { name: 'Bare' }));
  expect(event).toMatchObject({
    description: '',
    reference_id: null,
    type: 'RFQ',
    primary_currency: 'EUR',
    secondary_currencies: [],
    tags: [],
    category: null,
    event_contact: null,
    settings: { is_test: false, is_template: false, close_after_last_round: false },
    columns: [],
    lots: [],
    rounds: [],
    suppliers: [],
    questions: [],
    sourcing_requests: [],
  });
});

test.each(['RFQ', 'DUTCH', 'ENGLISH'])('the feed shows the type %s', async (type) => {
  const organisation = await service.organisation();
  await createEvent(organisation, { name: 'Typed', event_type: type });
  expect(await readWholeFeed(organisation, 'sourcing-events')).toMatchObject([{ type, status: 'DRAFT' }]);
});

describe('sourcing requests', () => {
  test('that lots name are added to those of the event, each once', async () => {
    const organisation = await service.organisation();
    const [first, second, third] = await Promise.all(
      ['1', '2', '3'].map((name) => createRequest(organisation, { name })),
    );
    const base = eventPayload({ lots: ['A', 'B', 'C'] });
    const lots = base.bid_sheet.lots.map((lot, index) => ({ ...lot, sourcing_request: [second, first, third][index] }));
    const id = await createEvent(organisation, {
      ...base,
      bid_sheet: { ...base.bid_sheet, lots },
      sourcing_requests: [first],
    });
    const event = await readEvent(organisation, id);
    expect(event.sourcing_requests).toEqual([first, second, third]);
    const [record] = await readWholeFeed(organisation, 'sourcing-events');
    expect(record.sourcing_requests).toEqual([first, second, third]);
  });

  test("that do not exist, or are another organisation's, fail the job in the same way, with every path", async () => {
    const organisation = await service.organisation();
    const strange = await createRequest(await service.organisation());
    const own = await createRequest(organisation);
    const base = eventPayload({ lots: ['A', 'B'] });
    const [lotA, lotB] = base.bid_sheet.lots;
    const job = await endedJob(organisation, path, {
      ...base,
      sourcing_requests: [own, strange, randomUUID()],
      bid_sheet: { ...base.bid_sheet, lots: [lotA, { ...lotB, sourcing_request: strange }] },
    });
    const message = 'there is no such sourcing request';
    expect(job).toMatchObject({
      status: 'FAILED',
      errors: [
        { path: 'sourcing_requests[1]', message },
        { path: 'sourcing_requests[2]', message },
        { path: 'bid_sheet.lots[1].sourcing_request', message },
      ],
    });
    expect(await readWholeFeed(organisation, 'sourcing-events')).toEqual([]);
  });
});

test("unknown suppliers and contacts, and another organisation's, fail the job with every path", async () => {
  const organisation = await service.organisation();
  await createSuppliers(await service.organisation(), ['STRANGE']);
  await changeSuppliers(
    organisation,
    { external_id: 'S1', name: 'One', contacts: [{ name: 'Ann', email: 'ann@one.example' }] },
    { external_id: 'S2', name: 'Two', contacts: [{ name: 'Bob', email: 'bob@two.example' }] },
  );
  const job = await endedJob(organisation, path, {
    name: 'Wrong',
    suppliers: [
      { external_id: 'STRANGE' },
      { external_id: 'S1', contacts: ['ann@one.example', 'bob@two.example'] },
      { external_id: 'S2' },
    ],
  });
  expect(job).toMatchObject({
    status: 'FAILED',
    errors: [
      { path: 'suppliers[0].external_id', message: 'there is no supplier "STRANGE"' },
      { path: 'suppliers[1].contacts[1]', message: 'is no contact of supplier "S1"' },
    ],
  });
});

test('a job that fails in its last step leaves nothing of its earlier steps', async () => {
  const organisation = await service.organisation();
  const question = {
    identifier: '1',
    question_text: 'Which?',
    input_type: 'TEXT',
    attachment_file_uuids: [randomUUID()],
  };
  const job = await endedJob(organisation, path, { ...eventPayload(), questions: [question] });
  expect(job).toMatchObject({ status: 'FAILED', errors: [{ path: 'questions[0].attachment_file_uuids[0]' }] });
  expect((await organisation.call('GET', '/desk/events')).body.count).toBe(0);
  expect(await readWholeFeed(organisation, 'sourcing-events')).toEqual([]);
});

test('a job shows its first hundred errors, and the number of the others', async () => {
  const organisation = await service.organisation();
  const suppliers = Array.from({ length: 250 }, (_, index) => ({ external_id: `NO-${index}` }));
  const job = await endedJob(organisation, path, { name: 'Wrong', suppliers });
  expect(job.errors).toHaveLength(101);
  expect(job.errors[99].path).toBe('suppliers[99].external_id');
  expect(job.errors[100]).toEqual({ message: 'and 150 more' });
});
