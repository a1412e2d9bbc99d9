/** The rows of the stand-in's models, with transactions: what a failed call has changed is undone. */
import { createHash } from 'node:crypto';
import { displayFields, models } from './models.ts';
import { textOf } from './text-of.ts';

/** Values as Odoo stores them: `false` for none, ids for relations, times with microseconds. */
export type Row = { id: number } & Record<string, unknown>;

export type Rows = ReturnType<typeof createRows>;

export function createRows(nowMs: () => number) {
  const tables = new Map<string, Map<number, Row>>(Object.keys(models).map((model) => [model, new Map()]));
  const sequences = new Map<string, number>();
  /** By `module.name`: what Odoo keeps in ir.model.data. */
  const externalIds = new Map<string, { model: string; id: number }>();
  let undo: (() => void)[] | undefined;
  let lastMicros = 0n;

  const table = (model: string) => tables.get(model) as Map<number, Row>;
  const remember = (step: () => void) => void undo?.push(step);

  /** UTC with microseconds; each call is later than the one before. */
  function stamp(): string {
    const now = BigInt(nowMs()) * 1_000n;
    lastMicros = now > lastMicros ? now : lastMicros + 1n;
    const ms = Number(lastMicros / 1_000n);
    return `${new Date(ms).toISOString().slice(0, 19).replace('T', ' ')}.${String(lastMicros % 1_000_000n).padStart(6, '0')}`;
  }

  function find(model: string, id: unknown): Row | undefined {
    return typeof id === 'number' ? table(model).get(id) : undefined;
  }

  function all(model: string): Row[] {
    return [...table(model).values()];
  }

  /** The value of a field, computed where it is not stored. */
  function valueOf(model: string, row: Row, name: string): unknown {
    const field = models[model]?.fields[name];
    if (field?.type === 'one2many' && field.relation && field.inverse) {
      const { relation, inverse } = field;
      return all(relation)
        .filter((child) => child[inverse] === row.id)
        .map(({ id }) => id);
    }
    return field?.computed ? computed(model, row, name) : (row[name] ?? false);
  }

  function computed(model: string, row: Row, name: string): unknown {
    const subtotal = ({ product_qty, price_unit, discount }: Row) =>
      Math.round(Number(product_qty) * Number(price_unit) * (1 - Number(discount ?? 0) / 100) * 100) / 100;
    const lines = () => all('purchase.order.line').filter(({ order_id }) => order_id === row.id);
    const bytes = () => Buffer.from(textOf(row['datas']), 'base64');
    switch (name) {
      case 'display_name':
        return displayName(model, row);
      case 'price_subtotal':
        return subtotal(row);
      case 'product_uom_qty':
        return Number(row['product_qty']) * Number(find('uom.uom', row['product_uom_id'])?.['factor'] ?? 1);
      case 'amount_untaxed':
      case 'amount_total':
        return Math.round(lines().reduce((sum, line) => sum + subtotal(line), 0) * 100) / 100;
      case 'picking_ids':
        return all('stock.picking')
          .filter(({ purchase_id }) => purchase_id === row.id)
          .map(({ id }) => id);
      case 'incoming_picking_count':
        return all('stock.picking').filter(({ purchase_id }) => purchase_id === row.id).length;
      case 'alternative_po_ids':
        return all('purchase.order')
          .filter((other) => row['purchase_group_id'] && other['purchase_group_id'] === row['purchase_group_id'])
          .map(({ id }) => id);
      case 'file_size':
        return bytes().length;
      case 'checksum':
        // Odoo computes none for an attachment that is made without bytes, and one as soon as it is written without.
        if (row['datas'] === undefined) return false;
        return createHash('sha1').update(bytes()).digest('hex');
      default:
        return models[model]?.fields[name]?.type === 'many2many' ? [] : false;
    }
  }

  function displayName(model: string, row: Row): string {
    const code = model.startsWith('product.') && row['default_code'] ? `[${textOf(row['default_code'])}] ` : '';
    return `${code}${textOf(row[displayFields[model] ?? 'name'])}`;
  }

  return {
    find,
    all,
    valueOf,
    displayName,
    stamp,
    externalIds,
    insert(model: string, values: Record<string, unknown>, user: number): Row {
      const id = (sequences.get(model) ?? 0) + 1;
      sequences.set(model, id);
      const at = stamp();
      const row: Row = { ...values, id, create_date: at, write_date: at, create_uid: user, write_uid: user };
      table(model).set(id, row);
      remember(() => void table(model).delete(id));
      return row;
    },
    update(model: string, row: Row, values: Record<string, unknown>, user: number): void {
      const before = { ...row };
      Object.assign(row, values, { write_date: stamp(), write_uid: user });
      remember(() => void table(model).set(row.id, before));
    },
    remove(model: string, row: Row): void {
      table(model).delete(row.id);
      remember(() => void table(model).set(row.id, row));
    },
    name(externalId: string, model: string, id: number): void {
      const before = externalIds.get(externalId);
      externalIds.set(externalId, { model, id });
      remember(() => void (before ? externalIds.set(externalId, before) : externalIds.delete(externalId)));
    },
    /** The id that the model's next row gets; as in PostgreSQL, a rollback does not give ids back. */
    continueAt(model: string, id: number): void {
      sequences.set(model, id - 1);
    },
    /** Runs `work`; when it throws, everything that it has changed is undone. Transactions may be nested. */
    transaction<T>(work: () => T): T {
      const outer = undo;
      const steps: (() => void)[] = [];
      undo = steps;
      try {
        const result = work();
        outer?.push(...steps);
        return result;
      } catch (error) {
        for (const step of steps.reverse()) step();
        throw error;
      } finally {
        undo = outer;
      }
    },
  };
}
