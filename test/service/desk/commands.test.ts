import { describe, expect, test } from 'vitest';
import { createEvent, createSuppliers, desk, eventPayload, readEvent } from '../../harness/sourcing.ts';
import { startTestService } from '../../harness/test-service.ts';

const service = await startTestService();
const organisation = await service.organisation();
await createSuppliers(organisation, ['S1', 'S2', 'S3']);
const command = (event: string, method: string, path: string, body: object = {}) =>
  organisation.call(method, `/desk/events/${event}${path}`, body);

async function openEvent(): Promise<string> {
  const event = await createEvent(organisation, eventPayload({ lots: ['A', 'B'], suppliers: ['S1', 'S2'] }));
  await desk(organisation, 'POST', `${event}/publish`);
  return event;
}

const bid = (supplier: string, values: Record<string, unknown>, lot = 'A') => ({ supplier, lots: [{ lot, values }] });

describe('a bid', () => {
  test.each<[string, object, number, string | undefined]>([
    ['of a supplier that is not invited', bid('S3', { Price: '1' }), 409, undefined],
    ['of a supplier that does not exist', bid('S9', { Price: '1' }), 409, undefined],
    ['for a lot that does not exist', bid('S1', { Price: '1' }, 'Z'), 400, 'lots[0].lot'],
    ['for a lot twice', { supplier: 'S1', lots: [{ lot: 'A' }, { lot: 'A' }] }, 400, 'lots[1].lot'],
    ['in a column that does not exist', bid('S1', { Prise: '1' }), 400, 'lots[0].values.Prise'],
    ["in the buyer's column", bid('S1', { Volume: '1' }), 400, 'lots[0].values.Volume'],
    ['that is not a number', bid('S1', { Price: 'cheap' }), 400, 'lots[0].values.Price'],
    ['that is a JSON number', bid('S1', { Price: 1.5 }), 400, 'lots[0].values.Price'],
    ['with too many decimals', bid('S1', { Price: '1.005' }), 400, 'lots[0].values.Price'],
    ['in a foreign currency', bid('S1', { Price: { value: '1', currency: 'USD' } }), 400, 'lots[0].values.Price'],
    [
      'for the whole event in a column of the lot',
      { supplier: 'S1', lots: [{ lot: 'A' }], global: { Price: '1' } },
      400,
      'global.Price',
    ],
  ])('%s: refused, and nothing is stored', async (_what, body, status, path) => {
    const event = await openEvent();
    const answer = await command(event, 'POST', '/bids', body);
    expect([answer.status, answer.body.errors?.[0]?.path]).toEqual([status, path]);
    expect((await readEvent(organisation, event)).bids).toEqual([]);
  });

  test("adds to the supplier's earlier values, and changes no other bid", async () => {
    const event = await openEvent();
    await desk(organisation, 'POST', `${event}/bids`, bid('S1', { Price: '1' }));
    await desk(organisation, 'POST', `${event}/bids`, bid('S2', { Price: '2' }));
    await desk(organisation, 'POST', `${event}/bids`, bid('S1', { Price: '3' }, 'B'));
    const { bids } = await readEvent(organisation, event);
    expect(
      bids
        .map((one: { supplier: string; lot: string; cost: string }) => `${one.supplier} ${one.lot} ${one.cost}`)
        .sort(),
    ).toEqual(['S1 A 10', 'S1 B 30', 'S2 A 20']);
  });
});

describe('a scenario', () => {
  const award = (lot: string, supplier: string, share: string) => ({ lot, supplier, share_awarded: share });

  test.each<[string, object[], string]>([
    ['more than the whole of a lot', [award('A', 'S1', '0.6'), award('A', 'S2', '0.5')], 'awards[1].share_awarded'],
    ['a lot that does not exist', [award('Z', 'S1', '1')], 'awards[0].lot'],
    ['a supplier without a bid', [award('B', 'S1', '1')], 'awards[0].supplier'],
    ['a pair twice', [award('A', 'S1', '0.1'), award('A', 'S1', '0.1')], 'awards[1]'],
  ])('with %s is refused with the path of the fault', async (_what, awards, path) => {
    const event = await openEvent();
    for (const supplier of ['S1', 'S2'])
      await desk(organisation, 'POST', `${event}/bids`, bid(supplier, { Price: '1' }));
    const answer = await command(event, 'PUT', '/scenarios/best', { awards });
    expect([answer.status, answer.body.errors[0].path]).toEqual([400, path]);
    expect((await readEvent(organisation, event)).scenarios).toEqual([]);
  });

  test('is replaced as a whole, may have any name, and can be awarded only if it exists', async () => {
    const event = await openEvent();
    for (const supplier of ['S1', 'S2'])
      await desk(organisation, 'POST', `${event}/bids`, bid(supplier, { Price: '1' }));
    const name = 'Best/price 東京 %';
    const path = `/scenarios/${encodeURIComponent(name)}`;
    await command(event, 'PUT', path, { awards: [award('A', 'S1', '0.5'), award('A', 'S2', '0.5')] });
    const saved = await command(event, 'PUT', path, { awards: [award('A', 'S2', '1')] });
    expect([saved.status, saved.body.name]).toEqual([200, name]);
    expect((await command(event, 'POST', '/award', { scenario: 'other' })).status).toBe(409);
    await desk(organisation, 'POST', `${event}/award`, { scenario: name });
    const read = async () => (await readEvent(organisation, event)).scenarios;
    expect(await read()).toEqual([{ name, awarded: true, awards: [award('A', 'S2', '1')] }]);
    await desk(organisation, 'POST', `${event}/award`, { scenario: null });
    expect(await read()).toMatchObject([{ awarded: false }]);
  });
});
