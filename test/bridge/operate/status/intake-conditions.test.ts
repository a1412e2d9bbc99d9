/** The conditions of intakes, from the rows that an intake itself has written: each begins, and ends when its cause does. */
import { beforeAll, beforeEach, expect, test } from 'vitest';
import { replayIntake, resumeIntake } from '#bridge/intake/control-intakes.ts';
import { readStatus } from '#bridge/operate/status/status.ts';
import type { SupplierRecord } from '#connector/records.ts';
import { timestampNow } from '#platform/clock.ts';
import { createTestDatabase, type TestDatabase } from '../../../harness/test-database.ts';
import { createRandom } from '../../../simulation/random.ts';
import { calm, createIntakeWorld, type IntakeWorld, prepareIntake, refusedNames } from '../../intake/intake-world.ts';

let db: TestDatabase;
beforeAll(async () => {
  db = await createTestDatabase();
});

let world: IntakeWorld;
beforeEach(async () => {
  world = createIntakeWorld({ database: db.database, random: createRandom('alerts') });
  await prepareIntake(db.database, world);
});

const supplier = (n: number, more: Partial<SupplierRecord> = {}): SupplierRecord => ({
  external_id: `E-${n}`,
  name: `Supplier ${n}`,
  archived: false,
  fields: { City: 'Rome' },
  contacts: [],
  ...more,
});

/** Lets the intake work for so many minutes. */
async function work(minutes: number) {
  for (let minute = 0; minute < minutes; minute += 1) {
    await world.run();
    world.clock.advance(60_000);
    world.tick();
  }
  await world.run();
}

/** The conditions of intakes. */
async function found() {
  const { source, intake } = world;
  const settings = { sources: source ? [source] : [], intakes: [intake] };
  const { conditions } = await readStatus(db.database, { settings, now: now() });
  return conditions
    .filter(({ subject }) => subject.startsWith('intake '))
    .map(({ kind, subject, summary }) => ({ kind, subject, summary }));
}

const now = () => timestampNow(world.clock);

test('a first run that waits for a person is one, until the person has agreed', async () => {
  world.held.set('E-1', { name: 'Older', fields: {}, archived: false, contacts: [] });
  await world.pullList();
  world.saveErp(supplier(1));
  await work(6);
  expect(await found()).toEqual([
    {
      kind: 'intake-paused',
      subject: 'intake vendors',
      summary: expect.stringMatching(/^Intake vendors is paused; 1 supplier waits: it is the first run/),
    },
  ]);
  await resumeIntake(db.database, 'vendors', { agreeToArchive: false }, now());
  await work(6);
  expect(await found()).toEqual([]);
});

const behind = (why: RegExp) => [
  { kind: 'intake-behind', subject: 'intake vendors', summary: expect.stringMatching(why) },
];

test('a submission of which nothing is heard for an hour is one, until it is', async () => {
  await world.pullList();
  world.saveErp(supplier(1));
  await work(6);
  world.setChaos({ ...calm, get: 1 });
  world.saveErp(supplier(2));
  await work(70);
  expect(await found()).toEqual(behind(/: 1 supplier being processed by the service$/));
  world.setChaos(calm);
  await work(6);
  expect([world.held.size, await found()]).toEqual([2, []]);
});

test('suppliers that the service refuses are one, until they are taken', async () => {
  await world.pullList();
  for (const n of [1, 2, 3]) world.saveErp(supplier(n, n === 1 ? {} : { name: refusedNames.bySupplier }));
  await work(6);
  expect(await found()).toEqual([
    {
      kind: 'dead-letters',
      subject: 'intake vendors',
      summary: 'Intake vendors: 2 suppliers refused, the latest: this name is not allowed',
    },
  ]);
  world.saveErp(supplier(2, { name: 'Allowed' }));
  await work(6);
  expect(await found()).toMatchObject([{ summary: expect.stringContaining(': 1 supplier refused, the latest') }]);
  world.saveErp(supplier(3, { name: 'Allowed, too' }));
  await replayIntake(db.database, { intake: 'vendors', dead: true }, now());
  await work(6);
  expect([world.held.size, await found()]).toEqual([3, []]);
});
