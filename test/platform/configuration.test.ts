import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import { z } from 'zod';
import { configurationJsonSchema, loadConfiguration } from '#platform/configuration.ts';
import { AppError } from '#platform/errors.ts';

const folder = mkdtempSync(join(tmpdir(), 'sourcing-configuration-'));
afterAll(() => rmSync(folder, { recursive: true }));
const file = join(folder, 'settings.yaml');

const schema = z.strictObject({
  database_url: z.string().optional(),
  debug: z.boolean().default(false),
  service: z
    .strictObject({ port: z.int().min(0).max(65_535).default(8080), host: z.string().default('127.0.0.1') })
    .prefault({}),
  sources: z
    .array(
      z.strictObject({ name: z.string(), api_key: z.string().min(1), feeds: z.array(z.string()).default(['all']) }),
    )
    .default([]),
  limits: z.record(z.string(), z.number()).default({}),
});

const variables = { DATABASE_URL: 'database_url', PORT_TEXT: 'service.host' };

function load(yaml: string | undefined, env: Record<string, string | undefined> = {}, path = file) {
  if (yaml !== undefined) writeFileSync(file, yaml);
  return loadConfiguration({ schema, file: { path, required: yaml !== undefined }, env, variables }).settings;
}

function refusal(...given: Parameters<typeof load>): AppError {
  try {
    load(...given);
  } catch (error) {
    if (error instanceof AppError) return error;
    throw error;
  }
  throw new Error('It was taken.');
}

/** The lines of the message after the first one, without their indent. */
const faults = (...given: Parameters<typeof load>) =>
  refusal(...given)
    .publicMessage.split('\n')
    .slice(1)
    .map((line) => line.trim());

describe('what is read', () => {
  const defaults = { debug: false, service: { port: 8080, host: '127.0.0.1' }, sources: [], limits: {} };

  test.each([
    ['empty', ''],
    ['only comments', '# nothing\n'],
    ['null', '~\n'],
    ['an empty map', '{}\n'],
  ])('a file that is %s leaves the defaults', (_, yaml) => {
    expect(load(yaml)).toEqual(defaults);
  });

  test('the default file may be missing', () => {
    expect(load(undefined, {}, join(folder, 'none.yaml'))).toEqual(defaults);
  });

  test('well-known variables override the file, and SOURCING__ variables override both', () => {
    const yaml = 'database_url: postgres://file\nservice:\n  port: 1\n  host: file\n';
    expect(load(yaml, { DATABASE_URL: 'postgres://known', OTHER: 'x' })).toMatchObject({
      database_url: 'postgres://known',
      service: { port: 1, host: 'file' },
    });
    const both = { SOURCING__DATABASE_URL: 'postgres://override', DATABASE_URL: 'postgres://known' };
    expect(load(yaml, both).database_url).toBe('postgres://override');
    expect(load(yaml, Object.fromEntries(Object.entries(both).reverse())).database_url).toBe('postgres://override');
  });

  test('${NAME} is replaced by the environment variable, anywhere in a text and every time', () => {
    const yaml =
      'database_url: "postgres://${USER_1}:${PASSWORD}@db/${USER_1}"\nsources: [{name: a, api_key: "${K}"}]\n';
    expect(load(yaml, { USER_1: 'me', PASSWORD: '$1${USER_1}', K: 'key' })).toMatchObject({
      database_url: 'postgres://me:$1${USER_1}@db/me',
      sources: [{ api_key: 'key' }],
    });
  });

  test('a replaced text stays text, whatever it looks like', () => {
    expect(load('database_url: ${D}\n', { D: '4711' }).database_url).toBe('4711');
  });

  test('the file’s own line breaks and byte order mark do not matter', () => {
    expect(load('\ufeffdebug: true\r\nservice:\r\n  port: 5\r\n')).toMatchObject({ debug: true, service: { port: 5 } });
  });
});

