import { describe, expect, test } from 'vitest';
import { bareFormula, type Dialect, sayJob } from '#client/dialect.ts';

const [contract, open]: Dialect[] = [{ name: 'contract' }, { name: 'public', user: 'buyer@example.com' }];
const id = '00000000-0000-4000-8000-000000000001';
const event = {
  name: 'Bolts',
  reference_id: 'PR-7',
  event_type: 'RFQ',
  event_contact: { name: 'Ann' },
  rounds: [{ starts: '2030-01-01T00:00:00Z', ends: '2030-01-02T00:00:00Z' }],
  primary_cost_calculation: '[Unit Price] * [Quantity]',
  tags: ['urgent', { name: 'Plant', value: 'Rome' }],
  timezone: 'Europe/Berlin',
  bid_sheet: { column_roles: { lot_identifier: 'Item', volume: 'Quantity' }, columns: [], lots: [] },
};
const publicEvent = {
  name: 'Bolts',
  reference_id: 'PR-7',
  event_type: 'rfq',
  business_contact: { name: 'Ann' },
  schedule: [{ starts: '2030-01-01T00:00:00Z', ends: '2030-01-02T00:00:00Z' }],
  primary_cost_calculation: 'Unit Price * Quantity',
  tags: ['urgent', { name: 'Plant', value: 'Rome' }],
  timezone: 'Europe/Berlin',
  bid_sheet: { column_roles: { lot_identifier: 'Item' }, columns: [], lots: [] },
};
const files = [
  { file_name: 'a.txt', content: 'AA==' },
  { file_name: 'b.txt', content: 'AA==' },
];

describe('a job in the dialect public', () => {
  test.each([
    ['CREATE_SOURCING_EVENT', event, ['create-sourcing-events'], { created_by: 'buyer@example.com', ...publicEvent }],
    [
      'CREATE_SOURCING_EVENT',
      { name: 'Bolts', created_by: 'ann@example.com', description: null },
      ['create-sourcing-events'],
      { name: 'Bolts', created_by: 'ann@example.com', description: null },
    ],
    [
      'CREATE_SOURCING_EVENT_FROM_TEMPLATE',
      { template: id, name: 'Bolts' },
      ['create-sourcing-events-from-template'],
      { created_by: 'buyer@example.com', template_sourcing_event_id: id, name: 'Bolts' },
    ],
    [
      'UPDATE_SOURCING_EVENT',
      { sourcing_event: id, name: 'Nuts', event_contact: { name: 'Ann' }, bid_sheet: { lots: [] } },
      ['update-sourcing-events', 'update-sourcing-event'],
      { sourcing_event: id, name: 'Nuts', business_contact: { name: 'Ann' }, bid_sheet: { lots: [] } },
    ],
    [
      'ATTACH_FILES_TO_SOURCING_EVENT',
      { sourcing_event: id, files },
      ['attach-files-to-sourcing-event'],
      { created_by: 'buyer@example.com', sourcing_event: id, files: ['a.txt', 'b.txt'] },
    ],
    [
      'ATTACH_FILES_TO_SOURCING_REQUEST',
      { sourcing_request: id, files },
      ['attach-files-to-sourcing-request'],
      { requester: 'buyer@example.com', sourcing_request: id, files: ['a.txt', 'b.txt'] },
    ],
    ['GENERATE_FILE_DOWNLOAD_LINKS', { file_uuids: [id] }, ['generate-file-download-links'], { file_uuids: [id] }],
  ] as const)('%s has the public names', (type, payload, paths, body) => {
    expect(sayJob(open as Dialect, type, payload)).toEqual({ paths, body });
  });
});

test.each(['CREATE_SOURCING_EVENT', 'UPDATE_SOURCING_EVENT', 'ATTACH_FILES_TO_SOURCING_EVENT'] as const)(
  '%s in the dialect contract is sent as it is, to the path of the contract',
  (type) => {
    const payload = { ...event, files, sourcing_event: id };
    const { paths, body } = sayJob(contract as Dialect, type, payload);
    expect(paths).toHaveLength(1);
    expect(body).toBe(payload);
  },
);

test('the update of the contract goes to the singular path', () => {
  expect(sayJob(contract as Dialect, 'UPDATE_SOURCING_EVENT', {}).paths).toEqual(['update-sourcing-event']);
});

describe('a formula without brackets', () => {
  test.each([
    ['[Unit Price] * [Quantity]', 'Unit Price * Quantity'],
    ['Price * Quantity', 'Price * Quantity'],
    ['([Price] + [Freight 2]) * 1.19', '(Price + Freight 2) * 1.19'],
    ['MIN([Price], [Höchstpreis])', 'MIN(Price, Höchstpreis)'],
    ['[Max Load] * [Price_net]', 'Max Load * Price_net'],
  ])('%s is %s', (formula, text) => {
    expect(bareFormula(formula)).toEqual({ text, ambiguous: [] });
  });

  test.each([
    ['[Price/kg] * [Quantity]', ['Price/kg']],
    ['[Lead time (days)] + [Price]', ['Lead time (days)']],
    ['[MIN] * [round]', ['MIN', 'round']],
    ['[2nd Price] * 2', ['2nd Price']],
    ['[Price [net]]] * 2', ['Price [net]']],
    ['[Unit  Price] * [ Price]', ['Unit  Price', ' Price']],
    ['[A, B] * [A-B] * [A.B] * [A < B]', ['A, B', 'A-B', 'A.B', 'A < B']],
  ])('of %s could not be told apart: %j', (formula, ambiguous) => {
    expect(bareFormula(formula)).toMatchObject({ ambiguous });
  });
});
