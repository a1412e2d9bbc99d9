import { describe, expect, test } from 'vitest';
import { createManualClock } from '../../harness/manual-clock.ts';
import { createEvent, createSuppliers, desk, eventPayload, readEvent } from '../../harness/sourcing.ts';
import { startTestService } from '../../harness/test-service.ts';

const clock = createManualClock();
const service = await startTestService({ clock });
const organisation = await service.organisation();
await createSuppliers(organisation, ['S1']);

/** A time so many minutes from now, in the contract's form. */
const at = (minutes: number) => new Date(clock.nowMs() + minutes * 60_000).toISOString().replace('Z', '000Z');
const call = (event: string, path: string, body: object = {}) =>
  organisation.call('POST', `/desk/events/${event}/${path}`, body);
const roundsOf = async (event: string) => (await readEvent(organisation, event)).rounds;

async function newEvent(rounds: object[], steps: string[] = [], settings: object = {}): Promise<string> {
  const event = await createEvent(organisation, { ...eventPayload({ suppliers: ['S1'] }), rounds, settings });
  for (const step of steps) await desk(organisation, 'POST', `${event}/${step}`);
  return event;
}

describe('POST rounds', () => {
  test('numbers the rounds from 1, and answers with the new round', async () => {
    const event = await newEvent([]);
    const first = await call(event, 'rounds', { starts: at(5), ends: at(10) });
    const second = await call(event, 'rounds', { starts: at(10), ends: at(20) });
    expect([first.status, second.status]).toEqual([201, 201]);
    const pending = { status: 'PENDING', awarded_cost: null, awarded_lot_count: null, reopened: false };
    expect(first.body).toEqual({ number: 1, starts: at(5), ends: at(10), ...pending });
    expect(second.body).toEqual({ number: 2, starts: at(10), ends: at(20), ...pending });
    expect(await roundsOf(event)).toEqual([first.body, second.body]);
    await desk(organisation, 'POST', `${event}/publish`);
    // The event has rounds, so publishing adds none.
    expect(await roundsOf(event)).toEqual([first.body, second.body]);
  });

  test('a round whose start is not in the future is active at once', async () => {
    const event = await newEvent([], ['publish', 'rounds/1/close']);
    const made = await call(event, 'rounds', { starts: at(0), ends: at(10) });
    expect(made.body).toMatchObject({ number: 2, status: 'ACTIVE' });
    await call(event, 'rounds/2/close');
    clock.advance(60_000);
    const next = await call(event, 'rounds', { ends: at(10) });
    expect(next.body).toMatchObject({ number: 3, status: 'ACTIVE', starts: at(0) });
  });

  test('a round without `starts` waits for the one before it; with `starts` it ends an endless round', async () => {
    const waiting = await newEvent([], ['publish']);
    expect((await call(waiting, 'rounds', { ends: at(10) })).body).toMatchObject({ status: 'PENDING', starts: null });
    clock.advance(60_000);
    await desk(organisation, 'POST', `${waiting}/rounds/1/close`);
    expect(await roundsOf(waiting)).toMatchObject([
      { status: 'CLOSED', ends: at(0) },
      { status: 'ACTIVE', starts: at(0) },
    ]);
    const planned = await newEvent([], ['publish']);
    await call(planned, 'rounds', { starts: at(1), ends: at(10) });
    clock.advance(60_000);
    expect(await roundsOf(planned)).toMatchObject([{ status: 'CLOSED', ends: at(0) }, { status: 'ACTIVE' }]);
  });

  test.each<[string, object, string]>([
    ['that ends in the past', { ends: '2020-01-01T00:00:00Z' }, 'ends'],
    ['that ends when it starts', { starts: at(30), ends: at(30) }, 'ends'],
    ['that starts before the previous round ends', { starts: at(15), ends: at(30) }, 'starts'],
    ['that ends before the previous round ends', { ends: at(20) }, 'ends'],
    ['without an end', { starts: at(30) }, 'ends'],
    ['with an end that is not a time', { ends: 'tomorrow' }, 'ends'],
    ['with an unknown member', { ends: at(30), name: 'x' }, 'name'],
  ])('a round %s: 400 with the path of the fault, and nothing is stored', async (_what, body, path) => {
    for (const steps of [[], ['publish'], ['publish', 'pause']]) {
      const event = await newEvent([{ starts: at(10), ends: at(20) }], steps);
      const before = await roundsOf(event);
      const answer = await call(event, 'rounds', body);
      expect([answer.status, answer.body.errors[0].path]).toEqual([400, path]);
      expect(await roundsOf(event)).toEqual(before);
    }
  });

  test('an event has at most 100 rounds', async () => {
    const rounds = Array.from({ length: 99 }, (_, index) => ({ ends: at(index + 1) }));
    const event = await newEvent(rounds);
    expect((await call(event, 'rounds', { ends: at(100) })).status).toBe(201);
    const answer = await call(event, 'rounds', { ends: at(101) });
    expect([answer.status, answer.body.detail]).toEqual([409, expect.stringContaining('at most 100 rounds')]);
  });

  test('many at once get different numbers, or are refused because they overlap', async () => {
    const event = await newEvent([], ['publish']);
    const answers = await Promise.all(
      Array.from({ length: 8 }, (_, index) => call(event, 'rounds', { ends: at(index + 1) })),
    );
    const made = answers.filter(({ status }) => status === 201);
    expect(made.length).toBeGreaterThan(0);
    expect((await roundsOf(event)).map((round: { number: number }) => round.number)).toEqual(
      Array.from({ length: made.length + 1 }, (_, index) => index + 1),
    );
  });
});

