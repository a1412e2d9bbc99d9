/**
 * What lots of awards were made of: lines of Odoo's own purchase agreements, which `read` returns as requisitions. They
 * say which product and unit of Odoo a lot means, also of a product that has no internal reference.
 */
import { type AwardLine, z } from 'sourcing-bridge/connector';
import { MissingModule, type Odoo } from './odoo.ts';
import type { OrderDocument } from './order-task.ts';
import { productModel } from './reference-data.ts';
import { id, referenceTo, relation } from './values.ts';

const lineRows = z.array(z.object({ id, requisition_id: relation, product_id: relation, product_uom_id: relation }));

export interface Needed<D extends OrderDocument> {
  /** With the products and units of the needs, where the mapping names no product. */
  readonly document: D;
  /** The agreement that all its lots are of, as far as they are of any. */
  readonly agreement: number | undefined;
}

/** Returns the function that adds to a document what is known of its needs. */
export async function readNeeds(
  odoo: Odoo,
  documents: readonly OrderDocument[],
  signal: AbortSignal,
): Promise<<D extends OrderDocument>(document: D) => Needed<D>> {
  const requisitionOf = (line: OrderDocument['lines'][number]) => (line as AwardLine).requisition;
  const names = documents.flatMap(({ lines }) => lines.flatMap((line) => requisitionOf(line)?.reference_id ?? []));
  const rows = names.length === 0 ? [] : await readLines([...new Set(names)]);

  async function readLines(wanted: readonly string[]) {
    const args = {
      domain: [['requisition_id.name', 'in', wanted]],
      fields: ['requisition_id', 'product_id', 'product_uom_id'],
    };
    try {
      return await odoo.ask('purchase.requisition.line', 'search_read', args, lineRows, signal);
    } catch (error) {
      // The requisitions are those of another ERP.
      if (error instanceof MissingModule) return [];
      throw error;
    }
  }

  return <D extends OrderDocument>(document: D) => {
    const agreements = new Set<number | undefined>();
    const lines = document.lines.map((line) => {
      const requisition = requisitionOf(line);
      const ofAgreement = rows.filter(({ requisition_id: { name } = {} }) => name === requisition?.reference_id);
      const need = ofAgreement.find((row) => String(row.id) === requisition?.line);
      for (const { requisition_id: agreement } of need ? [need] : ofAgreement) agreements.add(agreement?.id);
      if (!need?.product_id || line.fields?.['product']) return line;
      const product = referenceTo(productModel, need.product_id.id);
      const unit = need.product_uom_id && { unit: need.product_uom_id.name };
      return { ...line, fields: { ...unit, ...line.fields, product } };
    });
    const [agreement] = agreements;
    return { document: { ...document, lines } as D, agreement: agreements.size === 1 ? agreement : undefined };
  };
}
