/** A shadow flow: what it finds, and that nothing of it is written, counted as late or alerted of. */
import { tmpdir } from 'node:os';
import { expect, test } from 'vitest';
import { checkNames } from '#bridge/check-names.ts';
import { readSendingFlow } from '#bridge/flows/flow-state.ts';
import { openFlows } from '#bridge/flows/open-flows.ts';
import type { FlowSettings } from '#bridge/settings.ts';
import { readStatus } from '#bridge/status/status.ts';
import type { Operation } from '#connector/connector.ts';
import { systemClock, timestampNow } from '#platform/clock.ts';
import { silentLogger } from '#platform/log.ts';
import { flowOf, settingsOf } from '../parts.ts';
import { createFakeErp } from '../push/fake-erp.ts';
import { keyOf } from '../push/pusher.ts';
import { createShadowWorld, plant } from './shadow-world.ts';

const would = (documents: Awaited<ReturnType<Awaited<ReturnType<typeof createShadowWorld>>['documents']>>) =>
  Object.fromEntries(documents.map(({ key, action, differences }) => [key, [action, ...differences]]));
const otherPlant = '+ fields.plant: "2000"';

test('beside a live flow with the same ERP it finds what it would write instead, in either order', async () => {
  const world = await createShadowWorld();
  const erp = createFakeErp();
  await world.award([0, '10'], [1, '20']);
  await world.examine(erp);
  const before = would(await world.documents());
  await world.deliver(erp);
  await world.award([0, '10'], [1, '25'], [2, '5']);
  await world.deliver(erp);
  await world.examine(erp);
  expect(before).toEqual({ [keyOf(0)]: ['amend', otherPlant], [keyOf(1)]: ['amend', otherPlant] });
  expect(would(await world.documents())).toEqual({
    [keyOf(0)]: ['amend', otherPlant],
    [keyOf(1)]: ['amend', otherPlant],
    [keyOf(2)]: ['amend', otherPlant],
  });
  // The same ERP is not asked: what it holds is what the live flow delivers.
  expect(erp.calls.filter((call) => call.startsWith('lookup'))).toEqual([]);
  expect(erp.objects).toHaveLength(3);
});

test('another ERP is asked what it holds: create, amend, cancel, nothing', async () => {
  const world = await createShadowWorld({ settings: { url: 'another' } });
  const [old, other] = [createFakeErp(), createFakeErp()];
  await world.award([0, '10'], [1, '20'], [2, '30'], [3, '40']);
  await world.examine(other);
  expect(await world.status()).toMatchObject({ examined: 4, differing: 4, sameErp: false, counts: { create: 4 } });
  // The other ERP gets some by itself: as the shadow would make it, in another state, and one that nobody wants later.
  const [first] = await world.documents();
  expect(first).toMatchObject({ live: 'document', eventName: 'Office chairs', supplierName: 'Supplier 0' });
  const rows = await world.db.database.query<{ key: string; hash: string }>(
    'select key, content_hash as hash from bridge.shadow_documents',
  );
  const hashOf = (n: number) => rows.find(({ key }) => key === keyOf(n))?.hash ?? '';
  for (const [n, contentHash] of [hashOf(0), 'e'.repeat(64), hashOf(2)].entries())
    other.objects.push({
      reference: `PO-${n}`,
      kind: 'award',
      key: keyOf(n),
      contentHash,
      total: '',
      cancelled: false,
    });
  await world.award([0, '10'], [1, '20'], [3, '40']);
  await world.deliver(old);
  await world.examine(other);
  expect(would(await world.documents())).toEqual({
    [keyOf(0)]: ['none', otherPlant],
    [keyOf(1)]: ['amend', otherPlant],
    [keyOf(2)]: ['cancel'],
    [keyOf(3)]: ['create', otherPlant],
  });
  expect(other.operations).toEqual([]);
});

test('says what cannot be made, and what the connector says that it would do', async () => {
  const mapping = { award: { fields: { plant: { from: 'event.reference_id', required: true } } } };
  const world = await createShadowWorld({ mapping: flowOf({ mapping } as never).mapping, settings: { other: true } });
  const erp = createFakeErp();
  await world.award([0, '10']);
  await world.examine(erp);
  expect(await world.documents()).toMatchObject([
    { action: 'reject', live: 'document', differs: true, steps: [expect.stringContaining('plant')] },
  ]);
  const second = await createShadowWorld({ settings: { other: true } });
  await second.award([0, '10']);
  await second.examine(erp, {
    plan: async (operations) =>
      operations.map(({ document }) => ({ key: document.key, action: 'create', steps: ['vendor 4711 is blocked'] })),
  });
  expect(await second.documents()).toMatchObject([{ action: 'create', steps: ['vendor 4711 is blocked'] }]);
});

