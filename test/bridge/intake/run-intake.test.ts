import { beforeAll, beforeEach, describe, expect, test } from 'vitest';
import {
  linkIntakeRecord,
  readIntakeDeadLetters,
  readIntakeNow,
  replayIntake,
  resumeIntake,
} from '#bridge/intake/control-intakes.ts';
import { findIntakeRecords, readIntakeHistory } from '#bridge/intake/intake-history.ts';
import { backlogText, readIntakeStatuses } from '#bridge/operate/status/intake-status.ts';
import type { SupplierRecord } from '#connector/records.ts';
import { timestampNow } from '#platform/clock.ts';
import { createTestDatabase, type TestDatabase } from '../../harness/test-database.ts';
import { createRandom } from '../../simulation/random.ts';
import { createFlowBack } from './flow-back.ts';
import { createIntakeWorld, type IntakeWorld, prepareIntake, refusedNames } from './intake-world.ts';

let db: TestDatabase;
beforeAll(async () => {
  db = await createTestDatabase();
});

let world: IntakeWorld;
const worldOf = async (options: Partial<Parameters<typeof createIntakeWorld>[0]> = {}) => {
  world = createIntakeWorld({ database: db.database, random: createRandom('run'), ...options });
  await prepareIntake(db.database, world);
};
beforeEach(() => worldOf());

const supplier = (n: number, more: Partial<SupplierRecord> = {}): SupplierRecord => ({
  external_id: `E-${n}`,
  name: `Supplier ${n}`,
  archived: false,
  fields: { City: 'Rome' },
  contacts: [],
  ...more,
});
const save = (...numbers: number[]) => numbers.forEach((n) => world.saveErp(supplier(n)));

/** Lets the intake work for two minutes. */
async function settle() {
  for (let round = 0; round < 8; round += 1) {
    await world.run();
    world.clock.advance(15_000);
    world.tick();
  }
  await world.run();
}

const resume = (agreeToArchive = false) =>
  resumeIntake(db.database, 'vendors', { agreeToArchive }, timestampNow(world.clock));
const status = async () => {
  const { source, intake, clock } = world;
  const settings = { sources: source ? [source] : [], intakes: [intake] };
  const [read] = await readIntakeStatuses(db.database, settings, timestampNow(clock));
  if (!read) throw new Error('no status');
  return read;
};
const deadLetters = () => readIntakeDeadLetters(db.database, { limit: 100 });

test('nothing is sent before the supplier list was read: a supplier that exists could be made twice', async () => {
  save(1);
  await settle();
  expect([world.requests.post, (await status()).lag.why]).toEqual([0, expect.stringContaining('supplier list')]);
  await world.pullList();
  await settle();
  expect(world.held.get('E-1')).toEqual({
    name: 'Supplier 1',
    fields: { City: 'Rome' },
    archived: false,
    contacts: [],
  });
});

test('a service without suppliers gets all at once, and a poll without a change sends it nothing', async () => {
  await world.pullList();
  save(1, 2, 3, 4, 5);
  await settle();
  expect([world.held.size, world.requests.post]).toEqual([5, 1]);
  const { post, get } = world.requests;
  for (let poll = 0; poll < 5; poll += 1) {
    world.clock.advance(300_000);
    await world.run();
  }
  expect([world.requests.post, world.requests.get]).toEqual([post, get]);
  expect((await status()).lag).toMatchObject({ inStep: true, why: 'in step' });
});

describe('a service that has suppliers already', () => {
  beforeEach(async () => {
    world.held.set('E-1', { name: 'Older', fields: { City: 'Rome', Rating: 'A' }, archived: false, contacts: [] });
    await world.pullList();
    save(1, 2);
    await settle();
  });
  test('gets nothing before a person has seen what would be sent', async () => {
    expect(world.requests.post).toBe(0);
    expect(await status()).toMatchObject({ pausedKind: 'first-run', creates: 1, updates: 1, archives: 0 });
    await resume();
    await settle();
    expect(world.held.get('E-1')).toMatchObject({ name: 'Supplier 1', fields: { City: 'Rome', Rating: 'A' } });
    expect(world.held.get('E-2')).toMatchObject({ name: 'Supplier 2' });
  });
});

