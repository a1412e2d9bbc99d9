/**
 * The real push of the bridge with the example cloud-to-guided-sourcing: 16 closed events are awarded, reopened and awarded
 * anew, while the target loses requests and answers, is busy, and processes of the bridge are killed, at each request of a
 * walk. In the end each event has seen each step once and in order, within the limits of the target.
 */
import { expect, onTestFinished, test } from 'vitest';
import { testContext } from '#connector/testing/test-context.ts';
import { timestampNow } from '#platform/clock.ts';
import http from '../../../connectors/http/index.ts';
import { eventRecord, idOf, lotAwardRecord, nextModified, startProcess } from '../../bridge/parts.ts';
import type { FakeErp } from '../../bridge/push/fake-erp.ts';
import { createPusher, type Pusher } from '../../bridge/push/pusher.ts';
import { type Disturbance, type GuidedSourcing, startGuidedSourcing, titleMax } from './guided-sourcing.ts';
import { guidedSourcingSettings } from './guided-sourcing-settings.ts';

const limits = { perSecond: 5, perMinute: 80 };
/** The requests of a walk: one for each of five steps, and three finds. */
const requests = 8;
const disturbances: readonly Disturbance[] = ['hang', 'lose', 'drop', 'busy'];

async function startStory(): Promise<{ pusher: Pusher; target: GuidedSourcing }> {
  const pusher = await createPusher(0, { documents: ['event-awards'] });
  await pusher.db.database.query(
    `insert into bridge.checkpoints (source, feed, next_pull) values ('main', 'awards', now())`,
  );
  const target = await startGuidedSourcing(pusher.clock, limits);
  onTestFinished(() => target.close());
  return { pusher, target };
}

/** Who wins a lot of an event, by the vendor's number in the target, and at which cost. */
type Winner = readonly [vendor: string, cost: string];

const tagged = (n: number) => [{ name: 'Ariba id', value: `E-${n}` }];

/** Stores the record of an event with two lots. */
async function storeEvent(pusher: Pusher, n: number, more: Record<string, unknown> = {}): Promise<void> {
  const suppliers = ['V', 'W', 'N'].map((letter) => ({
    id: supplierId(`${letter}-${n}`),
    name: `Supplier ${letter}-${n}`,
    external_id: `${letter}-${n}`,
  }));
  await pusher.store(
    'sourcing-events',
    eventRecord(idOf(n), [], { name: `Steel ${n}`, suppliers, tags: tagged(n), ...more }),
  );
}

const supplierId = (vendor: string) => idOf(Number(vendor.slice(2)) * 1_000 + vendor.charCodeAt(0));

/** Stores a closed event and who has won its lots; the feed of awards has been read to its end then. */
async function awardEvent(
  pusher: Pusher,
  n: number,
  winners: readonly Winner[],
  more: Record<string, unknown> = {},
): Promise<void> {
  const rounds = [{ status: 'COMPLETE', awarded_lot_count: winners.length }];
  await storeEvent(pusher, n, { rounds, ...more });
  const lots = [0, 1].map((lot) => {
    const [vendor, cost = ''] = winners[lot] ?? [];
    const awards = vendor === undefined ? [] : [{ supplier: supplierId(vendor), cost }];
    return lotAwardRecord(idOf(100_000 + 2 * n + lot), idOf(n), awards, { lot_name: `Lot ${lot + 1}` });
  });
  await pusher.store('awards', ...lots);
  await pusher.db.database.query(`update bridge.checkpoints set watermark = $1, last_pull = $2 where feed = 'awards'`, [
    nextModified(),
    timestampNow(pusher.clock),
  ]);
}

/** Runs a process of the bridge until it has pushed what is due; where a request hangs, it is killed. */
async function pushOnce(pusher: Pusher, target: GuidedSourcing): Promise<'done' | 'killed'> {
  // One lookup at a time: each sleep advances the clock of the test, also for a request that is on its way.
  const settings = http.settings.parse({ ...guidedSourcingSettings(target.address), concurrency: 1 });
  const connector = { ...http, capabilities: { ...http.capabilities, ...http.capabilitiesWith?.(settings) } };
  const process = await startProcess(pusher.db);
  const session = await http.open(settings, testContext({ clock: pusher.clock }).context);
  const worker = await pusher.worker({ connector, session } as FakeErp, { process });
  const pushing = worker.push().catch((error: unknown) => error);
  const ended = await Promise.race([
    pushing.then(() => 'done' as const),
    target.untilHung().then(() => 'killed' as const),
  ]);
  // A killed process neither stores the outcome nor hears of it.
  await process.die();
  await session.close();
  await pushing;
  return ended;
}

