import { tmpdir } from 'node:os';
import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import { openFlows } from '#bridge/connectors/open-flows.ts';
import { createSecretRedactor } from '#bridge/connectors/secret-redactor.ts';
import { secret } from '#connector/settings.ts';
import { systemClock } from '#platform/clock.ts';
import { createLogger } from '#platform/log.ts';
import { settingsOf } from '../parts.ts';

/** Redacts a text with these settings, and with the schema of a connector when there is one. */
function redacted(text: string, settings: unknown, schema?: z.ZodType): string {
  const secrets = createSecretRedactor(settings);
  if (schema) secrets.addSecretsOf(schema.parse(settings));
  return secrets.redact(text);
}

describe('a redacted text', () => {
  test('holds no secret that the connector has marked, whatever its name is', () => {
    const settings = { pin: '48151623', login: { phrase: 'open sesame' }, tenants: [{ k: 'k-9f8e7d' }] };
    const schema = z.strictObject({
      pin: secret(),
      login: z.strictObject({ phrase: secret() }),
      tenants: z.array(z.strictObject({ k: secret() })),
    });
    const text = 'refused: 48151623, open sesame, k-9f8e7d';
    expect(redacted(text, settings)).toBe(text);
    expect(redacted(text, settings, schema)).toBe('refused: [secret], [secret], [secret]');
  });

  test('holds no secret in its spelling of an address or of JSON', () => {
    const schema = z.strictObject({ pin: secret() });
    const pin = 'a"b\\c d/e';
    expect(redacted(`?pin=${encodeURIComponent(pin)} ${JSON.stringify({ pin })}`, { pin }, schema)).toBe(
      '?pin=[secret] {"pin":"[secret]"}',
    );
  });

  test('holds no password of a URL, whether the URL is marked or not', () => {
    const dsn = 'postgresql://anna:p%40ss-w0rd@db.example/erp';
    const text = `cannot reach ${dsn}: password "p@ss-w0rd" (p%40ss-w0rd) is wrong`;
    const unmarked = redacted(text, { dsn });
    const marked = redacted(text, { target: dsn }, z.strictObject({ target: secret() }));
    const ofSchema = redacted(text, {}, z.strictObject({ target: secret().prefault(dsn) }));
    for (const shown of [unmarked, marked, ofSchema]) expect(shown).not.toMatch(/p(@|%40)ss-w0rd/);
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
  ])('holds no value under a name that stands for a secret, even when the connector has not marked it: %s', (name) => {
    const schema = z.strictObject({ [name]: z.string() });
    expect(redacted('no: plain-but-secret', { [name]: 'plain-but-secret' }, schema)).toBe('no: [secret]');
  });

  test('keeps what is no secret, and secrets that are too short to be recognised', () => {
    const settings = { user: 'anna', auth: { user: 'berta' }, password: 'abc' };
    const text = 'anna and berta know their abc';
    expect(redacted(text, settings, z.looseObject({ password: secret() }))).toBe(text);
  });

  test('hides the whole of the longer secret when another secret is its beginning', () => {
    const schema = z.strictObject({ a: secret(), b: secret() });
    expect(redacted('no: key-1-extra', { a: 'key-1', b: 'key-1-extra' }, schema)).toBe('no: [secret]');
  });

  test('holds no bearer token, not even one that is in no setting', () => {
    expect(redacted('sent Authorization: Bearer eyJhbGciOi.J9.x-y_z', {})).toBe('sent Authorization: Bearer [secret]');
  });

  test('has at most 2,000 characters', () => {
    expect(redacted('x'.repeat(5_000), {})).toHaveLength(2_000);
  });
});

test('a log line of a connector holds no secret: not in its message, a field or an error', async () => {
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
