/** Decisions, "Rounds": which round is COMPLETE, and which times a round shows. */
import { describe, expect, test } from 'vitest';
import { createManualClock, withoutTimers } from '../../harness/manual-clock.ts';
import { createEvent, createSuppliers, desk, eventPayload, readEvent } from '../../harness/sourcing.ts';
import { startTestService } from '../../harness/test-service.ts';

const clock = createManualClock();
const service = await startTestService({ clock: withoutTimers(clock) });
const organisation = await service.organisation();
await createSuppliers(organisation, ['S1', 'S2']);

const at = (minutes: number) => new Date(clock.nowMs() + minutes * 60_000).toISOString().replace('Z', '000Z');
const pass = (minutes: number) => clock.advance(minutes * 60_000);
const call = (event: string, path: string, body: object = {}) => desk(organisation, 'POST', `${event}/${path}`, body);
const live = (event: string) => readEvent(organisation, event);
const record = async (event: string) =>
  (await organisation.call('GET', `/api/feeds/sourcing-events?id=${event}`)).body.data[0];

const newEvent = (more: object = {}) =>
  createEvent(organisation, { ...eventPayload({ lots: ['A', 'B'], suppliers: ['S1', 'S2'] }), ...more });

type Shares = [lot: string, supplier: string, share: string][];

/** An open event in which both suppliers have bid 1 on both lots, with a scenario of these shares, which is chosen. */
async function awardedEvent(shares: Shares): Promise<string> {
  const event = await newEvent();
  await call(event, 'publish');
  const lots = ['A', 'B'].map((lot) => ({ lot, values: { Price: '1' } }));
  for (const supplier of ['S1', 'S2']) await call(event, 'bids', { supplier, lots });
  const awards = shares.map(([lot, supplier, share_awarded]) => ({ lot, supplier, share_awarded }));
  await desk(organisation, 'PUT', `${event}/scenarios/best`, { awards });
  await call(event, 'award', { scenario: 'best' });
  return event;
}

const both = (round: ShownRound) => [round, round];
const closedRound = { status: 'CLOSED', awarded_cost: null, awarded_lot_count: null };

interface ShownRound {
  status: string;
  awarded_cost: string | null;
  awarded_lot_count: number | null;
}

/** The only round, as the live event and the feed show it; the feed leaves out what is null. */
async function roundShown(event: string): Promise<ShownRound[]> {
  const shown = [(await live(event)).rounds, (await record(event)).rounds];
  return shown.map(([{ status, awarded_cost = null, awarded_lot_count = null }]) => ({
    status,
    awarded_cost,
    awarded_lot_count,
  }));
}

describe('an event that closes with nothing awarded', () => {
  test.each<[string, Shares]>([
    ['an award without entries', []],
    [
      'an award of shares 0',
      [
        ['A', 'S1', '0'],
        ['B', 'S2', '0.00'],
      ],
    ],
  ])('by %s: its round is CLOSED and shows no award', async (_what, shares) => {
    const event = await awardedEvent(shares);
    await call(event, 'close');
    expect(await roundShown(event)).toEqual([closedRound, closedRound]);
  });

  test('by bids that were withdrawn after a reopening: its round is CLOSED again', async () => {
    const event = await awardedEvent([['A', 'S1', '1']]);
    await call(event, 'close');
    expect(await roundShown(event)).toEqual(both({ status: 'COMPLETE', awarded_cost: '10', awarded_lot_count: 1 }));
    await call(event, 'reopen');
    await call(event, 'bids/withdraw', { supplier: 'S1', lots: ['A'] });
    await call(event, 'close');
    expect(await roundShown(event)).toEqual([closedRound, closedRound]);
  });

  test('by an award that was taken back after a reopening: its round is CLOSED again', async () => {
    const event = await awardedEvent([['A', 'S1', '1']]);
    await call(event, 'close');
    await call(event, 'reopen');
    await call(event, 'award', { scenario: null });
    await call(event, 'close');
    expect(await roundShown(event)).toEqual([closedRound, closedRound]);
  });
});

test('a lot of shares 0 is not counted; the round is COMPLETE by the other one', async () => {
  const event = await awardedEvent([
    ['A', 'S1', '0'],
    ['A', 'S2', '0'],
    ['B', 'S1', '0.5'],
    ['B', 'S2', '0'],
  ]);
  await call(event, 'close');
  // Half of 10 * 1.
  expect(await roundShown(event)).toEqual(both({ status: 'COMPLETE', awarded_cost: '5', awarded_lot_count: 1 }));
});

describe('a round that never ran', () => {
  test('keeps its starts and ends when its event closes before them', async () => {
    const event = await newEvent({ rounds: [{ starts: at(10), ends: at(20) }, { ends: at(30) }, { starts: at(40) }] });
    const planned = [
      { starts: at(10), ends: at(20), status: 'CLOSED' },
      { starts: null, ends: at(30), status: 'CLOSED' },
      { starts: at(40), ends: null, status: 'CLOSED' },
    ];
    await call(event, 'publish');
    pass(5);
    await call(event, 'close');
    expect((await live(event)).rounds).toMatchObject(planned);
    expect((await record(event)).rounds).toEqual(
      planned.map((round) => Object.fromEntries(Object.entries(round).filter(([, value]) => value !== null))),
    );
    // Time passes over them, and changes nothing.
    pass(60);
    expect((await live(event)).rounds).toMatchObject(planned);
  });

  test('begins when it is reopened, and takes no time from the rounds after it', async () => {
    const event = await newEvent({
      rounds: [
        { starts: at(10), ends: at(20) },
        { starts: at(30), ends: at(40) },
      ],
    });
    await call(event, 'publish');
    await call(event, 'close');
    const [now, ends] = [at(0), at(40)];
    await call(event, 'reopen');
    expect((await live(event)).rounds).toMatchObject([{ status: 'CLOSED' }, { status: 'ACTIVE', starts: now, ends }]);
    // The first round would have lasted until minute 20.
    const earlier = at(15);
    const extended = await call(event, 'rounds/2/extend', { ends: earlier });
    expect(extended).toMatchObject({ number: 2, status: 'ACTIVE', ends: earlier });
  });
});

describe('on resume', () => {
  test('a round whose end has passed closes at once, at its end, and takes no bid', async () => {
    const event = await newEvent({ rounds: [{ ends: at(10) }] });
    await call(event, 'publish');
    const ends = at(10);
    await call(event, 'pause');
    pass(30);
    expect((await live(event)).rounds).toMatchObject([{ status: 'ACTIVE' }]);
    await call(event, 'resume');
    expect((await live(event)).rounds).toMatchObject([{ status: 'CLOSED', ends }]);
    expect((await record(event)).rounds).toMatchObject([{ status: 'CLOSED', ends }]);
    const bid = { supplier: 'S1', lots: [{ lot: 'A', values: { Price: '1' } }] };
    expect((await organisation.call('POST', `/desk/events/${event}/bids`, bid)).status).toBe(409);
  });

  test('a round whose end is still ahead runs on until it', async () => {
    const event = await newEvent({ rounds: [{ ends: at(10) }] });
    await call(event, 'publish');
    const ends = at(10);
    await call(event, 'pause');
    pass(5);
    await call(event, 'resume');
    expect((await live(event)).rounds).toMatchObject([{ status: 'ACTIVE', ends }]);
  });
});
