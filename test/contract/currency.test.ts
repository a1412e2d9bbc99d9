/** Which currencies a request may name. Expected values: the tables of ISO 4217, "List one" and "List three". */
import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { currencyCode, isActiveCurrency } from '#contract/currency.ts';

const isTaken = (code: unknown) => currencyCode.safeParse(code).success;

// One of each kind of list one: countries, funds, international institutions, bond market units, metals.
const active = 'EUR USD JPY KWD XOF XAF XPF XCD XCG CHE CLF USN UYI MXV XDR XSU XUA XBA XBB XBC XBD XAU XAG XPT XPD';

describe('a currency in a request', () => {
  test.each(active.split(' '))('%s is active and taken', (code) => {
    expect(isTaken(code)).toBe(true);
  });

  test.each(['XXQ', 'XXX', 'XTS', 'ZZZ', 'DEM', 'FRF', 'eur', 'Eur', 'EURO', 'EU', '', ' EUR', 'EUR\n', 978, null])(
    '%j is refused',
    (code) => {
      expect(isTaken(code)).toBe(false);
    },
  );

  test('three letters are taken if and only if they are on the list of about 177 active codes', () => {
    const letters = Array.from({ length: 26 }, (_, index) => String.fromCharCode(65 + index));
    const all = letters.flatMap((a) => letters.flatMap((b) => letters.map((c) => a + b + c)));
    const taken = all.filter(isTaken);
    // 166 of the package and 11 that belong to no country.
    expect(taken).toHaveLength(166 + 11);
    fc.assert(
      fc.property(fc.oneof(fc.constantFrom(...taken), fc.string({ maxLength: 5 })), (text) => {
        expect(isTaken(text)).toBe(taken.includes(text));
        expect(isActiveCurrency(text)).toBe(taken.includes(text));
        expect(isTaken(text.toLowerCase())).toBe(false);
      }),
    );
  });
});
