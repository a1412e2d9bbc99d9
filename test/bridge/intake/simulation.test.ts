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
  type HeldSupplier,
  type IntakeWorld,
  prepareIntake,
  refusedNames,
} from './intake-world.ts';

const stepsOfSeed = 50;
const seeds =
  process.env['INTAKE_SEED'] === undefined
    ? Array.from(
        { length: Math.ceil(Number(process.env['INTAKE_STEPS'] ?? 100) / stepsOfSeed) },
        (_, index) => index + 1,
      )
    : [Number(process.env['INTAKE_SEED'])];

let db: TestDatabase;
beforeAll(async () => {
  db = await createTestDatabase();
});

/**
 * - `alone`: only the ERP is edited, and the list of suppliers is read once: what is sent follows from what the bridge
 *   knows of its own submissions, and no later list sets it right.
 * - `users`: users of the service edit, too.
 * - `flow`: and a flow takes their edits to the ERP.
 */
type Mode = 'alone' | 'users' | 'flow';

test.each(seeds)('both sides are equal after the chaos of seed %i', async (seed) => {
  const random = createRandom(`intake ${seed}`);
  const mode = random.pick<Mode>(['alone', 'users', 'flow', 'flow']);
  const fullHours = random.pick([0, 1]);
  const archivesMost = random.pick([1, 3, 1000]);
  const agrees = archivesMost === 1000;
  const edits: Edits = {
    // Of two, each is submitted again and again. Of many, each is edited once or twice: nothing hides a lost edit.
    suppliers: random.pick([2, 8, 60]),
    mayBeLate: fullHours > 0,
    // Where a person does not agree, many archives at once would only stop the intake.
    archivesShare: agrees ? 0.3 : 0.06,
    ofUsers: mode === 'alone' ? 0 : 0.3,
  };
  const world = createIntakeWorld({
    database: db.database,
    random: random.of('world'),
    idempotent: random.chance(0.5),
    intake: {
      submission_max: random.pick([2, 5, 1000]),
      contacts: random.pick(['add', 'replace', 'leave']),
      owns: random.pick([
        ['name', 'fields', 'archived'],
        ['name', 'fields', 'archived'],
        ['name', 'fields'],
        ['fields'],
      ]),
      archive: { most: archivesMost, share: 0 },
      full_hours: fullHours,
      poll_seconds: 10,
    },
  });
  await prepareIntake(db.database, world);
  const flow = mode === 'flow' ? await createFlowBack(db.database, world, random.of('flow')) : undefined;
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
  const pullList = async () => {
    if (mode !== 'alone') await world.pullList();
  };
  const run = async () => {
    await world.run();
    await world.checkNotes();
  };
  for (let step = 0; step < stepsOfSeed; step += 1) {
    world.setChaos(random.chance(0.8) ? chaos : calm);
    edit(world, random, edits);
    // Several archives close together, in submissions of their own.
    if (!agrees && random.chance(0.1)) await archiveSome(world, random, edits);
    // The flow may stop between any two of its steps, and the intake works meanwhile.
    if (flow && random.chance(0.7)) await flow.step();
    world.clock.advance(random.pick([0, 3_000, 12_000, 60_000, 180_000]));
    world.tick();
    if (random.chance(0.15)) await pullList();
    if (random.chance(0.05)) world.kill();
    await run();
    await agree(world, { toArchive: agrees });
  }
  world.setChaos(calm);
  world.agreeToArchive();
  for (let round = 0; round < 45; round += 1) {
    // A flow takes its time, too: two that work in step could exchange their values for ever.
    world.clock.advance(flow ? random.whole(1_000, 90_000) : 60_000);
    world.tick();
    if (round % 5 === 0) await pullList();
    if (flow) await flow.step();
    await run();
    await agree(world, { toArchive: true });
  }
  world.clock.advance(3_600_000);
  await run();
  await flow?.settle();
  const settle = async (rounds: number) => {
    for (let round = 0; round < rounds; round += 1) {
      world.clock.advance(120_000);
      world.tick();
      await pullList();
      await flow?.settle();
      await run();
    }
  };
  await settle(5);
  const posts = world.requests.post;
  const writes = flow?.writes;
  await settle(5);
  expect(world.violations).toEqual([]);
  expect(await differences(world)).toEqual([]);
  // Nothing goes to and fro once nobody edits.
  expect([world.requests.post, flow?.writes]).toEqual([posts, writes]);
  expect(await (mode === 'alone' ? showList(world, settle) : editAtRest(world, { flow, random, settle }))).toEqual([]);
  expect(world.violations).toEqual([]);
});

