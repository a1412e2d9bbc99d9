/**
 * A person, known by an e-mail address, in stored text: finds the address however it is written, and takes it out.
 *
 * Example: `ann@example.com` is found in `Ask Ann@Example.com.`, in the JSON text `"\nann@example.com"`, where an encoder
 * has written `ann\u0040example.com`, and in a URL as `ann%40example.com`; not in `joann@example.com`, nor in
 * `ann@example.com.au`. Of JSON, the object that is nothing but this contact (`{"name": …, "email": …}`) is taken out as a
 * whole, with the name; anywhere else the placeholder takes the place of the address.
 */
import { email } from '#contract/scalars.ts';
import { AppError } from '../errors.ts';

export interface Person {
  /** In lower case. */
  readonly address: string;
  /** What stands in the place of the address; has the form of one, and is another for each person. */
  readonly placeholder: string;
  /** A regular expression for PostgreSQL's `~*`. */
  readonly pattern: string;
  isIn(text: string): boolean;
  /** Returns the text with the placeholder for the address. */
  takeOutOfText(text: string): string;
  /** Returns the value of JSON without the person; undefined when it was nothing but the contact. */
  takeOutOfJson(value: unknown): unknown;
}

/**
 * `mark`: 12 hexadecimal digits that stand for the person, and from which nobody without the key can tell the address.
 * Throws an AppError `invalid` for what is no e-mail address.
 */
export function createPerson(given: string, mark: string): Person {
  const address = given.trim().toLowerCase();
  if (!email.safeParse(address).success)
    throw new AppError('invalid', `"${given}" is no e-mail address: it must be like anna@example.com.`);
  const placeholder = `erased-${mark}@erased.invalid`;
  const pattern = patternOf(address);
  const search = new RegExp(pattern, 'iu');
  const everywhere = new RegExp(pattern, 'giu');
  const isIn = (text: string) => search.test(text);
  const takeOutOfText = (text: string) => text.replaceAll(everywhere, placeholder);

  function takeOutOfJson(value: unknown): unknown {
    if (typeof value === 'string') return takeOutOfText(value);
    if (Array.isArray(value))
      return value.filter((item) => !isPerson(item)).map((item: unknown) => takeOutOfJson(item));
    if (typeof value !== 'object' || value === null) return value;
    if (isPerson(value)) return undefined;
    return Object.fromEntries(
      Object.entries(value)
        .filter(([, member]) => !(typeof member === 'object' && isPerson(member)))
        .map(([name, member]) => [takeOutOfText(name), takeOutOfJson(member)]),
    );
  }

  /** Whether a value is the address, or a contact with it and with nothing that is not the contact's. */
  function isPerson(value: unknown): boolean {
    if (typeof value === 'string') return value.trim().toLowerCase() === address;
    if (typeof value !== 'object' || value === null || Array.isArray(value)) return false;
    const members = value as Readonly<Record<string, unknown>>;
    const { email: own } = members;
    return (
      typeof own === 'string' &&
      own.trim().toLowerCase() === address &&
      Object.keys(members).every((name) => membersOfContacts.has(name))
    );
  }

  return { address, placeholder, pattern, isIn, takeOutOfText, takeOutOfJson };
}

const membersOfContacts = new Set(['id', 'name', 'email', 'supplier', 'invitation_state', 'delete']);

/** What encoders leave as it is. */
const plain = /^[a-z0-9._-]$/;

/**
 * The same text is a pattern for JavaScript and for PostgreSQL. Before the address stands no character of a longer one,
 * unless it ends an escape of JSON or of a URL.
 */
function patternOf(address: string): string {
  const before = String.raw`(?:(?<![a-z0-9._%+-])|(?<=\\[bfnrt])|(?<=\\u[0-9a-f]{4})|(?<=%[0-9a-f]{2}))`;
  const after = String.raw`(?![a-z0-9_-])(?!\.[a-z0-9])`;
  return before + Array.from(address, formsOf).join('') + after;
}

function formsOf(character: string): string {
  const literal = character.replaceAll(/[\\^$.*+?()[\]{}|/]/g, String.raw`\$&`);
  if (plain.test(character)) return literal;
  const units = Array.from({ length: character.length }, (_, index) => character.charCodeAt(index));
  const asJson = units.map((unit) => `${String.raw`\\u`}${unit.toString(16).padStart(4, '0')}`).join('');
  const asUrl = [...Buffer.from(character)].map((byte) => `%${byte.toString(16).padStart(2, '0')}`).join('');
  const escaped = character === '"' || character === '\\' || character === '/' ? [String.raw`\\` + literal] : [];
  return `(?:${[literal, ...escaped, asJson, asUrl].join('|')})`;
}
