/** The ERP of `demo --loop`: what users of it do, and what it shows. The one of the connector `memory`, or a real Tryton. */
import { randomUUID } from 'node:crypto';

export interface RaisedItem {
  /** The ERP's number of the line. */
  readonly line: string;
  readonly quantity: string;
}

/** An item that a user wants; an ERP that has its own names for things ignores the name. */
export interface WantedItem extends Pick<RaisedItem, 'quantity'> {
  readonly name: string;
}

/** A line of a purchase order, and what of a requisition it buys. */
export interface OrderedLine {
  readonly quantity: string;
  readonly requisition?: { readonly number: string; readonly line: string };
}

export interface LoopErp {
  /** For the terminal: `Tryton 6.0.29 on SQLite`. */
  readonly description: string;
  readonly connector: string;
  /** Of its connector. */
  readonly settings: Readonly<Record<string, unknown>>;
  saveSupplier(supplier: { number: string; name: string; closed: boolean }): Promise<void>;
  /** Returns its number and its lines. */
  raise(name: string, items: readonly WantedItem[]): Promise<{ number: string; items: RaisedItem[] }>;
  /** Other items than before; undefined where nobody changes a requisition that was raised. */
  readonly change?: (number: string, items: readonly WantedItem[]) => Promise<RaisedItem[]>;
  withdraw(number: string, how: 'closed' | 'deleted'): Promise<void>;
  /** What it shows of the sourcing of a requisition; `event`: the service's id. */
  sourcingOf(number: string): Promise<{ status: string; event?: string | undefined }>;
  /** Every line of its purchase orders. */
  ordered(): Promise<OrderedLine[]>;
  /** What it shows otherwise than that all of the requisition is bought; undefined for nothing. */
  readonly unboughtText?: (number: string) => Promise<string | undefined>;
  close(): Promise<void>;
}

/** What the loop needs of the memory connector's ERP. */
interface MemoryErp {
  readonly address: string;
  saveRecord(list: 'suppliers' | 'requisitions', record: object): void;
  deleteRecord(list: 'requisitions', number: string): void;
  sourcingOf(requisition: string): { status: string; project?: string } | undefined;
  allOf(type: string): {
    lines?: readonly { quantity?: string; requisition?: { number: string; line?: string } }[];
  }[];
}

/** Starts the ERP of the memory connector. */
export async function startMemoryLoopErp(): Promise<LoopErp> {
  const login = { clientId: 'bridge', clientSecret: randomUUID() };
  // A connector is a folder that anyone may copy or remove: nothing in src imports one.
  const memory = new URL('../../connectors/memory/memory-erp.ts', import.meta.url).href;
  const { startMemoryErp } = (await import(memory)) as { startMemoryErp: (given: typeof login) => Promise<MemoryErp> };
  const erp = await startMemoryErp(login);
  const run = randomUUID().slice(0, 6);
  const held = new Map<string, { name: string; items: readonly object[] }>();

  function save(number: string, name: string, wanted: readonly WantedItem[]): RaisedItem[] {
    const items = wanted.map((item, index) => ({ ...item, line: `${index + 1}0`, unit: 'kg' }));
    held.set(number, { name, items });
    erp.saveRecord('requisitions', { number, name, closed: false, category: 'Steel', items });
    return items;
  }

  return {
    description: 'the ERP of the connector memory',
    connector: 'memory',
    settings: { base_url: erp.address, client_id: login.clientId, client_secret: login.clientSecret },
    saveSupplier: async (supplier) => erp.saveRecord('suppliers', supplier),
    raise: async (name, items) => {
      const number = `PR-${run}-${held.size}`;
      return { number, items: save(number, name, items) };
    },
    change: async (number, items) => save(number, held.get(number)?.name ?? '', items),
    withdraw: async (number, how) => {
      if (how === 'deleted') erp.deleteRecord('requisitions', number);
      else erp.saveRecord('requisitions', { number, ...held.get(number), closed: true, category: 'Steel' });
    },
    sourcingOf: async (number) => {
      const { status = 'nothing', project } = erp.sourcingOf(number) ?? {};
      return { status, event: project };
    },
    ordered: async () =>
      erp.allOf('award').flatMap(({ lines = [] }) =>
        lines.map(({ quantity = '0', requisition }): OrderedLine => {
          if (!requisition) return { quantity };
          return { quantity, requisition: { number: requisition.number, line: requisition.line ?? '' } };
        }),
      ),
    close: async () => undefined,
  };
}