test('without a difference nothing differs, and a change of the live flow is examined anew', async () => {
  const world = await createShadowWorld({ mapping: {} });
  const erp = createFakeErp();
  await world.award([0, '10']);
  await world.examine(erp);
  expect(await world.status()).toMatchObject({ differing: 0, counts: { none: 1 }, unexamined: 0 });
  await world.register({ ...world.live, ...plant('1000') }, world.shadow);
  expect(await world.status()).toMatchObject({ unexamined: 1 });
});

test('nothing is written: not by its session, not by a pusher, and it is never late', async () => {
  const world = await createShadowWorld();
  const erp = createFakeErp();
  const refuse = async (): Promise<never> => {
    throw new Error('it wrote');
  };
  await world.award([0, '10'], [1, '20']);
  // A pusher that is given the shadow by mistake finds that it may not send.
  await world.deliver(erp, world.shadow);
  await world.deliver(erp, { ...world.shadow, shadow: false });
  expect(erp.calls).toEqual([]);
  // Nor would a claim that did not look for due documents first: it asks this in its transaction.
  const now = timestampNow(world.clock);
  expect(await readSendingFlow(world.db.database, world.shadow, now)).toBeUndefined();
  expect(await readSendingFlow(world.db.database, world.live, now)).toBeDefined();
  await world.examine(erp, { write: refuse });
  expect(await world.status()).toMatchObject({ examined: 2 });

  // The ERP that a shadow reads fails for long: status and alerts say nothing of it as of a flow.
  await world.award([0, '11']);
  await world.deliver(erp);
  const other = await createShadowWorld({ settings: { url: 'another' } });
  await other.award([0, '10']);
  await other.examine(erp, { lookup: refuse });
  other.clock.advance(3_600_000);
  const status = await readStatus(other.db.database, {
    settings: settingsOf({}, [other.live, { ...other.shadow, reconcile: { every_hours: 1, feeds: false } }]),
    now: timestampNow(other.clock),
  });
  expect(status.flows.map(({ flow }) => flow)).toEqual(['erp']);
  expect(status.comparisons).toEqual([]);
  expect(status.waiting.map(({ flow }) => flow)).toEqual(['erp']);
  expect(status.shadows).toMatchObject([{ flow: 'erp-new', beside: 'erp', unexamined: 1, lastError: 'it wrote' }]);

  // One row a document is kept, however often it changes.
  for (const cost of ['12', '13', '14']) {
    await world.award([0, cost]);
    await world.examine(erp);
  }
  expect(await world.db.database.query('select from bridge.shadow_documents')).toHaveLength(2);
  expect(await world.db.database.query("select from bridge.attempts where flow = 'erp-new'")).toEqual([]);
  // Nothing is kept of a shadow that is not configured any more.
  await world.register(world.live);
  expect(await world.db.database.query('select from bridge.shadow_documents')).toEqual([]);
});

test('an ERP that could not be asked is asked again', async () => {
  const world = await createShadowWorld({ settings: { url: 'another' } });
  const erp = createFakeErp();
  await world.award([0, '10']);
  erp.onLookup = async ([document]) => [{ key: document?.key ?? '', unclear: 'two objects' }];
  await world.examine(erp);
  expect(await world.status()).toMatchObject({ examined: 0, unexamined: 1, lastError: 'two objects' });
  erp.onLookup = async (_documents, find) => find();
  world.clock.advance(60_000);
  await world.examine(erp);
  expect(await world.status()).toMatchObject({ examined: 1, unexamined: 0, lastError: null });
});

test('its opened session cannot write, whatever the connector is', async () => {
  await using opened = new AsyncDisposableStack();
  const [flow] = await openFlows(
    {
      dataDir: tmpdir(),
      log: silentLogger,
      clock: systemClock,
      settings: settingsOf({}, [{ connector: './test/bridge/push/odd-connector.ts', shadow: true }]),
    },
    opened,
  );
  const operation = { action: 'create', idempotencyKey: '1', contentHash: 'x' } as Operation;
  const { signal } = new AbortController();
  await expect(flow?.session.write([operation], signal)).rejects.toThrow('is a shadow: it writes nothing');
  await expect(flow?.session.acknowledge?.([], signal)).rejects.toThrow('is a shadow: it writes nothing');
});

test('the configuration must say beside which flow it runs', () => {
  const check = (...flows: Partial<FlowSettings>[]) => checkNames(settingsOf({}, flows));
  const shadow = { name: 'erp-new', shadow: true };
  expect(() => check({ name: 'a' }, shadow)).not.toThrow();
  expect(() => check(shadow)).not.toThrow();
  expect(() => check({ name: 'a' }, { name: 'b' }, shadow)).toThrow(
    'bridge.flows[2].beside must name the live flow to compare with: a, b',
  );
  expect(() => check({ name: 'a' }, { name: 'b' }, { ...shadow, beside: 'b' })).not.toThrow();
  expect(() => check({ name: 'a' }, { ...shadow, beside: 'erp-new' })).toThrow(
    'names "erp-new", which is no live flow',
  );
  expect(() => check({ name: 'a', beside: 'b' })).toThrow('is only for a flow with shadow: true');
});
