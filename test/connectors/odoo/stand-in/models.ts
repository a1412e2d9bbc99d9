/**
 * The models and fields of Odoo 19 that the stand-in has. Names, types and which field is required are those of the
 * recorded `fields_get` answers and of the recorded exchanges.
 */
export type FieldType =
  | 'char'
  | 'text'
  | 'html'
  | 'integer'
  | 'float'
  | 'monetary'
  | 'boolean'
  | 'date'
  | 'datetime'
  | 'selection'
  | 'many2one'
  | 'one2many'
  | 'many2many'
  | 'binary';

export interface Field {
  readonly type: FieldType;
  readonly label: string;
  readonly required?: boolean;
  /** The model of a relation. */
  readonly relation?: string;
  /** one2many: the field of that model that points back. */
  readonly inverse?: string;
  readonly options?: readonly string[];
  readonly default?: unknown;
  /** Computed by `computed-fields.ts` when it is read; a write of it is ignored. */
  readonly computed?: boolean;
}

export interface Model {
  readonly label: string;
  readonly fields: Readonly<Record<string, Field>>;
  readonly order: string;
}

type More = Omit<Partial<Field>, 'type' | 'label'>;
const field = (type: FieldType, label: string, more: More = {}): Field => ({ type, label, ...more });
const char = (label: string, more?: More) => field('char', label, more);
const float = (label: string, more?: More) => field('float', label, { default: 0, ...more });
const integer = (label: string, more?: More) => field('integer', label, { default: 0, ...more });
const flag = (label: string, value: boolean) => field('boolean', label, { default: value });
const one = (relation: string, label: string, more: More = {}) => field('many2one', label, { relation, ...more });
const many = (relation: string, inverse: string, label: string) => field('one2many', label, { relation, inverse });
const choice = (label: string, options: readonly string[], more: More = {}) =>
  field('selection', label, { options, ...more });

const audit: Readonly<Record<string, Field>> = {
  id: field('integer', 'ID', {}),
  display_name: char('Display Name', { computed: true }),
  create_date: field('datetime', 'Created on'),
  write_date: field('datetime', 'Last Updated on'),
  create_uid: one('res.users', 'Created by'),
  write_uid: one('res.users', 'Last Updated by'),
};

function model(label: string, fields: Readonly<Record<string, Field>>, order = 'id asc'): Model {
  return { label, fields: { ...audit, ...fields }, order };
}

const orderStates = ['draft', 'sent', 'to approve', 'purchase', 'cancel'];

