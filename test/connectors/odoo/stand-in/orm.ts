/** What every model of Odoo can do: create, write, unlink, search, read. Checks only what Odoo checks. */
import { compileDomain } from './domains.ts';
import { accessError, missingError, OdooFault, userError, validationError, valueError } from './faults.ts';
import { type Field, models } from './models.ts';
import { createPurchases } from './purchases.ts';
import type { Row, Rows } from './rows.ts';
import { textOf } from './text-of.ts';
import { users } from './users.ts';

export interface Caller {
  readonly user: number;
  /** The companies whose records the call sees. */
  readonly companies: readonly number[];
  /** The company of new records. */
  readonly company: number;
  readonly activeTest: boolean;
  /** The time zone of what `load` reads; all other calls speak UTC. */
  readonly zone: string;
}

/** A constraint of a custom module: returns why it refuses the row, or undefined. */
export type Constraint = (model: string, row: Row) => string | undefined;

export type Orm = ReturnType<typeof createOrm>;

export function createOrm(rows: Rows, constraints: readonly Constraint[]) {
  const purchases = createPurchases(rows);
  const modelOf = (model: string) => models[model] as NonNullable<(typeof models)[string]>;

  /** The highest numbers of deleted records: a sequence gives none out again. */
  const lastDeleted = new Map<string, number>();

  function get(model: string, id: number): Row {
    const row = rows.find(model, id);
    if (!row) throw missingError(model, id);
    return row;
  }

  /** The value as it is stored. Throws what Odoo throws for a value of the wrong kind. */
  function converted(model: string, name: string, field: Field, value: unknown): unknown {
    if (value === null || value === false || value === undefined || value === '')
      return ['float', 'integer', 'monetary'].includes(field.type) ? 0 : false;
    switch (field.type) {
      case 'float':
      case 'monetary':
      case 'integer': {
        const number = Number(value);
        if (Number.isNaN(number)) throw valueError(`could not convert string to float: '${textOf(value)}'`);
        return number;
      }
      case 'boolean':
        return Boolean(value);
      case 'datetime':
      case 'date':
        return checkedTime(textOf(value), field.type);
      case 'selection':
        if (!field.options?.includes(textOf(value)))
          throw valueError(`Wrong value for ${model}.${name}: '${textOf(value)}'`);
        return value;
      case 'many2one':
        return get(field.relation as string, Number(value)).id;
      default:
        return textOf(value);
    }
  }

  function split(model: string, values: Record<string, unknown>) {
    const own: Record<string, unknown> = {};
    const commands: [string, Field, readonly (readonly unknown[])[]][] = [];
    for (const [name, value] of Object.entries(values)) {
      const field = modelOf(model).fields[name];
      if (!field) throw valueError(`Invalid field '${name}' in '${model}'`);
      if (field.type === 'one2many' || field.type === 'many2many') commands.push([name, field, value as never]);
      else if (!field.computed && name !== 'id') own[name] = converted(model, name, field, value);
    }
    return { own, commands };
  }

  function create(model: string, values: Record<string, unknown>, caller: Caller): Row {
    const { own, commands } = split(model, values);
    if (model === 'ir.attachment') {
      neutralise(own, caller);
      if (!own['datas']) delete own['datas'];
    }
    const filled = { ...defaultsOf(model, own, caller), ...own };
    fillIn(model, filled);
    if (model === 'purchase.order.line' && filled['product_id'] && own['price_unit'] === undefined)
      filled['price_unit'] = purchases.priceOf({ id: 0, ...filled });
    requireAll(model, filled);
    const row = rows.insert(model, filled, caller.user);
    if (model === 'purchase.order.line') purchases.lineCreated(row, caller.user);
    for (const [name, field, list] of commands) apply(model, row, name, field, list, caller);
    check(model, row);
    return row;
  }

  /** `priced`: lines that were written in the same call, with their price. */
  function write(
    model: string,
    row: Row,
    values: Record<string, unknown>,
    caller: Caller,
    priced: readonly number[] = [],
  ): void {
    const { own, commands } = split(model, values);
    requireAll(model, { ...row, ...own });
    rows.update(model, row, own, caller.user);
    if (model === 'purchase.order.line') purchases.lineWritten(row, own, caller.user);
    for (const [name, field, list] of commands) apply(model, row, name, field, list, caller);
    const pricedHere = commands.flatMap(([, , list]) =>
      list.flatMap(([, id, line]) => (typeof line === 'object' && line && 'price_unit' in line ? [Number(id)] : [])),
    );
    if (model === 'purchase.order') purchases.orderWritten(row, own, new Set([...priced, ...pricedHere]));
    check(model, row);
  }

  function unlink(model: string, row: Row): void {
    if (model === 'purchase.order' && row['state'] !== 'cancel')
      throw userError('In order to delete a purchase order, you must cancel it first.');
    if (model === 'purchase.order.line' && get('purchase.order', Number(row['order_id']))['state'] === 'purchase')
      throw userError('Cannot delete a purchase order line which is in state “Purchase Order”.');
    if (model === 'res.partner' && rows.all('purchase.order').some(({ partner_id }) => partner_id === row.id))
      throw validationError('Another model is using the record you are trying to delete.');
    for (const [name, field] of Object.entries(modelOf(model).fields))
      if (field.type === 'one2many' && !field.computed && field.relation)
        for (const id of rows.valueOf(model, row, name) as number[]) {
          const child = rows.find(field.relation, id);
          const needsParent = modelOf(field.relation).fields[field.inverse ?? '']?.required === true;
          if (child && needsParent) rows.remove(field.relation, child);
        }
    const number = Number(/\d+$/.exec(textOf(row['name'] ?? ''))?.[0] ?? 0);
    lastDeleted.set(model, Math.max(lastDeleted.get(model) ?? 0, number));
    rows.remove(model, row);
  }

  /** The commands of a one2many: [0, 0, values], [1, id, values], [2, id, 0], [4, id]. */
  function apply(
    model: string,
    row: Row,
    name: string,
    field: Field,
    list: readonly (readonly unknown[])[],
    caller: Caller,
  ): void {
    const relation = field.relation as string;
    if (name === 'alternative_po_ids') return joinAlternatives(row, list, caller);
    for (const [command, id, values] of list) {
      if (name === 'company_ids') {
        const held = (row[name] || []) as number[];
        rows.update(model, row, { [name]: [...new Set([...held, Number(id)])] }, caller.user);
      } else if (command === 0) create(relation, { ...(values as object), [field.inverse as string]: row.id }, caller);
      else if (command === 1) write(relation, get(relation, Number(id)), values as Record<string, unknown>, caller);
      else if (command === 2) unlink(relation, get(relation, Number(id)));
      else throw valueError(`Command ${String(command)} is not supported here`);
    }
  }

  function joinAlternatives(row: Row, list: readonly (readonly unknown[])[], caller: Caller): void {
    const others = list.map(([, id]) => get('purchase.order', Number(id)));
    const known = [row, ...others].map((order) => order['purchase_group_id']).find((group) => group);
    const group = known || create('purchase.order.group', {}, caller).id;
    for (const order of [row, ...others])
      rows.update('purchase.order', order, { purchase_group_id: group }, caller.user);
  }

  function defaultsOf(model: string, own: Record<string, unknown>, caller: Caller): Record<string, unknown> {
    const values: Record<string, unknown> = {};
    for (const [name, field] of Object.entries(modelOf(model).fields))
      if (field.default !== undefined) values[name] = field.default;
    const company = Number(own['company_id'] ?? caller.company);
    if (['purchase.order', 'purchase.requisition', 'product.supplierinfo'].includes(model))
      values['currency_id'] = rows.find('res.company', company)?.['currency_id'] ?? false;
    if (model === 'purchase.order' || model === 'purchase.requisition') {
      values['company_id'] = company;
      values['user_id'] = caller.user;
      const prefix = model === 'purchase.order' ? 'P' : 'BO';
      const numbers = rows.all(model).map(({ name }) => Number(/\d+$/.exec(textOf(name))?.[0] ?? 0));
      const last = Math.max(0, lastDeleted.get(model) ?? 0, ...numbers);
      values['name'] = `${prefix}${String(last + 1).padStart(5, '0')}`;
    }
    if (model === 'purchase.order') {
      values['date_order'] = rows.stamp().slice(0, 19);
      values['picking_type_id'] =
        rows.all('stock.picking.type').find((type) => type['company_id'] === company && type['code'] === 'incoming')
          ?.id ?? false;
    }
    return values;
  }

  /** What Odoo computes for a new record from its other fields. */
  function fillIn(model: string, values: Record<string, unknown>): void {
    if (model === 'purchase.order') values['date_planned'] ||= values['date_order'];
    const product = rows.find('product.product', values['product_id']);
    if (model === 'product.supplierinfo') {
      values['product_tmpl_id'] ||= product?.['product_tmpl_id'] ?? false;
      values['product_uom_id'] ||= product?.['uom_id'] ?? false;
    }
    if (model === 'purchase.requisition.line') values['product_uom_id'] ||= product?.['uom_id'] ?? false;
    if (model !== 'purchase.order.line' || !product) return;
    const order = rows.find('purchase.order', values['order_id']);
    values['name'] ||= rows.displayName('product.product', product);
    values['product_uom_id'] ||= product['uom_id'];
    values['date_planned'] ||= order?.['date_order'];
  }

  /** A page of a user who is no administrator becomes a text, and only who may write to a record may attach to it. */
  function neutralise(values: Record<string, unknown>, { user }: Caller): void {
    if (user === users.admin) return;
    if (values['mimetype'] === 'text/html') values['mimetype'] = 'text/plain';
    if (values['res_model'] === 'res.company')
      throw accessError("Sorry, you are not allowed to access this document. 'res.company' (write)");
  }

  function requireAll(model: string, values: Record<string, unknown>): void {
    if (model === 'res.partner' && !values['name'] && values['type'] === 'contact')
      throw validationError('Contacts require a name');
    for (const [name, field] of Object.entries(modelOf(model).fields))
      if (field.required && (values[name] === undefined || values[name] === false))
        throw validationError(
          `${missingValue} for the field '${field.label}' (${name}).\nModel: '${modelOf(model).label}' (${model})`,
        );
  }

  function check(model: string, row: Row): void {
    for (const constraint of constraints) {
      const refused = constraint(model, row);
      if (refused !== undefined) throw new OdooFault(422, 'odoo.exceptions.ValidationError', refused);
    }
  }

  function search(model: string, domain: readonly unknown[], caller: Caller, page: Page = {}): Row[] {
    const { activeTest, companies } = caller;
    const named = JSON.stringify(domain).includes('"active"');
    const test = compileDomain(rows, model, domain);
    const { fields, order } = modelOf(model);
    const found = rows.all(model).filter((row) => {
      if (activeTest && !named && 'active' in fields && row['active'] !== true) return false;
      if ('company_id' in fields && row['company_id'] && !companies.includes(Number(row['company_id']))) return false;
      return test(row);
    });
    const from = page.offset ?? 0;
    return sorted(found, page.order || order).slice(from, page.limit ? from + page.limit : undefined);
  }

  /** The record as it is shown: relations with their names, times without microseconds. */
  function shown(model: string, row: Row, names: readonly string[]): Record<string, unknown> {
    const result: Record<string, unknown> = { id: row.id };
    for (const name of names) {
      const field = modelOf(model).fields[name];
      if (!field) throw valueError(`Invalid field '${name}' on '${model}'`);
      const value = rows.valueOf(model, row, name);
      if (field.type === 'many2one') {
        const other = rows.find(field.relation as string, value);
        result[name] = other ? [other.id, rows.displayName(field.relation as string, other)] : false;
      } else result[name] = field.type === 'datetime' && typeof value === 'string' ? value.slice(0, 19) : value;
    }
    return result;
  }

  return { get, create, write, unlink, search, shown, modelOf, purchases };
}

