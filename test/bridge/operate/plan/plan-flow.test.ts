import { describe, expect, test } from 'vitest';
import { createSecretRedactor } from '#bridge/connectors/secret-redactor.ts';
import { replayDocuments } from '#bridge/ledger/flows/control-flows.ts';
import { documentDifferences } from '#bridge/operate/plan/document-differences.ts';
import { type PlannedChange, planFlow } from '#bridge/operate/plan/plan-flow.ts';
import { timestampNow } from '#platform/clock.ts';
import { idOf, lotAwardRecord } from '../../parts.ts';
import { createFakeErp, type FakeErp } from '../../push/fake-erp.ts';
import { createPusher, event, keyOf, type Pusher, supplier, testProcess } from '../../push/pusher.ts';

function plan(pusher: Pusher, erp: FakeErp, options: { limit?: number; all?: boolean } = {}): Promise<PlannedChange[]> {
  const openFlow = {
    flow: pusher.flow,
    connector: erp.connector,
    session: erp.session,
    secrets: createSecretRedactor({}),
  };
  return planFlow(
    { database: pusher.db.database, openFlow, clock: pusher.clock, processIdentity: testProcess, abortGraceMs: 20 },
    { limit: 100, signal: new AbortController().signal, ...options },
  );
}
const push = async (pusher: Pusher, erp: FakeErp) => (await pusher.worker(erp)).push();

/** Documents to amend, to cancel, to create, in step, with an interrupted call, and to replay. */
async function mixed(): Promise<{ pusher: Pusher; erp: FakeErp }> {
  const pusher = await createPusher(7);
  const erp = createFakeErp({ batchMax: 3 });
  await pusher.award([0, '1'], [1, '1'], [2, '1'], [3, '1'], [4, '1']);
  erp.onWrite = async (operations, apply) => {
    const outcomes = operations.map(apply);
    return outcomes.map((outcome, index) =>
      operations[index]?.document.key === keyOf(3) ? { status: 'unknown', message: 'no answer' } : outcome,
    );
  };
  await push(pusher, erp);
  erp.onWrite = async (operations, apply) => operations.map(apply);
  pusher.clock.advance(60_000);
  await pusher.award([0, '2'], [2, '1'], [3, '7'], [4, '1'], [5, '5']);
  await replayDocuments(pusher.db.database, { flow: 'erp', keys: [keyOf(4)] }, timestampNow(pusher.clock));
  return { pusher, erp };
}

describe('a plan', () => {
  test('is what the push then does, and writes nothing', async () => {
    const { pusher, erp } = await mixed();
    const rows = () =>
      pusher.db.database.query(
        'select d::text from bridge.flow_documents d union all select f::text from bridge.flows f',
      );
    const before = await rows();
    const written = erp.operations.length;
    const planned = await plan(pusher, erp);
    expect(await rows()).toEqual(before);
    expect(erp.operations).toHaveLength(written);
    await push(pusher, erp);
    const done = erp.operations.slice(written).map(({ action, document }) => `${action} ${document.key}`);
    const toDo = planned.filter(({ action }) => action !== 'none').map(({ action, key }) => `${action} ${key}`);
    expect(toDo.toSorted()).toEqual(done.toSorted());
    expect(toDo.toSorted()).toEqual(
      [
        `amend ${keyOf(0)}`,
        `cancel ${keyOf(1)}`,
        `amend ${keyOf(3)}`,
        `amend ${keyOf(4)}`,
        `create ${keyOf(5)}`,
      ].toSorted(),
    );
    expect(planned.find(({ key }) => key === keyOf(2))).toMatchObject({ action: 'none' });
    expect(erp.faults).toEqual([]);
  });

  test('shows what differs from what was delivered', async () => {
    const { pusher, erp } = await mixed();
    const planned = await plan(pusher, erp);
    expect(planned.find(({ key }) => key === keyOf(0))?.steps).toEqual([
      '~ total_cost: "1" -> "2"',
      '~ lines[0].cost: "1" -> "2"',
    ]);
  });

  test("shows the connector's own steps where it has a plan, and says when that fails", async () => {
    const { pusher, erp } = await mixed();
    const session = {
      ...erp.session,
      plan: async (operations: readonly { action: 'create' | 'amend' | 'cancel'; document: { key: string } }[]) =>
        operations.map(({ action, document }) => ({ key: document.key, action, steps: [`PATCH ${document.key}`] })),
    };
    const planned = await plan(pusher, { ...erp, session });
    expect(planned.find(({ key }) => key === keyOf(0))?.steps).toEqual([`PATCH ${keyOf(0)}`]);
    const inStep = {
      ...erp.session,
      plan: async () => [{ key: keyOf(0), action: 'none' as const, steps: ['as it is'] }],
    };
    const unchanged = (await plan(pusher, { ...erp, session: inStep })).find(({ key }) => key === keyOf(0));
    expect(unchanged).toMatchObject({ action: 'none', steps: ['as it is'] });
    const broken = { ...erp, session: { ...erp.session, plan: async () => 'nonsense' as never } };
    const failed = (await plan(pusher, broken)).find(({ key }) => key === keyOf(0));
    expect(failed).toMatchObject({ action: 'amend' });
    expect(failed?.steps[0]).toContain('plan failed');
  });

  test('shows what waits and until when, and what would be rejected', async () => {
    const pusher = await createPusher(4);
    const erp = createFakeErp();
    await pusher.award([0, '1']);
    erp.onWrite = async () => [{ status: 'retry', error: { type: 'transient', message: 'down' } }];
    await push(pusher, erp);
    await pusher.store(
      'awards',
      lotAwardRecord(idOf(501), event, [{ supplier: supplier(1), cost: 'much' }]),
      lotAwardRecord(idOf(502), idOf(9), [{ supplier: supplier(1) }]),
    );
    const planned = await plan(pusher, erp);
    expect(planned).toMatchObject([
      { key: keyOf(1), action: 'reject', steps: [expect.stringContaining('cost')] },
      { key: `${idOf(9)}/${supplier(1)}`, action: 'wait' },
      { key: keyOf(0), action: 'create', notBefore: (await pusher.row(0))?.due },
    ]);
  });

  test('shows as many documents as asked for; with `all` also those that need no call', async () => {
    const pusher = await createPusher(4);
    const erp = createFakeErp({ batchMax: 2 });
    await pusher.award([0, '1'], [1, '1'], [2, '1']);
    expect(await plan(pusher, erp, { limit: 2 })).toHaveLength(2);
    await push(pusher, erp);
    expect(await plan(pusher, erp)).toEqual([]);
    const all = await plan(pusher, erp, { all: true });
    expect(all.map(({ action }) => action)).toEqual(['none', 'none', 'none']);
  });
});

test('differences are listed value by value, with their paths', () => {
  const before = { a: 1, gone: 'x', list: [{ b: '1' }, { b: '2' }], same: null, empty: [] };
  const after = { a: 1, list: [{ b: '1' }, { b: '3' }, { b: '4' }], same: null, empty: [], added: true };
  expect(documentDifferences(before, after)).toEqual([
    '~ list[1].b: "2" -> "3"',
    '+ list[2].b: "4"',
    '+ added: true',
    '- gone: "x"',
  ]);
  const many = documentDifferences({}, Object.fromEntries(Array.from({ length: 500 }, (_, n) => [`f${n}`, n])));
  expect(many).toHaveLength(200);
  expect(many.at(-1)).toBe('and 301 more');
});
