/** Decimals as a person reads them. They are texts and stay exact: a format reads the digits, and no float is made. */

const money = new Intl.NumberFormat('en', { minimumFractionDigits: 2, maximumFractionDigits: 10 });
const plain = new Intl.NumberFormat('en', { maximumFractionDigits: 10 });
const share = new Intl.NumberFormat('en', { style: 'percent', maximumFractionDigits: 8 });

type Numeric = Parameters<Intl.NumberFormat['format']>[0];

/** `12,345.50 EUR`. */
export function moneyText(amount: string, currency?: string | null): string {
  return `${money.format(amount as Numeric)}${currency ? ` ${currency}` : ''}`;
}

export function numberText(number: string | number): string {
  return plain.format(number as Numeric);
}

/** `0.6` as `60%`. */
export function shareText(decimal: string): string {
  return share.format(decimal as Numeric);
}