describe('a variable that may lack', () => {
  const formed = z.strictObject({
    token: z
      .string()
      .regex(/^\S{32,}$/)
      .optional(),
    port: z.int().default(8080),
    keys: z.array(z.strictObject({ url: z.url(), days: z.int().default(7) })).default([]),
  });
  const loadLacking = (yaml: string, env: Record<string, string> = {}) => {
    writeFileSync(file, yaml);
    const mayLack = ([name]: readonly (string | number)[]) => name !== 'port';
    return loadConfiguration({ schema: formed, file: { path: file, required: true }, env, variables: {}, mayLack });
  };

  test('need not have the form of its setting, and everything around it is read as always', () => {
    expect(loadLacking('token: ${T}\nport: "${P}"\nkeys: [{ url: "${U}" }]\n', { P: '9000' }).settings).toEqual({
      token: '[T is not set here]',
      port: 9000,
      keys: [{ url: '[U is not set here]', days: 7 }],
    });
  });

  test('that is set must have the form; other faults are named without it', () => {
    expect(() => loadLacking('token: ${T}\n', { T: 'short' })).toThrow('token');
    expect(() => loadLacking('token: ${T}\nport: x\n')).toThrow(/:\n {2}port must be [^\n]*$/);
  });
});

describe('SOURCING__ variables', () => {
  test.each([
    ['SOURCING__SERVICE__PORT', '9000', { service: { port: 9000, host: '127.0.0.1' } }],
    ['SOURCING__DEBUG', 'true', { debug: true }],
    ['SOURCING__SERVICE', '{port: 1, host: a}', { service: { port: 1, host: 'a' } }],
    ['SOURCING__SOURCES', '[{name: a, api_key: b, feeds: [x, y]}]', { sources: [{ name: 'a', feeds: ['x', 'y'] }] }],
    ['SOURCING__LIMITS__FEEDS', '1.5', { limits: { feeds: 1.5 } }],
    ['SOURCING__DATABASE_URL', '"4711"', { database_url: '4711' }],
    ['SOURCING__DATABASE_URL', '@a: b #c', { database_url: '@a: b #c' }],
    ['SOURCING__DATABASE_URL', '127.0.0.1', { database_url: '127.0.0.1' }],
    ['SOURCING__DATABASE_URL', '2030-01-01', { database_url: '2030-01-01' }],
    ['SOURCING__DATABASE_URL', '- a: b', { database_url: '- a: b' }],
    ['SOURCING__DATABASE_URL', 'no', { database_url: 'no' }],
  ])('%s=%s', (variable, text, expected) => {
    expect(load('', { [variable]: text })).toMatchObject(expected);
  });

  test('reach into lists by position, and may add one at the end', () => {
    const yaml = 'sources:\n  - {name: a, api_key: old}\n';
    const env = {
      SOURCING__SOURCES__0__API_KEY: 'new',
      SOURCING__SOURCES__1__NAME: 'b',
      SOURCING__SOURCES__1__API_KEY: 'k',
      SOURCING__SOURCES__1__FEEDS__0: 'awards',
    };
    expect(load(yaml, env).sources).toEqual([
      { name: 'a', api_key: 'new', feeds: ['all'] },
      { name: 'b', api_key: 'k', feeds: ['awards'] },
    ]);
  });

  test('an empty variable counts as not set', () => {
    expect(load('debug: true\n', { SOURCING__DEBUG: '', DATABASE_URL: '' })).toMatchObject({ debug: true });
    expect(load('', { DATABASE_URL: '' })).not.toHaveProperty('database_url');
  });
});

test('a variable in the file is a number, true or false where the setting is one, and text elsewhere', () => {
  const yaml = 'debug: ${D}\nservice: {port: "${P}", host: "${P}"}\nlimits: {a: "${L}"}\n';
  expect(load(yaml, { D: 'true', P: '8443', L: '1.5' })).toMatchObject({
    debug: true,
    service: { port: 8443, host: '8443' },
    limits: { a: 1.5 },
  });
  expect(faults(yaml, { D: 'yes', P: '0x10', L: '1e3' })).toEqual([
    `debug must be true or false (${file}, line 1)`,
    `service.port must be a number (${file}, line 2)`,
    `limits.a must be a number (${file}, line 3)`,
  ]);
});

