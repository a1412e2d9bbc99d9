import { randomUUID } from 'node:crypto';
import { beforeAll, expect, test } from 'vitest';
import type { Session } from '#connector/connector.ts';
import type { AwardDocument } from '#connector/documents.ts';
import { describeTryton } from '../../tryton/tryton-in-tests.ts';
import { date, type TrytonClient, type TrytonValue } from '../../tryton/tryton-rpc.ts';
import { type TrytonDatabase, trytonUsers } from '../../tryton/tryton-server.ts';
import {
  awardOf,
  idOf,
  messageOf,
  never,
  openSession,
  openTestTryton,
  operation,
  referenceOf,
  startTrytonProxy,
  withLots,
  write,
} from './tryton-session.ts';

interface Raised {
  readonly id: number;
  readonly number: string;
  /** The ids of its lines. */
  readonly lines: readonly number[];
}

describeTryton('requisitions in Tryton', () => {
  let database: TrytonDatabase;
  let admin: TrytonClient;
  let requester: TrytonClient;
  let session: Session;
  let confirming: Session;

  beforeAll(async () => {
    ({ database, admin, session } = await openTestTryton());
    requester = await database.logIn('requester');
    confirming = await openSession(database, { purchase_state: 'confirmed' });
    return async () => {
      await session.close();
      await confirming.close();
    };
  });

  /** A requisition of sheet steel in kg, approved by the requester; Tryton has made its purchase requests. */
  async function raise(...quantities: readonly number[]): Promise<Raised> {
    const [product] = await requester.search('product.product', [['code', '=', 'STEEL']], ['default_uom']);
    const [employee] = await requester.search('company.employee', [], ['id']);
    const lines = quantities.map((quantity) => ({ product: product.id, unit: product.default_uom, quantity }));
    const values = { employee: employee.id, supply_date: date('2030-03-31'), lines: [['create', lines]] };
    const [id] = await requester.create('purchase.requisition', [values]);
    for (const step of ['wait', 'approve']) await requester.call('purchase.requisition', step, [[id]]);
    const [{ number, lines: made }] = await admin.search(
      'purchase.requisition',
      [['id', '=', id]],
      ['number', 'lines'],
    );
    return { id: id as number, number, lines: made };
  }

  /** State, quantity and purchase of each purchase request of the requisition. */
  async function requestsOf({ lines }: Raised): Promise<TrytonValue[]> {
    const domain = [['origin', 'in', lines.map((line) => `purchase.requisition.line,${line}`)]];
    const found = await admin.search('purchase.request', domain, ['state', 'quantity', 'purchase_line.purchase']);
    return found.map((request) => [request.state, request.quantity, request['purchase_line.']?.purchase ?? null]);
  }

  async function stateOf({ id }: Raised): Promise<string> {
    const [requisition] = await admin.search('purchase.requisition', [['id', '=', id]], ['state']);
    return requisition.state;
  }

  /** A lot of steel that was made of a line of the requisition. */
  function lotOf({ number, lines }: Raised, quantity: string, index = 0) {
    const requisition = { intake: 'requisitions', reference_id: number, line: String(lines[index]) };
    const steel = { fields: { product: 'STEEL' }, unit_price: '2', requisition };
    return { lot: `Steel ${index}`, quantity, ...steel };
  }

  const toSupplier = (code: string, award: AwardDocument): AwardDocument => {
    const supplier = { id: randomUUID(), external_id: code, name: code };
    return { ...award, supplier, key: `${award.event.id}/${supplier.id}` };
  };

  async function confirm(purchase: number): Promise<void> {
    for (const step of ['quote', 'confirm']) await admin.call('purchase.purchase', step, [[purchase]]);
  }

  test('an award of all of a line links its purchase request: when the order is confirmed, the requisition is done', async () => {
    const raised = await raise(10);
    expect(await requestsOf(raised)).toEqual([['draft', 10, null]]);
    const created = await write(session, 'create', awardOf([lotOf(raised, '10')]));
    expect(await requestsOf(raised)).toEqual([['purchased', 10, idOf(created)]]);
    expect(await stateOf(raised)).toBe('processing');
    await confirm(idOf(created));
    expect(await stateOf(raised)).toBe('done');
  });

  test('an award of a part cuts the request: another one with the same origin holds the rest, which stays open', async () => {
    const raised = await raise(10, 5);
    const created = await write(session, 'create', awardOf([lotOf(raised, '4')]));
    expect(await requestsOf(raised)).toEqual([
      ['purchased', 4, idOf(created)],
      ['draft', 5, null],
      ['draft', 6, null],
    ]);
    await confirm(idOf(created));
    expect(await stateOf(raised)).toBe('processing');
    const fields = ['product.code', 'supply_date', 'warehouse.name', 'computed_quantity'];
    const [rest] = await admin.search('purchase.request', [['quantity', '=', 6]], fields);
    expect(rest).toMatchObject({
      'product.': { code: 'STEEL' },
      supply_date: '2030-03-31',
      'warehouse.': { name: 'Warehouse' },
      computed_quantity: 10,
    });
  });

  test('two suppliers of one write share the request; more than was requested marks no more than that as bought', async () => {
    const raised = await raise(10);
    const award = awardOf([lotOf(raised, '6')]);
    const outcomes = await session.write(
      ['V-1001', 'V-1002', 'V-1003'].map((code) => operation('create', toSupplier(code, award))),
      never,
    );
    const [first, second, third] = outcomes.map(idOf);
    expect(third).toBeGreaterThan(0);
    expect(await requestsOf(raised)).toEqual([
      ['purchased', 6, first],
      ['purchased', 4, second],
    ]);
  });

  test('an amendment moves what is bought, and a lot that is no longer awarded is open again', async () => {
    const raised = await raise(10, 5);
    const award = awardOf([lotOf(raised, '4'), lotOf(raised, '5', 1)]);
    const created = await write(session, 'create', award);
    const purchase = idOf(created);
    await write(session, 'amend', withLots(award, [lotOf(raised, '7')]));
    const requests = await requestsOf(raised);
    expect(requests).toHaveLength(4);
    expect(requests).toEqual(
      expect.arrayContaining([
        ['draft', 3, null],
        ['draft', 5, null],
        ['purchased', 4, purchase],
        ['purchased', 3, purchase],
      ]),
    );
    await write(session, 'amend', withLots(award, [lotOf(raised, '2')]));
    const open = (await requestsOf(raised)).filter(([state]) => state === 'draft').map(([, quantity]) => quantity);
    expect(open.reduce((sum, quantity) => sum + quantity, 0)).toBe(13);
  });

  test('a withdrawn award leaves the requests open, not in exception, and they can be bought from another supplier', async () => {
    const raised = await raise(10);
    const award = awardOf([lotOf(raised, '4')]);
    const created = await write(session, 'create', award);
    expect(await write(session, 'cancel', award)).toMatchObject({ status: 'cancelled' });
    expect(await requestsOf(raised)).toEqual([
      ['draft', 4, null],
      ['draft', 6, null],
    ]);
    expect(await stateOf(raised)).toBe('processing');
    const other = await write(session, 'create', toSupplier('V-1002', awardOf([lotOf(raised, '10')])));
    expect(await requestsOf(raised)).toEqual([
      ['purchased', 4, idOf(other)],
      ['purchased', 6, idOf(other)],
    ]);
    expect(idOf(other)).not.toBe(idOf(created));
  });

  test('a requisition that a user has ordered or withdrawn is not bought again: the conflict says why', async () => {
    const ordered = await raise(10);
    const byHand = await write(await adminSession(), 'create', awardOf([lotOf(ordered, '10')]));
    const purchases = async () => admin.search('purchase.purchase', [], ['id']);
    const before = await purchases();
    const refused = await write(session, 'create', awardOf([lotOf(ordered, '10')]));
    expect(refused).toMatchObject({ status: 'rejected', error: { type: 'conflict' } });
    expect(messageOf(refused)).toContain(
      `the requisition ${ordered.number} was bought already in Tryton, by the purchase with the id ${idOf(byHand)}`,
    );
    const withdrawn = await raise(10);
    const [{ id }] = await admin.search(
      'purchase.request',
      [['origin', '=', `purchase.requisition.line,${withdrawn.lines[0]}`]],
      ['id'],
    );
    await admin.call('purchase.request', 'delete', [[id]]);
    const gone = await write(session, 'create', awardOf([lotOf(withdrawn, '10')]));
    expect(messageOf(gone)).toContain(`it was withdrawn from the requisition ${withdrawn.number}`);
    expect(await purchases()).toEqual(before);
  });

  async function adminSession(): Promise<Session> {
    return openSession(database, { user: trytonUsers.admin.login, password: trytonUsers.admin.password });
  }

  test('a unit other than that of the request counts by the share of the lot', async () => {
    const raised = await raise(10);
    const lot = { ...lotOf(raised, '1000'), share: '0.25', fields: { product: 'STEEL', unit: 'g' } };
    const created = await write(session, 'create', awardOf([lot]));
    expect(await requestsOf(raised)).toEqual([
      ['purchased', 2.5, idOf(created)],
      ['draft', 7.5, null],
    ]);
  });

  test('requisitions of other systems are left alone: of an intake that the settings do not name, or with another number', async () => {
    const raised = await raise(10);
    const other = await openSession(database, { requisition_intakes: ['another'] });
    expect(await write(other, 'create', awardOf([lotOf(raised, '10')]))).toMatchObject({ status: 'created' });
    await other.close();
    const numbered = lotOf({ ...raised, number: 'PR-1' }, '10');
    expect(await write(session, 'create', awardOf([numbered]))).toMatchObject({ status: 'created' });
    expect(await requestsOf(raised)).toEqual([['draft', 10, null]]);
  });

  test('confirmed orders finish the requisition, also one after the other, which Tryton itself leaves open', async () => {
    const raised = await raise(10);
    const award = awardOf([lotOf(raised, '6')]);
    const first = await write(confirming, 'create', award);
    expect(await stateOf(raised)).toBe('processing');
    const rest = toSupplier('V-1002', awardOf([lotOf(raised, '4')]));
    const second = await write(confirming, 'create', rest);
    expect(await requestsOf(raised)).toEqual([
      ['purchased', 6, idOf(first)],
      ['purchased', 4, idOf(second)],
    ]);
    const states = await admin.search('purchase.purchase', [['id', 'in', [idOf(first), idOf(second)]]], ['state']);
    expect(states.map(({ state }) => state)).toEqual(['processing', 'processing']);
    expect(await stateOf(raised)).toBe('done');
    expect(await write(confirming, 'amend', rest, `purchase.purchase,${idOf(second)}`)).toMatchObject({
      status: 'unchanged',
    });
  });

  test('a confirmed order whose requisition is known only later is linked then, and the requisition is done', async () => {
    const raised = await raise(10);
    // The event was awarded before the bridge had found out that it is of this requisition.
    const award = awardOf([lotOf(raised, '4')]);
    const unnamed = { ...award, lines: award.lines.map(({ requisition: _unknown, ...line }) => line) };
    const created = await write(confirming, 'create', unnamed);
    const other = toSupplier('V-1002', awardOf([lotOf(raised, '6')]));
    const second = await write(confirming, 'create', other);
    expect(await requestsOf(raised)).toEqual([
      ['purchased', 6, idOf(second)],
      ['draft', 4, null],
    ]);
    const reference = `purchase.purchase,${idOf(created)}`;
    const amended = { ...operation('amend', award), reference };
    const [planned] = (await confirming.plan?.([amended], never)) ?? [];
    expect(planned?.steps.join(' ')).toContain(`mark 4 kg of the requisition ${raised.number} as bought`);
    expect(await write(confirming, 'amend', award, reference)).toMatchObject({ status: 'updated' });
    expect(await requestsOf(raised)).toEqual([
      ['purchased', 6, idOf(second)],
      ['purchased', 4, idOf(created)],
    ]);
    expect(await stateOf(raised)).toBe('done');
    expect(await write(confirming, 'amend', award, reference)).toMatchObject({ status: 'unchanged' });
  });

  test('calls at once that read the same product for the first time find one product, and not two', async () => {
    const raised = await raise(10);
    const fresh = await openSession(database);
    const award = awardOf([lotOf(raised, '10')]);
    await Promise.all([1, 2, 3].map(async () => fresh.plan?.([operation('create', award)], never)));
    expect(await write(fresh, 'create', award)).toMatchObject({ status: 'created' });
    await fresh.close();
  });

  test.for([
    ...(process.env['TRYTON_BACKEND'] === undefined
      ? []
      : ([
          ['model.purchase.requisition.line.write', 'draft'],
          ['model.purchase.requisition.write', 'processing'],
        ] as const)),
    ['model.purchase.purchase.confirm', 'quotation'],
  ] as const)(
    'a write that was cut off at %s is finished by the next one, and a look-up says so before',
    async ([cut, left]) => {
      let isBroken = true;
      // Throwing breaks the connection.
      const proxy = await startTrytonProxy(new URL(database.url).origin, [], (method) => {
        if (isBroken && method === cut) throw new Error('cut off');
        return false;
      });
      const through = await openSession(database, { url: proxy.url, purchase_state: 'confirmed' });
      const raised = await raise(10);
      // The first of two orders, because Tryton itself makes a requisition done that has only one.
      const before = toSupplier('V-1002', awardOf([lotOf(raised, '6')]));
      expect(await write(confirming, 'create', before)).toMatchObject({ status: 'created' });
      const award = awardOf([lotOf(raised, '4')]);
      expect(await write(through, 'create', award)).toMatchObject({ status: 'unknown' });
      isBroken = false;
      const [found] = await through.lookup([award], never);
      expect(found).toMatchObject({ contentHash: undefined });
      const reference = referenceOf(found);
      const [purchase] = await admin.search(
        'purchase.purchase',
        [['id', '=', Number(reference.split(',')[1])]],
        ['state'],
      );
      expect(purchase.state).toBe(left);
      expect(await write(through, 'amend', award)).toEqual({ status: 'updated', reference });
      expect(await stateOf(raised)).toBe('done');
      const { contentHash } = operation('create', award);
      expect(await through.lookup([award], never)).toEqual([{ key: award.key, reference, contentHash }]);
      await through.close();
      await proxy.close();
    },
  );

  test('a plan says what would be bought of each requisition, and two plans of one write share it', async () => {
    const raised = await raise(10);
    const award = awardOf([lotOf(raised, '6')]);
    const plans = await session.plan?.(
      ['V-1001', 'V-1002'].map((code) => operation('create', toSupplier(code, award))),
      never,
    );
    const steps = plans?.map((plan) => plan.steps.at(-1));
    expect(steps).toEqual([
      `Lot "Steel 0": mark 6 kg of the requisition ${raised.number} as bought, 4 stay open.`,
      `Lot "Steel 0": mark 4 kg of the requisition ${raised.number} as bought.`,
    ]);
    expect(await requestsOf(raised)).toEqual([['draft', 10, null]]);
  });

  test('a user without the right to write requisitions is told which group is missing, and nothing is told', async () => {
    const raised = await raise(10);
    const [group] = await admin.search('res.group', [['name', '=', 'Purchase Requisition']], ['id']);
    const [user] = await admin.search('res.user', [['login', '=', 'connector']], ['id']);
    await admin.call('res.user', 'write', [[user.id], { groups: [['remove', [group.id]]] }]);
    const news = {
      requisition: raised.number,
      status: 'failed' as const,
      text: 'no',
      idempotencyKey: randomUUID(),
    };
    const [outcome] = (await session.acknowledge?.([news], never)) ?? [];
    await admin.call('res.user', 'write', [[user.id], { groups: [['add', [group.id]]] }]);
    expect(outcome).toMatchObject({ status: 'retry', error: { type: 'auth' } });
    expect(await admin.search('ir.note', [['resource', '=', `purchase.requisition,${raised.id}`]], ['id'])).toEqual([]);
  });
});
