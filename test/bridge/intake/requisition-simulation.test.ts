/**
 * Intakes of requisitions in a world that misbehaves: no event is made twice, none is missing, and no requisition is in
 * two. Seeds are numbers; `INTAKE_SEED=7` runs one, `INTAKE_STEPS=10000` sets the steps of all together.
 */
import { beforeAll, expect, test } from 'vitest';
import { replayIntake, resumeIntake } from '#bridge/intake/control-intakes.ts';
import type { RequisitionRecord } from '#connector/records.ts';
import { timestampNow } from '#platform/clock.ts';
import { createTestDatabase, type TestDatabase } from '../../harness/test-database.ts';
import { createRandom, type Random } from '../../simulation/random.ts';
import { calm } from './intake-world.ts';
import {
  createRequisitionWorld,
  type HeldEvent,
  lotRows,
  type RequisitionWorld,
  refusedItems,
} from './requisition-world.ts';

const stepsOfSeed = 50;
const seeds =
  process.env['INTAKE_SEED'] === undefined
    ? Array.from(
        { length: Math.ceil(Number(process.env['INTAKE_STEPS'] ?? 50) / stepsOfSeed) },
        (_, index) => index + 1,
      )
    : [Number(process.env['INTAKE_SEED'])];

let db: TestDatabase;
beforeAll(async () => {
  db = await createTestDatabase();
});

test.each(seeds)('each requisition is in one event after the chaos of seed %i', async (seed) => {
  const random = createRandom(`requisitions ${seed}`);
  const world = createRequisitionWorld({
    database: db.database,
    random: random.of('world'),
    idempotent: random.chance(0.5),
    intake: random.chance(0.7) ? { group: { by: '{category}', most: random.pick([3, 6]), wait_minutes: 1 } } : {},
  });
  await world.prepare();
  const chaos = { crash: 0.01, answer: 0.05, post: 0.3, get: 0.15, read: 0.2 };
  for (let step = 0; step < stepsOfSeed; step += 1) {
    world.setChaos(random.chance(0.8) ? chaos : calm);
    world.setFeedLag(random.pick([0, 5_000]));
    edit(world, random);
    world.clock.advance(random.pick([0, 500, 3_000, 12_000, 60_000]));
    world.tick();
    if (random.chance(0.05)) world.kill();
    await world.run();
    await look(world, random.chance(0.2));
  }
  world.setChaos(calm);
  world.setFeedLag(0);
  for (let round = 0; round < 60; round += 1) {
    world.clock.advance(60_000);
    world.tick();
    await world.run();
    await look(world, round < 20);
  }
  const posts = world.posts.length;
  for (let round = 0; round < 5; round += 1) {
    world.clock.advance(120_000);
    world.tick();
    await world.run();
  }
  expect(world.violations).toEqual([]);
  expect(await differences(world)).toEqual([]);
  expect(await untold(world)).toEqual([]);
  // Nothing more is sent once nobody edits.
  expect(world.posts.length).toBe(posts);
});

/** The person who looks after the intake resumes what was paused, and reads some of the dead letters. */
async function look(world: RequisitionWorld, reads: boolean) {
  const now = timestampNow(world.clock);
  const [paused] = await db.database.query('select 1 from bridge.intakes where paused_kind is not null');
  if (paused) await resumeIntake(db.database, 'requisitions', { agreeToArchive: true }, now);
  if (reads) await replayIntake(db.database, { intake: 'requisitions', dead: true }, now);
}

function edit(world: RequisitionWorld, random: Random) {
  for (let edits = random.whole(0, 2); edits > 0; edits -= 1) {
    const reference = `PR-${random.whole(1, 8)}`;
    const lines = ['10', '20', '30'].filter(() => random.chance(0.6));
    const record: RequisitionRecord = {
      reference_id: reference,
      name: `Need ${random.whole(1, 3)}`,
      category: random.pick(['Steel', 'Paper']),
      tags: [],
      items: lines.map((line) => ({
        line,
        name: random.chance(0.03) ? refusedItems.named : random.pick(['Bolt', 'Nut']),
        quantity: String(random.whole(1, 9)),
      })),
      open: random.chance(0.8),
    };
    world.save(record);
    if (random.chance(0.1)) world.forget(`PR-${random.whole(1, 8)}`);
  }
  const drafts = [...world.events.values()].filter(({ status }) => status === 'DRAFT');
  if (drafts.length > 0 && random.chance(0.1)) world.publish(random.pick(drafts), 'OPEN');
}

