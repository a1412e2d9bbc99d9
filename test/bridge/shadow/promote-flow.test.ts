/** `bridge promote`: who is live afterwards, who owns the objects of the ERP, kills, old configurations. */
import { expect, test } from 'vitest';
import type { FlowSettings } from '#bridge/settings.ts';
import { planPromotion, promoteFlow } from '#bridge/shadow/promote-flow.ts';
import { timestampNow } from '#platform/clock.ts';
import type { Database } from '#platform/database/database.ts';
import type { Sql } from '#platform/database/sql.ts';
import { eventRecord, idOf, lotAwardRecord, startProcess } from '../parts.ts';
import { createFakeErp } from '../push/fake-erp.ts';
import { keyOf, supplier } from '../push/pusher.ts';
import { createShadowWorld, type ShadowWorld } from './shadow-world.ts';

/** The file of after the promotion: the new flow is live, the old one is gone. */
const promotedFlow = (world: ShadowWorld): FlowSettings => ({ ...world.shadow, shadow: false });

async function promote(
  world: ShadowWorld,
  options: { sameErp?: boolean; since?: string; database?: Database } = {},
): Promise<void> {
  const flow = promotedFlow(world);
  const { since, sameErp, database = world.db.database } = options;
  const given = { flow, configured: [flow] };
  const plan = await planPromotion(database, { ...given, ...(sameErp !== undefined && { sameErp }) });
  await promoteFlow(database, { ...given, plan, since }, timestampNow(world.clock));
}

const liveFlows = async (world: ShadowWorld) =>
  (await world.db.database.query<{ name: string }>("select name from bridge.flows where kinds <> '{}'")).map(
    ({ name }) => name,
  );

test('in the same ERP the new flow goes on with the objects of the old one: amended, cancelled, never made twice', async () => {
  const world = await createShadowWorld();
  const erp = createFakeErp();
  await world.award([0, '10'], [1, '20'], [2, '30']);
  await world.deliver(erp);
  await world.award([0, '10'], [1, '25'], [3, '40']);
  await world.examine(erp);
  await promote(world);
  expect(await liveFlows(world)).toEqual(['erp-new']);
  // The old worker still runs, and sends nothing more.
  const before = erp.operations.length;
  await world.deliver(erp);
  expect(erp.operations).toHaveLength(before);
  await world.deliver(erp, promotedFlow(world));
  expect(erp.operations.slice(before).map(({ action, document }) => [action, document.key])).toEqual(
    expect.arrayContaining([
      ['amend', keyOf(0)],
      ['amend', keyOf(1)],
      ['create', keyOf(3)],
      ['cancel', keyOf(2)],
    ]),
  );
  expect(erp.operations).toHaveLength(before + 4);
  erp.throwFaults();
  expect(erp.living().map(({ key, reference }) => [key, reference])).toEqual([
    [keyOf(0), 'PO-1'],
    [keyOf(1), 'PO-2'],
    [keyOf(3), 'PO-4'],
  ]);
});

test('a call of the old flow that is under way is waited for: what it makes is found', async () => {
  const world = await createShadowWorld();
  const erp = createFakeErp({ lateEffectMs: 0 });
  await world.award([0, '10']);
  await world.examine(erp);
  const { promise: called, resolve: call } = Promise.withResolvers<void>();
  const { promise: released, resolve: release } = Promise.withResolvers<void>();
  erp.onWrite = async (operations, apply) => {
    call();
    await released;
    return operations.map(apply);
  };
  const old = world.deliver(erp);
  await called;
  await promote(world);
  const flow = promotedFlow(world);
  // Another process cannot tell that the call goes on: it waits for the end of its time limit.
  const another = { own: 'another process', isOver: () => false };
  const next = async () => (await world.worker(erp, { flow, processIdentity: another })).push();
  await next();
  expect(erp.operations).toHaveLength(1);
  release();
  await old;
  erp.onWrite = async (operations, apply) => operations.map(apply);
  world.clock.advance(60_000);
  await next();
  erp.throwFaults();
  expect(erp.living().map(({ key }) => key)).toEqual([keyOf(0)]);
  expect(erp.operations.map(({ action }) => action)).toEqual(['create', 'amend']);
});

test('killed at any statement, either the old flow is live or the new one, and a second try goes through', async () => {
  const world = await createShadowWorld();
  const erp = createFakeErp();
  await world.award([0, '10'], [1, '20']);
  await world.deliver(erp);
  await world.examine(erp);
  let kills = 0;
  for (let survived = 0; ; survived += 1) {
    const process = await startProcess(world.db);
    let left = survived;
    let killed = false;
    const dying: Database = Object.assign(Object.create(process.database) as Database, {
      transaction: (work: (tx: Sql) => Promise<unknown>) =>
        process.database.transaction((tx) =>
          work(
            Object.assign(Object.create(tx) as Sql, {
              query: async (text: string, params: unknown[]) => {
                if (left === 0) {
                  killed = true;
                  await process.die();
                }
                left -= 1;
                return tx.query(text, params);
              },
            }),
          ),
        ),
    });
    const done = await promote(world, { database: dying }).then(
      () => true,
      () => false,
    );
    if (done && !killed) break;
    kills += 1;
    expect([done, await liveFlows(world)]).toEqual([false, ['erp']]);
    expect(await world.status()).toMatchObject({ examined: 2 });
  }
  expect(kills).toBeGreaterThan(8);
  expect(await liveFlows(world)).toEqual(['erp-new']);
  await world.deliver(erp, promotedFlow(world));
  erp.throwFaults();
  expect(erp.living()).toHaveLength(2);
});