describe('POST rounds/{n}/close', () => {
  test('ends the round now; the event stays open', async () => {
    const event = await newEvent([{ ends: at(60) }], ['publish']);
    clock.advance(60_000);
    const answer = await call(event, 'rounds/1/close');
    expect([answer.status, answer.body]).toMatchObject([200, { number: 1, status: 'CLOSED', ends: at(0) }]);
    const body = await readEvent(organisation, event);
    expect([body.status, body.allowed.includes('bid')]).toEqual(['OPEN', false]);
  });

  test('of the last round closes an event that closes after its last round; of another round does not', async () => {
    const event = await newEvent([{ ends: at(10) }, { ends: at(20) }], ['publish'], { close_after_last_round: true });
    await call(event, 'rounds/1/close');
    const status = async () => (await readEvent(organisation, event)).status;
    expect(await status()).toBe('OPEN');
    expect((await call(event, 'rounds/2/close')).body).toMatchObject({ number: 2, status: 'CLOSED' });
    expect(await status()).toBe('CLOSED');
  });

  test.each<[string, object[], string[], number]>([
    ['that has not begun', [{ ends: at(10) }, { starts: at(10), ends: at(20) }], ['publish'], 2],
    ['that is closed', [{ ends: at(10) }, { ends: at(20) }], ['publish', 'rounds/1/close'], 1],
    ['of a paused event', [{ ends: at(10) }], ['publish', 'pause'], 1],
    ['of a draft', [{ ends: at(10) }], [], 1],
  ])('a round %s: 409', async (_what, rounds, steps, number) => {
    const event = await newEvent(rounds, steps);
    const before = await roundsOf(event);
    expect((await call(event, `rounds/${number}/close`)).status).toBe(409);
    expect(await roundsOf(event)).toEqual(before);
  });

  test.each(['0', '01', '2', '-1', '1.0', 'last', '99999999999999999999'])(
    'round %s, which does not exist: 404',
    async (number) => {
      const event = await newEvent([], ['publish']);
      const answer = await call(event, `rounds/${number}/close`);
      expect([answer.status, answer.body.detail]).toEqual([404, 'This event has no such round.']);
    },
  );
});

