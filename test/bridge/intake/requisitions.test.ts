import { beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { readIntakeDeadLetters, replayIntake, resumeIntake } from '#bridge/intake/control-intakes.ts';
import { linkRequisition } from '#bridge/intake/requisitions/link-requisition.ts';
import { noteLostCommits } from '#bridge/ledger/lost-commits/note-lost-commits.ts';
import { isThrough, readIntakeStatuses } from '#bridge/operate/status/intake-status.ts';
import type { RequisitionRecord } from '#connector/records.ts';
import { timestampFromMs } from '#contract/timestamp.ts';
import { timestampNow } from '#platform/clock.ts';
import { createTestDatabase, type TestDatabase } from '../../harness/test-database.ts';
import { createRandom } from '../../simulation/random.ts';
import { createRequisitionWorld, lotRows, postEnds, type RequisitionWorld, refusedItems } from './requisition-world.ts';

let db: TestDatabase;
beforeAll(async () => {
  db = await createTestDatabase();
});

let world: RequisitionWorld;
const worldOf = async (options: Partial<Parameters<typeof createRequisitionWorld>[0]> = {}) => {
  world = createRequisitionWorld({ database: db.database, random: createRandom('requisitions'), ...options });
  await world.prepare();
};
beforeEach(() => worldOf());

const requisition = (n: number, more: Partial<RequisitionRecord> = {}): RequisitionRecord => ({
  reference_id: `PR-${n}`,
  name: `Steel for ${n}`,
  tags: [],
  items: [
    { line: '10', name: 'Bolt', quantity: '4', unit: 'kg' },
    { line: '20', name: 'Nut', quantity: '8', unit: 'pc' },
  ],
  open: true,
  ...more,
});

/** Lets the intake work for some minutes. */
async function settle(rounds = 8) {
  for (let round = 0; round < rounds; round += 1) {
    await world.run();
    world.clock.advance(15_000);
    world.tick();
  }
}
/** A person agrees to the first run, at which nothing waits. */
const begin = async () => {
  await world.run();
  await world.run();
};
const isNowThrough = async () => {
  const { source, intake, clock } = world;
  const settings = { sources: source ? [source] : [], intakes: [intake] };
  const [status] = await readIntakeStatuses(db.database, settings, timestampNow(clock));
  return status && isThrough(status);
};
const resume = () => resumeIntake(db.database, 'requisitions', { agreeToArchive: false }, timestampNow(world.clock));
const letters = async () =>
  (await readIntakeDeadLetters(db.database, { limit: 100 })).map(({ erpKey, errorType, lastError }) => ({
    erpKey,
    errorType,
    lastError,
  }));
const [anEvent, shape] = [
  () => [...world.events.values()][0],
  () => [...world.events.values()].map(({ reference, lots }) => [reference, lots.map(({ name }) => name)] as const),
];

test('a first run on open requisitions makes nothing before a person has agreed', async () => {
  world.save(requisition(1));
  await settle();
  expect(world.posts).toEqual([]);
  const [paused] = await db.database.query<{ reason: string }>('select paused_reason as reason from bridge.intakes');
  expect(paused?.reason).toContain('1 requisitions would become 1 events');
  await resume();
  await settle();
  expect(shape()).toEqual([['PR-1', ['Bolt', 'Nut']]]);
});

test('each requisition becomes one event, with a lot for each line, and stays it', async () => {
  await begin();
  world.save(requisition(1));
  world.save(requisition(2, { open: false }));
  await settle();
  expect(shape()).toEqual([['PR-1', ['Bolt', 'Nut']]]);
  expect(anEvent()?.lots[0]?.values).toEqual([
    { column: 'Item', value: 'Bolt' },
    { column: 'Quantity', value: '4' },
    { column: 'Unit', value: 'kg' },
    { column: 'Requisition', value: 'PR-1' },
  ]);
  expect(await db.database.query(`select lot, erp_key, line from ${lotRows} order by line`)).toEqual([
    { lot: 'Bolt', erp_key: 'PR-1', line: '10' },
    { lot: 'Nut', erp_key: 'PR-1', line: '20' },
  ]);
  const posts = world.posts.length;
  world.save(requisition(1));
  await settle(20);
  expect(world.posts.length).toBe(posts);
});

test('names that are cut to what the service takes are cut between characters', async () => {
  await worldOf({ intake: { group: { by: '{category}', most: 5, wait_minutes: 30 }, poll_seconds: 60 } });
  await begin();
  const [name, item] = [`${'n'.repeat(108)}😀${'n'.repeat(10)}`, `${'i'.repeat(244)}😀${'i'.repeat(9)}`];
  for (const n of [1, 2])
    world.save(requisition(n, { name, category: 'Steel', items: [{ line: '10', name: item, quantity: '4' }] }));
  await settle();
  world.clock.advance(30 * 60_000);
  await settle();
  expect(anEvent()?.name).toBe(`${'n'.repeat(108)} and 1 more`);
  expect(shape()).toEqual([['PR-1, PR-2', [`${'i'.repeat(244)} (PR-1/10)`, `${'i'.repeat(244)} (PR-2/10)`]]]);
});

test('requisitions of a group share an event when its time has come, and a late one has the next', async () => {
  await worldOf({ intake: { group: { by: '{category}', most: 5, wait_minutes: 30 }, poll_seconds: 60 } });
  await begin();
  world.save(requisition(1, { category: 'Steel' }));
  await settle(8);
  world.save(requisition(2, { category: 'Steel' }));
  world.save(requisition(3, { category: 'Paper' }));
  await settle(8);
  expect(world.events.size).toBe(0);
  world.clock.advance(30 * 60_000);
  await settle();
  world.save(requisition(4, { category: 'Steel' }));
  await settle(4);
  world.clock.advance(30 * 60_000);
  await settle();
  expect(shape()).toEqual([
    ['PR-1, PR-2', ['Bolt (PR-1/10)', 'Nut (PR-1/20)', 'Bolt (PR-2/10)', 'Nut (PR-2/20)']],
    ['PR-3', ['Bolt', 'Nut']],
    ['PR-4', ['Bolt', 'Nut']],
  ]);
});

test('a full event is made at once; one more requisition has another', async () => {
  await worldOf({ intake: { group: { by: '{category}', most: 4, wait_minutes: 600 } } });
  await begin();
  for (const n of [1, 2, 3]) world.save(requisition(n, { category: 'Steel' }));
  await settle();
  expect(shape()).toEqual([['PR-1, PR-2', ['Bolt (PR-1/10)', 'Nut (PR-1/20)', 'Bolt (PR-2/10)', 'Nut (PR-2/20)']]]);
});

test('a draft follows its requisition; a withdrawn one is taken out, and a person is told', async () => {
  await worldOf({
    intake: {
      group: { by: '{category}', most: 4, wait_minutes: 600 },
      poll_seconds: 10,
    },
  });
  await begin();
  for (const n of [1, 2]) world.save(requisition(n, { category: 'Steel' }));
  await settle();
  world.save(requisition(1, { category: 'Steel', items: [{ line: '10', name: 'Bolt', quantity: '5', unit: 'kg' }] }));
  await settle();
  expect(shape()).toEqual([['PR-1, PR-2', ['Bolt (PR-1/10)', 'Bolt (PR-2/10)', 'Nut']]]);
  expect(anEvent()?.lots[0]?.values[1]).toEqual({ column: 'Quantity', value: '5' });
  world.save(requisition(1, { category: 'Steel', open: false }));
  await settle();
  expect(shape()).toEqual([['PR-1, PR-2', ['Bolt', 'Nut']]]);
  expect(await letters()).toEqual([
    {
      erpKey: 'PR-1',
      errorType: 'withdrawn',
      lastError: `it was withdrawn (it is not open in the ERP any more), and its lots were taken out of the event "Steel for 2" (${anEvent()?.id}, https://s.example/e/${anEvent()?.id}), which is a draft`,
    },
  ]);
  // Raised again, it has an event of its own.
  world.save(requisition(1, { category: 'Steel' }));
  await settle();
  const members = await db.database.query(
    'select erp_key from bridge.intake_members where live order by event, erp_key',
  );
  expect(members.length).toBe(2);
  expect(world.violations).toEqual([]);
});

test.each([
  ['changed', { items: [{ line: '10', name: 'Bolt', quantity: '5' }] }, 'it was changed, and the event'],
  ['withdrawn', { open: false }, 'it was withdrawn (it is not open in the ERP any more), and the event'],
] as const)(
  'after the publication a person is told that it was %s, once, and nothing is sent',
  async (type, more, words) => {
    await worldOf({ intake: { poll_seconds: 10 } });
    await begin();
    world.save(requisition(1));
    await settle();
    world.publish(anEvent() as never, 'OPEN');
    const posts = world.posts.length;
    world.save(requisition(1, more as Partial<RequisitionRecord>));
    await settle();
    expect(world.posts.length).toBe(posts);
    expect(await letters()).toEqual([
      { erpKey: 'PR-1', errorType: type, lastError: expect.stringContaining(words) as string },
    ]);
    expect((await letters())[0]?.lastError).toContain(
      `"Steel for 1" (${anEvent()?.id}, https://s.example/e/${anEvent()?.id}) was not changed, as it is OPEN`,
    );
    await replayIntake(db.database, { intake: 'requisitions', dead: true }, timestampNow(world.clock));
    await settle();
    expect(await letters()).toEqual([]);
  },
);

test('of an update that may have taken effect before the publication, a person is told that it may', async () => {
  await worldOf({ intake: { poll_seconds: 10 } });
  await begin();
  world.save(requisition(1));
  await settle();
  world.save(requisition(1, { open: false }));
  world.endNextPost('500 after');
  await world.run();
  world.clock.advance(15_000);
  world.tick();
  // The update has taken effect. It is sent again, as the event is a draft, and that POST is turned away.
  expect(shape()).toEqual([['PR-1', []]]);
  world.endNextPost('429');
  await world.run();
  expect(world.posts.length).toBe(3);
  world.publish(anEvent() as never, 'OPEN');
  await settle(20);
  expect(await letters()).toEqual([
    {
      erpKey: 'PR-1',
      errorType: 'uncertain',
      lastError: expect.stringContaining('its change may have been made in the event') as string,
    },
  ]);
  expect(world.posts.length).toBe(3);
});

describe('an update that is refused when it is sent again', () => {
  const changed = { items: [{ line: '10', name: 'Washer' }] };
  /** An update whose first POST ends as `first`, and is sent again a while later. */
  async function updateTwice(first: '500' | '500 after', second: '400' | 'failed', between = () => {}) {
    // A service that recognised the key would answer the second POST as it answered the first.
    await worldOf({ intake: { poll_seconds: 10 }, idempotent: false });
    await begin();
    world.save(requisition(1));
    await settle();
    const made = shape();
    world.save(requisition(1, changed));
    world.endNextPost(first);
    await world.run();
    world.clock.advance(15_000);
    world.tick();
    between();
    world.endNextPost(second);
    await settle();
    expect(world.posts.map(({ path }) => path)).toEqual([
      'create-sourcing-events',
      'update-sourcing-event',
      'update-sourcing-event',
    ]);
    return made;
  }
  const lotsKnown = () => db.database.query(`select lot, erp_key as "erpKey", line from ${lotRows} order by lot`);

  test.each(['400', 'failed'] as const)('is done, where its first POST took effect (%s)', async (second) => {
    await updateTwice('500 after', second);
    expect([shape(), await letters()]).toEqual([[['PR-1', ['Washer']]], []]);
    // An award of this lot names the right line.
    expect(await lotsKnown()).toEqual([{ lot: 'Washer', erpKey: 'PR-1', line: '10' }]);
  });

  test.each(['400', 'failed'] as const)('is refused, where its first POST did not (%s)', async (second) => {
    const made = await updateTwice('500', second);
    expect(shape()).toEqual(made);
    expect(await letters()).toMatchObject([
      {
        errorType: 'changed',
        lastError: expect.stringContaining('the service refused an update of the event') as string,
      },
    ]);
    expect(await lotsKnown()).toMatchObject([{ lot: 'Bolt' }, { lot: 'Nut' }]);
  });

  test('is refused, where its first POST was taken, and failed', async () => {
    await updateTwice('500 after', '400', () => {
      const first = world.jobs.find(({ type }) => type === 'UPDATE_SOURCING_EVENT');
      if (first) first.status = 'FAILED';
    });
    expect(await letters()).toMatchObject([{ errorType: 'changed' }]);
  });

  test('is shown to a person, where another update may be the one that took effect', async () => {
    await updateTwice('500', '400', () => {
      world.submitForeignUpdate();
      world.submitForeignUpdate();
    });
    expect(await letters()).toMatchObject([
      { errorType: 'uncertain', lastError: expect.stringContaining('several updates that may be this one') as string },
    ]);
  });
});

test('a requisition that is done when its event has ended is what it was raised for: nobody is told', async () => {
  await worldOf({ intake: { poll_seconds: 10 } });
  await begin();
  world.save(requisition(1));
  await settle();
  world.publish(anEvent() as never, 'CLOSED');
  world.save(requisition(1, { open: false }));
  await settle();
  expect(await letters()).toEqual([]);
});

test('of an event that the service refuses, only the requisition that it names is a dead letter', async () => {
  await worldOf({ intake: { group: { by: '{category}', most: 8, wait_minutes: 1 }, poll_seconds: 10 } });
  await begin();
  for (const n of [1, 2, 3]) world.save(requisition(n, { category: 'Steel' }));
  world.save(requisition(4, { category: 'Steel', items: [{ line: '1', name: refusedItems.named }] }));
  await settle();
  expect(shape()).toEqual([
    [
      'PR-1, PR-2, PR-3',
      ['Bolt (PR-1/10)', 'Nut (PR-1/20)', 'Bolt (PR-2/10)', 'Nut (PR-2/20)', 'Bolt (PR-3/10)', 'Nut (PR-3/20)'],
    ],
  ]);
  expect(await letters()).toMatchObject([
    { erpKey: 'PR-4', errorType: 'data', lastError: expect.stringContaining('not allowed') },
  ]);
});

test('an update that the service refuses leaves the draft as it was, and is tried again when it is replayed', async () => {
  await worldOf({ intake: { group: { by: '{category}', most: 8, wait_minutes: 1 }, poll_seconds: 10 } });
  await begin();
  for (const n of [1, 2]) world.save(requisition(n, { category: 'Steel' }));
  await settle();
  const made = shape();
  world.save(requisition(1, { category: 'Steel', items: [{ line: '10', name: 'Washer' }] }));
  world.save(requisition(2, { category: 'Steel', items: [{ line: '10', name: refusedItems.named }] }));
  await settle();
  const refused = ['PR-1', 'PR-2'].map((erpKey) => ({
    erpKey,
    errorType: 'changed',
    lastError: expect.stringContaining('the service refused an update of the event') as string,
  }));
  expect(shape()).toEqual(made);
  expect((await letters()).toSorted((a, b) => (a.erpKey < b.erpKey ? -1 : 1))).toEqual(refused);
  const posts = world.posts.length;
  await replayIntake(db.database, { intake: 'requisitions', dead: true }, timestampNow(world.clock));
  await settle();
  expect(world.posts.length).toBe(posts + 1);
  expect((await letters()).toSorted((a, b) => (a.erpKey < b.erpKey ? -1 : 1))).toEqual(refused);
  // Corrected in the ERP, it takes the other one along.
  world.save(requisition(2, { category: 'Steel', items: [{ line: '10', name: 'Screw' }] }));
  await settle();
  expect(shape()).toEqual([['PR-1, PR-2', ['Washer', 'Screw']]]);
  expect(await letters()).toEqual([]);
});

test.each([refusedItems.nameless, refusedItems.atOnce])(
  'a refusal that names none is found by halves (%s)',
  async (name) => {
    await worldOf({ intake: { group: { by: '{category}', most: 8, wait_minutes: 1 }, poll_seconds: 10 } });
    await begin();
    for (const n of [1, 2, 3]) world.save(requisition(n, { category: 'Steel' }));
    world.save(requisition(4, { category: 'Steel', items: [{ line: '1', name }] }));
    await settle(20);
    expect(
      shape()
        .map(([reference]) => reference)
        .toSorted((a, b) => (a < b ? -1 : 1)),
    ).toEqual(['PR-1, PR-2', 'PR-3']);
    expect((await letters()).map(({ erpKey }) => erpKey)).toEqual(['PR-4']);
  },
);

test.each(postEnds)('one event, not two and not none, when the answer to its POST is: %s', async (end) => {
  await worldOf({ idempotent: false });
  await begin();
  world.save(requisition(1));
  world.endNextPost(end);
  await settle();
  expect(shape()).toEqual([['PR-1', ['Bolt', 'Nut']]]);
  expect([await letters(), world.violations]).toEqual([[], []]);
});

test('where the service does not list its jobs, an uncertain outcome is held for a person, and never repeated', async () => {
  await worldOf({ listsJobs: false });
  await begin();
  world.save(requisition(1));
  world.endNextPost('reset');
  await settle();
  expect(await letters()).toMatchObject([{ erpKey: 'PR-1', errorType: 'uncertain' }]);
  expect((await letters())[0]?.lastError).toContain('bridge link requisitions PR-1 <its id>, or --new');
  await replayIntake(db.database, { intake: 'requisitions', dead: true }, timestampNow(world.clock));
  await settle();
  expect([world.posts.length, (await letters()).length]).toEqual([1, 1]);
});

test.each(['its id', '--new'])('a person says what became of an uncertain requisition: %s', async (says) => {
  await worldOf({ listsJobs: false });
  await begin();
  world.save(requisition(1));
  world.setFeedLag(1e9);
  world.endNextPost(says === '--new' ? 'reset' : 'reset after');
  await settle();
  expect(await letters()).toMatchObject([{ errorType: 'uncertain' }]);
  world.setFeedLag(0);
  const entity = says === '--new' ? undefined : anEvent()?.id;
  const link = { intake: 'requisitions', erpKey: 'PR-1', entity };
  await linkRequisition(db.database, link, timestampNow(world.clock));
  await settle();
  expect([world.events.size, world.posts.length]).toEqual([1, says === '--new' ? 2 : 1]);
  expect(await db.database.query(`select line from ${lotRows} order by line`)).toEqual([
    { line: '10' },
    { line: '20' },
  ]);
  expect(await letters()).toEqual([]);
});

test('where the feed shows the event, the list of jobs is not needed', async () => {
  await worldOf({ listsJobs: false });
  await begin();
  world.save(requisition(1));
  world.endNextPost('reset after');
  await settle();
  expect([world.events.size, world.posts.length, await letters()]).toEqual([1, 1, []]);
});

test('files of a requisition are attached to its event once', async () => {
  await begin();
  world.save(requisition(1, { files: [{ file_name: 'drawing.pdf', content: 'JVBERi0=' }] }));
  await settle();
  expect(anEvent()?.files).toEqual(['drawing.pdf']);
});

test('make: request makes a sourcing request of each, and tells a person of a later change', async () => {
  await worldOf({ intake: { make: 'request', poll_seconds: 10 } });
  await begin();
  world.save(requisition(1));
  await settle();
  expect([...world.requests.values()].map(({ reference }) => reference)).toEqual(['PR-1']);
  expect(world.posts[0]?.body).toMatchObject({
    name: 'Steel for 1',
    items: [{ name: 'Bolt', quantity: '4', unit: 'kg' }, {}],
  });
  world.save(requisition(1, { name: 'Other' }));
  await settle();
  expect(await letters()).toMatchObject([{ errorType: 'changed' }]);
});

test('a single run is through while a group gathers, and not before an event that is due is made', async () => {
  await worldOf({ intake: { group: { by: '{category}', most: 5, wait_minutes: 30 }, poll_seconds: 60 } });
  expect(await isNowThrough()).toBe(false);
  await begin();
  world.save(requisition(1, { category: 'Steel' }));
  await settle();
  expect([world.events.size, await isNowThrough()]).toEqual([0, true]);
  world.clock.advance(30 * 60_000);
  expect(await isNowThrough()).toBe(false);
  await settle();
  expect([world.events.size, await isNowThrough()]).toEqual([1, true]);
});

test('a single run is not through before the files of an event are there', async () => {
  await begin();
  world.save(requisition(1, { files: [{ file_name: 'drawing.pdf', content: 'JVBERi0=' }] }));
  await settle();
  expect([anEvent()?.files, await isNowThrough()]).toEqual([['drawing.pdf'], true]);
  // As it stands when the process dies before the job that brings the files.
  await db.database.query('update bridge.intake_events set files_due = $1', [timestampNow(world.clock)]);
  expect(await isNowThrough()).toBe(false);
});

const news = () =>
  [...world.shown.values()].map(({ requisition, status, event }) => [requisition, status, event?.name]);

/** The puller has read the event, or an award. */
async function mirror(feed: 'sourcing-events' | 'awards', id: string, event: string, body: object) {
  await db.database.query(
    `insert into bridge.mirror (source, feed, record_id, modified, content_hash, sourcing_event, body, seen)
     values ('main', $1, $2, now(), '', $3, $4, now())
     on conflict (source, feed, record_id) do update set body = excluded.body`,
    [feed, id, event, JSON.stringify(body)],
  );
}

test('the ERP is told of each requisition once: made, published, awarded, each of its own lots', async () => {
  await worldOf({ intake: { group: { by: 'all', most: 10, wait_minutes: 0 } } });
  await begin();
  world.save(requisition(1));
  world.save(requisition(2, { items: [{ line: '10', name: 'Washer' }] }));
  await settle();
  const { id = '' } = anEvent() ?? {};
  const name = 'Steel for 1 and 1 more';
  expect(news()).toEqual([
    ['PR-1', 'created', name],
    ['PR-2', 'created', name],
  ]);
  expect(world.told).toHaveLength(2);
  expect(world.told[0]).toMatchObject({
    event: { kind: 'event', id, reference: 'PR-1, PR-2', url: `https://s.example/e/${id}` },
    text: `At the sourcing service, the event "${name}" (${id}, https://s.example/e/${id}) was made of it`,
  });
  await mirror('sourcing-events', id, id, { id, status: 'OPEN' });
  await settle();
  expect(news().map(([, status]) => status)).toEqual(['published', 'published']);
  await mirror('sourcing-events', id, id, { id, status: 'CLOSED' });
  await mirror('awards', 'a1', id, { lot_name: 'Bolt', awards: [{}] });
  await mirror('awards', 'a2', id, { lot_name: 'Washer', awards: [] });
  await settle();
  expect(news().map(([, status]) => status)).toEqual(['awarded', 'closed']);
  const tells = world.told.length;
  await settle(20);
  expect(world.told).toHaveLength(tells);
  expect(tells).toBe(6);
});

test('a zero character in what the service shows keeps no news from the ERP', async () => {
  await begin();
  world.save(requisition(1));
  await settle();
  const { id = '' } = anEvent() ?? {};
  await mirror('sourcing-events', id, id, { id, status: 'CLOSED', description: 'a\0b' });
  await mirror('awards', 'a1', id, { lot_name: 'Bolt', awards: [{ supplier_name: '\0' }] });
  await mirror('awards', 'a2', id, { lot_name: 'C:\\u0000', awards: [] });
  await settle();
  expect(news()).toEqual([['PR-1', 'awarded', 'Steel for 1']]);
});

test('a character that was cut in half in what the service shows keeps no news from the ERP', async () => {
  await begin();
  world.save(requisition(1));
  await settle();
  const { id = '' } = anEvent() ?? {};
  await mirror('sourcing-events', id, id, { id, status: 'CLOSED', description: 'Screws \ud83d' });
  await mirror('awards', 'a1', id, { lot_name: 'Bolt', awards: [{ supplier_name: 'Acme \udd29' }] });
  await settle();
  expect(news()).toEqual([['PR-1', 'awarded', 'Steel for 1']]);
});

test('an award whose winners are null or no list keeps no news from the ERP', async () => {
  await begin();
  world.save(requisition(1));
  await settle();
  const { id = '' } = anEvent() ?? {};
  await mirror('sourcing-events', id, id, { id, status: 'CLOSED' });
  await mirror('awards', 'a1', id, { lot_name: 'Bolt', awards: null });
  await mirror('awards', 'a2', id, { lot_name: 'Nut', awards: 'none' });
  await settle();
  expect(news()).toEqual([['PR-1', 'closed', 'Steel for 1']]);
});

test('the ERP is told what the service refuses, in its words, and what was taken out of its event', async () => {
  await begin();
  world.save(requisition(1, { items: [{ line: '10', name: refusedItems.named }] }));
  world.save(requisition(2));
  await settle();
  expect(news()).toEqual([
    ['PR-1', 'failed', undefined],
    ['PR-2', 'created', 'Steel for 2'],
  ]);
  expect(world.shown.get('PR-1')?.reason).toContain('this item is not allowed');
  world.save(requisition(2, { open: false }));
  world.save(requisition(1));
  await settle();
  expect(news()).toEqual([
    ['PR-1', 'created', 'Steel for 1'],
    ['PR-2', 'removed', 'Steel for 2'],
  ]);
});

test('a requisition that is deleted in the ERP is taken out of its draft; one that comes back is sourced again', async () => {
  await begin();
  world.save(requisition(1));
  world.save(requisition(2));
  await settle();
  expect(shape()).toHaveLength(2);
  world.forget('PR-1');
  await world.run();
  // A page may have been read while its rows moved: one list alone says nothing.
  world.clock.advance(10_000);
  await world.run();
  expect(world.events.size).toBe(2);
  expect(await letters()).toEqual([]);
  await settle();
  // Both are due at one time: either may be made first.
  expect(Object.fromEntries(shape())).toEqual({ 'PR-1': [], 'PR-2': ['Bolt', 'Nut'] });
  expect(await letters()).toMatchObject([{ erpKey: 'PR-1', errorType: 'withdrawn' }]);
  const [version] = await db.database.query(`select open from bridge.intake_records where erp_key = 'PR-1'`);
  expect(version).toEqual({ open: false });
  world.save(requisition(1));
  await replayIntake(db.database, { intake: 'requisitions', dead: true }, timestampNow(world.clock));
  await settle();
  expect(shape().slice(2)).toEqual([['PR-1', ['Bolt', 'Nut']]]);
  expect(world.violations).toEqual([]);
});

test('many requisitions that are missing at once, or all of them, pause the intake until a person agrees', async () => {
  await worldOf({ intake: { archive: { most: 2, share: 0.1 } } });
  await begin();
  for (let n = 1; n <= 5; n += 1) world.save(requisition(n));
  await settle();
  for (const key of ['PR-1', 'PR-2', 'PR-3']) world.forget(key);
  await settle();
  const pause = async () =>
    db.database.query('select paused_kind as kind, paused_reason as reason from bridge.intakes');
  expect(await pause()).toEqual([
    {
      kind: 'withdrawals',
      reason:
        '3 of 5 open requisitions are missing in the ERP at once. If they were deleted there, agree to it: ' +
        'bridge resume requisitions --agree',
    },
  ]);
  await resume();
  await settle();
  expect(await pause()).toMatchObject([{ kind: 'withdrawals' }]);
  expect(shape().every(([, lots]) => lots?.length === 2)).toBe(true);
  await resumeIntake(db.database, 'requisitions', { agreeToArchive: true }, timestampNow(world.clock));
  await settle();
  expect(await pause()).toMatchObject([{ kind: null }]);
  expect(shape().filter(([, lots]) => lots?.length === 0)).toHaveLength(3);
  // The last two: less than the settings allow, and yet all that the ERP had.
  for (const key of ['PR-4', 'PR-5']) world.forget(key);
  await settle();
  expect(await pause()).toMatchObject([{ kind: 'withdrawals' }]);
});

test('an ERP that refuses the news makes a dead letter, and is told again when it is replayed', async () => {
  await begin();
  world.refuseNews('The period is closed.');
  world.save(requisition(1));
  await settle();
  expect(await letters()).toEqual([
    {
      erpKey: 'PR-1',
      errorType: 'not-told',
      lastError: 'the ERP was not told what became of it: The period is closed.',
    },
  ]);
  expect(world.events.size).toBe(1);
  world.refuseNews(undefined);
  await settle();
  expect(news()).toEqual([]);
  await replayIntake(db.database, { intake: 'requisitions', dead: true }, timestampNow(world.clock));
  await settle();
  expect(news()).toEqual([['PR-1', 'created', 'Steel for 1']]);
  expect(await letters()).toEqual([]);
});

test('a process that dies between the call and its outcome tells the same under the same key, not before it may', async () => {
  await begin();
  world.save(requisition(1));
  await settle();
  const [{ id } = { id: '' }] = await db.database.query<{ id: string }>(
    'select news_id as id from bridge.intake_records',
  );
  expect(world.told.map(({ idempotencyKey }) => idempotencyKey)).toEqual([id]);
  // As the row stands after a kill: the intent is committed, the call can take effect for 13 s.
  const next = timestampFromMs(world.clock.nowMs() + 13_000);
  await db.database.query(`update bridge.intake_records set news_state = 'intent', told = null, news_due = $1`, [next]);
  world.shown.clear();
  await world.run();
  expect(world.shown.size).toBe(0);
  world.clock.advance(13_000);
  await world.run();
  expect(world.shown.get('PR-1')?.idempotencyKey).toBe(id);
});

test('news that was cut off and takes effect late never comes after newer news', async () => {
  await begin();
  world.delayNextNews();
  world.save(requisition(1));
  await settle(3);
  expect(world.shown.size).toBe(1);
  world.clock.advance(60_000);
  await world.run();
  const { id = '' } = anEvent() ?? {};
  for (const status of ['OPEN', 'CLOSED']) {
    world.delayNextNews();
    await mirror('sourcing-events', id, id, { id, status });
    world.clock.advance(10_000);
    await world.run();
    // Its call has ended, and takes effect 7 to 8 s later. A second failure waits 12 s at most, a third 24 s.
    await mirror('sourcing-events', id, id, { id, status: 'DELETED' });
    for (let n = 0; n < 40; n += 1) {
      world.clock.advance(1_100);
      world.tick();
      await world.run();
    }
    expect(news().map(([, told]) => told)).toEqual(['deleted']);
  }
  expect(world.violations).toEqual([]);
});

test('an intake that is paused, or is set to tell nothing, tells the ERP nothing', async () => {
  await begin();
  world.save(requisition(1));
  await settle(3);
  const { id = '' } = anEvent() ?? {};
  await db.database.query(`update bridge.intakes set paused_kind = 'operator'`);
  await mirror('sourcing-events', id, id, { id, status: 'OPEN' });
  await settle();
  expect(news()).toEqual([['PR-1', 'created', 'Steel for 1']]);
  await worldOf({ intake: { acknowledge: false } });
  await begin();
  world.save(requisition(1));
  await settle();
  expect(world.events.size).toBe(1);
  expect(world.told).toEqual([]);
});

/** A backup that knows no requisition is restored: all that the intake has stored since is gone. */
async function restoreBackupOf(backupMade: string) {
  for (const table of ['intake_submissions', 'intake_members', 'intake_events', 'intake_records'])
    await db.database.query(`delete from bridge.${table}`);
  await db.database.query('update bridge.intakes set checkpoint = null');
  await noteLostCommits(db.database, { lost: timestampNow(world.clock), why: 'restored', since: backupMade });
}

test('after a restore the event that the lost bridge has made of a requisition is found, and no second one is made', async () => {
  await begin();
  const backupMade = timestampNow(world.clock);
  world.clock.advance(60_000);
  world.save(requisition(1));
  await settle();
  expect(shape()).toEqual([['PR-1', ['Bolt', 'Nut']]]);
  const posted = world.posts.length;
  world.save(requisition(2));
  await restoreBackupOf(backupMade);
  await settle(12);
  expect(shape().map(([reference]) => reference)).toEqual(['PR-1', 'PR-2']);
  expect(world.posts).toHaveLength(posted + 1);
  expect(await isNowThrough()).toBe(true);
  // It is known again: what changes in the ERP changes the same event.
  world.save(requisition(1, { items: [{ line: '10', name: 'Bolt', quantity: '5', unit: 'kg' }] }));
  await settle();
  expect(shape()).toContainEqual(['PR-1', ['Bolt']]);
});

test('after a restore requisitions that the lost bridge has put into another group are held for a person', async () => {
  await worldOf({ intake: { group: { by: '{category}', most: 5, wait_minutes: 1 }, poll_seconds: 10 } });
  await begin();
  const backupMade = timestampNow(world.clock);
  world.clock.advance(60_000);
  world.save(requisition(1, { category: 'Steel' }));
  await settle(12);
  expect(shape().map(([reference]) => reference)).toEqual(['PR-1']);
  world.save(requisition(2, { category: 'Steel' }));
  await restoreBackupOf(backupMade);
  await settle(12);
  expect(shape().map(([reference]) => reference)).toEqual(['PR-1']);
  expect((await letters()).map(({ erpKey, lastError }) => [erpKey, lastError])).toEqual([
    ['PR-1', expect.stringContaining('the service has made something of "PR-1" since the backup')],
    ['PR-2', expect.stringContaining('the service has made something of "PR-1" since the backup')],
  ]);
});
