/** The methods that the recorded exchanges call, as `/json/2` finds them: by model and name. */
import { accessError, notFound, OdooFault, userError, valueError } from './faults.ts';
import { type Loaded, load } from './load.ts';
import { models } from './models.ts';
import type { Caller, Orm } from './orm.ts';
import type { Row, Rows } from './rows.ts';
import { mayCall } from './seed.ts';
import { textOf } from './text-of.ts';

export interface Call {
  readonly model: string;
  readonly method: string;
  readonly ids: readonly number[];
  readonly args: Readonly<Record<string, unknown>>;
  readonly context: Readonly<Record<string, unknown>>;
  readonly caller: Caller;
}

export interface MethodDeps {
  readonly rows: Rows;
  readonly orm: Orm;
  readonly conflict: (externalIds: readonly string[]) => string | undefined;
  /** Orders of at least this amount are to be approved when they are confirmed. */
  readonly approveFrom: () => number;
}

type Method = (call: Call, deps: MethodDeps) => unknown;

const list = (value: unknown): readonly never[] => (Array.isArray(value) ? (value as never[]) : []);

/** A required argument; Odoo names the first that is missing. */
function argument({ args }: Call, name: string): unknown {
  if (args[name] === undefined)
    throw new OdooFault(422, 'werkzeug.exceptions.UnprocessableEntity', `missing a required argument: '${name}'`);
  return args[name];
}

const valuesOf = (call: Call) => argument(call, 'vals_list') as Record<string, unknown>[];

const page = ({ args }: Call) => ({
  ...(typeof args['offset'] === 'number' ? { offset: args['offset'] } : {}),
  ...(typeof args['limit'] === 'number' ? { limit: args['limit'] } : {}),
  ...(typeof args['order'] === 'string' ? { order: args['order'] } : {}),
});
const rowsOf = ({ model, ids }: Call, { orm }: MethodDeps) => ids.map((id) => orm.get(model, id));
const setAll = (call: Call, deps: MethodDeps, values: Record<string, unknown>) => {
  for (const row of rowsOf(call, deps)) deps.rows.update(call.model, row, values, call.caller.user);
};

const common: Readonly<Record<string, Method>> = {
  create: (call, { orm }) =>
    valuesOf(call).map((values) => {
      if (call.model === 'ir.attachment') checkTarget(values, orm);
      return orm.create(call.model, values, call.caller).id;
    }),
  write: (call, deps) => {
    const values = argument(call, 'vals') as Record<string, unknown>;
    for (const row of rowsOf(call, deps)) deps.orm.write(call.model, row, values, call.caller);
    return true;
  },
  unlink: (call, deps) => {
    for (const row of rowsOf(call, deps)) deps.orm.unlink(call.model, row);
    return true;
  },
  read: (call, { rows, orm }) =>
    call.ids.flatMap((id) => {
      const row = rows.find(call.model, id);
      return row ? [orm.shown(call.model, row, list(call.args['fields']))] : [];
    }),
  has_access: (call) => {
    const method = { read: 'search_read', create: 'create', write: 'write', unlink: 'unlink' }[
      textOf(call.args['operation'])
    ];
    if (method === undefined) throw valueError('Invalid operation');
    return mayCall(call.caller.user, call.model, method) === undefined;
  },
  search: (call, { orm }) =>
    orm.search(call.model, list(call.args['domain']), call.caller, page(call)).map(({ id }) => id),
  search_count: (call, { orm }) => orm.search(call.model, list(call.args['domain']), call.caller).length,
  search_read: (call, { orm }) =>
    orm
      .search(call.model, list(call.args['domain']), call.caller, page(call))
      .map((row) => orm.shown(call.model, row, list(call.args['fields']))),
  fields_get: ({ model, args }) => {
    const attributes: readonly string[] = list(args['attributes']);
    return Object.fromEntries(
      Object.entries(models[model]?.fields ?? {}).map(([name, { type, required = false }]) => {
        const all: Record<string, unknown> = { type, required, readonly: false };
        return [name, Object.fromEntries(attributes.map((attribute) => [attribute, all[attribute]]))];
      }),
    );
  },
  get_external_id: ({ model, ids }, { rows }) =>
    Object.fromEntries(
      ids.map((id) => [
        String(id),
        [...rows.externalIds].find(([, named]) => named.model === model && named.id === id)?.[0] ?? '',
      ]),
    ),
  load: (call, { rows, orm, conflict }): Loaded => {
    const loaded = load(
      call.model,
      argument(call, 'fields') as string[],
      argument(call, 'data') as unknown[][],
      { rows, orm, conflict },
      call.caller,
    );
    if (call.model === 'ir.attachment' && !call.context['image_no_postprocess'])
      for (const id of loaded.ids || []) shrink(orm.get(call.model, id));
    return loaded;
  },
  message_post: (call, { orm }) => {
    // A text becomes HTML.
    const body = `<p>${String(call.args['body']).replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')}</p>`;
    const bodies = call.ids.map((id) => ({ body, model: call.model, res_id: id }));
    return bodies.map((values) => orm.create('mail.message', values, call.caller).id);
  },
  action_archive: (call, deps) => {
    setAll(call, deps, { active: false });
    return null;
  },
  action_unarchive: (call, deps) => {
    setAll(call, deps, { active: true });
    return null;
  },
};