test('two promotions at once: one goes through, the other says that it is live already', async () => {
  const world = await createShadowWorld();
  await world.award([0, '10']);
  const results = await Promise.allSettled([promote(world), promote(world)]);
  expect(results.map(({ status }) => status).toSorted()).toEqual(['fulfilled', 'rejected']);
  expect(await liveFlows(world)).toEqual(['erp-new']);
});

test('no configuration but bridge promote changes who is live, whichever file a process starts with', async () => {
  const world = await createShadowWorld();
  const erp = createFakeErp();
  await world.award([0, '10']);
  await world.deliver(erp);
  const after = promotedFlow(world);
  // Before the promotion: the new file alone makes nothing live.
  expect(await world.register(after)).toMatchObject([
    { flow: 'erp-new', why: expect.stringContaining('bridge promote erp-new') },
  ]);
  await world.deliver(erp, after);
  expect(await liveFlows(world)).toEqual([]);
  await world.register(world.live, world.shadow);
  expect(await liveFlows(world)).toEqual(['erp']);
  await promote(world);
  // After it: a process that starts with the old file changes nothing.
  expect(await world.register(world.live, world.shadow)).toMatchObject([
    { flow: 'erp', why: expect.stringContaining('erp-new has taken its place') },
    { flow: 'erp-new', why: expect.stringContaining('this configuration is older') },
  ]);
  expect(await liveFlows(world)).toEqual(['erp-new']);
  await world.deliver(erp);
  await world.deliver(erp, after);
  expect(await world.register(after)).toEqual([]);
  // The old one as a shadow of the new one, and back again.
  const back = { ...world.live, shadow: true, beside: 'erp-new' };
  expect(await world.register(after, back)).toEqual([]);
  expect(await liveFlows(world)).toEqual(['erp-new']);
  const plan = await planPromotion(world.db.database, { flow: world.live, configured: [world.live] });
  await promoteFlow(
    world.db.database,
    { flow: world.live, configured: [world.live], plan, since: undefined },
    timestampNow(world.clock),
  );
  await world.deliver(erp);
  erp.throwFaults();
  expect(await liveFlows(world)).toEqual(['erp']);
  expect(erp.living()).toHaveLength(1);
});

test('refuses while the file says something else, when the settings were not examined, and when the ERP is not known', async () => {
  const world = await createShadowWorld();
  const { database } = world.db;
  const plan = (flow: FlowSettings, configured: FlowSettings[], sameErp?: boolean) =>
    planPromotion(database, { flow, configured, ...(sameErp !== undefined && { sameErp }) });
  const after = promotedFlow(world);
  await expect(plan(world.shadow, [world.live, world.shadow])).rejects.toThrow(
    'delete shadow: true (and beside) from the flow erp-new; delete the flow erp, or give it shadow: true and beside: erp-new',
  );
  await expect(plan(after, [world.live, after])).rejects.toThrow('delete the flow erp, or give it shadow: true');
  await expect(plan({ ...after, mapping: {} }, [after])).rejects.toThrow('are not those that the shadow has examined');
  await expect(plan({ ...after, name: 'erp' }, [after])).rejects.toThrow('is the live flow already');
  await expect(plan({ ...after, name: 'nobody' }, [after])).rejects.toThrow('No shadow "nobody" is known');
  const other = await createShadowWorld({ settings: { url: 'another' } });
  const otherAfter = promotedFlow(other);
  const given = { flow: otherAfter, configured: [otherAfter] };
  await expect(planPromotion(other.db.database, given)).rejects.toThrow('--same-erp');
  expect(await planPromotion(other.db.database, { ...given, sameErp: false })).toMatchObject({ takesOver: false });
  const connector = await createShadowWorld({ connector: 'other' });
  const theirs = { flow: promotedFlow(connector), configured: [promotedFlow(connector)] };
  expect(await planPromotion(connector.db.database, theirs)).toMatchObject({ takesOver: false, replaces: 'erp' });
  await expect(planPromotion(connector.db.database, { ...theirs, sameErp: true })).rejects.toThrow('use --new-erp');
});

test('another ERP begins from nothing, or with what has changed since a time', async () => {
  for (const since of [undefined, '2029-06-01T00:00:00.000000Z']) {
    const world = await createShadowWorld({ connector: 'other' });
    const [old, other] = [createFakeErp(), createFakeErp()];
    await world.award([0, '10'], [1, '20']);
    const late = { modified: '2029-07-01T00:00:00.000000Z' };
    await world.store('sourcing-events', { ...eventRecord(idOf(2), [supplier(0)]), ...late });
    await world.store('awards', { ...lotAwardRecord(idOf(501), idOf(2), [{ supplier: supplier(0) }]), ...late });
    await world.deliver(old);
    await world.examine(other);
    await promote(world, { ...(since !== undefined && { since }) });
    await world.deliver(other, promotedFlow(world));
    const lateKey = `${idOf(2)}/${supplier(0)}`;
    const expected = since === undefined ? [keyOf(0), keyOf(1), lateKey] : [lateKey];
    expect(
      other
        .living()
        .map(({ key }) => key)
        .toSorted(),
    ).toEqual(expected.toSorted());
    expect(old.living()).toHaveLength(3);
    // What was left out is written when it changes.
    await world.award([0, '10'], [1, '21']);
    await world.deliver(other, promotedFlow(world));
    expect(other.living()).toHaveLength(3);
    other.throwFaults();
  }
});
