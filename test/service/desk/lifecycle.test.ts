/** The event's lifecycle through `/desk`: every command in every state, and the event after it. */
import { describe, expect, test } from 'vitest';
import { createManualClock } from '../../harness/manual-clock.ts';
import { createEvent, createSuppliers, desk, eventPayload, readEvent } from '../../harness/sourcing.ts';
import { startTestService } from '../../harness/test-service.ts';

const clock = createManualClock();
const service = await startTestService({ clock });
const organisation = await service.organisation();
await createSuppliers(organisation, ['S1', 'S2']);

const ends = '2031-01-01T00:00:00Z';
const call = (event: string, path: string, body: object = {}, method = 'POST') =>
  organisation.call(method, `/desk/events/${event}/${path}`, body);
const live = (event: string) => readEvent(organisation, event);

const newEvent = (more: object = {}) =>
  createEvent(organisation, { ...eventPayload({ lots: ['A', 'B'], suppliers: ['S1'] }), ...more });

/** The commands that bring an event into each state. */
const stepsTo: Record<string, string[]> = {
  DRAFT: [],
  'DRAFT again': ['publish', 'unpublish'],
  OPEN: ['publish'],
  'OPEN, its round closed': ['publish', 'rounds/1/close'],
  'OPEN, its round reopened': ['publish', 'rounds/1/close', 'rounds/1/reopen'],
  'OPEN again': ['publish', 'close', 'reopen'],
  PAUSED: ['publish', 'pause'],
  CLOSED: ['publish', 'close'],
  'DELETED as a draft': ['delete'],
  'DELETED when closed': ['publish', 'close', 'delete'],
};

async function eventIn(state: string): Promise<string> {
  const event = await newEvent();
  for (const path of stepsTo[state] ?? []) await desk(organisation, 'POST', `${event}/${path}`);
  return event;
}

const bid = { supplier: 'S1', lots: [{ lot: 'A', values: { Price: '1' } }] };

const calls: [command: string, path: string, body?: object, method?: string][] = [
  ['publish', 'publish'],
  ['unpublish', 'unpublish'],
  ['pause', 'pause'],
  ['resume', 'resume'],
  ['close', 'close'],
  ['reopen', 'reopen'],
  ['delete', 'delete'],
  ['add-round', 'rounds', { ends }],
  ['close-round', 'rounds/1/close'],
  ['extend-round', 'rounds/1/extend', { ends }],
  ['reopen-round', 'rounds/1/reopen'],
  ['invite', 'invitations', { suppliers: ['S2'] }],
  ['bid', 'bids', bid],
  ['edit-bids', 'bids', bid, 'PATCH'],
  ['buyer-values', 'buyer-values', { lots: [{ lot: 'A', values: { Volume: '7' } }] }, 'PUT'],
  ['scenario', 'scenarios/best', { awards: [] }, 'PUT'],
  ['award', 'award', { scenario: null }],
  ['questions', 'questions', [], 'PUT'],
];

const planning = ['add-round', 'invite', 'buyer-values', 'questions'];
const whileOpen = [...planning, 'scenario', 'award', 'unpublish', 'pause', 'close'];
const allowed: Record<string, string[]> = {
  DRAFT: [...planning, 'publish', 'delete'],
  'DRAFT again': [...planning, 'publish', 'delete', 'extend-round'],
  OPEN: [...whileOpen, 'bid', 'close-round', 'extend-round'],
  'OPEN, its round closed': [...whileOpen, 'edit-bids', 'reopen-round'],
  'OPEN, its round reopened': [...whileOpen, 'bid', 'close-round', 'extend-round'],
  'OPEN again': [...whileOpen, 'bid', 'close-round', 'extend-round'],
  PAUSED: [...planning, 'scenario', 'award', 'resume', 'delete', 'extend-round'],
  CLOSED: ['reopen', 'delete', 'scenario'],
  'DELETED as a draft': [],
  'DELETED when closed': [],
};

const statusAfter: Record<string, string> = {
  publish: 'OPEN',
  unpublish: 'DRAFT',
  pause: 'PAUSED',
  resume: 'OPEN',
  close: 'CLOSED',
  reopen: 'OPEN',
  delete: 'DELETED',
};