test('suppliers with an attribute that the service does not know are dead letters with its words', async () => {
  await world.pullList();
  save(1);
  for (const n of [2, 3]) world.saveErp(supplier(n, { fields: { Colour: 'red' } }));
  await settle();
  expect([...world.held.keys()]).toEqual(['E-1']);
  expect((await deadLetters()).map(({ erpKey, lastError }) => `${erpKey}: ${lastError}`).sort()).toEqual([
    'E-2: there is no supplier attribute "Colour"',
    'E-3: there is no supplier attribute "Colour"',
  ]);
});

test('a supplier that the service refuses is a dead letter with its words; the others are taken', async () => {
  await world.pullList();
  save(1, 2);
  world.saveErp(supplier(3, { name: refusedNames.bySupplier }));
  await settle();
  expect([...world.held.keys()].sort()).toEqual(['E-1', 'E-2']);
  expect(await deadLetters()).toMatchObject([
    { intake: 'vendors', erpKey: 'E-3', errorType: 'data', lastError: 'this name is not allowed' },
  ]);
  expect(await replayIntake(db.database, { intake: 'vendors', dead: true }, timestampNow(world.clock))).toBe(1);
  world.saveErp(supplier(3, { name: 'Allowed' }));
  world.clock.advance(300_000);
  await settle();
  expect([world.held.get('E-3')?.name, await deadLetters()]).toEqual(['Allowed', []]);
  const [found] = await findIntakeRecords(db.database, { text: 'E-3', limit: 5 });
  expect(found).toMatchObject({ key: 'E-3', name: 'Allowed', state: 'in step', version: 2 });
  const history = await readIntakeHistory(db.database, { intake: 'vendors', erpKey: 'E-3', limit: 50 });
  expect(history.filter(({ step }) => step === 'refused')).toHaveLength(1);
  expect(history.at(-1)).toMatchObject({ step: 'taken' });
});

test('one supplier for which the service refuses the whole submission does not stop the others', async () => {
  await world.pullList();
  save(1, 2, 3, 4, 5, 6);
  world.saveErp(supplier(7, { name: refusedNames.bySubmission }));
  await settle();
  await settle();
  expect([world.held.size, (await deadLetters()).map(({ erpKey }) => erpKey)]).toEqual([6, ['E-7']]);
});

test('many archivings at once pause the intake until a person agrees to them', async () => {
  await worldOf({ intake: { archive: { most: 2, share: 0.1 } } });
  await world.pullList();
  save(1, 2, 3, 4, 5);
  await settle();
  for (const n of [1, 2, 3]) world.saveErp(supplier(n, { archived: true }));
  world.clock.advance(300_000);
  await settle();
  expect([...world.held.values()].filter(({ archived }) => archived)).toEqual([]);
  expect(await status()).toMatchObject({ pausedKind: 'archives', archives: 3 });
  await resume();
  await settle();
  expect(await status()).toMatchObject({ pausedKind: 'archives' });
  await resume(true);
  await settle();
  expect([...world.held.values()].filter(({ archived }) => archived)).toHaveLength(3);
  // What was agreed to was what waited then.
  for (const n of [4, 5]) world.saveErp(supplier(n, { archived: true }));
  world.clock.advance(300_000);
  await settle();
  expect([...world.held.values()].filter(({ archived }) => archived)).toHaveLength(5);
});

test('an archiving that the service has not worked off yet counts among those that a person must agree to', async () => {
  await worldOf({ intake: { archive: { most: 1, share: 0 } } });
  await world.pullList();
  save(1, 2, 3);
  await settle();
  for (const n of [1, 2, 3]) {
    world.saveErp(supplier(n, { archived: true }));
    await readIntakeNow(db.database, 'vendors', timestampNow(world.clock));
    // Read, compared and sent; the service has taken it, and not worked on it.
    await world.run();
  }
  expect(world.submissions.flatMap(({ suppliers }) => suppliers).filter(({ archived }) => archived)).toHaveLength(1);
  expect(await status()).toMatchObject({ pausedKind: 'archives' });
});