const special: Readonly<Record<string, Readonly<Record<string, Method>>>> = {
  'res.users': {
    context_get: ({ caller }, { rows }) => ({
      lang: 'en_US',
      tz: rows.find('res.users', caller.user)?.['tz'] ?? false,
      uid: caller.user,
    }),
  },
  'ir.model.data': {
    check_object_reference: (call, { rows }) => {
      const name = `${textOf(argument(call, 'module'))}.${textOf(argument(call, 'xml_id'))}`;
      const found = rows.externalIds.get(name);
      // A deleted record takes its external id with it.
      if (!found || !rows.find(found.model, found.id)) throw valueError(`External ID not found in the system: ${name}`);
      return [found.model, found.id];
    },
    create: (call, { rows, orm }) =>
      valuesOf(call).map((values) => {
        const name = `${String(values['module'])}.${String(values['name'])}`;
        if (rows.externalIds.has(name))
          throw new OdooFault(
            422,
            'odoo.exceptions.ValidationError',
            'The operation cannot be completed: duplicate key value violates unique constraint "ir_model_data_module_name_uniq_index"',
          );
        rows.name(name, String(values['model']), Number(values['res_id']));
        return orm.create(call.model, values, call.caller).id;
      }),
  },
  'purchase.order': {
    onchange: (call, { rows, orm }) => {
      const { partner_id } = argument(call, 'values') as { partner_id?: number };
      const asked = Object.keys(argument(call, 'fields_spec') as object);
      const receipts = rows
        .all('stock.picking.type')
        .find(({ code, company_id }) => code === 'incoming' && company_id === call.caller.company);
      const form = {
        ...orm.purchases.formOf(rows.find('res.partner', partner_id), call.caller.user),
        picking_type_id: receipts?.id ?? false,
      };
      return { value: Object.fromEntries(Object.entries(form).filter(([name]) => asked.includes(name))) };
    },
    button_confirm: (call, deps) => {
      const alternatives = openAlternatives(call, deps);
      if (alternatives.length > 0 && !call.context['skip_alternative_check']) return askAbout(alternatives, call);
      for (const order of rowsOf(call, deps)) confirmOrder(order, call, deps);
      return true;
    },
    button_cancel: (call, deps) => {
      for (const order of rowsOf(call, deps)) cancelOrder(order, call, deps);
      return null;
    },
    button_draft: (call, deps) => {
      setAll(call, deps, { state: 'draft' });
      return {};
    },
    button_lock: (call, deps) => {
      setAll(call, deps, { locked: true });
      return null;
    },
    button_unlock: (call, deps) => {
      setAll(call, deps, { locked: false });
      return null;
    },
  },
  'purchase.requisition': {
    action_confirm: (call, deps) => {
      confirmAgreement(single(call, deps), call, deps);
      return null;
    },
    action_cancel: (call, deps) => {
      const { rows } = deps;
      for (const agreement of rowsOf(call, deps)) {
        for (const order of rows.all('purchase.order'))
          if (order['requisition_id'] === agreement.id) cancelOrder(order, call, deps);
        const lines = rows.valueOf(call.model, agreement, 'line_ids') as number[];
        for (const price of rows.all('product.supplierinfo'))
          if (lines.includes(Number(price['purchase_requisition_line_id']))) rows.remove('product.supplierinfo', price);
        rows.update(call.model, agreement, { state: 'cancel' }, call.caller.user);
      }
      return null;
    },
    action_draft: (call, deps) => {
      deps.rows.update(call.model, single(call, deps), { state: 'draft' }, call.caller.user);
      return null;
    },
  },
  'stock.warehouse': {
    create: (call, deps) =>
      valuesOf(call).map((values) => {
        const { id, ...warehouse } = deps.orm.create(call.model, values, call.caller);
        const { company_id } = warehouse as Record<string, unknown>;
        const receipts = { name: 'Receipts', code: 'incoming', warehouse_id: id, company_id };
        deps.orm.create('stock.picking.type', receipts, call.caller);
        return id;
      }),
  },
  'stock.picking': {
    button_validate: (call, deps) => {
      const { rows } = deps;
      for (const picking of rowsOf(call, deps)) {
        rows.update(call.model, picking, { state: 'done' }, call.caller.user);
        deps.orm.purchases.received(picking, call.caller.user);
        for (const line of rows.all('purchase.order.line'))
          if (line['order_id'] === picking['purchase_id'])
            rows.update('purchase.order.line', line, { qty_received: line['product_qty'] }, call.caller.user);
        const order = rows.find('purchase.order', picking['purchase_id']);
        if (order) rows.update('purchase.order', order, { receipt_status: 'full' }, call.caller.user);
      }
      return true;
    },
  },
};

