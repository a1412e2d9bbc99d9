/**
 * Values as SAP keeps them, so that two of them can be compared: numbers without the zeros before them (ALPHA), decimals
 * without those at their end, codes in capitals, and everything without blanks at its end.
 */
import { type Decimal, readDecimal } from 'sourcing-bridge/connector';

const decimals = /(?:Quantity|Amount|Value)$/u;
const texts = /Text$|Name\d?$|Location1$|^(?:HouseNumber|PostalCode|BPTaxNumber|EmailAddress|SupplierMaterialNumber)$/u;
/** Fields whose numbers SAP shows with or without zeros before them. */
const numbers: ReadonlySet<string> = new Set([
  'Supplier',
  'Material',
  'CostCenter',
  'GLAccount',
  'OrderID',
  'PurchaseRequisition',
  'PurchaseRequisitionItem',
  'RequestForQuotation',
  'RequestForQuotationItem',
]);

/** The value of SAP's field of that name. */
export function sapValue(name: string, value: unknown): string {
  const text = typeof value === 'string' ? value.trimEnd() : '';
  if (decimals.test(name)) return plainNumber(text === '' ? '0' : text);
  if (numbers.has(name)) return plainCode(text);
  return texts.test(name) ? text : text.toUpperCase();
}

/** The names of the fields that SAP does not hold as they are wanted. */
export function differing(wanted: Readonly<Record<string, string>>, held: object): string[] {
  const values = held as Readonly<Record<string, unknown>>;
  return Object.keys(wanted).filter((name) => sapValue(name, wanted[name]) !== sapValue(name, values[name]));
}

/** Those of the fields that differ. */
export function changed(wanted: Readonly<Record<string, string>>, held: object): Record<string, string> {
  return Object.fromEntries(differing(wanted, held).map((name) => [name, wanted[name] ?? '']));
}

/** A price is for so many units: where one of both differs, SAP is given both. */
export function pricedTogether(
  differing: Readonly<Record<string, string>>,
  wanted: Readonly<Record<string, string>>,
): Record<string, string> {
  const names = ['NetPriceAmount', 'ContractNetPriceAmount', 'NetPriceQuantity'].filter((name) => name in wanted);
  if (!names.some((name) => name in differing)) return { ...differing };
  return { ...differing, ...Object.fromEntries(names.map((name) => [name, wanted[name] ?? ''])) };
}

/** `Plant 1010, TaxCode V1`. */
export function shown(fields: Readonly<Record<string, string>>): string {
  return Object.entries(fields)
    .map(([name, value]) => `${name} ${value}`)
    .join(', ');
}

/** A number or code, without the zeros that SAP puts before numbers. */
export function plainCode(code: string): string {
  const text = code.trimEnd().toUpperCase();
  return /^\d+$/u.test(text) ? text.replace(/^0+(?=\d)/u, '') : text;
}

export function isSameCode(a: string, b: string): boolean {
  return plainCode(a) === plainCode(b);
}

/** Whether two decimals are the same number, however they are written. */
export function isSameNumber(a: string, b: string): boolean {
  return plainNumber(a) === plainNumber(b);
}

/** The number without zeros at its end. */
export function plainNumber(text: string): string {
  const value: Decimal = readDecimal(text, 'a number of SAP');
  return value.toFixed();
}