describe.each(Object.keys(stepsTo))('an event that is %s', (state) => {
  const isAllowed = ([command]: (typeof calls)[number]) => allowed[state]?.includes(command) === true;

  test('lists its allowed commands; every other one is refused, and changes nothing', async () => {
    const event = await eventIn(state);
    const before = await live(event);
    const listed = before.allowed.filter((command: string) => calls.some(([name]) => name === command));
    expect(listed.sort()).toEqual([...(allowed[state] ?? [])].sort());
    for (const [command, path, body, method] of calls.filter((each) => !isAllowed(each))) {
      const answer = await call(event, path, body, method);
      const said = `"${command}" is not possible`;
      expect([answer.status, answer.body.detail?.slice(0, said.length)]).toEqual([409, said]);
      expect(await live(event)).toEqual(before);
    }
  });

  test('has the status after each allowed command', async () => {
    for (const [command, path, body, method] of calls.filter(isAllowed)) {
      const event = await eventIn(state);
      const before = await live(event);
      const answer = await call(event, path, body, method);
      expect([command, answer.status < 300 ? 'done' : answer.body.detail]).toEqual([command, 'done']);
      expect([command, (await live(event)).status]).toEqual([command, statusAfter[command] ?? before.status]);
    }
  });
});

test('a command on an event of another organisation is answered 404, as on one that does not exist', async () => {
  const other = await service.organisation();
  const event = await newEvent();
  const answers = [];
  for (const id of [event, 'b3b6a4d8-0000-4000-8000-000000000000', 'nonsense'])
    for (const [path, body] of [
      ['publish', {}],
      ['rounds', { ends }],
      ['rounds/1/close', {}],
      ['invitations', { suppliers: ['S1'] }],
    ] as const) {
      const answer = await other.call('POST', `/desk/events/${id}/${path}`, body);
      answers.push([answer.status, answer.body.detail]);
    }
  expect(new Set(answers.map((answer) => JSON.stringify(answer)))).toEqual(
    new Set([JSON.stringify([404, 'There is no such sourcing event.'])]),
  );
  expect((await other.call('GET', `/desk/events/${event}`)).status).toBe(404);
  expect((await live(event)).status).toBe('DRAFT');
});

test.each(['publish', 'unpublish', 'pause', 'resume', 'close', 'reopen', 'delete'])(
  '%s takes an empty object or no body, and refuses unknown members',
  async (path) => {
    const given = { publish: [], unpublish: ['publish'], pause: ['publish'], resume: ['publish', 'pause'] }[path];
    const event = await newEvent();
    for (const step of given ?? (path === 'reopen' ? ['publish', 'close'] : path === 'close' ? ['publish'] : []))
      await desk(organisation, 'POST', `${event}/${step}`);
    const refused = await call(event, path, { force: true });
    expect([refused.status, refused.body.errors[0].path]).toEqual([400, 'force']);
    const answer = await organisation.call('POST', `/desk/events/${event}/${path}`);
    expect([answer.status, answer.body]).toEqual([200, { id: event, status: statusAfter[path] }]);
  },
);

describe('publish', () => {
  test('refuses an event with lots and no cost calculation, and says what to do', async () => {
    const { primary_cost_calculation: _none, ...payload } = eventPayload();
    const event = await createEvent(organisation, payload);
    const answer = await call(event, 'publish');
    expect([answer.status, answer.body.detail]).toEqual([409, expect.stringContaining('primary_cost_calculation')]);
    expect((await live(event)).status).toBe('DRAFT');
    const empty = await createEvent(organisation, { name: 'nothing to bid on' });
    expect((await call(empty, 'publish')).status).toBe(200);
  });

  test('adds a round without an end to an event without rounds, and only once', async () => {
    const event = await newEvent();
    await desk(organisation, 'POST', `${event}/publish`);
    const round = { number: 1, starts: expect.any(String), ends: null, status: 'ACTIVE', reopened: false };
    expect((await live(event)).rounds).toMatchObject([round]);
    await desk(organisation, 'POST', `${event}/unpublish`);
    expect((await live(event)).rounds).toMatchObject([{ ...round, status: 'PENDING' }]);
    await desk(organisation, 'POST', `${event}/publish`);
    expect((await live(event)).rounds).toMatchObject([round]);
  });

  test('sends the invitations', async () => {
    const event = await newEvent();
    expect((await live(event)).suppliers).toMatchObject([{ invite_count: 0 }]);
    await desk(organisation, 'POST', `${event}/publish`);
    expect((await live(event)).suppliers).toMatchObject([{ invite_count: 1 }]);
  });

  test('refuses a template, and says what to do instead', async () => {
    const event = await newEvent();
    await service.db.database.query('update service.sourcing_events set is_template = true where id = $1', [event]);
    const answer = await call(event, 'publish');
    expect([answer.status, answer.body.detail]).toEqual([409, expect.stringContaining('create an event from it')]);
    expect((await live(event)).allowed).not.toContain('publish');
  });
});