/** The only record of the call: what Odoo throws for several is a fault of its code. */
function single(call: Call, deps: MethodDeps): Row {
  const [row, ...more] = rowsOf(call, deps);
  if (!row || more.length > 0) throw valueError(`Expected singleton: ${call.model}(${call.ids.join(', ')})`);
  return row;
}

/** Of orders that are to be confirmed: the other open ones of their groups. */
function openAlternatives(call: Call, deps: MethodDeps): number[] {
  const groups = new Set<unknown>(rowsOf(call, deps).flatMap(({ purchase_group_id: group }) => (group ? [group] : [])));
  return deps.rows
    .all('purchase.order')
    .filter(({ id, purchase_group_id: group }) => groups.has(group) && !call.ids.includes(id))
    .filter((order) => ['draft', 'sent', 'to approve'].includes(textOf(order['state'] ?? '')))
    .map(({ id }) => id);
}

/** The dialog "What about the alternative Requests for Quotations?": nothing is confirmed. */
function askAbout(alternatives: readonly number[], { ids }: Call): object {
  return {
    name: 'What about the alternative Requests for Quotations?',
    type: 'ir.actions.act_window',
    view_mode: 'form',
    res_model: 'purchase.requisition.alternative.warning',
    views: [[1, 'form']],
    target: 'new',
    context: { default_alternative_po_ids: alternatives, default_po_ids: ids },
  };
}

/** Also one that was received. */
function cancelOrder(order: Row, { caller }: Call, { rows, orm }: MethodDeps): void {
  const refusal = `Unable to cancel purchase order(s): ${String(order['name'])}. You must first`;
  if (order['locked']) throw userError(`${refusal} unlock them.`);
  if (Number(order['invoice_count']) > 0) throw userError(`${refusal} cancel their related vendor bills.`);
  rows.update('purchase.order', order, { state: 'cancel' }, caller.user);
  orm.purchases.cancelled(order, caller.user);
}

