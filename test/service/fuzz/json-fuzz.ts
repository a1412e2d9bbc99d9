/** Mutates a valid body in one place. The result is JSON text, which can hold more than a JavaScript value. */
import * as fc from 'fast-check';
import { secretOfSeeds } from './seeds.ts';

export type Path = readonly (string | number)[];

export interface MutatedBody {
  readonly text: string;
  /** The path of the mutation. */
  readonly place: Path;
  /** The value at that path before the mutation; undefined if there was none. */
  readonly was?: unknown;
}

/** Texts that a lenient parser may take for a date, a number, an id or a URL. */
const deceptive = [
  '2030-02-30',
  '0000-01-01',
  '0001-01-01T00:00:00+23:59',
  '10000-01-01',
  '9999-12-31T23:59:59.999999-23:59',
  '2030-12-31T23:59:60Z',
  '2030-12-31T24:00:00Z',
  '2030-12-31T23:59:59',
  '2030-06-01T00:00:00+99:99',
  '2030-13-01',
  '9999-12-31T23:59:59.999999Z',
  '0100-01-01',
  '1970-01-01',
  '-2030-01-01',
  'now',
  'infinity',
  'epoch',
  '2030-W01-1',
  '1e5',
  'NaN',
  'Infinity',
  '-Infinity',
  '0x10',
  '1_000',
  ' 1',
  '1 ',
  '+1',
  '1.',
  '.5',
  '-',
  '--1',
  '1,5',
  '１２',
  '٣',
  '0'.repeat(400),
  '9'.repeat(20),
  '9'.repeat(21),
  `0.${'1'.repeat(19)}`,
  `0.${'1'.repeat(400)}`,
  '-0',
  '-0.00',
  '1e-400',
  '00000000-0000-0000-0000-000000000000',
  '{11111111-1111-4111-8111-111111111111}',
  '11111111111141118111111111111111',
  'urn:uuid:11111111-1111-4111-8111-111111111111',
  'g1111111-1111-4111-8111-111111111111',
  '1'.repeat(36),
  'https://',
  'https:///x',
  'http://localhost/',
  'https://localhost:0/',
  'https://localhost:99999/',
  'file:///etc/passwd',
  'https://user:hunter2@localhost/',
  'javascript:alert(1)',
  'https://[::1',
  '//localhost',
  'https://localhost/\0',
  'a@',
  '@b',
  'a@b@c',
  'a b@c',
  'a@b\r\nBcc: c@d',
  '<script>alert(1)</script>',
  "'; drop table jobs; --",
  '%s%n',
  '__proto__',
  'constructor',
  'prototype',
  'toString',
  'hasOwnProperty',
  '../../etc/passwd',
  'a/b',
  'a\\b',
  'CON',
  '.',
  '..',
  '${7*7}',
  '{{7*7}}',
  '=1+1',
  'process.exit(1)',
  'this.constructor',
  '‮evil',
  '​',
  '﻿',
  '👨‍👩‍👧‍👦',
  'é',
  'İ',
  'ß',
  'ﬃ',
  '\0',
  'a\0b',
  '\ud800',
  'a\udc00',
  '\udc00\ud800',
  '￿',
  '',
  '',
  '',
  '\u2028',
  '\\',
  '"',
  'EUR',
  'eur',
  'XXX',
  'true',
  'null',
  'undefined',
  '[object Object]',
  '',
  ' ',
  '	',
  '\n',
].map((text) => JSON.stringify(text));

/** JSON values that no schema of the service expects. */
const strange = [
  'null',
  'true',
  'false',
  '0',
  '-0',
  '-1',
  '1',
  '1.5',
  '2',
  '11',
  '1e2',
  '1e999',
  '-1e999',
  '1e-999',
  '9007199254740993',
  '1000000000',
  '2147483648',
  '-2147483649',
  '1000000001',
  '123456789012345678901234567890',
  '9'.repeat(400),
  '0.1',
  '""',
  '[]',
  '{}',
  '[[]]',
  '[{}]',
  '[null]',
  '{"":""}',
  '{"__proto__":{"polluted":"yes"}}',
  '{"constructor":{"prototype":{"polluted":"yes"}}}',
  '{"toString":"x"}',
  '{"length":-1}',
  '{"value":"1"}',
  '{"value":"1","currency":"EUR"}',
  '{"value":"1","currency":"XXX"}',
  '["TEST","TEST"]',
  '{"a":1,"a":2}',
  '{"$ref":"#"}',
  '{"then":1}',
  '{"toJSON":1}',
];

const nested = fc
  .tuple(
    fc.constantFrom(['[', ']'], ['{"a":', '}'], ['[{"value":', '}]']),
    fc.constantFrom(20, 62, 63, 64, 65, 500, 5_000),
  )
  .map(([[opening = '', closing = ''], levels]) => `${opening.repeat(levels)}1${closing.repeat(levels)}`);

const long = fc
  .tuple(
    fc.constantFrom('x', '1', ' ', '-', 'é', '🪑', '\u0001', '"', '(', 'a@', 'a.', '1.', '*a'),
    fc.constantFrom(20, 51, 128, 256, 1_001, 10_001, 70_000),
  )
  .map(([piece, times]) => JSON.stringify(piece.repeat(times)));

