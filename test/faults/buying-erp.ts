/**
 * A company's own ERP in PostgreSQL, for a story of buying: vendors and requisitions that an intake reads, and a function
 * that takes awards. The function adds an order for each call and recognises no repetition, so a document that is
 * delivered twice shows as two calls.
 */
import type { Database } from '#platform/database/database.ts';
import { createEmptyDatabase } from '../harness/test-database.ts';

export interface Item {
  readonly line: string;
  readonly name: string;
  readonly quantity: string;
  readonly unit: string;
}

export interface Requisition {
  readonly number: string;
  readonly title: string;
  readonly items: readonly Item[];
  /** File names with their bytes. */
  readonly files?: Readonly<Record<string, Buffer>>;
}

/** One call of the function. A cancellation has no lines. */
export interface OrderCall {
  readonly action: string;
  /** `<number of the requisition>/<number of the vendor>`. */
  readonly order: string;
  readonly total: string;
  /** `<lot> <share> <quantity> <unit price> <cost> of <requisition>/<line>`, by lot. */
  readonly lines: readonly string[];
}

export interface BuyingErp {
  readonly url: string;
  readonly database: Database;
  saveVendor(vendor: { number: string; name: string; status: 'active' | 'blocked' }): Promise<void>;
  saveRequisition(requisition: Requisition): Promise<void>;
  /** Every call of the function in order. */
  orderCalls(): Promise<OrderCall[]>;
  /** The awards that the connector keeps in its own tables, by order. */
  heldAwards(): Promise<HeldAward[]>;
  /** The quotations there: `<lot> <unit price>` of each lot, by order and lot. */
  heldQuotations(): Promise<{ order: string; lines: string[] }[]>;
}

export interface HeldAward {
  readonly order: string;
  readonly state: string;
  readonly total: string;
  /** As in `OrderCall`, without the requisition. */
  readonly lines: readonly string[];
  readonly version: number;
  /** How many versions the history has. */
  readonly kept: number;
}

const tables = `
  create schema erp;
  create table erp.vendor (
    number text primary key, name text not null, mail text not null, status text not null,
    changed_at timestamptz not null
  );
  create table erp.requisition (
    number text primary key, title text not null, items jsonb not null, files jsonb not null,
    changed_at timestamptz not null
  );
  create table erp.order_call (
    id bigint generated always as identity primary key, action text not null, key text not null, document jsonb not null
  );
  create function erp.take_order(
    kind text, action text, key text, content_hash text, idempotency_key text, document jsonb
  ) returns text language sql as
    'insert into erp.order_call (action, key, document) values (action, key, document) returning ''PO-'' || id'`;

export async function startBuyingErp(): Promise<BuyingErp> {
  const { url, database } = await createEmptyDatabase();
  await database.query(tables);
  return {
    url,
    database,
    saveVendor: async ({ number, name, status }) => {
      await database.query(
        `insert into erp.vendor values ($1, $2, $3, $4, clock_timestamp())
         on conflict (number) do update set name = $2, status = $4, changed_at = clock_timestamp()`,
        [number, name, `sales@${number.toLowerCase()}.example`, status],
      );
    },
    saveRequisition: async ({ number, title, items, files = {} }) => {
      const attached = Object.entries(files).map(([name, bytes]) => ({
        file_name: name,
        content: bytes.toString('base64'),
      }));
      await database.query(
        `insert into erp.requisition values ($1, $2, $3, $4, clock_timestamp())
         on conflict (number) do update set title = $2, items = $3, files = $4, changed_at = clock_timestamp()`,
        [number, title, JSON.stringify(items), JSON.stringify(attached)],
      );
    },
    orderCalls: async () => {
      const calls = await database.query<{ action: string; document: Award }>(
        'select action, document from erp.order_call order by id',
      );
      return calls.map(({ action, document: { event, supplier, total_cost: total, lines } }) => ({
        action,
        order: `${event.reference_id}/${supplier.external_id}`,
        ...(action === 'cancel' ? { total: '0', lines: [] } : { total, lines: lines.map(lineText) }),
      }));
    },
    heldAwards: () =>
      database.query(
        `select ${orderKey} as order, state, total_cost::text as total,
           array(select concat_ws(' ', lot, share, quantity, unit_price, cost)
                 from sourcing.award_line l where l.key = award.key order by line) as lines,
           version::int,
           (select count(*)::int from sourcing.document_history h where h.kind = 'award' and h.key = award.key) as kept
         from sourcing.award order by 1`,
      ),
    heldQuotations: () =>
      database.query(
        `select ${orderKey} as order, array_agg(lot || ' ' || unit_price order by lot) as lines
         from sourcing.quotation join sourcing.quotation_line using (key) group by 1 order by 1`,
      ),
  };
}

/** Numbers are read as texts: exact. */
const orderKey = `event_reference_id || '/' || supplier_external_id`;

interface Award {
  readonly event: { readonly reference_id: string };
  readonly supplier: { readonly external_id: string };
  readonly total_cost: string;
  readonly lines: readonly {
    readonly lot: string;
    readonly share: string;
    readonly quantity: string;
    readonly unit_price: string;
    readonly cost: string;
    readonly requisition?: { readonly reference_id: string; readonly line: string };
  }[];
}

function lineText({ lot, share, quantity, unit_price: price, cost, requisition }: Award['lines'][number]): string {
  return `${lot} ${share} ${quantity} ${price} ${cost} of ${requisition?.reference_id}/${requisition?.line}`;
}

/** The settings of the connector `postgres` by which intakes read this ERP. */
export function buyingReads(url: string): { suppliers: object; requisitions: object } {
  const column = { unique: 'number', changed: 'changed_at' };
  return {
    suppliers: {
      url,
      read: {
        supplier: {
          from: 'erp.vendor',
          ...column,
          record: {
            external_id: 'number',
            name: 'name',
            archived: { at: 'status', is: ['blocked'] },
            contacts: { email: 'mail' },
          },
        },
      },
    },
    requisitions: {
      url,
      schema: 'bridge_news',
      read: {
        requisition: {
          from: 'erp.requisition',
          ...column,
          record: { reference_id: 'number', name: 'title', items: { at: 'items' }, files: 'files' },
          acknowledge: true,
        },
      },
    },
  };
}
