/**
 * Intakes in a world that misbehaves: no supplier is lost, none is archived wrongly, none is sent for ever. Seeds are
 * numbers; `INTAKE_SEED=7` runs one, `INTAKE_STEPS=10000` sets the steps of all together.
 */
import { beforeAll, expect, test } from 'vitest';
import { replayIntake, resumeIntake } from '#bridge/intake/control-intakes.ts';
import type { SupplierRecord } from '#connector/records.ts';
import { timestampNow } from '#platform/clock.ts';
import { createTestDatabase, type TestDatabase } from '../../harness/test-database.ts';
import { createRandom, type Random } from '../../simulation/random.ts';
import { createFlowBack } from './flow-back.ts';
import {
  calm,
  createIntakeWorld,
  failedAtSupplier,
  type IntakeWorld,
  prepareIntake,
  refusedNames,
} from './intake-world.ts';

const stepsOfSeed = 50;
const seeds =
  process.env['INTAKE_SEED'] === undefined
    ? Array.from(
        { length: Math.ceil(Number(process.env['INTAKE_STEPS'] ?? 150) / stepsOfSeed) },
        (_, index) => index + 1,
      )
    : [Number(process.env['INTAKE_SEED'])];

let db: TestDatabase;
beforeAll(async () => {
  db = await createTestDatabase();
});

test.each(seeds)('both sides are equal after the chaos of seed %i', { timeout: 120_000 }, async (seed) => {
  const random = createRandom(`intake ${seed}`);
  const hasFlow = random.chance(0.4);
  const fullHours = random.pick([0, 1]);
  const archivesMost = random.pick([1, 1000]);
  // Where a person does not agree, many archives at once would only stop the intake.
  const archivesShare = archivesMost === 1 ? 0.06 : 0.3;
  const world = createIntakeWorld({
    database: db.database,
    random: random.of('world'),
    idempotent: random.chance(0.5),
    intake: {
      submission_max: random.pick([2, 5, 1000]),
      contacts: random.pick(['add', 'replace', 'leave']),
      owns: random.pick([['name', 'fields', 'archived'], ['name', 'fields'], ['fields']]),
      archive: { most: archivesMost, share: 0, hours: 720 },
      full_hours: fullHours,
      poll_seconds: 10,
    },
  });
  await prepareIntake(db.database, world);
  const flow = hasFlow ? await createFlowBack(db.database, world, random.of('flow')) : undefined;
  // Suppliers of the service that the ERP does not have: they must stay as they are.
  world.held.set('SVC-1', { name: 'Only here', fields: { City: 'Bonn' }, archived: false, contacts: [] });
  world.held.set('E-1', {
    name: 'Older',
    fields: {},
    archived: false,
    contacts: [{ name: 'Own', email: 'own@service' }],
  });
  await world.pullList();
  const chaos = {
    crash: random.pick([0.002, 0.01, 0.03]),
    answer: random.pick([0, 0.1, 0.3]),
    post: random.pick([0.1, 0.3, 0.6]),
    get: 0.15,
    read: random.pick([0, 0.2]),
  };
  for (let step = 0; step < stepsOfSeed; step += 1) {
    world.setChaos(random.chance(0.8) ? chaos : calm);
    edit(world, random, { mayBeLate: fullHours > 0, archivesShare });
    // The flow may stop between any two of its steps, and the intake works meanwhile.
    if (flow && random.chance(0.7)) await flow.step();
    world.clock.advance(random.pick([0, 500, 3_000, 12_000, 60_000]));
    world.tick();
    if (random.chance(0.15)) await world.pullList();
    if (random.chance(0.05)) world.kill();
    await world.run();
    await agree(world, { toArchive: archivesMost > 1 });
  }
  world.setChaos(calm);
  world.agreeToArchive();
  for (let round = 0; round < 75; round += 1) {
    // A flow takes its time, too: two that work in step could exchange their values for ever.
    world.clock.advance(hasFlow ? random.whole(1_000, 90_000) : 60_000);
    world.tick();
    if (round % 5 === 0) await world.pullList();
    if (flow) await flow.step();
    await world.run();
    await agree(world, { toArchive: true });
  }
  world.clock.advance(3_600_000);
  await world.run();
  await flow?.settle();
  for (let round = 0; round < 5; round += 1) {
    world.clock.advance(60_000);
    world.tick();
    await world.pullList();
    await flow?.settle();
    await world.run();
  }
  const posts = world.requests.post;
  const writes = flow?.writes;
  for (let round = 0; round < 5; round += 1) {
    world.clock.advance(120_000);
    world.tick();
    await world.pullList();
    await flow?.settle();
    await world.run();
  }
  expect(world.violations).toEqual([]);
  expect(await differences(world)).toEqual([]);
  // Nothing goes to and fro once nobody edits.
  expect([world.requests.post, flow?.writes]).toEqual([posts, writes]);
});