const manyItems = fc
  .tuple(fc.constantFrom('1', '"a"', '{}', 'null', '[]'), fc.constantFrom(51, 101, 1_001, 20_001))
  .map(([item, times]) => `[${`${item},`.repeat(times - 1)}${item}]`);

/** JSON text of any kind. `known` are values that are valid elsewhere in the body. */
function anyJson(known: readonly string[]): fc.Arbitrary<string> {
  return fc.oneof(
    { weight: 6, arbitrary: fc.constantFrom(...deceptive) },
    { weight: 4, arbitrary: fc.constantFrom(...strange) },
    { weight: 4, arbitrary: fc.constantFrom(...known) },
    { weight: 2, arbitrary: fc.string({ unit: 'binary', maxLength: 300 }).map((text) => JSON.stringify(text)) },
    { weight: 2, arbitrary: fc.jsonValue({ maxDepth: 3 }).map((value) => JSON.stringify(value)) },
    { weight: 1, arbitrary: nested },
    { weight: 1, arbitrary: long },
    { weight: 1, arbitrary: manyItems },
  );
}

const everyObjectHas = ['__proto__', 'constructor', 'prototype', 'toString', 'valueOf', 'hasOwnProperty'];
const noSchemaHas = ['unknown', '', ' name', 'Name', 'a.b', 'a[0]', '-1'];
const memberNames = fc.oneof(
  fc.constantFrom(...everyObjectHas, 'id', 'organisation_id'),
  fc.constantFrom(...noSchemaHas, '0', 'type', 'é', '\u0000', '\uD800', 'x'.repeat(300)),
  fc.string({ unit: 'binary', maxLength: 20 }),
);

interface Node {
  readonly path: Path;
  readonly value: unknown;
}

function nodesOf(value: unknown, path: Path = []): Node[] {
  const inner =
    typeof value === 'object' && value !== null
      ? Array.isArray(value)
        ? value.flatMap((item, index) => nodesOf(item, [...path, index]))
        : Object.entries(value).flatMap(([key, item]) => nodesOf(item, [...path, key]))
      : [];
  return [{ path, value }, ...inner];
}

/** The value as JSON text, with `text` at the path `place`; undefined removes the member or item. */
function jsonWith(value: unknown, place: Path, text: string | undefined): string | undefined {
  const [first, ...rest] = place;
  if (first === undefined) return text;
  if (Array.isArray(value)) {
    const items = value.flatMap((item, index) =>
      index === first ? (jsonWith(item, rest, text) ?? []) : JSON.stringify(item),
    );
    return `[${items.join(',')}]`;
  }
  const members = Object.entries(value as object).flatMap(([key, item]) => {
    const inner = key === first ? jsonWith(item, rest, text) : JSON.stringify(item);
    return inner === undefined ? [] : `${JSON.stringify(key)}:${inner}`;
  });
  return `{${members.join(',')}}`;
}

const uuidForm = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

/**
 * The body with one mutation: a value replaced or removed, or a member or item added. `confusableValues` are ids and
 * names of existing and of missing things: they replace values of the same kind.
 */
export function mutated(body: unknown, confusableValues: readonly string[]): fc.Arbitrary<MutatedBody> {
  const nodes = nodesOf(body);
  const known = nodes.map(({ value }) => JSON.stringify(value)).filter((text) => !text.includes(secretOfSeeds));
  const objects = nodes.filter(({ value }) => typeof value === 'object' && value !== null && !Array.isArray(value));
  const arrays = nodes.filter(({ value }) => Array.isArray(value));
  const inner = nodes.filter(({ path }) => path.length > 0);
  const texts = nodes.filter(({ value }) => typeof value === 'string' && value !== secretOfSeeds);
  const put = (node: Node, text: string | undefined, place = node.path): MutatedBody => ({
    text: jsonWith(body, node.path, text) ?? '',
    place,
    was: place === node.path ? node.value : undefined,
  });
  const mutations: { weight: number; arbitrary: fc.Arbitrary<MutatedBody> }[] = [
    {
      weight: 8,
      arbitrary: fc.tuple(fc.constantFrom(...nodes), anyJson(known)).map(([node, text]) => put(node, text)),
    },
  ];
  if (texts.length > 0)
    mutations.push({
      weight: 3,
      arbitrary: fc.tuple(fc.constantFrom(...texts), fc.nat()).map(([node, choice]) => {
        const isId = uuidForm.test(String(node.value));
        const alike = confusableValues.filter((candidate) => uuidForm.test(candidate) === isId);
        return put(node, JSON.stringify(alike[choice % alike.length]));
      }),
    });
  if (inner.length > 0)
    mutations.push({ weight: 1, arbitrary: fc.constantFrom(...inner).map((node) => put(node, undefined)) });
  if (objects.length > 0)
    mutations.push({
      weight: 2,
      arbitrary: fc.tuple(fc.constantFrom(...objects), memberNames, anyJson(known)).map(([node, name, text]) => {
        const members = Object.entries(node.value as object).map(
          ([key, item]) => `${JSON.stringify(key)}:${JSON.stringify(item)}`,
        );
        return put(node, `{${[...members, `${JSON.stringify(name)}:${text}`].join(',')}}`, [...node.path, name]);
      }),
    });
  if (arrays.length > 0)
    mutations.push({
      weight: 2,
      arbitrary: fc.tuple(fc.constantFrom(...arrays), anyJson(known)).map(([node, text]) => {
        const items = (node.value as unknown[]).map((item) => JSON.stringify(item));
        return put(node, `[${[...items, text].join(',')}]`, [...node.path, items.length]);
      }),
    });
  return fc.oneof(...mutations);
}

