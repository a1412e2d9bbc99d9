import { format, inspect } from 'node:util';
import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import { Secret, secret, secretsIn } from '#connector/settings.ts';
import { createLogger } from '#platform/log.ts';

const hidden = 'hunter2-hunter2';

/** Typed as a string: the linter warns of a secret in a template. */
const text = (value: Secret) => value as unknown as string;

describe('a secret', () => {
  const value = new Secret(hidden);

  test('returns its text from reveal()', () => {
    expect(value.reveal()).toBe(hidden);
  });

  const outputs: [string, () => unknown][] = [
    ['a template', () => `it: ${text(value)}`],
    ['a sum of texts', () => `a${String(value)}`],
    ['JSON', () => JSON.stringify({ value, list: [value] })],
    ['util.inspect', () => inspect({ value }, { showHidden: true, depth: 9 })],
    ['util.inspect without its custom method', () => inspect(value, { customInspect: false, showHidden: true })],
    ['util.format', () => format('%s %o %j', value, value, value)],
    ['its members', () => JSON.stringify([Object.entries(value), Object.assign({}, value)])],
    ['a copy', () => JSON.stringify(structuredClone(value))],
    ['an error', () => inspect(new Error(`no: ${text(value)}`, { cause: value }))],
    [
      'a log line',
      () => {
        const lines: string[] = [];
        const log = createLogger({ level: 'info', name: 'x', destination: { write: (line) => void lines.push(line) } });
        log.info(
          { given: value, deep: { list: [value] }, err: new Error(`no: ${text(value)}`) },
          `it is ${text(value)}`,
        );
        return lines.join('');
      },
    ],
  ];
  test.each(outputs)('is not in %s', (_name, show) => {
    const shown = show();
    expect(shown).not.toContain('hunter2');
    expect(shown).toMatch(/secret|\{\}|\[\]/i);
  });
});

describe('a setting that is a secret', () => {
  const schema = z.strictObject({
    password: secret(),
    token: secret().optional(),
    key: secret().prefault('default-key'),
    auth: z.discriminatedUnion('type', [
      z.strictObject({ type: z.literal('basic'), user: z.string(), password: secret() }),
      z.strictObject({ type: z.literal('none') }),
    ]),
    either: z.union([z.strictObject({ file: z.string() }), z.strictObject({ pem: secret() })]),
    more: z.array(secret()),
    named: z.record(z.string(), secret()),
  });

  test('is found at every place of the schema', () => {
    const parsed = schema.parse({
      password: 'p-1',
      auth: { type: 'basic', user: 'anna', password: 'p-2' },
      either: { pem: 'p-3' },
      more: ['p-4', 'p-5'],
      named: { a: 'p-6' },
    });
    expect(secretsIn(parsed)).toEqual(['p-1', 'default-key', 'p-2', 'p-3', 'p-4', 'p-5', 'p-6']);
    expect(JSON.stringify(parsed)).not.toMatch(/p-\d/);
  });

  test('is marked in the JSON Schema of the configuration', () => {
    const marked = { type: 'string', minLength: 1, format: 'password', writeOnly: true };
    expect(z.toJSONSchema(schema, { io: 'input' })).toMatchObject({
      required: ['password', 'auth', 'either', 'more', 'named'],
      properties: {
        password: marked,
        token: marked,
        key: { ...marked, default: 'default-key' },
        auth: { oneOf: [{ properties: { password: marked } }, {}] },
        either: { anyOf: [{}, { properties: { pem: marked } }] },
        more: { items: marked },
        named: { additionalProperties: marked },
      },
    });
  });

  test.each([[''], [5], [undefined]])('cannot be %j, and the refusal does not repeat the given value', (given) => {
    expect(secret().safeParse(given).success).toBe(false);
    const refusal = schema.safeParse({ password: hidden, more: [hidden], auth: hidden });
    expect(String(refusal.error)).not.toContain(hidden);
  });
});