describe('what is wrong', () => {
  test('is named all at once, each with its place and what it must be', () => {
    const yaml = `debug: maybe
service:
  port: 70000
  prot: 1
sources:
  - name: a
    api_key: ""
  - name: 7
limits:
  "by day": many
`;
    const error = refusal(yaml, { SOURCING__SERVICE__HOST: '12345', SOURCING__LIMITS__X: 'none' });
    expect(error.code).toBe('invalid');
    expect(error.publicMessage).toBe(`The configuration is not valid:
  debug must be true or false (${file}, line 1)
  service.port must be at most 65535 (${file}, line 3)
  service.host must be a string (set by SOURCING__SERVICE__HOST; "…" makes it text)
  service.prot is not a known setting (${file}, line 4)
  sources[0].api_key must have at least 1 character (${file}, line 7)
  sources[1].name must be a string (${file}, line 8)
  sources[1].api_key is missing (${file}, line 8)
  limits["by day"] must be a number (${file}, line 10)
  limits.x must be a number (set by SOURCING__LIMITS__X)`);
    expect(error.issues).toHaveLength(9);
  });

  test('a wrong part of a setting that a variable has set is blamed on the variable, not on the file', () => {
    expect(faults('service:\n  port: 1\n', { SOURCING__SERVICE: '{port: x}' })).toEqual([
      'service.port must be a number (set by SOURCING__SERVICE)',
    ]);
  });

  test('an unknown SOURCING__ variable is named: a typing error must not vanish', () => {
    expect(faults('', { SOURCING__SERVIC__PORT: '1', SOURCING__: 'x', SOURCING__SERVICE__: 'x' })).toEqual([
      expect.stringMatching(/^.* is not a place that can be set \(set by SOURCING__\)$/) as string,
      expect.stringMatching(/is not a place that can be set \(set by SOURCING__SERVICE__\)$/) as string,
      'servic is not a known setting (set by SOURCING__SERVIC__PORT)',
    ]);
  });

  test.each([
    ['SOURCING__DEBUG__DEEPER', 'debug: true\n'],
    ['SOURCING__SOURCES__NAME', 'sources: []\n'],
    ['SOURCING__SOURCES__5__NAME', 'sources: []\n'],
    ['SOURCING__SERVICE__0', 'service: {port: 1}\n'],
  ])('%s, for which there is no place, is named', (variable, yaml) => {
    expect(faults(yaml, { [variable]: 'x' })).toContainEqual(
      expect.stringMatching(new RegExp(`is not a place that can be set \\(set by ${variable}\\)$`)),
    );
  });

  test('a variable that the file needs and is not set is named with its place, once', () => {
    expect(faults('sources:\n  - name: a\n    api_key: ${CLOUD_KEY}\n')).toEqual([
      `sources[0].api_key needs the environment variable CLOUD_KEY, which is not set (${file}, line 3)`,
    ]);
    expect(faults('database_url: ${constructor}\n')).toEqual([
      `database_url needs the environment variable constructor, which is not set (${file}, line 1)`,
    ]);
  });

  test('a file that the user named must exist, and must be a file', () => {
    expect(faults('', {}, '/nowhere/settings.yaml')).toEqual([
      'the configuration file /nowhere/settings.yaml does not exist',
    ]);
    expect(faults('', {}, folder)).toEqual([expect.stringMatching(/^the configuration file cannot be read: EISDIR/)]);
  });

  test.each([
    ['service:\n\tport: 1\n', 2, 'spaces are expected, not tabs'],
    ['debug: true\ndebug: false\n', 2, 'each setting must stand once'],
    ['service: {port: 1\n', 2, 'a closing bracket'],
    ['a: "hunter2\n', 2, 'a quotation mark is missing'],
    ['debug: true\n---\ndebug: false\n', 2, 'one document is expected'],
    ['debug: true\nservice: hunter2: 8080\n', 2, 'needs quotation marks'],
    ['debug: true\nservice\nport: 1\n', 2, 'a colon is expected'],
    ['%YAML 9\n', 1, 'bad directive'],
  ])('invalid YAML is refused with its line and what was expected, without its text: %j', (yaml, line, expected) => {
    const error = refusal(yaml);
    expect(error.publicMessage).toContain(`is not valid YAML: ${file}, line ${line} (`);
    expect(error.publicMessage).toContain(expected);
    expect(error.publicMessage).not.toContain('hunter2');
  });

  test.each([
    ['service: { a: b, key: ${API_KEY} }\n', 1],
    ['service: [${API_KEY}]\ndebug: true\n', 1],
    ['service:\n  { a: b,\n    key: ${API_KEY},\n    c: d }\n', 3],
  ])('a variable without quotation marks inside braces is one sentence with the cure: %j', (yaml, line) => {
    expect(faults(yaml)).toEqual([
      `the configuration is not valid YAML: ${file}, line ${line} (inside { } and [ ] a variable needs quotation marks: ` +
        '"${API_KEY}")',
    ]);
  });

  test.each(['*hunter2\n', 'a: *hunter2\n'])('an alias without an anchor is refused: %j', (yaml) => {
    expect(refusal(yaml).publicMessage).toMatch(/is not valid YAML|must hold settings/);
    expect(refusal(yaml).publicMessage).not.toContain('hunter2');
  });

  test('a file whose aliases multiply without bound is refused', () => {
    const levels = Array.from(
      { length: 12 },
      (_, n) =>
        `a${n}: &a${n} [${Array(10)
          .fill(`*a${n - 1}`)
          .join(', ')}]`,
    );
    levels[0] = 'a0: &a0 [x, x, x, x, x, x, x, x, x, x]';
    expect(refusal(`${levels.join('\n')}\n`).publicMessage).toContain('is not valid YAML');
  });

  test.each(['- a\n', 'just text\n', '5\n'])('a file that holds no settings is refused: %j', (yaml) => {
    expect(refusal(yaml).publicMessage).toContain('must hold settings, like "service:"');
  });

  test('a variable that is not valid YAML is named, without its text', () => {
    expect(faults('', { SOURCING__SOURCES: '[{name: hunter2' })).toEqual([
      expect.stringMatching(
        /^sources is not valid YAML: it must be indented .* or a closing bracket is missing before it \(set by SOURCING__SOURCES\)$/,
      ),
    ]);
  });

  test('no value is ever repeated: it may be a secret', () => {
    const secret = 'hunter2';
    const error = refusal(
      `debug: ${secret}\nservice: ${secret}\nsources: [{name: [${secret}], api_key: {a: ${secret}}}]\n`,
      {
        SOURCING__LIMITS__A: secret,
        SOURCING__SERVICE__PORT: secret,
        DATABASE_URL: secret,
        SOURCING__DATABASE_URL: `{a: ${secret}}`,
      },
    );
    expect(error.issues.length).toBeGreaterThanOrEqual(5);
    expect(JSON.stringify([error.publicMessage, error.message, error.issues, error.stack])).not.toContain(secret);
  });

  test('names like __proto__ are ordinary unknown settings, and change no object', () => {
    const error = refusal('__proto__: {polluted: 1}\nconstructor: {prototype: {polluted: 1}}\n', {
      SOURCING__CONSTRUCTOR__PROTOTYPE__POLLUTED: '1',
      SOURCING__SERVICE__TOSTRING: '1',
      SOURCING__LIMITS__CONSTRUCTOR: 'x',
    });
    const paths = error.issues.map(({ path }) => path);
    expect(paths).toEqual(
      expect.arrayContaining(['__proto__', 'constructor', 'service.tostring', 'limits.constructor']),
    );
    expect(({} as Record<string, unknown>)['polluted']).toBeUndefined();
    expect((Object as unknown as Record<string, unknown>)['polluted']).toBeUndefined();
  });
});

test('the JSON Schema describes what may be written, so a setting with a default is not required', () => {
  expect(configurationJsonSchema(schema)).toMatchObject({
    type: 'object',
    additionalProperties: false,
    properties: { debug: { type: 'boolean', default: false }, sources: { items: { required: ['name', 'api_key'] } } },
  });
  expect(configurationJsonSchema(schema)).not.toHaveProperty('required');
});

test('in the JSON Schema a text may be taken from the environment, whatever its form', () => {
  const { properties } = configurationJsonSchema(
    z.strictObject({ url: z.url(), name: z.string().regex(/^[a-z]+$/) }),
  ) as { properties: Record<string, { type: string; format?: string; pattern: string }> };
  expect(properties['url']).toEqual({ type: 'string' });
  const name = new RegExp(properties['name']?.pattern ?? '');
  expect(['abc', '${THE_NAME}', 'ABC', 'a${b'].map((text) => name.test(text))).toEqual([true, true, false, false]);
});
