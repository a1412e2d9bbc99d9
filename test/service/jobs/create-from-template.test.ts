/** CREATE_SOURCING_EVENT_FROM_TEMPLATE: an event with the template's members, except for the overrides. */
import { randomUUID } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import {
  changeSuppliers,
  createEvent,
  createRequest,
  desk,
  endedJob,
  eventPayload,
  readEvent,
  readWholeFeed,
} from '../../harness/sourcing.ts';
import type { TestOrganisation } from '../../harness/test-organisation.ts';
import { startTestService } from '../../harness/test-service.ts';

const service = await startTestService();
const path = '/api/jobs/create-sourcing-events-from-template';

const parent = randomUUID();

async function createTemplate(organisation: TestOrganisation, payload: object = {}): Promise<string> {
  const base = eventPayload({ name: 'Template', lots: ['A', 'B'] });
  return createEvent(organisation, { ...base, settings: { is_template: true }, ...payload });
}

async function created(organisation: TestOrganisation, payload: object) {
  const job = await endedJob(organisation, path, payload);
  expect(job).toMatchObject({ status: 'COMPLETED', created_entity: expect.any(String) });
  return readEvent(organisation, job.created_entity);
}

test('an event has the members of its template, but no id of it, and is no template', async () => {
  const organisation = await service.organisation();
  await changeSuppliers(
    organisation,
    { external_id: 'ALL', name: 'All', contacts: ['a', 'b'].map((name) => ({ name, email: `${name}@all.example` })) },
    { external_id: 'ONE', name: 'One', contacts: ['c', 'd'].map((name) => ({ name, email: `${name}@one.example` })) },
  );
  const request = await createRequest(organisation);
  const { bid_sheet: sheet } = eventPayload();
  const template = await createTemplate(organisation, {
    name: 'Template',
    description: 'Text',
    reference_id: 'T-1',
    event_type: 'DUTCH',
    primary_currency: 'USD',
    secondary_currencies: [{ code: 'EUR', exchange_rate: '1.1' }],
    tags: [{ name: 'Region', value: 'EMEA' }],
    category: 'Furniture',
    event_contact: { email: 'a@buyer.example' },
    suppliers: [{ external_id: 'ALL' }, { external_id: 'ONE', contacts: ['d@one.example'] }],
    rounds: [{ starts: '2031-01-01', ends: '2031-01-02' }, {}],
    sourcing_requests: [request],
    bid_sheet: {
      ...sheet,
      lots: [
        { name: 'B', sourcing_request: request, values: [{ column: 'Volume', value: '7' }] },
        { name: 'A', values: [] },
      ],
    },
    questions: [
      { uuid: parent, identifier: '1', question_text: 'First?', input_type: 'TEXT', description: 'Why' },
      { identifier: '1.1', question_text: 'Second?', input_type: 'TEXT', parent_question_uuid: parent },
    ],
    settings: { is_template: true, is_test: true, close_after_last_round: true },
  });
  const original = await readEvent(organisation, template);
  const event = await created(organisation, { template });
  const ids = (shown: typeof event) => [shown, ...shown.lots, ...shown.questions].map(({ id }: { id: string }) => id);
  expect(ids(event).filter((id: string) => ids(original).includes(id))).toEqual([]);
  expect(new Set(ids(event)).size).toBe(5);
  const [first, second] = event.questions;
  expect(second.parent_question_uuid).toBe(first.id);
  const comparable = (shown: typeof event) => ({
    ...shown,
    id: '',
    created: '',
    history: [],
    allowed: [],
    is_template: '',
    lots: shown.lots.map((lot: object) => ({ ...lot, id: '' })),
    questions: shown.questions.map(({ parent_question_uuid: _parent, ...question }: Record<string, unknown>) => ({
      ...question,
      id: '',
      sourcing_event: '',
      modified: '',
    })),
  });
  expect(comparable(event)).toEqual({
    ...comparable(original),
    settings: { is_template: false, is_test: true, close_after_last_round: true },
  });
  // The choice "all contacts" was copied, not the list of contacts at that time.
  await changeSuppliers(
    organisation,
    { external_id: 'ALL', contacts: [{ name: 'e', email: 'e@all.example' }] },
    { external_id: 'ONE', contacts: [{ name: 'e', email: 'e@one.example' }] },
  );
  const invited = (await readEvent(organisation, event.id)).suppliers.map(
    (supplier: { contacts: { email: string }[] }) => supplier.contacts.map(({ email }) => email),
  );
  expect(invited).toEqual([['a@all.example', 'b@all.example', 'e@all.example'], ['d@one.example']]);
  expect(await readEvent(organisation, template)).toMatchObject({ id: template, questions: [{ id: parent }, {}] });
});

