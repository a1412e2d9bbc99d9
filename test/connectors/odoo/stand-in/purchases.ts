/**
 * What Odoo computes of purchase order lines: their price, from the vendor's price list, and the moves of goods of
 * confirmed orders. These are traps that a running Odoo 19 showed:
 *
 * - A price counts as set by hand only while `technical_price_unit` differs from it. `create` makes both the same. So a
 *   change of the vendor, or of a line's quantity or unit, replaces a price that does not come with it.
 * - A change of a confirmed quantity is a move of the difference. It merges with the receipt only at the same price;
 *   else the receipt stays as it is, and a negative difference becomes a transfer to the vendor.
 * - A change of the product or unit of a confirmed line leaves its receipt as it is.
 * - Of an order on an agreement, the same change replaces price and text by the agreement's, also a price set by hand.
 */
import type { Row, Rows } from './rows.ts';
import { textOf } from './text-of.ts';

const lineModel = 'purchase.order.line';

export function createPurchases(rows: Rows) {
  const update = (line: Row, values: Record<string, unknown>) =>
    rows.update(lineModel, line, values, Number(line['write_uid']));
  const orderOf = (line: Row) => rows.find('purchase.order', line['order_id']);

  /** The entry of the vendor's price list for the line: of entries that fit, also by their unit, the one with the highest quantity. */
  function sellerOf(line: Row): Row | undefined {
    const [quantity, order] = [Number(line['product_qty']), orderOf(line)];
    const day = textOf(order?.['date_order'] ?? '').slice(0, 10);
    const product = rows.find('product.product', line['product_id']);
    return entriesOf(line)
      .filter(({ product_uom_id: unit }) => unit === line['product_uom_id'] || unit === product?.['uom_id'])
      .filter((entry) => Number(entry['min_qty']) <= quantity)
      .filter(({ date_start, date_end }) => (!date_start || date_start <= day) && (!date_end || date_end >= day))
      .sort((a, b) => Number(b['min_qty']) - Number(a['min_qty']) || Number(a['price']) - Number(b['price']))[0];
  }

  /** Every entry of the vendor for the line's product. */
  function entriesOf(line: Row): Row[] {
    const product = rows.find('product.product', line['product_id']);
    const vendor = orderOf(line)?.['partner_id'];
    return rows
      .all('product.supplierinfo')
      .filter((entry) => entry['partner_id'] === vendor && entry['product_tmpl_id'] === product?.['product_tmpl_id'])
      .filter((entry) => !entry['product_id'] || entry['product_id'] === product?.id);
  }

  const factorOf = (unit: unknown) => Number(rows.find('uom.uom', unit)?.['factor'] ?? 1);
  const rateOf = (currency: unknown) => Number(rows.find('res.currency', currency)?.['rate'] ?? 1);

  /** In the line's unit and currency. */
  function listPriceOf(line: Row, seller: Row): number {
    const price = (Number(seller['price']) / rateOf(seller['currency_id'])) * rateOf(orderOf(line)?.['currency_id']);
    return (Math.round(price * 100) / 100 / factorOf(seller['product_uom_id'])) * factorOf(line['product_uom_id']);
  }

  /** On an agreement with the line's product, its price and text hold, also where the price was set by hand. */
  function ofAgreement(line: Row): Record<string, unknown> | undefined {
    const agreement = orderOf(line)?.['requisition_id'];
    const own = rows
      .all('purchase.requisition.line')
      .find(({ requisition_id, product_id }) => requisition_id === agreement && product_id === line['product_id']);
    const product = rows.find('product.product', line['product_id']);
    if (!agreement || !own || !product) return undefined;
    const price = (Number(own['price_unit']) / factorOf(own['product_uom_id'])) * factorOf(line['product_uom_id']);
    return { price_unit: price, name: rows.displayName('product.product', product) };
  }

  function recompute(line: Row, { isUnitChanged = false } = {}): void {
    const agreed = ofAgreement(line);
    if (agreed) return update(line, agreed);
    if (!line['product_id'] || line['technical_price_unit'] !== line['price_unit']) return;
    const seller = sellerOf(line);
    if (seller) {
      const price = listPriceOf(line, seller);
      return update(line, { price_unit: price, technical_price_unit: price, discount: seller['discount'] });
    }
    if (entriesOf(line).length === 0 && line['price_unit'] && !isUnitChanged) return;
    const cost = Number(rows.find('product.product', line['product_id'])?.['standard_price'] ?? 0);
    update(line, { price_unit: cost, technical_price_unit: cost, discount: 0 });
  }

  const openMovesOf = (line: Row) =>
    rows
      .all('stock.move')
      .filter(({ purchase_line_id, state }) => purchase_line_id === line.id && state !== 'done' && state !== 'cancel');

  /** Moves the difference between the line's quantity and what its moves bring. */
  function move(line: Row, user: number): void {
    const moved = rows
      .all('stock.move')
      .filter(({ purchase_line_id, state }) => purchase_line_id === line.id && state !== 'cancel')
      .reduce((sum, own) => sum + Number(own['product_uom_qty']) * (own['picking_code'] === 'incoming' ? 1 : -1), 0);
    const quantity = Number(line['product_qty']) - moved;
    if (quantity === 0) return;
    const receipt = openMovesOf(line).find(
      (own) => own['picking_code'] === 'incoming' && own['price_unit'] === line['price_unit'],
    );
    if (receipt && Number(receipt['product_uom_qty']) + quantity >= 0) {
      const left = Number(receipt['product_uom_qty']) + quantity;
      rows.update('stock.move', receipt, { product_uom_qty: left, ...(left === 0 ? { state: 'cancel' } : {}) }, user);
      return;
    }
    const picking_code = quantity > 0 ? 'incoming' : 'outgoing';
    rows.insert(
      'stock.move',
      {
        purchase_line_id: line.id,
        product_id: line['product_id'],
        picking_id: pickingOf(line, picking_code, user).id,
        picking_code,
        product_uom_qty: Math.abs(quantity),
        price_unit: line['price_unit'],
        state: 'assigned',
      },
      user,
    );
  }

  function pickingOf(line: Row, picking_type_code: string, user: number): Row {
    const open = rows
      .all('stock.picking')
      .find(
        (picking) =>
          picking['purchase_id'] === line['order_id'] &&
          picking['picking_type_code'] === picking_type_code &&
          picking['state'] === 'assigned',
      );
    const values = { purchase_id: line['order_id'], picking_type_code, state: 'assigned' };
    return open ?? rows.insert('stock.picking', values, user);
  }

  /** The vendor's own fiscal position, else the one that Odoo detects by the vendor's country. */
  function positionOf(partner: Row | undefined): unknown {
    const detected = rows
      .all('account.fiscal.position')
      .find(({ auto_apply, country_id }) => auto_apply && country_id && country_id === partner?.['country_id']);
    return partner?.['property_account_position_id'] || (detected?.id ?? false);
  }

  /** A fiscal position takes the tax of the company's country away; later changes of the vendor do not touch the line. */
  function taxesOf(line: Row): number[] {
    const order = orderOf(line);
    const position = order?.['fiscal_position_id'] || positionOf(rows.find('res.partner', order?.['partner_id']));
    return line['product_id'] && !position ? [4] : [];
  }

  return {
    /** What the order's form fills in for a vendor; `load` and `create` do not. */
    formOf(partner: Row | undefined, user: number): Record<string, unknown> {
      return {
        payment_term_id: partner?.['property_supplier_payment_term_id'] || false,
        fiscal_position_id: positionOf(partner),
        user_id: partner?.['buyer_id'] || user,
      };
    },
    /** The price of a new line that brings none. */
    priceOf: (line: Row) => {
      const seller = sellerOf(line);
      return seller ? listPriceOf(line, seller) : 0;
    },
    lineCreated(line: Row, user: number): void {
      update(line, { tax_ids: taxesOf(line) });
      if (line['price_unit'] && !line['technical_price_unit'])
        update(line, { technical_price_unit: line['price_unit'] });
      if (orderOf(line)?.['state'] === 'purchase') move(line, user);
    },
    lineWritten(line: Row, values: Record<string, unknown>, user: number): void {
      const isUnitChanged = 'product_uom_id' in values;
      if (!('price_unit' in values) && ('product_qty' in values || isUnitChanged)) recompute(line, { isUnitChanged });
      if (orderOf(line)?.['state'] !== 'purchase') return;
      if ('price_unit' in values)
        for (const own of openMovesOf(line)) rows.update('stock.move', own, { price_unit: line['price_unit'] }, user);
      if ('product_qty' in values) move(line, user);
    },
    /** `priced`: the lines that bring their own price in the same call. */
    orderWritten(order: Row, values: Record<string, unknown>, priced: ReadonlySet<number>): void {
      if (!('partner_id' in values)) return;
      for (const line of rows.all(lineModel))
        if (line['order_id'] === order.id && !priced.has(line.id)) recompute(line);
    },
    confirmed(order: Row, user: number): void {
      for (const line of rows.all(lineModel)) if (line['order_id'] === order.id) move(line, user);
    },
    cancelled(order: Row, user: number): void {
      const lines = new Set(rows.all(lineModel).flatMap((line) => (line['order_id'] === order.id ? [line.id] : [])));
      for (const own of rows.all('stock.move'))
        if (lines.has(Number(own['purchase_line_id'])) && own['state'] !== 'done')
          rows.update('stock.move', own, { state: 'cancel' }, user);
    },
    received(picking: Row, user: number): void {
      for (const own of rows.all('stock.move'))
        if (own['picking_id'] === picking.id && own['state'] !== 'cancel')
          rows.update('stock.move', own, { state: 'done' }, user);
    },
  };
}