test('an archiving that may have taken effect counts, too, and that of the same supplier once more does not', async () => {
  await worldOf({ intake: { archive: { most: 1, share: 0 } } });
  await world.pullList();
  save(1, 2);
  await settle();
  world.saveErp(supplier(1, { archived: true }));
  // Sent, and nobody saw the end of it within a day.
  world.clock.advance(300_000);
  await world.run();
  await db.database.query(
    `update bridge.intake_submissions set state = 'uncertain', uuid = null, created = created - interval '25 hours'
     where state = 'sent'`,
  );
  world.clock.advance(60_000);
  await world.run();
  const [given] = await db.database.query<{ counted: boolean }>(
    `select archived_at is not null as counted from bridge.intake_records where erp_key = 'E-1'`,
  );
  expect([given, (await status()).pausedKind]).toEqual([{ counted: true }, null]);
  world.saveErp(supplier(2, { archived: true }));
  world.clock.advance(3_600_000);
  await settle();
  expect((await status()).pausedKind).toBe('archives');
});

test('a supplier found by its name is changed and not made again; one that may be two is for a person', async () => {
  await worldOf({ intake: { match: ['name'] } });
  world.held.set('S-1', { name: 'SUPPLIER 1', fields: { City: 'Rome' }, archived: false, contacts: [] });
  for (const key of ['S-2', 'S-3'])
    world.held.set(key, { name: 'Supplier 2', fields: {}, archived: false, contacts: [] });
  await world.pullList();
  save(1, 2);
  await settle();
  await resume();
  await settle();
  expect([world.held.get('S-1')?.name, world.held.size]).toEqual(['Supplier 1', 3]);
  expect(await deadLetters()).toMatchObject([{ erpKey: 'E-2', errorType: 'ambiguous' }]);
  const link = { intake: 'vendors', erpKey: 'E-2', key: 'S-3', prefix: '' };
  await linkIntakeRecord(db.database, link, timestampNow(world.clock));
  await settle();
  expect([world.held.get('S-3')?.fields, world.held.get('S-2')?.fields]).toEqual([{ City: 'Rome' }, {}]);
  await expect(linkIntakeRecord(db.database, { ...link, erpKey: 'E-1' }, timestampNow(world.clock))).rejects.toThrow(
    'belongs to E-2',
  );
});

test('a text that was cut in the middle of a character, in the ERP or for the match, holds no supplier up', async () => {
  await worldOf({ intake: { match: ['fields.City'] } });
  await world.pullList();
  world.saveErp(supplier(1, { name: 'Acme \ud83d' }));
  world.saveErp(supplier(2, { fields: { City: `R${'\u{1f529}'.repeat(200)}` } }));
  save(3);
  await settle();
  expect([...world.held.keys()].sort()).toEqual(['E-1', 'E-2', 'E-3']);
  expect(world.held.get('E-1')?.name).toBe('Acme \ufffd');
});

test('two suppliers of the ERP that fit one of the service by different rules are both for a person', async () => {
  await worldOf({ intake: { match: ['name', 'email'] } });
  const contacts = [{ name: 'Ann', email: 'ann@acme' }];
  world.held.set('S-1', { name: 'Supplier 1', fields: { City: 'Rome' }, archived: false, contacts });
  await world.pullList();
  save(1, 3);
  world.saveErp(supplier(2, { contacts }));
  await settle();
  expect((await deadLetters()).map(({ erpKey, errorType }) => `${erpKey} ${errorType}`).sort()).toEqual([
    'E-1 ambiguous',
    'E-2 ambiguous',
  ]);
  // The others go on.
  expect(await status()).toMatchObject({ pausedKind: 'first-run', creates: 1 });
});

test('a supplier of the service with the number of one of the ERP is that one, whatever else it fits', async () => {
  await worldOf({ intake: { match: ['name'] } });
  world.held.set('E-2', { name: 'Supplier 1', fields: { City: 'Rome' }, archived: false, contacts: [] });
  await world.pullList();
  save(1, 2);
  await settle();
  expect(await deadLetters()).toMatchObject([{ erpKey: 'E-1', errorType: 'ambiguous' }]);
  expect(await status()).toMatchObject({ pausedKind: 'first-run', creates: 0, updates: 1 });
});