/** Runs processes of the bridge, a minute apart, until nothing is due any more. Returns how many were killed. */
async function pushAll(pusher: Pusher, target: GuidedSourcing): Promise<number> {
  let kills = 0;
  for (let rounds = 0; rounds < 200; rounds += 1) {
    const ended = await pushOnce(pusher, target);
    kills += ended === 'killed' ? 1 : 0;
    const due = await pusher.db.database.query('select from bridge.flow_documents where due is not null');
    if (ended === 'done' && due.length === 0) return kills;
    pusher.clock.advance(60_000);
  }
  throw new Error('it does not come to an end');
}

/** Lets the answer to the n-th of these requests never come, and one process run into it. */
async function cutAt(pusher: Pusher, target: GuidedSourcing, line: string, nth: number): Promise<void> {
  let count = 0;
  target.disturb = (_event, _n, each) => {
    count += each === line ? 1 : 0;
    return each === line && count === nth ? 'hang' : 'none';
  };
  expect(await pushOnce(pusher, target)).toBe('killed');
  target.disturb = () => 'none';
}

/** The largest number of requests within any span of this length. */
function mostWithin(arrivalsMs: readonly number[], ms: number): number {
  return Math.max(...arrivalsMs.map((from) => arrivalsMs.filter((at) => at >= from && at < from + ms).length));
}

const lastErrors = (pusher: Pusher) =>
  pusher.db.database.query('select last_error from bridge.flow_documents where dead_since is not null');

test('16 events are written exactly once, in order and within the limits, at every kill, and reopened for another award', async () => {
  const { pusher, target } = await startStory();
  const numbers = Array.from({ length: 16 }, (_, index) => index + 1);
  // A kill, a lost answer, a lost request and a busy target meet each request once.
  let version = 0;
  target.disturb = (event, n) => {
    const index = Number(event.slice(2)) - 1 + version * numbers.length;
    return n === (index % requests) + 1 ? (disturbances[Math.floor(index / requests) % 4] ?? 'none') : 'none';
  };
  // The target knows a bidder of each fifth event.
  const isKnown = (n: number) => n % 5 === 0;
  for (const n of numbers) {
    target.addEvent(`E-${n}`, ...(isKnown(n) ? [`W-${n}`] : []));
    await awardEvent(pusher, n, [
      [`V-${n}`, '10.5'],
      [`W-${n}`, '3'],
    ]);
  }
  const first = await pushAll(pusher, target);
  version = 1;
  target.recount();
  for (const n of numbers) await storeEvent(pusher, n, { status: 'OPEN', rounds: [{ status: 'ACTIVE' }] });
  await pushAll(pusher, target);
  for (const n of numbers)
    await awardEvent(pusher, n, [
      [`V-${n}`, '11.5'],
      [`N-${n}`, '2'],
    ]);
  const second = await pushAll(pusher, target);

  expect(target.faults).toEqual([]);
  for (const n of numbers)
    expect(target.events.get(`E-${n}`)?.done, `E-${n}`).toEqual(
      [
        ['draft', `bidder V-${n}`, isKnown(n) ? [] : `bidder W-${n}`, 'sheet of 2 rows', 'publish'],
        [`award V-${n} 10.5, W-${n} 3`],
        ['draft', `bidder N-${n}`, 'sheet of 2 rows', 'publish', `award V-${n} 11.5, N-${n} 2`],
      ].flat(2),
    );
  expect(first + second).toBe(requests);
  expect(mostWithin(target.arrivalsMs, 1_000)).toBeLessThanOrEqual(limits.perSecond);
  expect(mostWithin(target.arrivalsMs, 60_000)).toBe(limits.perMinute);
});

test('awards that are taken back leave the target, and an event without its id is a dead letter that says so', async () => {
  const { pusher, target } = await startStory();
  target.addEvent('E-1');
  await awardEvent(pusher, 1, [['V-1', '10.5']]);
  await awardEvent(pusher, 2, [['V-2', '10.5']], { tags: [] });
  await pushAll(pusher, target);
  expect(target.events.get('E-1')?.state).toBe('awarded');
  await awardEvent(pusher, 1, []);
  // The item leaves with the publication, whose answer is lost.
  await cutAt(pusher, target, 'PUT /events/E-1/state', 2);
  await pushAll(pusher, target);
  expect(target.events.get('E-1')).toMatchObject({ state: 'published', items: new Map() });
  expect(target.events.get('E-1')?.done.slice(-3)).toEqual(['draft', 'remove', 'publish']);
  expect(target.faults).toEqual([]);
  expect(await lastErrors(pusher)).toEqual([
    {
      last_error:
        'step 1 "set to draft": event "Steel 2" has no tag "Ariba id", which the path /events/{event.tags[Ariba id]}/items/{key} needs',
    },
  ]);
});

test('awards that are taken back while they are half written leave the target, too', async () => {
  const { pusher, target } = await startStory();
  target.addEvent('E-1');
  await awardEvent(pusher, 1, [['V-1', '10.5']]);
  await cutAt(pusher, target, `PUT /events/E-1/items/${idOf(1)}`, 1);
  expect(target.events.get('E-1')?.done).toEqual(['draft', 'bidder V-1', 'sheet of 1 rows']);
  await awardEvent(pusher, 1, []);
  await pushAll(pusher, target);
  expect(target.events.get('E-1')).toMatchObject({ state: 'published', items: new Map() });
});