describe('reopen and close again', () => {
  const closedAndAwarded = async () => {
    const event = await newEvent();
    await desk(organisation, 'POST', `${event}/publish`);
    await desk(organisation, 'POST', `${event}/bids`, bid);
    const awards = [{ lot: 'A', supplier: 'S1', share_awarded: '1' }];
    await desk(organisation, 'PUT', `${event}/scenarios/best`, { awards });
    await desk(organisation, 'POST', `${event}/award`, { scenario: 'best' });
    clock.advance(1_000);
    await desk(organisation, 'POST', `${event}/close`);
    return event;
  };

  test('the last round is active without its award after reopening, and complete with it after closing', async () => {
    const event = await closedAndAwarded();
    const complete = { status: 'COMPLETE', awarded_cost: '10', awarded_lot_count: 1 };
    const before = await live(event);
    expect(before.rounds).toMatchObject([{ ...complete, reopened: false, ends: before.closed }]);
    await desk(organisation, 'POST', `${event}/reopen`);
    const reopened = await live(event);
    expect(reopened.rounds).toMatchObject([
      { status: 'ACTIVE', awarded_cost: null, awarded_lot_count: null, reopened: true, ends: null },
    ]);
    // `closed` is the time of the latest closing; reopening does not remove it.
    expect(reopened.closed).toBe(before.closed);
    expect(reopened.scenarios).toMatchObject([{ name: 'best', awarded: true }]);
    clock.advance(1_000);
    await desk(organisation, 'POST', `${event}/close`);
    const after = await live(event);
    expect(after.rounds).toMatchObject([{ ...complete, reopened: true, ends: after.closed }]);
    expect(after.closed > before.closed).toBe(true);
  });

  test('without the award the round is CLOSED, not COMPLETE', async () => {
    const event = await closedAndAwarded();
    await desk(organisation, 'POST', `${event}/reopen`);
    await desk(organisation, 'POST', `${event}/award`, { scenario: null });
    await desk(organisation, 'POST', `${event}/close`);
    expect((await live(event)).rounds).toMatchObject([
      { status: 'CLOSED', awarded_cost: null, awarded_lot_count: null },
    ]);
  });

  test('of several rounds only the last is COMPLETE, also when an earlier one was before', async () => {
    const event = await closedAndAwarded();
    await desk(organisation, 'POST', `${event}/reopen`);
    await desk(organisation, 'POST', `${event}/rounds/1/close`);
    await desk(organisation, 'POST', `${event}/rounds`, { ends });
    await desk(organisation, 'POST', `${event}/close`);
    expect((await live(event)).rounds).toMatchObject([
      { number: 1, status: 'CLOSED', awarded_cost: null },
      { number: 2, status: 'COMPLETE', awarded_cost: '10' },
    ]);
  });
});

test('of many commands at once on one event each is done or refused, and the event fits the answers', async () => {
  const event = await newEvent();
  await desk(organisation, 'POST', `${event}/publish`);
  const paths = ['pause', 'resume', 'unpublish', 'publish', 'close', 'reopen', 'rounds/1/close', 'rounds/1/reopen'];
  const answers = await Promise.all(
    Array.from({ length: 6 }, () => paths)
      .flat()
      .map(async (path) => ({ path, status: (await call(event, path)).status })),
  );
  expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200, 409]));
  const done = (path: string) => answers.filter((answer) => answer.path === path && answer.status === 200).length;
  const { status, rounds } = await live(event);
  expect(done('pause') - done('resume')).toBe(status === 'PAUSED' ? 1 : 0);
  expect(done('unpublish') - done('publish')).toBe(status === 'DRAFT' ? 1 : 0);
  expect(done('close') - done('reopen')).toBe(status === 'CLOSED' ? 1 : 0);
  expect(rounds).toHaveLength(1);
  expect(status === 'CLOSED' ? rounds[0].status : 'CLOSED').toBe('CLOSED');
});

test('the same command twice at once: one is done, the other refused', async () => {
  const event = await newEvent();
  await desk(organisation, 'POST', `${event}/publish`);
  const answers = await Promise.all([call(event, 'close'), call(event, 'close')]);
  expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200, 409]));
});