/** The person who looks after the intake agrees to the first run, resumes what was paused, and replays what failed. */
async function agree(world: IntakeWorld, { toArchive }: { toArchive: boolean }) {
  const now = timestampNow(world.clock);
  const [paused] = await db.database.query<{ kind: string }>(
    'select paused_kind as kind from bridge.intakes where paused_kind is not null',
  );
  // Without the agreement it goes on when the ERP wants fewer archived.
  if (paused)
    await resumeIntake(db.database, 'vendors', { agreeToArchive: toArchive && paused.kind === 'archives' }, now);
  const failed = await db.database.query<{ key: string }>(
    `select erp_key as key from bridge.intake_records
     where dead_since is not null and (last_error like $1 or error_type = 'not-kept')`,
    [`%${failedAtSupplier}%`],
  );
  if (failed.length > 0)
    await replayIntake(db.database, { intake: 'vendors', keys: failed.map(({ key }) => key), dead: true }, now);
}

let revision = 0;

function edit(
  world: IntakeWorld,
  random: Random,
  { mayBeLate, archivesShare }: { mayBeLate: boolean; archivesShare: number },
) {
  for (let edits = random.whole(0, 3); edits > 0; edits -= 1) {
    const erpKey = `E-${random.whole(1, 8)}`;
    revision += 1;
    const record: SupplierRecord = {
      external_id: erpKey,
      name: random.pick(['Acme', 'Beta', 'Gamma', refusedNames.bySupplier, refusedNames.bySubmission]),
      archived: random.chance(archivesShare),
      fields: { Rev: String(revision), ...(random.chance(0.7) ? { City: random.pick(['Rome', 'Oslo']) } : {}) },
      contacts: ['a', 'b', 'c']
        .filter(() => random.chance(0.5))
        .map((who) => ({ name: random.pick(['Ann', 'Bob']), email: `${who}@erp` })),
    };
    world.saveErp(record, { late: mayBeLate && random.chance(0.1) ? random.whole(1, 6) : 0 });
  }
  const [key, supplier] = random.pick([...world.held]);
  if (key === 'SVC-1' || !random.chance(0.3)) return;
  // A user of the service changes what the ERP is master of, and what it is not.
  if (random.chance(0.5)) supplier.name = random.pick(['Edited', 'Acme']);
  if (random.chance(0.3)) supplier.fields['City'] = 'Edited';
  if (random.chance(0.3)) supplier.archived = !supplier.archived;
  if (random.chance(0.3)) supplier.contacts.push({ name: 'New', email: `u${random.whole(1, 99)}@service` });
}

/** What differs at the end from what the ERP and the settings say, in words. */
async function differences(world: IntakeWorld): Promise<string[]> {
  const found: string[] = [];
  const { owns, contacts } = world.intake;
  if (
    JSON.stringify(world.held.get('SVC-1')) !==
    JSON.stringify({ name: 'Only here', fields: { City: 'Bonn' }, archived: false, contacts: [] })
  )
    found.push('a supplier of the service was touched');
  const dead = new Set(
    (
      await db.database.query<{ erp_key: string }>(
        'select erp_key from bridge.intake_records where dead_since is not null',
      )
    ).map(({ erp_key: erpKey }) => erpKey),
  );
  for (const [key, record] of world.erp) {
    const supplier = world.held.get(key);
    const refusable = supplier === undefined || owns.includes('name');
    if (world.isRefused(record) && refusable) {
      const skipped = supplier === undefined && record.archived && owns.includes('archived');
      const same = supplier?.name === record.name;
      if (!dead.has(key) && !skipped && !same) found.push(`${key} was refused, and is no dead letter`);
      continue;
    }
    if (dead.has(key)) found.push(`${key} is a dead letter`);
    if (!supplier) {
      if (!(record.archived && owns.includes('archived'))) found.push(`${key} is missing`);
      continue;
    }
    if (owns.includes('name') && supplier.name !== record.name)
      found.push(`${key}: ${supplier.name}, not ${record.name}`);
    if (owns.includes('archived') && supplier.archived !== record.archived)
      found.push(`${key}: archived ${supplier.archived}`);
    if (owns.includes('fields') && supplier.fields['Rev'] !== record.fields['Rev'])
      found.push(`${key}: revision ${supplier.fields['Rev']}, not ${record.fields['Rev']}`);
    const city = record.fields['City'];
    if (owns.includes('fields') && city !== undefined && supplier.fields['City'] !== city)
      found.push(`${key}: ${supplier.fields['City']}, not ${city}`);
    const [is, has] = [record.contacts, supplier.contacts].map((list) =>
      list.map(({ name, email }) => `${email} ${name}`).sort(),
    );
    // Beside a flow, contacts that the ERP dropped come back to it from the service.
    if (contacts === 'add' && !is?.every((each) => has?.includes(each)))
      found.push(`${key}: contacts ${has?.join()}, not ${is?.join()}`);
    if (contacts === 'replace' && is?.join() !== has?.join())
      found.push(`${key}: contacts ${has?.join()}, not only ${is?.join()}`);
  }
  return found;
}
