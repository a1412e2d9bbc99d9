/** What the stand-in holds at the beginning: the same records, ids and users as the recorded Odoo. */
import type { Caller, Orm } from './orm.ts';
import type { Rows } from './rows.ts';
import { users } from './users.ts';

export { users };

export type Installed = ReturnType<typeof install>;

/** Ids are fixed, because the recorded exchanges name them. */
export function install(rows: Rows, orm: Orm) {
  const system: Caller = { user: users.admin, companies: [1, 2], company: 1, activeTest: false, zone: 'UTC' };
  const make = (model: string, id: number, values: Record<string, unknown>) => {
    rows.continueAt(model, id);
    rows.insert(model, values, 1);
  };
  for (const [id, name, isActive, rate] of [
    [1, 'USD', true, 1],
    [2, 'GBP', false, 0.8],
    [25, 'JPY', false, 150],
    [96, 'KWD', false, 0.3],
    [126, 'EUR', true, 0.9],
  ] as const)
    make('res.currency', id, { name, active: isActive, rate, decimal_places: 2 });
  for (const [index, currency_id] of [2, 25, 96, 126].entries())
    make('res.currency.rate', index + 1, { currency_id, rate: rows.find('res.currency', currency_id)?.['rate'] });
  make('res.company', 1, { name: 'My Company', currency_id: 1, partner_id: 1 });
  make('res.company', 2, { name: 'Second Co', currency_id: 126, partner_id: 6 });
  make('res.country', 57, { name: 'Germany', code: 'DE' });
  make('res.country', 177, { name: 'Poland', code: 'PL' });
  make('res.users', users.admin, { name: 'Administrator', login: 'admin', company_id: 1, company_ids: [1] });
  make('res.users', users.connector, { name: 'Connector', login: 'connector', company_id: 1, company_ids: [1, 2] });
  make('res.users', users.weak, { name: 'Weak', login: 'weak', company_id: 1, company_ids: [1] });
  for (const [id, name] of [
    [1, 'My Company'],
    [3, 'Administrator'],
    [6, 'Second Co'],
    [7, 'Connector'],
    [8, 'Weak'],
  ] as const)
    make('res.partner', id, { name, active: true, supplier_rank: 0, type: 'contact', is_company: false });
  for (const [sequence, [id, name, factor, base]] of (
    [
      [6, 'Minutes', 0.0166667, 4],
      [1, 'Units', 1, false],
      [4, 'Hours', 1, false],
      [7, 'mm', 1, false],
      [11, 'm²', 1, false],
      [12, 'ml', 1, false],
      [15, 'g', 1, false],
      [30, 'KWH', 1, false],
      [2, 'Pack of 6', 6, 1],
      [16, 'kg', 1000, 15],
    ] as const
  ).entries())
    make('uom.uom', id, {
      name,
      sequence,
      factor,
      relative_factor: factor,
      relative_uom_id: base,
      rounding: 0.01,
      active: true,
    });
  for (const [id, name, code, unit, isPurchasable] of [
    [1, 'Bolt M8', 'BOLT-M8', 1, true],
    [2, 'Steel sheet', 'SHEET-1', 16, true],
    [3, 'Not purchasable', 'NOPO', 1, false],
  ] as const)
    product(id, name, code, unit, isPurchasable);
  make('stock.warehouse', 1, { name: 'My Company', code: 'WH', company_id: 1 });
  const incoming = { name: 'Receipts', code: 'incoming' };
  make('stock.picking.type', 1, { ...incoming, warehouse_id: 1, company_id: 1 });
  rows.name('base.EUR', 'res.currency', 126);
  rows.name('base.USD', 'res.currency', 1);
  rows.continueAt('res.partner', 9);
  rows.continueAt('ir.attachment', 509);

  function product(id: number, name: string, code: string, unit: number, isPurchasable = true): void {
    make('product.template', id, { name, default_code: code, active: true });
    make('product.product', id, {
      name,
      default_code: code,
      active: true,
      purchase_ok: isPurchasable,
      uom_id: unit,
      product_tmpl_id: id,
    });
  }

  return {
    system,
    product,
    /** Adds a warehouse with its operation type for receipts, as Odoo does; without one a company cannot order. */
    warehouse(id: number, name: string, company: number): void {
      make('stock.warehouse', id, { name, code: name.slice(0, 5), company_id: company });
      make('stock.picking.type', id + 7, { ...incoming, warehouse_id: id, company_id: company });
    },
    create: (model: string, values: Record<string, unknown>) =>
      rows.transaction(() => orm.create(model, values, system)),
    companiesOf: (user: number) => (rows.find('res.users', user)?.['company_ids'] ?? [1]) as readonly number[],
    companyOf: (user: number) => Number(rows.find('res.users', user)?.['company_id'] ?? 1),
  };
}

const groups =
  '\n\nThis operation is allowed for the following groups:\n\t- Access Rights\n\nContact your administrator';

/** Why the user may not call the method; undefined: the user may. */
export function mayCall(user: number, model: string, method: string): string | undefined {
  if (user === users.admin || method === 'has_access') return undefined;
  const isWrite = ['create', 'write', 'unlink', 'load'].includes(method);
  const verb = isWrite ? 'create' : 'access';
  const isWeak = user === users.weak && (model.startsWith('purchase.') || (isWrite && model !== 'ir.attachment'));
  const isNames = model === 'ir.model.data' && method !== 'check_object_reference';
  const isKept = isWrite && (model.startsWith('stock.') || model.startsWith('res.users') || model.startsWith('res.c'));
  return isWeak || isNames || isKept ? `You are not allowed to ${verb} '${model}' records.${groups}` : undefined;
}
