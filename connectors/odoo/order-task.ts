/** What is known of the order of a document, wanted and held, and what is to be done with it. */
import { type AwardDocument, type QuotationDocument, type Task } from 'sourcing-bridge/connector';
import type { HeldLine, HeldOrder } from './held-orders.ts';
import type { Cells } from './load.ts';
import type { WantedLine } from './lots.ts';
import type { OrderShape } from './order-shapes.ts';
import type { ReferenceData } from './reference-data.ts';
import type { Settings } from './settings.ts';
import type { Vendor } from './vendors.ts';

export type OrderDocument = AwardDocument | QuotationDocument;

export interface OrderTask extends Task<OrderDocument['kind']> {
  vendor: Vendor;
  /** Under whose external ids it is written: an award that continues a request for quotation keeps the request's. */
  names: Pick<OrderShape, 'prefix' | 'linePrefix'>;
  lines: readonly WantedLine[];
  /** The purchase agreement of Odoo that it was sourced for. */
  agreement: number | undefined;
  /** What Odoo's form fills in for the vendor of an order; it is read before the order is written. */
  form: Cells;
  step: OrderStep | undefined;
  /** The open requests of an award's event that were not awarded, and are cancelled after it is written. */
  alternatives: readonly Cancellation[];
}

export interface Cancellation extends Pick<Task<'award'>, 'reference' | 'error' | 'isBegun'> {
  readonly step: Extract<OrderStep, { do: 'cancel' }>;
}

type OrderStep =
  | { readonly do: 'create' }
  /** `mark` is added to its source. */
  | { readonly do: 'cancel'; readonly held: HeldOrder; readonly mark: string }
  | {
      readonly do: 'write';
      readonly held: HeldOrder;
      /** Whether it is cancelled and becomes a draft first. */
      readonly isRevived: boolean;
      /** Lines of a confirmed order that order nothing any more: Odoo deletes none of them. */
      readonly zero: readonly HeldLine[];
      /** Lines of a draft that are deleted: of lots that are gone, and all if the vendor changes, whose taxes they have. */
      readonly remove: readonly HeldLine[];
      readonly isVendorNew: boolean;
      readonly confirm: boolean;
    };

export interface OrderContext {
  readonly shape: OrderShape;
  readonly settings: Settings;
  readonly data: ReferenceData;
  /** Whether the connector confirms these orders, and amends confirmed ones. */
  readonly confirms: boolean;
  /** What is read of an order, beside what every order has. */
  readonly fields: readonly string[];
  readonly linesOf: (order: HeldOrder) => readonly HeldLine[];
  /** The numbers of the orders on a blanket order that are not cancelled. */
  readonly callOffsOf: (order: HeldOrder) => readonly string[];
}