/** How Odoo's message begins; `load` names the field beside it. */
export const missingValue = 'Missing required value';

interface Page {
  readonly offset?: number;
  readonly limit?: number;
  readonly order?: string;
}

function sorted(found: Row[], order: string): Row[] {
  const keys = order.split(',').map((part) => part.trim().split(/\s+/));
  return found.sort((a, b) => {
    for (const [name = 'id', direction = 'asc'] of keys) {
      const [left, right] = [a[name] as never, b[name] as never];
      if (left !== right) return left < right === (direction === 'asc') ? -1 : 1;
    }
    return 0;
  });
}

/** Odoo's own forms only: `2026-12-01`, and for a datetime also `2026-12-01 10:00:00`. */
export function checkedTime(text: string, type: 'date' | 'datetime'): string {
  const isForm = /^\d{4}-\d{2}-\d{2}( \d{2}:\d{2}:\d{2})?$/.test(text);
  if (!isForm || Number.isNaN(Date.parse(`${text.replace(' ', 'T')}${text.length > 10 ? 'Z' : ''}`)))
    throw valueError(
      `time data '${text}' does not match format '${text.length > 10 ? '%Y-%m-%d %H:%M:%S' : '%Y-%m-%d'}'`,
    );
  if (type === 'date') return text.slice(0, 10);
  return text.length === 10 ? `${text} 00:00:00` : text;
}
