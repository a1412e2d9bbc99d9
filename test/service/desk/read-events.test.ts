import { describe, expect, test } from 'vitest';
import { liveEvent } from '#contract/live-event.ts';
import { createEvent, createSuppliers, desk, eventPayload, readEvent } from '../../harness/sourcing.ts';
import { startTestService } from '../../harness/test-service.ts';

const service = await startTestService();

describe('GET /desk/events', () => {
  test("lists the organisation's own events, newest first, by page, status and type", async () => {
    const organisation = await service.organisation();
    await createEvent(await service.organisation(), eventPayload({ name: 'theirs' }));
    const ids = [];
    for (const name of ['one', 'two', 'three']) ids.unshift(await createEvent(organisation, { name }));
    await desk(organisation, 'POST', `${ids[0]}/publish`);
    const read = async (query: string) => (await organisation.call('GET', `/desk/events${query}`)).body;
    const all = await read('');
    expect(all.result.map((one: { id: string }) => one.id)).toEqual(ids);
    expect(all).toMatchObject({ count: 3, page_number: 1, num_pages: 1, next: null, previous: null });
    expect(all.result[0]).toEqual({
      id: ids[0],
      name: 'three',
      reference_id: null,
      type: 'RFQ',
      status: 'OPEN',
      is_template: false,
      created: expect.any(String),
      published: expect.any(String),
      closed: null,
      allowed: (await organisation.call('GET', `/desk/events/${ids[0]}`)).body.allowed,
    });
    // Its round is ACTIVE, and the drafts have none.
    expect(all.result[0].allowed).toEqual(expect.arrayContaining(['close', 'close-round', 'bid']));
    expect(all.result[1].allowed).toEqual(expect.arrayContaining(['publish', 'delete']));
    expect((await read('?status=OPEN')).result.map((one: { id: string }) => one.id)).toEqual([ids[0]]);
    const drafts = await read('?status=DRAFT&page_size=1');
    expect(drafts).toMatchObject({ count: 2, result: [{ id: ids[1] }] });
    const { pathname, search } = new URL(drafts.next);
    expect((await organisation.call('GET', pathname + search)).body.result).toMatchObject([{ id: ids[2] }]);
    expect(await read('?type=DUTCH')).toMatchObject({ count: 0, result: [] });
    expect((await organisation.call('GET', '/desk/events?status=OPENED')).status).toBe(400);
  });
});

describe('GET /desk/events/{id}', () => {
  test('shows everything of the event, as it is now', async () => {
    const organisation = await service.organisation();
    await createSuppliers(organisation, ['S1', 'S2']);
    const payload = {
      ...eventPayload({ lots: ['A', 'B'], suppliers: ['S1', 'S2'] }),
      description: 'For the new office',
      reference_id: 'R-1',
      tags: [{ name: 'Region', value: 'North' }],
      category: 'Furniture',
      event_contact: { name: 'Ada', email: 'ada@example.com' },
      secondary_currencies: [{ code: 'USD', exchange_rate: '0.9' }],
      rounds: [{ ends: '2039-01-01T00:00:00Z' }],
      questions: [{ identifier: '1', question_text: 'Since when?', input_type: 'TEXT' }],
      settings: { is_test: true, close_after_last_round: true },
    };
    const event = await createEvent(organisation, payload);
    await desk(organisation, 'POST', `${event}/publish`);
    const lots = [
      { lot: 'A', values: { Price: { value: '10', currency: 'USD' } } },
      { lot: 'B', values: {} },
    ];
    await desk(organisation, 'POST', `${event}/bids`, { supplier: 'S1', lots });
    const awards = [{ lot: 'A', supplier: 'S1', share_awarded: '0.5' }];
    await desk(organisation, 'PUT', `${event}/scenarios/best`, { awards });
    await desk(organisation, 'PUT', `${event}/scenarios/none`, { awards: [] });
    await desk(organisation, 'POST', `${event}/award`, { scenario: 'best' });
    const [question] = (await readEvent(organisation, event)).questions;
    await desk(organisation, 'POST', `${event}/answers`, {
      supplier: 'S1',
      answers: [{ question_uuid: question.id, value: '1999' }],
    });
    const body = await readEvent(organisation, event);
    expect(liveEvent.safeParse(body).error?.issues).toBeUndefined();
    expect(body).toMatchObject({
      id: event,
      name: 'Office chairs',
      description: 'For the new office',
      reference_id: 'R-1',
      type: 'RFQ',
      status: 'OPEN',
      primary_currency: 'EUR',
      secondary_currencies: [{ code: 'USD', exchange_rate: '0.9' }],
      tags: [{ name: 'Region', value: 'North' }],
      category: 'Furniture',
      event_contact: { name: 'Ada', email: 'ada@example.com' },
      settings: { is_test: true, is_template: false, close_after_last_round: true },
      column_roles: { volume: 'Volume' },
      columns: [{ name: 'Volume' }, { name: 'Price' }],
      primary_cost_calculation: '[Volume] * [Price]',
      sourcing_requests: [],
      files: [],
      lots: [
        { name: 'A', values: { Volume: '10' }, sourcing_request: null },
        { name: 'B', values: { Volume: '10' }, sourcing_request: null },
      ],
      rounds: [{ number: 1, status: 'ACTIVE', ends: '2039-01-01T00:00:00.000000Z' }],
      suppliers: [
        { external_id: 'S1', name: 'Supplier S1', invite_count: 1, accepted: true, participated: true },
        { external_id: 'S2', name: 'Supplier S2', invite_count: 1, accepted: false, participated: false },
      ],
      scenarios: [
        { name: 'best', awarded: true, awards },
        { name: 'none', awarded: false, awards: [] },
      ],
      questions: [{ id: question.id, identifier: '1', question_text: 'Since when?' }],
      answers: [{ supplier: 'S1', question_uuid: question.id, value: '1999', document_file_uuids: [] }],
    });
    expect(body.bids).toEqual([
      {
        id: expect.any(String),
        lot: 'A',
        supplier: 'S1',
        cost: '90',
        values: { Price: { value: '10', currency: 'USD' } },
        offers: null,
        draft: null,
        withdrawn: false,
      },
      {
        id: expect.any(String),
        lot: 'B',
        supplier: 'S1',
        cost: null,
        values: null,
        offers: null,
        draft: {},
        withdrawn: false,
      },
    ]);
  });
});

test('GET shows the event at one instant, also while commands change it', async () => {
  const organisation = await service.organisation();
  const event = await createEvent(organisation, eventPayload());
  await desk(organisation, 'POST', `${event}/publish`);
  const commandsDone = new AbortController();
  const commands = (async () => {
    for (let round = 0; round < 25; round += 1) {
      await desk(organisation, 'POST', `${event}/close`);
      await desk(organisation, 'POST', `${event}/reopen`);
    }
    commandsDone.abort();
  })();
  const seen = new Set<string>();
  while (!commandsDone.signal.aborted) {
    const body = await readEvent(organisation, event);
    seen.add(`${body.status} with a round that is ${body.rounds[0].status}`);
  }
  await commands;
  expect([...seen].sort()).toEqual(['CLOSED with a round that is CLOSED', 'OPEN with a round that is ACTIVE']);
});