test.each<[cut: string, line: string, nth: number, cost: string | undefined, seen: string[], then: string[]]>([
  ['the draft', 'PUT /events/E-1/state', 1, '11.5', ['draft'], []],
  ['the item', `PUT /events/E-1/items/${idOf(1)}`, 1, '11.5', ['draft', 'sheet of 1 rows'], ['sheet of 1 rows']],
  [
    'the publication',
    'PUT /events/E-1/state',
    2,
    '11.5',
    ['draft', 'sheet of 1 rows', 'publish'],
    ['draft', 'sheet of 1 rows'],
  ],
  ['the removal', `DELETE /events/E-1/items/${idOf(1)}`, 1, undefined, ['draft', 'remove'], ['sheet of 1 rows']],
])('awards that change back after a kill at %s are in the target again', async (_cut, line, nth, cost, seen, then) => {
  const { pusher, target } = await startStory();
  target.addEvent('E-1');
  await awardEvent(pusher, 1, [['V-1', '10.5']]);
  await pushAll(pusher, target);
  const { done = [] } = target.events.get('E-1') ?? {};
  done.length = 0;
  await awardEvent(pusher, 1, cost === undefined ? [] : [['V-1', cost]]);
  await cutAt(pusher, target, line, nth);
  expect(done).toEqual(seen);
  await awardEvent(pusher, 1, [['V-1', '10.5']]);
  await pushAll(pusher, target);
  expect(done).toEqual([...seen, ...then, 'publish', 'award V-1 10.5']);
  const award = { total: '10.5', lots: [{ lot: 'Lot 1', vendor: 'V-1', share: '1', cost: '10.5' }] };
  expect(target.events.get('E-1')).toMatchObject({
    state: 'awarded',
    items: new Map([[idOf(1), expect.objectContaining({ status: 'open', award: expect.objectContaining(award) })]]),
  });
  expect(target.faults).toEqual([]);
});

test('a bid sheet that is refused is a dead letter of its step, and the next version begins with the first step', async () => {
  const { pusher, target } = await startStory();
  target.addEvent('E-1');
  await awardEvent(pusher, 1, [['V-1', '10.5']], { name: 'x'.repeat(titleMax + 1) });
  await pushAll(pusher, target);
  expect(await lastErrors(pusher)).toEqual([
    {
      last_error: expect.stringMatching(
        /^refused after it had begun: step 3 "put the item": .*: the title has more than 200 characters$/,
      ),
    },
  ]);
  await awardEvent(pusher, 1, [['V-1', '10.5']]);
  await pushAll(pusher, target);
  expect(target.events.get('E-1')?.done).toEqual([
    'draft',
    'bidder V-1',
    'sheet of 1 rows',
    'publish',
    'award V-1 10.5',
  ]);
  expect(target.faults).toEqual([]);
});

test.each<[refused: string, title: number, line: string]>([
  ['the item', titleMax + 1, ''],
  ['the award', 5, `POST /events/E-1/items/${idOf(1)}/award`],
])(
  'awards that are taken back after %s was refused leave the event as it was, without a draft',
  async (_step, length, line) => {
    const { pusher, target } = await startStory();
    target.addEvent('E-1');
    target.disturb = (_event, _n, each) => (each === line ? 'refuse' : 'none');
    await awardEvent(pusher, 1, [['V-1', '10.5']], { name: 'x'.repeat(length) });
    await pushAll(pusher, target);
    expect(await lastErrors(pusher)).toEqual([
      { last_error: expect.stringMatching(/^refused after it had begun: step [35] "/) },
    ]);
    await awardEvent(pusher, 1, [], { name: 'x'.repeat(length) });
    await pushAll(pusher, target);
    expect(target.events.get('E-1')).toMatchObject({ state: 'published', items: new Map() });
    expect(await lastErrors(pusher)).toEqual([]);
    expect(target.faults).toEqual([]);
  },
);

test('awards that change after a refusal in the middle are walked from the first step, and nothing is done twice', async () => {
  const { pusher, target } = await startStory();
  target.addEvent('E-1');
  target.disturb = (_event, _n, each) => (each.endsWith('/award') ? 'refuse' : 'none');
  await awardEvent(pusher, 1, [['V-1', '10.5']]);
  await pushAll(pusher, target);
  target.disturb = () => 'none';
  await awardEvent(pusher, 1, [['V-1', '11.5']]);
  await pushAll(pusher, target);
  expect(target.events.get('E-1')?.done).toEqual([
    'draft',
    'bidder V-1',
    'sheet of 1 rows',
    'publish',
    'draft',
    'sheet of 1 rows',
    'publish',
    'award V-1 11.5',
  ]);
  expect(target.faults).toEqual([]);
});