test('a supplier that another intake writes is refused, and says whose it is', async () => {
  await world.pullList();
  save(1);
  await settle();
  await db.database.query(
    `insert into bridge.intakes (name, source, stream, connector, next_read) values ('other', 'main', 'supplier', 'x', now());
     update bridge.intake_records set intake = 'other'`,
  );
  world.saveErp(supplier(1, { name: 'Mine' }));
  world.clock.advance(300_000);
  await settle();
  const letters = await deadLetters();
  expect(letters.filter(({ intake }) => intake === 'vendors')).toMatchObject([
    { errorType: 'overlap', lastError: expect.stringContaining('the intake "other"') },
  ]);
});

test('a service that takes a change and never shows it is not asked for ever', async () => {
  await world.pullList();
  save(1);
  await settle();
  for (let day = 0; day < 10; day += 1) {
    const held = world.held.get('E-1');
    if (held) held.name = 'Always another';
    await world.pullList();
    world.clock.advance(60_000);
    await settle();
  }
  const posts = world.requests.post;
  expect(posts).toBeLessThan(7);
  expect(await deadLetters()).toMatchObject([{ erpKey: 'E-1', errorType: 'not-kept' }]);
});

test('a prefix keeps the numbers of two ERPs apart, and a filter leaves suppliers out', async () => {
  await worldOf({ intake: { prefix: 'T-', only: { fields: { City: 'Rome' } } } });
  await world.pullList();
  save(1);
  world.saveErp(supplier(2, { fields: { City: 'Oslo' } }));
  await settle();
  expect([...world.held.keys()]).toEqual(['T-E-1']);
});

test('says how long a backlog takes', () => {
  expect(
    backlogText({
      stream: 'supplier',
      backlog: { suppliers: 12_400, submissions: 13, end: '2030-01-01T14:20:00.000000Z' },
    }),
  ).toBe('12,400 suppliers in 13 submissions, done about 2030-01-01 14:20 UTC');
});

/** A supplier is renamed in the ERP, the service takes the submission, and the answer to its POST is lost. */
async function submitUnanswered(ago = '1 minute'): Promise<void> {
  await world.pullList();
  save(1);
  await settle();
  world.saveErp(supplier(1, { name: 'Renamed' }));
  world.clock.advance(300_000);
  await world.run();
  await db.database.query(
    `update bridge.intake_submissions
     set state = 'uncertain', uuid = null, created = created - $2::interval, ends = $1, next_look = $1
     where state = 'sent'`,
    [timestampNow(world.clock), ago],
  );
}

test('a submission whose answer was lost is sent again under its key, and its change takes effect once', async () => {
  await submitUnanswered();
  const { post } = world.requests;
  await settle();
  expect([world.requests.post - post, world.submissions.length, world.violations]).toEqual([1, 2, []]);
  expect(world.held.get('E-1')).toMatchObject({ name: 'Renamed' });
  expect((await status()).lag).toMatchObject({ inStep: true });
});

test('after a day the service may not know the key any more: what its list shows is not sent again', async () => {
  await submitUnanswered('25 hours');
  const { post } = world.requests;
  world.clock.advance(60_000);
  world.tick();
  await world.pullList();
  await settle();
  expect([world.requests.post, world.held.get('E-1')?.name]).toEqual([post, 'Renamed']);
  expect((await status()).lag).toMatchObject({ inStep: true });
});

test('a flow writes again what a user of the service sets back before the list shows what the ERP had changed', async () => {
  await world.pullList();
  save(1);
  await settle();
  const flow = await createFlowBack(db.database, world, createRandom('back'));
  const poll = async () => {
    world.clock.advance(300_000);
    await settle();
  };
  const list = async () => {
    await world.pullList();
    await flow.settle();
    await poll();
  };
  const names = () => [world.erp.get('E-1')?.name, world.held.get('E-1')?.name];
  await list();
  const atService = world.held.get('E-1');
  if (!atService) throw new Error('E-1 is not at the service');
  atService.name = 'Acme';
  await list();
  expect(names()).toEqual(['Acme', 'Acme']);
  const { writes } = flow;

  world.saveErp(supplier(1, { name: 'Acme Ltd' }));
  await poll();
  expect(names()).toEqual(['Acme Ltd', 'Acme Ltd']);
  const changed = world.held.get('E-1');
  if (changed) changed.name = 'Acme';
  for (let lists = 0; lists < 4; lists += 1) await list();
  expect([names(), flow.writes - writes]).toEqual([['Acme', 'Acme'], 1]);
});