export const models: Readonly<Record<string, Model>> = {
  'res.users': model('User', {
    name: char('Name'),
    login: char('Login'),
    tz: char('Timezone'),
    company_id: one('res.company', 'Company'),
    company_ids: field('many2many', 'Companies', { relation: 'res.company' }),
  }),
  'res.users.apikeys': model('Users API Keys', {
    name: char('Description'),
    user_id: one('res.users', 'User'),
    expiration_date: field('datetime', 'Expiration Date'),
  }),
  'res.company': model('Companies', {
    name: char('Company Name'),
    currency_id: one('res.currency', 'Currency'),
    partner_id: one('res.partner', 'Partner'),
  }),
  'res.country': model('Country', { name: char('Country Name'), code: char('Country Code') }),
  'res.currency': model('Currency', {
    name: char('Currency'),
    rate: float('Current Rate', { default: 1 }),
    active: flag('Active', true),
    decimal_places: integer('Decimal Places', { default: 2 }),
    rate_ids: many('res.currency.rate', 'currency_id', 'Rates'),
  }),
  'res.currency.rate': model('Currency Rate', {
    currency_id: one('res.currency', 'Currency', { required: true }),
    rate: float('Technical Rate'),
  }),
  'res.partner': model('Contact', {
    name: char('Name'),
    ref: char('Reference'),
    active: flag('Active', true),
    supplier_rank: integer('Supplier Rank'),
    is_company: flag('Is a Company', false),
    vat: char('Tax ID'),
    email: char('Email'),
    phone: char('Phone'),
    website: char('Website'),
    street: char('Street'),
    street2: char('Street2'),
    city: char('City'),
    zip: char('Zip'),
    country_id: one('res.country', 'Country'),
    parent_id: one('res.partner', 'Related Company'),
    child_ids: many('res.partner', 'parent_id', 'Contact'),
    type: choice('Address Type', ['contact', 'invoice', 'delivery', 'other'], { default: 'contact' }),
    company_id: one('res.company', 'Company'),
    property_supplier_payment_term_id: one('account.payment.term', 'Vendor Payment Terms'),
    property_account_position_id: one('account.fiscal.position', 'Fiscal Position'),
    buyer_id: one('res.users', 'Buyer'),
  }),
  'account.payment.term': model('Payment Terms', { name: char('Payment Terms', { required: true }) }),
  'account.fiscal.position': model('Fiscal Position', {
    name: char('Fiscal Position', { required: true }),
    auto_apply: flag('Detect Automatically', false),
    country_id: one('res.country', 'Country'),
    company_id: one('res.company', 'Company'),
  }),
  'uom.uom': model(
    'Product Unit of Measure',
    {
      sequence: integer('Sequence'),
      name: char('Unit Name', { required: true }),
      factor: float('Absolute Quantity', { default: 1 }),
      relative_factor: float('Contains', { default: 1 }),
      relative_uom_id: one('uom.uom', 'Reference Unit'),
      rounding: float('Rounding Precision', { default: 0.01 }),
      active: flag('Active', true),
    },
    'sequence asc, id asc',
  ),
  'product.template': model('Product', {
    name: char('Name', { required: true }),
    default_code: char('Internal Reference'),
    active: flag('Active', true),
  }),
  'product.product': model(
    'Product Variant',
    {
      name: char('Name', { required: true }),
      default_code: char('Internal Reference'),
      active: flag('Active', true),
      purchase_ok: flag('Purchase', true),
      uom_id: one('uom.uom', 'Unit', { required: true }),
      standard_price: float('Cost'),
      product_tmpl_id: one('product.template', 'Product Template', { required: true }),
      seller_ids: many('product.supplierinfo', 'product_id', 'Vendors'),
      company_id: one('res.company', 'Company'),
    },
    'default_code asc, id asc',
  ),
  'product.supplierinfo': model(
    'Supplier Pricelist',
    {
      partner_id: one('res.partner', 'Vendor', { required: true }),
      product_tmpl_id: one('product.template', 'Product Template'),
      product_id: one('product.product', 'Product Variant'),
      product_name: char('Vendor Product Name'),
      product_code: char('Vendor Product Code'),
      min_qty: float('Quantity'),
      price: float('Unit Price'),
      discount: float('Discount (%)'),
      currency_id: one('res.currency', 'Currency', { required: true }),
      date_start: field('date', 'Start Date'),
      date_end: field('date', 'End Date'),
      delay: integer('Lead Time', { default: 1 }),
      product_uom_id: one('uom.uom', 'Unit'),
      purchase_requisition_line_id: one('purchase.requisition.line', 'Purchase Requisition Line'),
      company_id: one('res.company', 'Company'),
    },
    'min_qty desc, price asc, id asc',
  ),
  'purchase.order': model(
    'Purchase Order',
    {
      name: char('Order Reference', { required: true }),
      origin: char('Source'),
      partner_ref: char('Vendor Reference'),
      partner_id: one('res.partner', 'Vendor', { required: true }),
      date_order: field('datetime', 'Order Deadline', { required: true }),
      date_approve: field('datetime', 'Confirmation Date'),
      date_planned: field('datetime', 'Expected Arrival'),
      currency_id: one('res.currency', 'Currency', { required: true }),
      company_id: one('res.company', 'Company', { required: true }),
      picking_type_id: one('stock.picking.type', 'Deliver To', { required: true }),
      user_id: one('res.users', 'Buyer'),
      payment_term_id: one('account.payment.term', 'Payment Terms'),
      fiscal_position_id: one('account.fiscal.position', 'Fiscal Position'),
      state: choice('Status', orderStates, { default: 'draft' }),
      locked: flag('Locked', false),
      note: field('html', 'Terms and Conditions'),
      order_line: many('purchase.order.line', 'order_id', 'Order Lines'),
      invoice_ids: field('many2many', 'Bills', { relation: 'res.users', computed: true }),
      invoice_count: integer('Bill Count'),
      invoice_status: choice('Billing Status', ['no', 'to invoice', 'invoiced'], { default: 'no' }),
      receipt_status: choice('Receipt Status', ['pending', 'partial', 'full']),
      picking_ids: field('many2many', 'Receptions', { relation: 'stock.picking', computed: true }),
      incoming_picking_count: integer('Incoming Shipment count', { computed: true }),
      requisition_id: one('purchase.requisition', 'Agreement'),
      purchase_group_id: one('purchase.order.group', 'Purchase Group'),
      alternative_po_ids: field('one2many', 'Alternative POs', { relation: 'purchase.order', computed: true }),
      amount_untaxed: field('monetary', 'Untaxed Amount', { computed: true }),
      amount_total: field('monetary', 'Total', { computed: true }),
    },
    'id desc',
  ),
  'purchase.order.line': model('Purchase Order Line', {
    name: field('text', 'Description', { required: true }),
    order_id: one('purchase.order', 'Order Reference', { required: true }),
    product_id: one('product.product', 'Product'),
    product_qty: float('Quantity', { required: true }),
    product_uom_qty: float('Total Quantity', { computed: true }),
    product_uom_id: one('uom.uom', 'Unit'),
    price_unit: float('Unit Price', { required: true }),
    technical_price_unit: float('Technical Price Unit'),
    discount: float('Discount (%)'),
    price_subtotal: field('monetary', 'Amount', { computed: true }),
    date_planned: field('datetime', 'Expected Arrival'),
    display_type: choice('Display Type', ['line_section', 'line_note']),
    tax_ids: field('many2many', 'Taxes', { relation: 'res.users', default: [] }),
    qty_received: float('Received Qty'),
    qty_invoiced: float('Billed Qty'),
  }),
  'purchase.order.group': model('Technical model to group PO for call to tenders', {
    order_ids: many('purchase.order', 'purchase_group_id', 'Order'),
  }),
  'purchase.requisition': model(
    'Purchase Requisition',
    {
      name: char('Agreement', { required: true }),
      reference: char('Reference'),
      vendor_id: one('res.partner', 'Vendor'),
      requisition_type: choice('Agreement Type', ['blanket_order', 'purchase_template'], {
        required: true,
        default: 'blanket_order',
      }),
      state: choice('Status', ['draft', 'confirmed', 'done', 'cancel'], { required: true, default: 'draft' }),
      active: flag('Active', true),
      date_start: field('date', 'Start Date'),
      date_end: field('date', 'End Date'),
      currency_id: one('res.currency', 'Currency', { required: true }),
      company_id: one('res.company', 'Company', { required: true }),
      user_id: one('res.users', 'Purchase Representative'),
      description: field('html', 'Description'),
      line_ids: many('purchase.requisition.line', 'requisition_id', 'Products to Purchase'),
    },
    'id desc',
  ),
  'purchase.requisition.line': model('Purchase Requisition Line', {
    requisition_id: one('purchase.requisition', 'Purchase Agreement', { required: true }),
    product_id: one('product.product', 'Product', { required: true }),
    product_qty: float('Quantity'),
    product_uom_id: one('uom.uom', 'Unit'),
    price_unit: float('Unit Price'),
    product_description_variants: char('Description'),
  }),
  'ir.attachment': model(
    'Attachment',
    {
      name: char('Name', { required: true }),
      description: field('text', 'Description'),
      res_model: char('Resource Model'),
      res_id: integer('Resource ID'),
      datas: field('binary', 'File Content (base64)'),
      mimetype: char('Mime Type'),
      file_size: integer('File Size', { computed: true }),
      checksum: char('Checksum/SHA1', { computed: true }),
    },
    'id desc',
  ),
  'ir.model.data': model('Model Data', {
    module: char('Module', { required: true }),
    name: char('External Identifier', { required: true }),
    model: char('Model Name', { required: true }),
    res_id: integer('Record ID'),
  }),
  'mail.message': model('Message', { body: field('html', 'Contents'), model: char('Model'), res_id: integer('ID') }),
  'stock.warehouse': model('Warehouse', {
    name: char('Warehouse', { required: true }),
    code: char('Short Name', { required: true }),
    company_id: one('res.company', 'Company', { required: true }),
  }),
  'stock.picking.type': model('Picking Type', {
    name: char('Operation Type', { required: true }),
    code: choice('Type of Operation', ['incoming', 'outgoing', 'internal']),
    warehouse_id: one('stock.warehouse', 'Warehouse'),
    company_id: one('res.company', 'Company'),
  }),
  'stock.picking': model('Transfer', {
    purchase_id: one('purchase.order', 'Purchase Orders'),
    picking_type_code: char('Type of Operation'),
    state: char('Status', { default: 'assigned' }),
  }),
  'stock.move': model('Stock Move', {
    purchase_line_id: one('purchase.order.line', 'Purchase Order Line'),
    product_id: one('product.product', 'Product'),
    picking_id: one('stock.picking', 'Transfer'),
    picking_code: char('Type of Operation'),
    product_uom_qty: float('Demand'),
    price_unit: float('Unit Price'),
    state: char('Status', { default: 'assigned' }),
  }),
};

/** Models whose many2one shows another text than `name`. */
export const displayFields: Readonly<Record<string, string>> = { 'purchase.order.line': 'name' };
