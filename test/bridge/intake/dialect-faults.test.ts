import { expect, test } from 'vitest';
import { sourceLimit } from '#bridge/mirror/source/source-limit.ts';
import { bridgeSettings } from '#bridge/settings/settings.ts';

const inPublic = { dialect: 'public', user_email: 'buyer@example.com' };

/** What is wrong with the settings: each fault with its place in the intake. */
function faultsOf(intake: Record<string, unknown>, source: Record<string, unknown> = inPublic): string[] {
  const parsed = bridgeSettings.safeParse({
    sources: [{ name: 'main', base_url: 'https://sourcing.example.com', api_key: 'key', ...source }],
    intakes: [{ name: 'needs', source: 'main', connector: 'memory', stream: 'requisition', make: 'event', ...intake }],
  });
  return (parsed.error?.issues ?? []).map(({ path, message }) => `${path.slice(2).join('.')}: ${message}`);
}
const withMembers = (members: object) => ({ mapping: { event: { with: members } } });

test('in the dialect public, what the pages show and what we do not know is taken', () => {
  const members = {
    created_by: 'ann@example.com',
    timezone: 'Europe/Berlin',
    roles: [{ email: 'ann@example.com', role_type: 'VIEWER' }],
    tags: ['urgent', { name: 'Plant', value: 'Rome' }],
    event_type: 'AUCTION',
    primary_currency: null,
    primary_cost_calculation: 'Price * Quantity',
    rounds: [{ starts: '2030-01-01T00:00:00Z', ends: '2030-01-02T00:00:00Z' }],
    something_new: 1,
  };
  expect(faultsOf(withMembers(members))).toEqual([]);
  expect(faultsOf({})).toEqual([]);
});

test.each([
  [{}, { dialect: 'public' }, 'source: "main" needs user_email'],
  [
    withMembers({ primary_cost_calculation: '[Price/kg] * 2' }),
    inPublic,
    'mapping.event.with.primary_cost_calculation: names the column "Price/kg"',
  ],
  [
    withMembers({ rounds: [{ ends: '2030-01-02T00:00:00Z' }] }),
    inPublic,
    'mapping.event.with.rounds.0: must have starts and ends',
  ],
  [withMembers({ event_type: 'DUTCH' }), inPublic, 'mapping.event.with.event_type: DUTCH is not shown'],
  [
    {
      mapping: {
        event: { with: { bid_sheet: { columns: [{ name: 'A' }], column_roles: { volume: 'A' } } } },
        lots: { columns: { A: 'line.quantity' } },
      },
    },
    inPublic,
    'mapping.event.with.bid_sheet.column_roles.volume: is not shown',
  ],
  [{ mapping: { event: { category: 'category' } } }, inPublic, 'mapping.event.category: is not shown'],
  [{ mapping: { event: { currency: { value: 'EUR' } } } }, inPublic, 'mapping.event.currency: is not shown'],
  [{ mapping: { event: { suppliers: ['fields.vendor'] } } }, inPublic, 'mapping.event.suppliers: are not shown'],
  [{ make: 'request' }, inPublic, 'mapping.request: must say what the items of a request have'],
  [
    { make: 'request', mapping: { request: { item_fields: { Part: 'line.nothing' } } } },
    inPublic,
    'mapping.request.item_fields.Part: ',
  ],
  [
    { make: 'request', mapping: { request: { item_fields: { Part: 'line.name' }, with: { description: 'x' } } } },
    inPublic,
    'mapping.request.with.description: is made of the requisition',
  ],
  [
    { mapping: { request: { item_fields: { Part: 'line.name' } } } },
    inPublic,
    'mapping.request: goes with make: request',
  ],
  [
    { make: 'request', mapping: { request: { item_fields: { Part: 'line.name' } } } },
    {},
    'mapping.request: needs dialect: public of the source "main"',
  ],
  [withMembers({ timezone: 'Europe/Berlin' }), {}, 'mapping.event.with: '],
  [withMembers({ event_type: 'LOTTERY' }), {}, 'mapping.event.with.event_type: '],
  [withMembers({ name: 'x' }), {}, 'mapping.event.with.name: is made of the requisitions'],
  [
    withMembers({ bid_sheet: { lots: [] } }),
    inPublic,
    'mapping.event.with.bid_sheet.lots: are made of the requisitions',
  ],
])('%j at %j is refused', (intake, source, fault) => {
  const faults = faultsOf(intake, source);
  expect(faults).toContainEqual(expect.stringContaining(fault));
});

test('the limits of jobs are those of the dialect, unless requests are not counted', () => {
  const limitOf = (dialect: 'contract' | 'public') => {
    const limit = sourceLimit({ dialect, quotas: { enabled: true } }, 'jobs_write');
    return [limit?.burst.requests, limit?.burst.seconds, limit?.sustained.requests, limit?.sustained.seconds];
  };
  expect(limitOf('contract')).toEqual([150, 3_600, 750, 86_400]);
  expect(limitOf('public')).toEqual([120, 3_600, 500, 86_400]);
  expect(sourceLimit({ dialect: 'public', quotas: { enabled: false } }, 'jobs_write')).toBeUndefined();
  expect(sourceLimit({ dialect: 'public', quotas: { enabled: true } }, 'feeds')?.burst.requests).toBe(60);
});
