/**
 * A real Tryton for `demo --loop --erp tryton`: the one that the tests start, in a database of its own that ends with the
 * demo. Users raise requisitions, approve them, and withdraw some by deleting their purchase requests.
 */
import { access } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { AppError } from '#platform/errors.ts';
import type { LoopErp, OrderedLine, RaisedItem } from './loop-erp.ts';

/** What test/tryton offers; it is not part of the package. */
interface TrytonClient {
  call(model: string, method: string, parameters: readonly unknown[], context?: object): Promise<unknown>;
  search(
    model: string,
    domain: readonly unknown[],
    fields: readonly string[],
    context?: object,
  ): Promise<Record<string, unknown>[]>;
  create(model: string, records: readonly object[], context?: object): Promise<number[]>;
}
interface TrytonTools {
  installTryton(): Promise<object | { missing: string }>;
  startTryton(
    tryton: object,
    backend: { kind: 'sqlite' },
  ): Promise<{
    description: string;
    url: string;
    newDatabase(): Promise<{ name: string; logIn(user: 'admin' | 'requester'): Promise<TrytonClient> }>;
    stop(): Promise<void>;
  }>;
  trytonUsers: { connector: { login: string; password: string } };
  date(value: string): object;
}

/** Starts a Tryton. Throws AppError with one sentence where none can run. */
export async function startTrytonLoopErp(): Promise<LoopErp> {
  const tools = await loadTools();
  const tryton = await tools.installTryton();
  if ('missing' in tryton) throw new AppError('unavailable', `No Tryton can run here: ${tryton.missing}`);
  const server = await tools.startTryton(tryton, { kind: 'sqlite' });
  const database = await server.newDatabase();
  const [admin, requester] = [await database.logIn('admin'), await database.logIn('requester')];
  const { login, password } = tools.trytonUsers.connector;
  const [product] = await admin.search('product.product', [['code', '=', 'STEEL']], ['default_uom']);
  const [employee] = await requester.search('company.employee', [], ['id']);
  const everything = { active_test: false };
  /** The requisition of each line. */
  const numbers = new Map<string, string>();

  const originsOf = (number: string) =>
    [...numbers].flatMap(([line, of]) => (of === number ? [`${lineModel},${line}`] : []));

  return {
    description: server.description,
    connector: 'tryton',
    settings: {
      url: server.url,
      database: database.name,
      user: login,
      password,
      product: 'STEEL',
      purchase_state: 'confirmed',
    },
    saveSupplier: async ({ number, name, closed }) => {
      const [party] = await admin.search('party.party', [['code', '=', number]], ['id'], everything);
      const values = { name, active: !closed };
      if (party) await admin.call('party.party', 'write', [[party['id']], values], everything);
      else await admin.create('party.party', [{ code: number, ...values, addresses: [['create', [{}]]] }]);
    },
    raise: async (name, wanted) => {
      const lines = wanted.map(({ quantity }) => ({
        product: product?.['id'],
        unit: product?.['default_uom'],
        quantity: Number(quantity),
      }));
      const values = {
        description: name,
        employee: employee?.['id'],
        supply_date: tools.date('2030-03-31'),
        lines: [['create', lines]],
      };
      const [id] = await requester.create('purchase.requisition', [values]);
      for (const step of ['wait', 'approve']) await requester.call('purchase.requisition', step, [[id]]);
      const [row] = await admin.search('purchase.requisition', [['id', '=', id]], ['number']);
      const number = String(row?.['number']);
      const made = await admin.search(lineModel, [['requisition', '=', id]], ['quantity']);
      const items = made.map((line): RaisedItem => {
        numbers.set(String(line['id']), number);
        return { line: String(line['id']), quantity: String(line['quantity']) };
      });
      return { number, items };
    },
    // Tryton deletes the purchase requests of what is withdrawn: it leaves no other trace.
    withdraw: async (number) => {
      const found = await admin.search('purchase.request', [['origin', 'in', originsOf(number)]], ['id']);
      await admin.call('purchase.request', 'delete', [found.map(({ id }) => id)]);
    },
    sourcingOf: async (number) => {
      const notes = await admin.search(
        'ir.note',
        [['resource.number', '=', number, 'purchase.requisition']],
        ['message'],
      );
      const text = notes.map(({ message }) => String(message)).join(' | ');
      const [, event, ending = ''] = /\(([0-9a-f]{8}-[0-9a-f-]{27})[^)]*\) (.*)/.exec(text) ?? [];
      const status = ending.startsWith('is awarded') ? 'awarded' : text === '' ? 'nothing' : text.slice(0, 200);
      return { status, event };
    },
    ordered: async () => {
      const fields = ['quantity', 'requests.origin', 'requests.quantity'];
      const lines = await admin.search('purchase.line', [['purchase.state', '!=', 'cancelled']], fields);
      return lines.flatMap((line): OrderedLine[] => {
        const requests = line['requests.'] as { origin: string; quantity: number }[];
        if (requests.length === 0) return [{ quantity: String(line['quantity']) }];
        return requests.map(({ origin, quantity }) => {
          const id = origin.slice(`${lineModel},`.length);
          return { quantity: String(quantity), requisition: { number: numbers.get(id) ?? origin, line: id } };
        });
      });
    },
    unboughtText: async (number) => {
      const [requisition] = await admin.search('purchase.requisition', [['number', '=', number]], ['state']);
      const state = String(requisition?.['state']);
      return state === 'done' ? undefined : `Tryton shows it as ${state}`;
    },
    close: () => server.stop(),
  };
}

const lineModel = 'purchase.requisition.line';

async function loadTools(): Promise<TrytonTools> {
  const folder = new URL('../../test/tryton/', import.meta.url);
  const files = ['install-tryton.ts', 'tryton-server.ts', 'tryton-rpc.ts'].map((name) => new URL(name, folder));
  for (const file of files)
    await access(fileURLToPath(file)).catch((cause: unknown) => {
      throw new AppError(
        'invalid',
        'A real Tryton runs only in a checkout of the repository, which has the tools that start one (test/tryton). ' +
          'Leave --erp out: the loop then has an ERP in memory.',
        { cause },
      );
    });
  const loaded = await Promise.all(files.map(({ href }) => import(href) as Promise<object>));
  return Object.assign({}, ...loaded) as TrytonTools;
}
