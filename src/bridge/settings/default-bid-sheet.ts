/** The bid sheet of events whose settings have none: what is needed, how much of it, and a price to be filled in. */

import type { MappingRule } from '#bridge/documents/mapping-rule.ts';
import type { EventChanges } from '#contract/sourcing-event.ts';

/** The buyer's columns of the bid sheet, and what fills them. */
export const defaultColumns: Readonly<Record<string, MappingRule>> = {
  Item: 'line.name',
  Quantity: { from: 'line.quantity', type: 'text', required: false, default: '1' },
  Unit: 'line.unit',
  'Needed by': { from: ['line.needed_by', 'needed_by'], type: 'text', required: false, cut: 10 },
  Requisition: 'reference_id',
};

const column = (name: string, input: 'TEXT' | 'NUMBER') =>
  ({ name, column_type: 'INPUT', input_by: 'BUYER_INPUT', input_type: input }) as const;

/** Members of the API's payload. */
export const defaultMembers = {
  bid_sheet: {
    column_roles: { lot_identifier: 'Item', volume: 'Quantity' },
    columns: [
      column('Item', 'TEXT'),
      column('Quantity', 'NUMBER'),
      column('Unit', 'TEXT'),
      column('Needed by', 'TEXT'),
      column('Requisition', 'TEXT'),
      { name: 'Price', column_type: 'INPUT', input_by: 'SUPPLIER_INPUT', input_type: 'CURRENCY' },
    ],
  },
  primary_cost_calculation: '[Price] * [Quantity]',
} as const satisfies Readonly<Record<keyof Pick<EventChanges, 'bid_sheet' | 'primary_cost_calculation'>, unknown>>;