/** Members that are objects with names that the client chooses. */
const freelyNamed: ReadonlySet<unknown> = new Set(['values', 'global', 'fields']);
const unknownEverywhere: ReadonlySet<unknown> = new Set([...everyObjectHas, 'organisation_id', ...noSchemaHas]);

/**
 * Whether every correct schema refuses this body: it has a member that no schema has, or a value of another JSON type.
 * So a schema that has become too lenient is found. In some places a text may be null or an object, and an object (a
 * cell) may be a text.
 */
export function isInvalidInAnySchema({ place, was }: MutatedBody, value: unknown): boolean {
  const now = place.reduce<unknown>((at, part) => (at as Record<string | number, unknown> | undefined)?.[part], value);
  const name = place.at(-1);
  if (now === undefined) return false;
  if (was === undefined)
    return typeof name === 'string' && unknownEverywhere.has(name) && !freelyNamed.has(place.at(-2));
  const change = `${typeOf(was)} ${typeOf(now)}`;
  return typeOf(was) !== typeOf(now) && !['text null', 'text object', 'object text'].includes(change);
}

function typeOf(value: unknown): string {
  if (value === null) return 'null';
  if (Array.isArray(value)) return 'list';
  return typeof value === 'string' ? 'text' : typeof value;
}

/** Copies of the body, each with an unknown member in another one of its objects. */
export function withEachUnknownMember(body: unknown): MutatedBody[] {
  return nodesOf(body)
    .filter(({ path, value }) => typeOf(value) === 'object' && !freelyNamed.has(path.at(-1)))
    .map(({ path, value }) => ({
      text: jsonWith(body, path, JSON.stringify({ ...(value as object), unknown: 1 })) ?? '',
      place: [...path, 'unknown'],
    }));
}

/** The body with one of these JSON texts in one of its places. */
export function bodyWith(body: unknown, texts: readonly string[]): fc.Arbitrary<MutatedBody> {
  return fc
    .tuple(fc.constantFrom(...nodesOf(body)), fc.constantFrom(...texts))
    .map(([{ path }, text]) => ({ text: jsonWith(body, path, text) ?? '', place: path }));
}

/**
 * Copies of the body, each with another one of its strings replaced by `text`. Of a list only the first item is used.
 */
export function withEachStringReplaced(body: unknown, text: string): MutatedBody[] {
  return nodesOf(body)
    .filter(
      ({ path, value }) => typeof value === 'string' && path.every((part) => typeof part === 'string' || part === 0),
    )
    .map(({ path }) => ({ text: jsonWith(body, path, JSON.stringify(text)) ?? '', place: path }));
}

/** The parts of a path like `bid_sheet.columns[2]["a b"]`; undefined for a text that is no path. */
export function pathParts(text: string): Path | undefined {
  const parts: (string | number)[] = [];
  let rest = text;
  while (rest !== '') {
    const found = /^\.?([A-Za-z_][A-Za-z0-9_-]*)|^\[(\d+)\]|^\[("(?:[^"\\]|\\.)*")\]/.exec(rest);
    if (!found) return undefined;
    const [all, name, index, quoted] = found;
    parts.push(name ?? (index === undefined ? (JSON.parse(quoted ?? '""') as string) : Number(index)));
    rest = rest.slice(all.length);
  }
  return parts;
}

/**
 * Whether one path is a prefix of the other: then a mutation at one can cause a fault at the other. Shown names are
 * shortened.
 */
export function pathsOverlap(a: Path, b: Path): boolean {
  const length = Math.min(a.length, b.length);
  return Array.from({ length }, (_, index) => index).every((index) => isSame(a[index], b[index]));
}

function isSame(a: string | number | undefined, b: string | number | undefined): boolean {
  return a === b || (typeof a === 'string' && typeof b === 'string' && a.slice(0, 100) === b.slice(0, 100));
}

/** Whether the path leads to a part of the value, or to a member that one of its objects lacks. */
export function pathExists(value: unknown, path: Path): boolean {
  let at: unknown = value;
  for (const [index, part] of path.entries()) {
    if (typeof at !== 'object' || at === null) return false;
    const isLast = index === path.length - 1;
    if (typeof part === 'number') {
      if (!Array.isArray(at) || part >= at.length) return false;
      at = at[part];
      continue;
    }
    const key = Object.keys(at).find((name) => isSame(name, part));
    if (key === undefined) return isLast && !Array.isArray(at);
    at = (at as Record<string, unknown>)[key];
  }
  return true;
}
