/** What differs between the models that a document with lines may become in Odoo. */
import type { Prefix } from './external-ids.ts';
import type { Cells } from './load.ts';

export interface OrderShape {
  /** As a person calls it. */
  readonly name: string;
  readonly model: string;
  readonly lineModel: string;
  readonly prefix: Prefix;
  readonly linePrefix: Prefix;
  /** The fields of the model. */
  readonly linesField: 'order_line' | 'line_ids';
  readonly parentField: 'order_id' | 'requisition_id';
  readonly vendorField: 'partner_id' | 'vendor_id';
  /** The field with the marker. */
  readonly sourceField: 'origin' | 'reference';
  readonly textField: 'name' | 'product_description_variants';
  /** Whether lines have a day, and may do without a product. */
  readonly hasOrderLines: boolean;
  readonly fixedCells: Cells;
  readonly openStates: ReadonlySet<string>;
  /** The states in which confirming has an effect. */
  readonly confirmFrom: ReadonlySet<string>;
  /** The states that confirming may end with. */
  readonly confirmedStates: ReadonlySet<string>;
  readonly methods: { readonly confirm: string; readonly cancel: string; readonly draft: string };
}

const order = {
  model: 'purchase.order',
  lineModel: 'purchase.order.line',
  linesField: 'order_line',
  parentField: 'order_id',
  vendorField: 'partner_id',
  sourceField: 'origin',
  textField: 'name',
  hasOrderLines: true,
  fixedCells: {},
  openStates: new Set(['draft', 'sent', 'to approve']),
  confirmFrom: new Set(['draft', 'sent']),
  confirmedStates: new Set(['purchase', 'to approve', 'done']),
  methods: { confirm: 'button_confirm', cancel: 'button_cancel', draft: 'button_draft' },
} as const;

export const awardOrder: OrderShape = { ...order, name: 'purchase order', prefix: 'order', linePrefix: 'order_line' };

export const bidOrder: OrderShape = {
  ...order,
  name: 'request for quotation',
  prefix: 'bids',
  linePrefix: 'bids_line',
};

export const blanketOrder: OrderShape = {
  name: 'blanket order',
  model: 'purchase.requisition',
  lineModel: 'purchase.requisition.line',
  prefix: 'blanket',
  linePrefix: 'blanket_line',
  linesField: 'line_ids',
  parentField: 'requisition_id',
  vendorField: 'vendor_id',
  sourceField: 'reference',
  textField: 'product_description_variants',
  hasOrderLines: false,
  fixedCells: { requisition_type: 'blanket_order' },
  openStates: new Set(['draft']),
  confirmFrom: new Set(['draft']),
  confirmedStates: new Set(['confirmed', 'done']),
  methods: { confirm: 'action_confirm', cancel: 'action_cancel', draft: 'action_draft' },
};
