/**
 * The names by which the connector finds its records again. An external id is unique in Odoo: two loads with the same
 * one end with one record, whatever is killed or repeated. Odoo lets an ordinary user look up a single one, but not
 * search for them; orders therefore also carry a marker in a field that can be searched.
 */
import { createHash } from 'node:crypto';

const module = 'sourcing_bridge';

export type Prefix =
  | 'vendor'
  | 'contact'
  | 'order'
  | 'order_line'
  | 'bids'
  | 'bids_line'
  | 'blanket'
  | 'blanket_line'
  | 'price'
  | 'answers'
  | 'file';

function digestOf(parts: readonly string[]): Buffer {
  return createHash('sha256').update(parts.join('\n')).digest();
}

/** `sourcing_bridge.order_` and 32 hexadecimal digits: 128 bits of a hash of the key, and of a part of it. */
export function externalId(prefix: Prefix, ...parts: readonly string[]): string {
  return `${module}.${prefix}_${digestOf(parts).toString('hex', 0, 16)}`;
}

/** An external id whose beginning names the document, so that the lines of one document can be told from others. */
export function partId(prefix: Prefix, key: string, part: string): string {
  return `${documentPrefix(prefix, key)}${digestOf([key, part]).toString('hex', 0, 16)}`;
}

/** What the external ids of all parts of a document begin with. */
export function documentPrefix(prefix: Prefix, key: string): string {
  return `${module}.${prefix}_${digestOf([key]).toString('hex', 0, 8)}_`;
}

/** The arguments of `ir.model.data.check_object_reference`. */
export function referenceArgs(id: string): { module: string; xml_id: string } {
  return { module, xml_id: id.slice(module.length + 1) };
}

/** The marker of a document, or of an event: `SB-` and 16 letters and digits (80 bits). */
export function markerOf(...parts: readonly string[]): string {
  const digits = BigInt(`0x${digestOf(parts).toString('hex', 0, 10)}`)
    .toString(32)
    .padStart(16, '0');
  return `SB-${digits.replaceAll(/./g, (digit) => alphabet[Number.parseInt(digit, 32)] ?? '')}`;
}

/** All requests for quotation of an event have it in their source, by which they become alternatives of each other. */
export function eventMarkerOf(event: string): string {
  return markerOf('event', event);
}

/** Without the letters that look like digits. */
const alphabet = '0123456789ABCDEFGHJKMNPQRSTVWXYZ';
