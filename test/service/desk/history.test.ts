/** What `GET /desk/events/{id}` says of an event's past: each change of its state and of its rounds, when and why. */
import { describe, expect, test } from 'vitest';
import { liveEvent } from '#contract/live-event.ts';
import { eventually } from '../../harness/eventually.ts';
import { createManualClock, withoutTimers } from '../../harness/manual-clock.ts';
import { createEvent, createSuppliers, desk, eventPayload, readEvent } from '../../harness/sourcing.ts';
import type { TestOrganisation } from '../../harness/test-organisation.ts';
import { startTestService } from '../../harness/test-service.ts';

const clock = createManualClock();
const service = await startTestService({ clock: withoutTimers(clock) });
const organisation = await service.organisation();
await createSuppliers(organisation, ['S1']);

const at = (minutes: number) => new Date(clock.nowMs() + minutes * 60_000).toISOString().replace('Z', '000Z');
const pass = (minutes: number) => clock.advance(minutes * 60_000);
const call = (event: string, path: string, body: object = {}) => desk(organisation, 'POST', `${event}/${path}`, body);

const newEvent = (more: object = {}, of: TestOrganisation = organisation) =>
  createEvent(of, { ...eventPayload({ suppliers: ['S1'] }), ...more });

async function historyOf(event: string): Promise<{ time: string; what: string; why: string }[]> {
  const body = await readEvent(organisation, event);
  expect(liveEvent.safeParse(body).error?.issues).toBeUndefined();
  return body.history;
}

/** What happened and why, without the entries that were there before. */
async function newEntries(event: string, before: number) {
  return (await historyOf(event)).slice(before).map(({ what, why }) => [what, why]);
}