/** Confirms an order as it is: it checks no currency, no unit, no quantity; only that each line has a product. */
function confirmOrder(order: Row, { caller }: Call, { rows, orm, approveFrom }: MethodDeps): void {
  if (order['state'] !== 'draft' && order['state'] !== 'sent') return;
  const lines = rows.all('purchase.order.line').filter(({ order_id }) => order_id === order.id);
  if (lines.some(({ product_id, display_type }) => !product_id && !display_type))
    throw userError('Some order lines are missing a product, you need to correct them before going further.');
  if (Number(rows.valueOf('purchase.order', order, 'amount_total')) >= approveFrom())
    return rows.update('purchase.order', order, { state: 'to approve' }, caller.user);
  const approved = { state: 'purchase', date_approve: rows.stamp().slice(0, 19), receipt_status: 'pending' };
  rows.update('purchase.order', order, approved, caller.user);
  orm.purchases.confirmed(order, caller.user);
  for (const line of lines) {
    const product = rows.find('product.product', line['product_id']);
    const isKnown = rows
      .all('product.supplierinfo')
      .some(
        ({ partner_id, product_tmpl_id }) =>
          partner_id === order['partner_id'] && product_tmpl_id === product?.['product_tmpl_id'],
      );
    if (!product || isKnown) continue;
    const { partner_id, currency_id } = order;
    const values = { partner_id, currency_id, product_id: product.id, min_qty: 1, price: line['price_unit'] };
    orm.create('product.supplierinfo', values, caller);
  }
}

function confirmAgreement(agreement: Row, { caller }: Call, { rows, orm }: MethodDeps): void {
  const lines = rows.all('purchase.requisition.line').filter((line) => line['requisition_id'] === agreement.id);
  if (lines.length === 0)
    throw userError(
      `You cannot confirm agreement '${String(agreement['name'])}' because it does not contain any product lines.`,
    );
  if (lines.some(({ price_unit }) => price_unit === 0))
    throw userError('You cannot confirm a blanket order with lines missing a price.');
  if (lines.some(({ product_qty }) => product_qty === 0))
    throw userError('You cannot confirm a blanket order with lines missing a quantity.');
  rows.update('purchase.requisition', agreement, { state: 'confirmed' }, caller.user);
  for (const line of lines)
    orm.create(
      'product.supplierinfo',
      {
        partner_id: agreement['vendor_id'],
        currency_id: agreement['currency_id'],
        product_id: line['product_id'],
        price: line['price_unit'],
        purchase_requisition_line_id: line.id,
      },
      caller,
    );
}

function checkTarget(values: Record<string, unknown>, orm: Orm): void {
  const { res_model: model, res_id: id } = values;
  if (typeof model !== 'string' || !id) return;
  try {
    orm.get(model, Number(id));
  } catch {
    throw accessError('Sorry, you are not allowed to access this document.');
  }
}

/** Odoo makes pictures of more than 1920 pixels smaller, unless it is told not to. Here only a PNG's header is changed. */
function shrink(attachment: Row): void {
  const bytes = Buffer.from(textOf(attachment['datas']), 'base64');
  if (bytes.toString('latin1', 1, 4) !== 'PNG' || bytes.readUInt32BE(16) <= 1_920) return;
  bytes.writeUInt32BE(1_920, 16);
  attachment['datas'] = bytes.toString('base64');
}

/** Throws Odoo's error for a model or method that does not exist. */
export function run(call: Call, deps: MethodDeps): unknown {
  const { model, method } = call;
  if (method.startsWith('_'))
    throw accessError(`Private methods (such as '${model}.${method}') cannot be called remotely.`);
  if (!models[model]) throw notFound(`the model '${model}' does not exist`);
  const own = special[model]?.[method] ?? common[method];
  if (!own) throw notFound(`The method '${model}.${method}' does not exist`);
  return own(call, deps);
}
