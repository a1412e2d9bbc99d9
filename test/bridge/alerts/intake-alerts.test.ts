/** The alerts of intakes, from the rows that an intake itself has written: each starts, and ends when its cause does. */
import { beforeAll, beforeEach, expect, test } from 'vitest';
import { readAlerts } from '#bridge/alerts/alert-store.ts';
import { createAlertWatch } from '#bridge/alerts/watch-alerts.ts';
import { replayIntake, resumeIntake } from '#bridge/intake/control-intakes.ts';
import { createLeases } from '#bridge/leases/lease.ts';
import { bridgeSettings } from '#bridge/settings.ts';
import type { SupplierRecord } from '#connector/records.ts';
import { timestampNow } from '#platform/clock.ts';
import { silentLogger } from '#platform/log.ts';
import { testOutgoing } from '../../harness/test-certificates.ts';
import { createTestDatabase, type TestDatabase } from '../../harness/test-database.ts';
import { createRandom } from '../../simulation/random.ts';
import { calm, createIntakeWorld, type IntakeWorld, prepareIntake, refusedNames } from '../intake/intake-world.ts';

let db: TestDatabase;
beforeAll(async () => {
  db = await createTestDatabase();
});

let world: IntakeWorld;
let watch: () => Promise<void>;
beforeEach(async () => {
  await db.database.query('truncate bridge.alerts cascade');
  world = createIntakeWorld({ database: db.database, random: createRandom('alerts') });
  await prepareIntake(db.database, world);
  const { clock, source, intake } = world;
  const liveness = { id: 1_000, isAlive: async () => true };
  const look = createAlertWatch({
    settings: { ...bridgeSettings.parse({}), sources: source ? [source] : [], intakes: [intake] },
    database: db.database,
    acquireLease: createLeases({ database: db.database, liveness }),
    fetch: testOutgoing().fetch,
    clock,
    log: silentLogger,
    certificatePem: undefined,
  });
  watch = () => look(new AbortController().signal);
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

/** Looks twice, as an alert ends only when it stays away. Returns the open ones of intakes. */
async function openAlerts() {
  await watch();
  world.clock.advance(90_000);
  await watch();
  const alerts = await readAlerts(db.database);
  return alerts
    .filter(({ subject }) => subject.startsWith('intake '))
    .map(({ kind, subject, summary }) => ({ kind, subject, summary }));
}

const now = () => timestampNow(world.clock);

test('an intake in step has none', async () => {
  await world.pullList();
  world.saveErp(supplier(1));
  await work(6);
  expect([world.held.size, await openAlerts()]).toEqual([1, []]);
});

test('a first run that waits for a person is one, until the person has agreed', async () => {
  world.held.set('E-1', { name: 'Older', fields: {}, archived: false, contacts: [] });
  await world.pullList();
  world.saveErp(supplier(1));
  await work(6);
  expect(await openAlerts()).toEqual([
    {
      kind: 'intake-paused',
      subject: 'intake vendors',
      summary: expect.stringMatching(/^Intake vendors is paused; 1 supplier waits: it is the first run/),
    },
  ]);
  await resumeIntake(db.database, 'vendors', { agreeToArchive: false }, now());
  await work(6);
  expect(await openAlerts()).toEqual([]);
});

const behind = (why: RegExp) => [
  { kind: 'intake-behind', subject: 'intake vendors', summary: expect.stringMatching(why) },
];

test('an ERP that cannot be read for half an hour is one, until it can', async () => {
  await world.pullList();
  world.saveErp(supplier(1));
  await work(6);
  world.setChaos({ ...calm, read: 1 });
  world.saveErp(supplier(2));
  await work(20);
  expect(await openAlerts()).toEqual([]);
  await work(20);
  expect(await openAlerts()).toEqual(behind(/The ERP is away/));
  world.setChaos(calm);
  await work(20);
  expect([world.held.size, await openAlerts()]).toEqual([2, []]);
});

test('a submission of which nothing is heard for an hour is one, until it is', async () => {
  await world.pullList();
  world.saveErp(supplier(1));
  await work(6);
  world.setChaos({ ...calm, get: 1 });
  world.saveErp(supplier(2));
  await work(70);
  expect(await openAlerts()).toEqual(behind(/: 1 supplier being processed by the service$/));
  world.setChaos(calm);
  await work(6);
  expect([world.held.size, await openAlerts()]).toEqual([2, []]);
});

test('suppliers that the service refuses for one reason are one, until they are taken', async () => {
  await world.pullList();
  for (const n of [1, 2, 3]) world.saveErp(supplier(n, n === 1 ? {} : { name: refusedNames.bySupplier }));
  await work(6);
  expect(await openAlerts()).toEqual([
    {
      kind: 'suppliers-refused',
      subject: 'intake vendors',
      summary: expect.stringMatching(
        /^Intake vendors: 2 suppliers refused since .*\(E-2, …\): this name is not allowed$/,
      ),
    },
  ]);
  world.saveErp(supplier(2, { name: 'Allowed' }));
  await work(6);
  expect(await openAlerts()).toMatchObject([{ summary: expect.stringContaining(': 1 supplier refused since') }]);
  world.saveErp(supplier(3, { name: 'Allowed, too' }));
  await replayIntake(db.database, { intake: 'vendors', dead: true }, now());
  await work(6);
  expect([world.held.size, await openAlerts()]).toEqual([3, []]);
});
