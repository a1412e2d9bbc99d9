/**
 * The small types that all parts of the contract use. Sources: API document "General conventions" and the published
 * value limits. Requests are parsed strictly: an unknown member is an error. Answers are parsed loosely: members are
 * added over time, and clients keep members that they do not know.
 */
import { z } from 'zod';
import { parseTimestamp, type Timestamp } from './timestamp.ts';

export const uuid = z
  .string()
  .regex(/^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$/, 'must be a UUID')
  .transform((text) => text.toLowerCase())
  .meta({ type: 'string', format: 'uuid' });

/** A date or date-time in any form of the contract, read as UTC with microseconds. */
export const timestamp = z
  .string()
  .transform((text, context): Timestamp => {
    const read = parseTimestamp(text);
    if (read !== undefined) return read;
    context.addIssue({
      code: 'custom',
      message: 'must be an ISO 8601 date or date-time with an offset, like 2030-12-31T23:59:59Z',
    });
    return z.NEVER;
  })
  .meta({ type: 'string', format: 'date-time' });

/** A `+` that was not percent-encoded arrives as a space: in `…T00:00:00 02:00` the space is read as `+`. */
export const timestampInQuery = z
  .string()
  .transform((given) => given.replace(/ (?=\d{2}:?\d{2}$)/, '+'))
  .pipe(timestamp);

/** An exact decimal as text: at most 20 digits, no exponent. */
export const decimal = z
  .string()
  .regex(/^-?\d+(\.\d+)?$/, 'must be a decimal number as text, like "12.50"')
  .refine((text) => text.replace(/[-.]/g, '').length <= 20, 'must have at most 20 digits');

/** A decimal of at least 0; "-0" is 0. */
export const nonNegativeDecimal = decimal.refine((text) => !/^-.*[1-9]/.test(text), 'must not be negative');

/** A share of a lot: "0" to "1". */
export const share = z.string().regex(/^(0(\.\d{1,10})?|1(\.0{1,10})?)$/, {
  error: ({ input }) =>
    /^(0\.\d{11,}|1\.0{11,})$/.test(String(input))
      ? 'must have at most 10 decimals'
      : 'must be a decimal from "0" to "1", with at most 10 decimals',
});

export const email = z
  .string()
  .max(254)
  .regex(/^[^\s@]+@[^\s@]+$/, 'must be an e-mail address');

/** A text that is too long gets no further checks: a pattern over megabytes may overflow the stack. */
export const text = (max: number, min = 0) => z.string().min(min).max(max, { abort: true });

/**
 * Values by names that the sender chose, at most `namesMax`. More are refused before a value is looked at. `__proto__` is
 * refused: the parser of these objects would drop it silently, and no value may be lost.
 */
export function valuesByName<Value extends z.ZodType>(value: Value, namesMax: number) {
  return z.preprocess(
    (given, context) => {
      if (typeof given !== 'object' || given === null) return given;
      if (Object.hasOwn(given, '__proto__'))
        context.addIssue({ code: 'custom', path: ['__proto__'], message: 'is not a possible name' });
      if (Object.keys(given).length > namesMax)
        context.addIssue({ code: 'custom', message: `must have at most ${namesMax} names` });
      return given;
    },
    z.record(text(255, 1), value).meta({ maxProperties: namesMax }),
  );
}

/** A whole number in a query. */
export const wholeNumberInQuery = z
  .string()
  .regex(/^\d{1,9}$/, 'must be a whole number')
  .transform(Number);

/** How many records or items a page may be asked to hold. */
export interface PageSizes {
  readonly min: number;
  readonly max: number;
}

/** `page_size` of a feed or a list. */
export function pageSizeWithin({ min, max }: PageSizes) {
  return wholeNumberInQuery.pipe(z.int().min(min).max(max));
}

export const tag = z.strictObject({ name: text(255, 1), value: text(255) }).meta({ id: 'Tag' });

/** Tags as a client sends them. A text alone is the name of a tag whose value is empty. */
export const tagList = z.array(z.union([tag, text(255, 1).transform((name) => ({ name, value: '' }))])).max(100);

/** A decimal in an answer: any number of digits, because another service may write more than 20. */
export const decimalText = z.string().regex(/^-?\d+(\.\d+)?$/, 'must be a decimal number as text');

/** For URLs that the service itself will call. */
export const httpsUrl = text(2_000, 1)
  .superRefine((value, context) => {
    const message = urlFault(URL.parse(value));
    if (message !== undefined) context.addIssue({ code: 'custom', message });
  })
  .meta({ format: 'uri', pattern: '^https://' });

function urlFault(url: URL | null): string | undefined {
  if (url === null) return 'must be an absolute URL';
  if (url.protocol !== 'https:') return 'must be an HTTPS URL: nothing is sent to, or read from, a plain HTTP server';
  if (url.username !== '' || url.password !== '') return 'must not carry a user name or password';
  return url.hash === '' ? undefined : 'must not have a fragment';
}

/** For `superRefine` of a list: an issue at `member` of each item that has the same value there as an earlier item. */
export function onceInList<Member extends string>(member: Member, message: (value: string) => string) {
  return (items: readonly Readonly<Record<Member, string>>[], context: z.RefinementCtx): void => {
    const seen = new Set<string>();
    for (const [index, { [member]: value }] of items.entries()) {
      if (seen.has(value)) context.addIssue({ code: 'custom', path: [index, member], message: message(value) });
      seen.add(value);
    }
  };
}

/**
 * For `superRefine` of an object: an issue at a public name that is given beside our name of the same member, with
 * another value. `names` maps the public name to ours. An empty list under our name counts as left out.
 */
export function sameUnderBothNames(names: Readonly<Record<string, string>>) {
  return (payload: Readonly<Record<string, unknown>>, context: z.RefinementCtx): void => {
    for (const [publicName, ourName] of Object.entries(names)) {
      const [given, ours] = [payload[publicName], payload[ourName]];
      const isLeftOut = ours === undefined || (Array.isArray(ours) && ours.length === 0);
      if (given === undefined || isLeftOut || JSON.stringify(given) === JSON.stringify(ours)) continue;
      const message = `is another name of ${ourName}, and both are given with different values`;
      context.addIssue({ code: 'custom', path: [publicName], message });
    }
  };
}