/** Requisitions of which the ERP shows something else than the event that they are in, in words. */
async function untold(world: RequisitionWorld): Promise<string[]> {
  const members = await db.database.query<{ key: string; entity: string; live: boolean }>(
    `select distinct on (m.erp_key) m.erp_key as key, e.entity, m.live from bridge.intake_members m
     join bridge.intake_events e on e.id = m.event where e.state = 'made' order by m.erp_key, m.live desc, e.made desc`,
  );
  const failed = await db.database.query<{ key: string }>(
    `select r.erp_key as key from bridge.intake_records r where r.error_type = 'data' and not exists (
       select from bridge.intake_members m where m.erp_key = r.erp_key and m.live)`,
  );
  const wanted = new Map([
    ...members.map(({ key, entity, live }) => [key, `${live ? 'created' : 'removed'} ${entity}`] as const),
    ...failed.map(({ key }) => [key, 'failed '] as const),
  ]);
  return [...wanted].flatMap(([key, wants]) => {
    // The ERP cannot show anything of what it has no more.
    if (!world.erp.has(key)) return [];
    const { status, event } = world.shown.get(key) ?? {};
    const shows = `${status} ${event?.id ?? ''}`;
    return shows === wants ? [] : [`the ERP shows of ${key}: ${shows}, not ${wants}`];
  });
}

/** What differs at the end from what the ERP says, in words. */
async function differences(world: RequisitionWorld): Promise<string[]> {
  const found: string[] = [];
  const dead = new Set(
    (
      await db.database.query<{ key: string }>(
        'select erp_key as key from bridge.intake_records where dead_since is not null',
      )
    ).map(({ key }) => key),
  );
  const known = new Map<string, string>(
    (
      await db.database.query<{ event: string; lot: string; key: string; line: string }>(
        `select e.entity as event, lots.lot, lots.erp_key as key, lots.line from ${lotRows}
         join bridge.intake_events e on e.id = lots.event`,
      )
    ).map(({ event, lot, key, line }) => [`${event} ${lot}`, `${key}/${line}`]),
  );
  // An update whose effect cannot be known, as the event was published meanwhile: a person is told to look there.
  const perhapsTakenOut = new Set(
    (
      await db.database.query<{ key: string }>(
        `select m.erp_key as key from bridge.intake_members m join bridge.intake_submissions j on j.event = m.event
         where m.live and m.told_hash is not null and j.kind = 'update' and j.state = 'held'`,
      )
    ).map(({ key }) => key),
  );
  const isRefused = (key: string) => world.erp.get(key)?.items.some(({ name }) => name === refusedItems.named) === true;
  // An update sends all lots of an event: the service refuses it while one is refused, and each requisition is told of.
  const isToldOf = (event: HeldEvent, key: string) =>
    dead.has(key) && event.lots.some((lot) => isRefused(world.requisitionOf(lot)));
  for (const event of world.events.values())
    for (const key of new Set(event.status === 'DRAFT' ? event.lots.map(world.requisitionOf) : []))
      if (!world.erp.has(key) && !isToldOf(event, key)) found.push(`${key} was deleted, and is in a draft`);
  for (const [key, record] of world.erp) {
    if (isRefused(key)) continue;
    const held = [...world.events.values()].filter(({ lots }) => lots.some((lot) => world.requisitionOf(lot) === key));
    const isWanted = record.open && record.items.length > 0;
    const isTold = dead.has(key) || (held.length === 0 && perhapsTakenOut.has(key));
    if (isWanted && held.length !== 1 && !isTold) found.push(`${key} is in ${held.length} events`);
    for (const event of held) {
      if (event.status !== 'DRAFT' || isToldOf(event, key)) continue;
      if (!isWanted) found.push(`${key} was withdrawn, and is in a draft`);
      const lots = event.lots.filter((lot) => world.requisitionOf(lot) === key);
      const has = lots.map(({ values }) => values.map(({ value }) => value).join()).sort();
      const wants = record.items.map(({ name, quantity }) => `${name},${quantity},${key}`).sort();
      if (isWanted && has.join(';') !== wants.join(';')) found.push(`${key}: ${has.join(';')}, not ${wants.join(';')}`);
      for (const lot of lots) {
        const line = known.get(`${event.id} ${lot.name}`);
        const item = record.items.find((each) => `${key}/${each.line}` === line);
        if (isWanted && !item) found.push(`the lot ${lot.name} of ${key} is of ${line}`);
      }
    }
  }
  return found;
}