/** The list shows what the bridge knows already. Returns what it sends nevertheless. */
async function showList(world: IntakeWorld, settle: (rounds: number) => Promise<void>): Promise<string[]> {
  const posts = world.requests.post;
  await world.pullList();
  await settle(3);
  return world.requests.post === posts ? [] : [`${world.requests.post - posts} submissions after the list was read`];
}

/** Edits one side at a time: here it is known which side's value must survive. Returns what did not, in words. */
async function editAtRest(
  world: IntakeWorld,
  given: {
    flow: Awaited<ReturnType<typeof createFlowBack>> | undefined;
    random: Random;
    settle: (rounds: number) => Promise<void>;
  },
): Promise<string[]> {
  const { flow, random, settle } = given;
  const found: string[] = [];
  const dead = await readDead();
  const live = [...world.erp.keys()].filter((key) => world.held.has(key) && !dead.has(key));
  if (live.length === 0) return found;
  const key = random.pick(live);
  const supplier = () => world.held.get(key) as HeldSupplier;
  const record = () => world.erp.get(key) as SupplierRecord;
  const isMaster = world.intake.owns.includes('name');
  const expectNames = (when: string, inErp: string, atService: string) => {
    if (record().name !== inErp) found.push(`${when}: ${key} is "${record().name}" in the ERP, not "${inErp}"`);
    if (supplier().name !== atService)
      found.push(`${when}: ${key} is "${supplier().name}" at the service, not "${atService}"`);
  };

  revision += 1;
  const before = supplier().name;
  const fields = { ...record().fields, Rev: String(revision) };
  world.saveErp({ ...record(), name: 'Edited in the ERP', fields });
  await settle(3);
  expectNames('edited in the ERP', 'Edited in the ERP', isMaster ? 'Edited in the ERP' : before);

  supplier().name = 'Edited by a user';
  await settle(5);
  // The flow takes it to the ERP; without one the ERP is master, and it is set back.
  if (flow) expectNames('edited by a user', 'Edited by a user', 'Edited by a user');
  else expectNames('edited by a user', 'Edited in the ERP', isMaster ? 'Edited in the ERP' : 'Edited by a user');
  if (!flow) return found;

  supplier().name = 'First edit';
  await world.pullList();
  for (let steps = random.whole(2, 3); steps > 0; steps -= 1) await flow.step();
  // The flow has written the first edit, and perhaps noted that; the ERP is read after the list that shows the second.
  world.clock.advance(1_000);
  supplier().name = 'Second edit';
  await world.pullList();
  world.clock.advance(15_000);
  await world.run();
  await settle(3);
  expectNames('edited twice by a user', 'Second edit', 'Second edit');
  return found;
}

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

interface Edits {
  readonly suppliers: number;
  readonly mayBeLate: boolean;
  readonly archivesShare: number;
  readonly ofUsers: number;
}

function edit(world: IntakeWorld, random: Random, { suppliers, mayBeLate, archivesShare, ofUsers }: Edits) {
  for (let edits = random.whole(0, 3); edits > 0; edits -= 1) {
    const erpKey = `E-${random.whole(1, suppliers)}`;
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
  if (key === 'SVC-1' || !random.chance(ofUsers)) return;
  // A user of the service changes what the ERP is master of, and what it is not.
  if (random.chance(0.5)) supplier.name = random.pick(['Edited', 'Acme']);
  if (random.chance(0.3)) supplier.fields['City'] = 'Edited';
  if (random.chance(0.3)) supplier.archived = !supplier.archived;
  if (random.chance(0.3)) supplier.contacts.push({ name: 'New', email: `u${random.whole(1, 99)}@service` });
}

/** Blocks suppliers of the ERP that the service has: one, then after seconds in which it may have been sent the next. */
async function archiveSome(world: IntakeWorld, random: Random, { suppliers }: Edits) {
  for (let number = 0; number < 3; number += 1) {
    const record = world.erp.get(`E-${random.whole(1, suppliers)}`);
    if (!record || record.archived || world.held.get(record.external_id)?.archived !== false) continue;
    revision += 1;
    world.saveErp({ ...record, archived: true, fields: { ...record.fields, Rev: String(revision) } });
    world.clock.advance(11_000);
    await world.run();
  }
}

async function readDead(): Promise<Set<string>> {
  const dead = await db.database.query<{ key: string }>(
    'select erp_key as key from bridge.intake_records where dead_since is not null',
  );
  return new Set(dead.map(({ key }) => key));
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
  const dead = await readDead();
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
