import { tmpdir } from 'node:os';
import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import { openFlows } from '#bridge/flows/open-flows.ts';
import { createSecretRedactor } from '#bridge/flows/secret-redactor.ts';
import { secret } from '#connector/settings.ts';
import { systemClock } from '#platform/clock.ts';
import { createLogger } from '#platform/log.ts';
import { settingsOf } from '../parts.ts';

/** What is told of a text, given these settings and the schema that a connector reads them with. */
function told(text: string, settings: unknown, schema?: z.ZodType): string {
  const secrets = createSecretRedactor(settings);
  if (schema) secrets.addSecretsOf(schema.parse(settings));
  return secrets.redact(text);
}

describe('what a connector says', () => {
  test('holds no secret that the connector has marked, whatever its name is', () => {
    const settings = { pin: '48151623', login: { phrase: 'open sesame' }, tenants: [{ k: 'k-9f8e7d' }] };
    const schema = z.strictObject({
      pin: secret(),
      login: z.strictObject({ phrase: secret() }),
      tenants: z.array(z.strictObject({ k: secret() })),
    });
    const text = 'refused: 48151623, open sesame, k-9f8e7d';
    expect(told(text, settings)).toBe(text);
    expect(told(text, settings, schema)).toBe('refused: [secret], [secret], [secret]');
  });

  test('holds none as it stands in an address or in JSON', () => {
    const schema = z.strictObject({ pin: secret() });
    const pin = 'a"b\\c d/e';
    expect(told(`?pin=${encodeURIComponent(pin)} ${JSON.stringify({ pin })}`, { pin }, schema)).toBe(
      '?pin=[secret] {"pin":"[secret]"}',
    );
  });

  test('holds no password of a URL, be the whole URL marked or not', () => {
    const dsn = 'postgresql://anna:p%40ss-w0rd@db.example/erp';
    const text = `cannot reach ${dsn}: password "p@ss-w0rd" (p%40ss-w0rd) is wrong`;
    const unmarked = told(text, { dsn });
    const marked = told(text, { target: dsn }, z.strictObject({ target: secret() }));
    const ofSchema = told(text, {}, z.strictObject({ target: secret().prefault(dsn) }));
    for (const one of [unmarked, marked, ofSchema]) expect(one).not.toMatch(/p(@|%40)ss-w0rd/);
    expect(unmarked).toContain('is wrong');
  });

  test.each([
    'password',
    'api_key',
    'client_secret',
    'access_token',
    'token',
    'connection_string',
    'pwd',
    'credentials',
  ])(
    'holds nothing that stands under the name of a secret, should the connector have forgotten to mark it: %s',
    (name) => {
      const schema = z.strictObject({ [name]: z.string() });
      expect(told('no: plain-but-secret', { [name]: 'plain-but-secret' }, schema)).toBe('no: [secret]');
    },
  );

  test('keeps what is no secret, and what is too short to be told apart', () => {
    const settings = { user: 'anna', auth: { user: 'berta' }, password: 'abc' };
    const text = 'anna and berta know their abc';
    expect(told(text, settings, z.looseObject({ password: secret() }))).toBe(text);
  });

  test('holds the longer of two secrets wholly, where one begins like the other', () => {
    const schema = z.strictObject({ a: secret(), b: secret() });
    expect(told('no: key-1-extra', { a: 'key-1', b: 'key-1-extra' }, schema)).toBe('no: [secret]');
  });

  test('holds no bearer token, also one that is in no setting', () => {
    expect(told('sent Authorization: Bearer eyJhbGciOi.J9.x-y_z', {})).toBe('sent Authorization: Bearer [secret]');
  });

  test('is as long as a person reads', () => {
    expect(told('x'.repeat(5_000), {})).toHaveLength(2_000);
  });
});

test('what a connector logs holds no secret: not in the message, in a field, in an error, or as a secret itself', async () => {
  const lines: string[] = [];
  const log = createLogger({ level: 'info', name: 'x', destination: { write: (line) => void lines.push(line) } });
  const settings = { opens: 'logs', password: 'named-9f8e', pin: 'marked-7d6c' };
  await using opened = new AsyncDisposableStack();
  await openFlows(
    {
      dataDir: tmpdir(),
      log,
      clock: systemClock,
      settings: settingsOf({}, [{ connector: './test/bridge/push/odd-connector.ts', settings }]),
    },
    opened,
  );
  const both = '[secret] and [secret]';
  expect(lines.map((line) => JSON.parse(line) as unknown)).toMatchObject([
    {
      level: 'warn',
      msg: `logging in with ${both}`,
      shown: both,
      deep: { list: [both] },
      err: `no: ${both}`,
      pin: '[secret]',
    },
  ]);
});
