import { format, inspect } from 'node:util';
import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import { Secret, secret, secretsIn } from '#connector/settings.ts';
import { createLogger } from '#platform/log.ts';

const hidden = 'hunter2-hunter2';

/** As a template takes it; the linter warns of a secret there. */
const text = (one: Secret) => one as unknown as string;

describe('a secret', () => {
  const one = new Secret(hidden);

  test('gives its text to whoever asks for it', () => {
    expect(one.reveal()).toBe(hidden);
  });

  const ways: [string, () => unknown][] = [
    ['a template', () => `it: ${text(one)}`],
    ['a sum of texts', () => `a${String(one)}`],
    ['JSON', () => JSON.stringify({ one, list: [one] })],
    ['util.inspect', () => inspect({ one }, { showHidden: true, depth: 9 })],
    ['util.inspect without its own way', () => inspect(one, { customInspect: false, showHidden: true })],
    ['util.format', () => format('%s %o %j', one, one, one)],
    ['its members', () => JSON.stringify([Object.entries(one), Object.assign({}, one)])],
    ['a copy', () => JSON.stringify(structuredClone(one))],
    ['an error', () => inspect(new Error(`no: ${text(one)}`, { cause: one }))],
    [
      'a log line',
      () => {
        const lines: string[] = [];
        const log = createLogger({ level: 'info', name: 'x', destination: { write: (line) => void lines.push(line) } });
        log.info({ given: one, deep: { list: [one] }, err: new Error(`no: ${text(one)}`) }, `it is ${text(one)}`);
        return lines.join('');
      },
    ],
  ];
  test.each(ways)('is not in %s', (_name, show) => {
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

  test('is found wherever the schema has it', () => {
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

  test('is marked in the JSON Schema of what stands in the configuration', () => {
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

  test.each([[''], [5], [undefined]])('is not %j, and the refusal does not repeat what stood there', (given) => {
    expect(secret().safeParse(given).success).toBe(false);
    const refusal = schema.safeParse({ password: hidden, more: [hidden], auth: hidden });
    expect(String(refusal.error)).not.toContain(hidden);
  });
});