describe('POST rounds/{n}/extend', () => {
  test.each<[string, object[], string[]]>([
    ['of a draft', [{ ends: at(10) }], []],
    ['that is active', [{ ends: at(10) }], ['publish']],
    ['that has not begun', [{ starts: at(5), ends: at(10) }], ['publish']],
    ['that has no end', [], ['publish']],
    ['of a paused event', [{ ends: at(10) }], ['publish', 'pause']],
  ])('a round %s gets the new end', async (_what, rounds, steps) => {
    const event = await newEvent(rounds, steps);
    const before = (await roundsOf(event))[0];
    const answer = await call(event, 'rounds/1/extend', { ends: at(30) });
    expect([answer.status, answer.body]).toEqual([200, { ...before, ends: at(30) }]);
    expect(await roundsOf(event)).toEqual([answer.body]);
  });

  test.each<[string, object, string]>([
    ['in the past', { ends: '2020-01-01T00:00:00Z' }, 'ends'],
    ['into the next round', { ends: at(25) }, 'ends'],
    ['that is missing', {}, 'ends'],
    ['beside another start', { starts: at(1), ends: at(9) }, 'starts'],
  ])('an end %s: 400 with the path of the fault, and nothing is changed', async (_what, body, path) => {
    const event = await newEvent([{ ends: at(10) }, { starts: at(20), ends: at(30) }], ['publish']);
    const before = await roundsOf(event);
    const answer = await call(event, 'rounds/1/extend', body);
    expect([answer.status, answer.body.errors[0].path]).toEqual([400, path]);
    expect(await roundsOf(event)).toEqual(before);
  });

  test('a closed round: 409 that says what to do', async () => {
    const event = await newEvent([{ ends: at(10) }, { ends: at(20) }], ['publish', 'rounds/1/close']);
    const answer = await call(event, 'rounds/1/extend', { ends: at(15) });
    expect([answer.status, answer.body.detail]).toEqual([409, 'Round 1 is CLOSED: reopen it with a new end.']);
  });
});

describe('POST rounds/{n}/reopen', () => {
  test.each<[string, object | undefined, string | null]>([
    ['without a body, the round runs until it is closed', undefined, null],
    ['with an empty body, the round runs until it is closed', {}, null],
    ['with an end, the round runs until then', { ends: at(30) }, at(30)],
  ])('%s', async (_what, body, ends) => {
    const event = await newEvent([{ ends: at(10) }], ['publish', 'rounds/1/close']);
    const answer = await organisation.call('POST', `/desk/events/${event}/rounds/1/reopen`, body);
    expect([answer.status, answer.body]).toMatchObject([200, { number: 1, status: 'ACTIVE', ends, reopened: true }]);
    expect((await readEvent(organisation, event)).allowed).toContain('withdraw-bid');
  });

  test('an earlier round can be reopened while none is active', async () => {
    const event = await newEvent([{ ends: at(10) }, { ends: at(20) }], ['publish', 'rounds/1/close']);
    expect((await call(event, 'rounds/1/reopen')).status).toBe(409);
    await call(event, 'rounds/2/close');
    expect((await call(event, 'rounds/1/reopen')).status).toBe(200);
    expect(await roundsOf(event)).toMatchObject([{ status: 'ACTIVE' }, { status: 'CLOSED' }]);
  });

  test.each<[string, object[], string[], number]>([
    ['that is active', [{ ends: at(10) }], ['publish'], 1],
    ['that has not begun', [{ ends: at(10) }, { starts: at(15), ends: at(20) }], ['publish', 'rounds/1/close'], 2],
    ['of a closed event', [{ ends: at(10) }], ['publish', 'close'], 1],
  ])('a round %s: 409', async (_what, rounds, steps, number) => {
    const event = await newEvent(rounds, steps);
    const before = await roundsOf(event);
    expect((await call(event, `rounds/${number}/reopen`)).status).toBe(409);
    expect(await roundsOf(event)).toEqual(before);
  });

  test('with an end in the past, or in the next round: 400', async () => {
    const event = await newEvent([{ ends: at(10) }, { starts: at(20), ends: at(30) }], ['publish', 'rounds/1/close']);
    for (const ends of ['2020-01-01T00:00:00Z', at(21)]) {
      const answer = await call(event, 'rounds/1/reopen', { ends });
      expect([answer.status, answer.body.errors[0].path]).toEqual([400, 'ends']);
    }
    expect((await call(event, 'rounds/1/reopen', { ends: at(20) })).status).toBe(200);
  });
});
