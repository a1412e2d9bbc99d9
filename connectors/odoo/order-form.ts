/**
 * What Odoo's own form fills into a new order for its vendor, and `load` does not: payment terms, fiscal position and
 * buyer. The terms say when a bill is due, and the fiscal position decides the taxes of the lines. Odoo is asked by the
 * call that the form makes (`onchange`), because only Odoo knows its rules.
 */
import { z } from 'sourcing-bridge/connector';
import type { Cells } from './load.ts';
import type { Odoo } from './odoo.ts';

const fields = ['payment_term_id', 'fiscal_position_id', 'user_id'] as const;
const relationForm = z.union([z.int(), z.literal(false)]).optional();
const answerForm = z.object({
  value: z.object({ payment_term_id: relationForm, fiscal_position_id: relationForm, user_id: relationForm }),
});

/** The cells for an order of this company to this vendor; without a company Odoo takes the user's. */
export async function orderForm(
  odoo: Odoo,
  vendor: number,
  company: string | undefined,
  signal: AbortSignal,
): Promise<Cells> {
  const values = { partner_id: vendor, ...(company === undefined ? {} : { company_id: Number(company) }) };
  const fields_spec = Object.fromEntries(fields.map((field) => [field, {}]));
  // Without names of changed fields Odoo also fills in what a new order has.
  const args = { ids: [], values, field_names: [], fields_spec };
  const { value } = await odoo.ask('purchase.order', 'onchange', args, answerForm, signal);
  return Object.fromEntries(fields.map((field) => [`${field}/.id`, String(value[field] || '')]));
}