test('overrides replace members; those of bid_sheet and settings are replaced one by one', async () => {
  const organisation = await service.organisation();
  const template = await createTemplate(organisation, {
    category: 'Furniture',
    questions: [{ identifier: '1', question_text: 'First?', input_type: 'TEXT' }],
    settings: { is_template: true, is_test: true },
  });
  const event = await created(organisation, {
    template,
    name: 'Made',
    questions: [],
    bid_sheet: { lots: [{ name: 'C', values: [{ column: 'Volume', value: '3' }] }] },
    settings: { close_after_last_round: true },
  });
  expect(event).toMatchObject({
    name: 'Made',
    category: 'Furniture',
    questions: [],
    primary_cost_calculation: '[Volume] * [Price]',
    column_roles: { volume: 'Volume' },
    columns: [{ name: 'Volume' }, { name: 'Price' }],
    settings: { is_template: false, is_test: true, close_after_last_round: true },
  });
  expect(event.lots).toMatchObject([{ name: 'C', values: { Volume: '3' } }]);
  const another = await created(organisation, { template, settings: { is_template: true } });
  expect(another.settings.is_template).toBe(true);
  expect(await created(organisation, { template: another.id })).toMatchObject({ name: 'Template' });
});

describe('a template that cannot be used fails the job', () => {
  test("when it does not exist, or is another organisation's, with the same error", async () => {
    const organisation = await service.organisation();
    const theirs = await createTemplate(await service.organisation());
    const [strange, missing] = await Promise.all(
      [theirs, randomUUID()].map((template) => endedJob(organisation, path, { template })),
    );
    expect(strange).toMatchObject({ status: 'FAILED', errors: [{ path: 'template' }] });
    expect(strange.errors).toEqual(missing.errors);
  });

  test('when the event is no template, or was deleted', async () => {
    const organisation = await service.organisation();
    const plain = await createEvent(organisation, { name: 'Plain' });
    const deleted = await createTemplate(organisation);
    await desk(organisation, 'POST', `${deleted}/delete`);
    for (const [template, message] of [
      [plain, 'is_template'],
      [deleted, 'deleted'],
    ])
      expect(await endedJob(organisation, path, { template })).toMatchObject({
        status: 'FAILED',
        errors: [{ path: 'template', message: expect.stringContaining(message ?? '') }],
      });
  });

  test('when the overrides do not fit the rest; the error names the path and its origin', async () => {
    const organisation = await service.organisation();
    await changeSuppliers(organisation, { external_id: 'S1', name: 'One' }, { external_id: 'S2', name: 'Two' });
    const template = await createTemplate(organisation, { suppliers: [{ external_id: 'S1' }] });
    const job = await endedJob(organisation, path, {
      template,
      bid_sheet: { lots: [{ name: 'A', values: [{ column: 'Weight', value: '1' }] }] },
      primary_cost_calculation: '[Weight] * 2',
    });
    expect(job.errors.map(({ path: at }: { path: string }) => at)).toEqual([
      'primary_cost_calculation',
      'bid_sheet.lots[0].values[0]',
    ]);
    await changeSuppliers(organisation, { external_id: 'S1', archived: true });
    expect((await endedJob(organisation, path, { template })).errors).toEqual([
      { path: 'suppliers[0].external_id', message: 'supplier "S1" is archived (as the template has it)' },
    ]);
    expect((await created(organisation, { template, suppliers: [{ external_id: 'S2' }] })).suppliers).toMatchObject([
      { external_id: 'S2' },
    ]);
  });
});

test('a template is in the feed as any other draft, and cannot be published', async () => {
  const organisation = await service.organisation();
  const template = await createTemplate(organisation);
  expect(await readWholeFeed(organisation, 'sourcing-events')).toMatchObject([{ id: template, status: 'DRAFT' }]);
  expect((await organisation.call('POST', `/desk/events/${template}/publish`, {})).status).toBe(409);
  const event = await created(organisation, { template });
  await desk(organisation, 'POST', `${event.id}/publish`);
});
