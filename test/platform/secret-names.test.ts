import { describe, expect, test } from 'vitest';
import { isSecretName, soundsSecret } from '#platform/secret-names.ts';

describe('a name that can only mean a secret is a secret name in any spelling', () => {
  test.each(['password', 'Client-Secret', 'api_key', 'apiKey', 'AUTHORIZATION'])('%s', (name) => {
    expect([isSecretName(name), soundsSecret(name)]).toEqual([true, true]);
  });
});

describe('a setting whose name sounds like a secret is one, though logs may show values under that name', () => {
  test.each([
    'db_password',
    'user_pass_phrase',
    'erp-api-key',
    'sharedKey',
    'connection_string',
    'pwd',
    'dsn',
    'tokens',
  ])('%s', (name) => {
    expect([isSecretName(name), soundsSecret(name)]).toEqual([false, true]);
  });
});

describe('a name that says where a secret is, or means a key of another kind, is no secret', () => {
  test.each(['token_url', 'token_endpoint', 'password_file', 'secret_name', 'access_key_id', 'group_key', 'author'])(
    '%s',
    (name) => {
      expect([isSecretName(name), soundsSecret(name)]).toEqual([false, false]);
    },
  );
});
