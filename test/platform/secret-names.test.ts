import { describe, expect, test } from 'vitest';
import { isSecretName, soundsSecret } from '#platform/secret-names.ts';

describe('a name that means nothing but a secret is one, however it is written', () => {
  test.each(['password', 'Client-Secret', 'api_key', 'apiKey', 'AUTHORIZATION'])('%s', (name) => {
    expect([isSecretName(name), soundsSecret(name)]).toEqual([true, true]);
  });
});

describe('a setting that sounds like a secret is one, though logs may show values of that name', () => {
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

describe('what says where a secret stands, or is a key of another kind, is none', () => {
  test.each(['token_url', 'token_endpoint', 'password_file', 'secret_name', 'access_key_id', 'group_key', 'author'])(
    '%s',
    (name) => {
      expect([isSecretName(name), soundsSecret(name)]).toEqual([false, false]);
    },
  );
});
