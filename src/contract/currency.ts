/**
 * Currencies as requests name them: the active codes of ISO 4217. Source: decisions, "Currencies". Requests only: an
 * answer of a source may name a currency that this list does not have, and is read as it is.
 */
import * as nationalCurrencies from 'dinero.js/currencies';
import { z } from 'zod';

/**
 * The codes of ISO 4217 that belong to no country, and that the package leaves out: units of international institutions
 * and bond markets, and precious metals. XXX (no currency) and XTS (tests) are in the standard, too, but no amount can
 * be paid in them.
 */
const supranationalCodes = ['XDR', 'XSU', 'XUA', 'XBA', 'XBB', 'XBC', 'XBD', 'XAU', 'XAG', 'XPT', 'XPD'];

const activeCodes: ReadonlySet<string> = new Set([...Object.keys(nationalCurrencies), ...supranationalCodes]);

/** Whether this is the code of an active currency, fund or metal. Codes are upper case. */
export function isActiveCurrency(code: string): boolean {
  return activeCodes.has(code);
}

export const unknownCurrency = 'must be the code of an active currency in ISO 4217, like EUR';

/** A currency in a request. */
export const currencyCode = z
  .string()
  .regex(/^[A-Z]{3}$/, { error: unknownCurrency, abort: true })
  .refine(isActiveCurrency, unknownCurrency)
  .describe('An active code of ISO 4217, in capitals; neither XXX nor XTS.');