describe('the history of an event', () => {
  test('holds each command that changed the state of the event or its rounds, oldest first, with its time', async () => {
    const event = await newEvent();
    const expected: [time: string, what: string, why: string][] = [[at(0), 'event created', 'by job']];
    const step = async (path: string, body: object, ...entries: [what: string, why: string][]) => {
      pass(1);
      await call(event, path, body);
      for (const [what, why] of entries) expected.push([at(0), what, why]);
    };
    await step(
      'publish',
      {},
      ['event published', 'by command'],
      ['round 1 added', 'because the event was published'],
      ['round 1 began', 'because the event was published'],
    );
    await call(event, 'bids', { supplier: 'S1', lots: [{ lot: 'A', values: { Price: '1' } }] });
    await step('pause', {}, ['event paused', 'by command']);
    await step('resume', {}, ['event resumed', 'by command']);
    await step(
      'unpublish',
      {},
      ['event unpublished', 'by command'],
      ['round 1 pending again', 'because the event was unpublished'],
    );
    await step('publish', {}, ['event published', 'by command'], ['round 1 began', 'because the event was published']);
    await step('rounds/1/close', {}, ['round 1 closed', 'by command']);
    await step('rounds/1/reopen', {}, ['round 1 reopened', 'by command']);
    const awards = [{ lot: 'A', supplier: 'S1', share_awarded: '1' }];
    await desk(organisation, 'PUT', `${event}/scenarios/Best`, { awards });
    await step('award', { scenario: 'Best' }, ['scenario "Best" awarded', 'by command']);
    await step('award', { scenario: 'Best' });
    await step(
      'close',
      {},
      ['event closed', 'by command'],
      ['round 1 closed', 'because the event was closed'],
      ['round 1 completed', '1 lot awarded by scenario "Best"'],
    );
    await step('reopen', {}, ['event reopened', 'by command'], ['round 1 reopened', 'because the event was reopened']);
    await step('award', { scenario: null }, ['scenario "Best" unawarded', 'by command']);
    await step('award', { scenario: null });
    await step('close', {}, ['event closed', 'by command'], ['round 1 closed', 'because the event was closed']);
    await step('delete', {}, ['event deleted', 'by command']);
    expect((await historyOf(event)).map(({ time, what, why }) => [time, what, why])).toEqual(expected);
  });

  test('holds no command that was refused or changed no state', async () => {
    const event = await newEvent();
    await call(event, 'publish');
    const before = await historyOf(event);
    expect((await organisation.call('POST', `/desk/events/${event}/resume`, {})).status).toBe(409);
    await call(event, 'bids', { supplier: 'S1', lots: [{ lot: 'A', values: { Price: '1' } }] });
    await call(event, 'invitations', { suppliers: ['S1'] });
    expect(await historyOf(event)).toEqual(before);
  });

  test('says of a round that was added, extended, or followed by the next one why it changed', async () => {
    const event = await newEvent();
    await call(event, 'publish');
    await call(event, 'rounds', { ends: at(10) });
    const ends = at(20);
    await call(event, 'rounds/2/extend', { ends });
    await call(event, 'rounds/1/close');
    expect(await newEntries(event, 4)).toEqual([
      ['round 2 added', 'by command'],
      ['round 2 extended', `by command: it ends at ${ends}`],
      ['round 1 closed', 'by command'],
      ['round 2 began', 'because no round before it is open'],
    ]);
  });

  test('says of a round that ended in a pause that it closed on resume, because its end had passed', async () => {
    const event = await newEvent({ rounds: [{ ends: at(10) }, { starts: at(20), ends: at(30) }, { starts: at(50) }] });
    await call(event, 'publish');
    await call(event, 'pause');
    const before = (await historyOf(event)).length;
    pass(40);
    await call(event, 'resume');
    expect((await readEvent(organisation, event)).rounds).toMatchObject([
      { status: 'CLOSED' },
      { status: 'CLOSED' },
      { status: 'PENDING' },
    ]);
    expect((await historyOf(event)).slice(before)).toEqual([
      { time: at(0), what: 'event resumed', why: 'by command' },
      { time: at(0), what: 'round 1 closed', why: 'on resume: its end had passed' },
      { time: at(0), what: 'round 2 closed', why: 'on resume: its end had passed' },
    ]);
  });

  test('is the same whether it is read before or after what is due has been written', async () => {
    const rounds = [{ ends: at(10) }, { starts: at(20), ends: at(30) }];
    const event = await newEvent({ rounds, settings: { close_after_last_round: true } });
    await call(event, 'publish');
    const before = (await historyOf(event)).length;
    const [first, second, last] = [at(10), at(20), at(30)];
    pass(45);
    const seen = await historyOf(event);
    expect(seen.slice(before)).toEqual([
      { time: first, what: 'round 1 closed', why: 'by timer: its end had come' },
      { time: second, what: 'round 2 began', why: 'by timer: its start had come' },
      { time: last, what: 'round 2 closed', why: 'by timer: its end had come' },
      { time: last, what: 'event closed', why: 'by timer: its last round had closed' },
    ]);
    // A command finds the event closed, and writes first what was due.
    await call(event, 'reopen');
    expect((await historyOf(event)).slice(0, seen.length)).toEqual(seen);
  });

  test('keeps the newest 500 entries', async () => {
    const event = await newEvent();
    await call(event, 'publish');
    const filler = Array.from({ length: 499 }, (_, index) => ({ time: at(0), what: `old ${index}`, why: 'filler' }));
    await service.db.database.query('update service.sourcing_events set history = $2 where id = $1', [
      event,
      JSON.stringify(filler),
    ]);
    await call(event, 'pause');
    expect((await historyOf(event)).map(({ what }) => what)).toEqual([
      ...filler.map(({ what }) => what),
      'event paused',
    ]);
    await call(event, 'resume');
    const history = await historyOf(event);
    expect(history).toHaveLength(500);
    expect([history[0]?.what, history[498]?.what, history[499]?.what]).toEqual([
      'old 1',
      'event paused',
      'event resumed',
    ]);
  });

  test("is empty for an event that was stored before there was a history, and another organisation's is not found", async () => {
    const event = await newEvent();
    await service.db.database.query(`update service.sourcing_events set history = '[]' where id = $1`, [event]);
    expect(await historyOf(event)).toEqual([]);
    const other = await service.organisation();
    expect((await other.call('GET', `/desk/events/${event}`)).status).toBe(404);
  });
});

test('a round that the timer begins and closes says so, without any command', async () => {
  const own = createManualClock();
  const timed = await startTestService({ clock: own });
  const buyer = await timed.organisation();
  await createSuppliers(buyer, ['S1']);
  const start = own.nowMs();
  const minute = (count: number) => new Date(start + count * 60_000).toISOString().replace('Z', '000Z');
  const event = await createEvent(buyer, {
    ...eventPayload({ suppliers: ['S1'] }),
    rounds: [{ starts: minute(10), ends: minute(20) }],
  });
  await desk(buyer, 'POST', `${event}/publish`);
  const stored = async () => {
    const [row] = await timed.db.database.query<{ history: object[] }>(
      'select history from service.sourcing_events where id = $1',
      [event],
    );
    return row?.history.slice(2) ?? [];
  };
  own.advance(10 * 60_000);
  await eventually('the round has begun', async () => (await stored()).length === 1);
  own.advance(10 * 60_000);
  await eventually('the round has closed', async () => (await stored()).length === 2);
  expect(await stored()).toEqual([
    { time: minute(10), what: 'round 1 began', why: 'by timer: its start had come' },
    { time: minute(20), what: 'round 1 closed', why: 'by timer: its end had come' },
  ]);
});
