import { readdirSync, readFileSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { checkNames } from '#bridge/check-names.ts';
import { bridgeSettings } from '#bridge/settings/settings.ts';
import { configuration, readConfiguration } from '#cli/configuration.ts';
import { readCommandConfiguration } from '#cli/local-settings.ts';
import { configurationJsonSchema } from '#platform/configuration.ts';
import { runHere } from './command-line.ts';

const folder = join(import.meta.dirname, '..', '..', 'config');
const file = join(folder, 'bridge.yaml');
const lines = readFileSync(file, 'utf8').split('\n');

interface JsonSchema {
  properties?: Record<string, JsonSchema>;
  items?: JsonSchema;
  oneOf?: JsonSchema[];
}

/** Every setting of the schema, as a path of names; the path of a setting in a list begins with the list’s. */
function settingsOf(schema: JsonSchema, path: readonly string[] = []): string[][] {
  const inside = schema.properties ?? schema.items?.properties ?? {};
  return [
    ...Object.entries(inside).flatMap(([name, setting]) => [[...path, name], ...settingsOf(setting, [...path, name])]),
    // Every choice of a setting that has several; the settings that they share are shown once.
    ...(schema.oneOf ?? []).flatMap((choice) => settingsOf(choice, path)),
  ];
}

const settings = [
  ...new Map(settingsOf(configurationJsonSchema(configuration)).map((path) => [path.join('.'), path])).values(),
];

describe('config/bridge.yaml', () => {
  test('holds exactly the defaults', () => {
    expect(readConfiguration(file, {}, {})).toEqual({ ...configuration.parse({}), fromEnvironment: [] });
  });

  test('names its schema for editors, in its first line', () => {
    expect(lines[0]).toBe('# yaml-language-server: $schema=./bridge.schema.json');
  });

  /** The path of each line that is a setting, in force or commented out, by its indent. */
  const shown = new Map<string, number>();
  const around: { indent: number; name: string }[] = [];
  for (const [index, line] of lines.entries()) {
    const [, before = '', after = '', name] = /^( *)(?:# )?([ -]*)([a-z_]+):(?: |$)/.exec(line) ?? [];
    if (name === undefined || name === 'yaml-language-server') continue;
    const indent = before.length + after.length;
    while ((around.at(-1)?.indent ?? -1) >= indent) around.pop();
    around.push({ indent, name });
    shown.set(around.map((outer) => outer.name).join('.'), index);
  }

  test('has enough settings for these tests to mean something', () => {
    expect(settings.map((path) => path.join('.'))).toEqual(
      expect.arrayContaining([
        'data_dir',
        'service.port',
        'service.files.bucket',
        'bridge.tls.key_file',
        'bridge.sources.api_key',
      ]),
    );
  });

  test.each(settings.map((path) => [path.join('.')]))('shows and explains %s', (path) => {
    const index = shown.get(path);
    expect(index).toBeDefined();
    // A comment stands above it, or above the settings before it that the comment also explains.
    let above = (index ?? 0) - 1;
    while (/^[ #]*(- )?[a-z_]+:/.test(lines[above] ?? '') && !/^ *# +#/.test(lines[above] ?? '')) above -= 1;
    expect(lines[above]).toMatch(/^ *#( +[-#])? +\S/);
  });
});

test('config/bridge.schema.json is the output of `npm run -s cli -- config-schema`', async () => {
  const { code, stdout } = await runHere(['config-schema']);
  expect(code).toBe(0);
  expect(JSON.parse(readFileSync(join(folder, 'bridge.schema.json'), 'utf8'))).toEqual(JSON.parse(stdout));
});

describe('config/examples', () => {
  const names = readdirSync(join(folder, 'examples'));

  test('exist', () => {
    expect(names).toContain('cloud-to-folder.yaml');
  });

  test.each(names)('%s loads when the variables that it names are set', (name) => {
    const path = join(folder, 'examples', name);
    const text = readFileSync(path, 'utf8');
    const env = Object.fromEntries(
      [...text.matchAll(/\$\{(\w+)\}/g)].map(([, variable]) => [variable, `the ${variable}`]),
    );
    const { bridge } = readConfiguration(path, {}, env);
    for (const flow of bridge.flows) expect(bridge.sources.map((source) => source.name)).toContain(flow.source);
    expect(text.split('\n')[0]).toBe('# yaml-language-server: $schema=../bridge.schema.json');
  });

  test('cloud-to-folder takes both keys from the environment', () => {
    const path = join(folder, 'examples', 'cloud-to-folder.yaml');
    const { bridge } = readConfiguration(path, {}, { CLOUD_API_KEY: 'api', CLOUD_SIGNING_KEY: 'signing' });
    expect(bridge.sources).toMatchObject([{ name: 'cloud', api_key: 'api', signing_keys: ['signing'] }]);
    expect(bridge.flows).toMatchObject([{ source: 'cloud', connector: 'file' }]);
  });
});

describe('origins of pages', () => {
  const read = (origins: string) => readConfiguration(undefined, {}, { SOURCING__SERVICE__CORS_ORIGINS__0: origins });

  test('are none by default', () => {
    expect(readConfiguration(undefined, {}, {}).service.cors_origins).toEqual([]);
  });

  test.each(['https://app.example.com', 'http://localhost:5173'])('%s is taken', (origin) => {
    expect(read(origin).service.cors_origins).toEqual([origin]);
  });

  test.each([
    '*',
    'null',
    'app.example.com',
    'https://app.example.com/',
    'https://app.example.com/page',
    'https://App.example.com',
    'https://app.example.com:443',
    'https://*.example.com',
    'ftp://app.example.com',
  ])('%s is refused: a browser never sends it, or it would permit every page', (origin) => {
    expect(() => read(origin)).toThrow(/service\.cors_origins\[0\]/);
  });
});

describe('the environment', () => {
  const read = (env: Record<string, string>) => readConfiguration(undefined, {}, env);

  test('sets every well-known setting', () => {
    const key = Buffer.alloc(32, 1).toString('base64');
    expect(
      read({
        DATABASE_URL: 'postgres://u:p%40ss@db/x?sslmode=require',
        REDIS_URL: 'rediss://:secret@cache:6380/1',
        DATA_DIR: '/var/lib/sourcing',
        LOG_LEVEL: 'debug',
        SOURCING_ADMIN_TOKEN: 'a-token-of-the-operator-by-hand-1',
        SOURCING_MASTER_KEY: key,
      }),
    ).toMatchObject({
      database_url: 'postgres://u:p%40ss@db/x?sslmode=require',
      redis_url: 'rediss://:secret@cache:6380/1',
      data_dir: '/var/lib/sourcing',
      log_level: 'debug',
      admin_token: 'a-token-of-the-operator-by-hand-1',
      master_key: key,
    });
  });

  test.each([Buffer.alloc(32, 255).toString('base64url'), `${Buffer.alloc(32, 255).toString('base64')}\n`])(
    'takes the master key in either alphabet, padded or not: %j',
    (key) => {
      expect(read({ SOURCING_MASTER_KEY: key }).master_key).toBe(key);
    },
  );

  test('refuses a token of the operator that could be guessed, and says how to make one', () => {
    const token = 'x'.repeat(31);
    expect(() => read({ SOURCING_ADMIN_TOKEN: token })).toThrow(
      /admin_token .*must have at least 32 characters; make one with: openssl rand -hex 24/,
    );
    expect(() => read({ SOURCING_ADMIN_TOKEN: token })).not.toThrow(token);
    expect(read({ SOURCING_ADMIN_TOKEN: `${token}x` }).admin_token).toBe(`${token}x`);
  });

  test('can choose where files are kept, with keys that stand in no file', () => {
    expect(read({}).service.files).toEqual({ store: 'local' });
    expect(
      read({
        SOURCING__SERVICE__FILES__STORE: 's3',
        SOURCING__SERVICE__FILES__BUCKET: 'files',
        SOURCING__SERVICE__FILES__ENDPOINT: 'http://minio:9000',
        SOURCING__SERVICE__FILES__ACCESS_KEY_ID: 'key',
        SOURCING__SERVICE__FILES__SECRET_ACCESS_KEY: 'secret',
      }).service.files,
    ).toEqual({
      store: 's3',
      bucket: 'files',
      region: 'us-east-1',
      endpoint: 'http://minio:9000',
      access_key_id: 'key',
      secret_access_key: 'secret',
    });
  });

  test.each([
    [{ STORE: 'ftp' }, 'service.files.store'],
    [{ STORE: 's3' }, 'service.files.bucket is missing'],
    [{ STORE: 's3', BUCKET: 'files', DIRECTORY: '/x' }, 'service.files.directory is not a known setting'],
    [{ STORE: 's3', BUCKET: 'files', ENDPOINT: 'minio:9000' }, 'service.files.endpoint must be a URL'],
    [
      { STORE: 's3', BUCKET: 'files', ACCESS_KEY_ID: 'hunter2' },
      'service.files.secret_access_key must be set together',
    ],
  ])('a wrong setting of the file storage is named, and no value is repeated: %j', (values, message) => {
    const env = Object.fromEntries(
      Object.entries(values).map(([name, value]) => [`SOURCING__SERVICE__FILES__${name}`, value]),
    );
    expect(() => read(env)).toThrow(message);
    expect(() => read(env)).not.toThrow('hunter2');
  });

  test('--data overrides everything else', () => {
    expect(readConfiguration(undefined, { data: '/there' }, { DATA_DIR: '/here' }).data_dir).toBe('/there');
  });
});

describe('two intakes of one source', () => {
  const checkTwo = (first: object, second: object) => {
    const source = { base_url: 'https://service.example.com', api_key: 'key' };
    const intakes = [first, second].map((more, index) => ({
      name: `vendors-${index + 1}`,
      source: 'main',
      connector: 'memory',
      ...more,
    }));
    const sources = [
      { ...source, name: 'main' },
      { ...source, name: 'other' },
    ];
    return () => checkNames(bridgeSettings.parse({ sources, intakes }));
  };
  const steel = { only: { fields: { Group: 'Steel' } } };
  const paper = { only: { fields: { Group: 'Paper' } } };

  test.each([
    ['neither has a prefix or a filter', {}, {}],
    ['both have the same prefix', { prefix: 'A-' }, { prefix: 'A-' }],
    ['only one has a filter', steel, {}],
    ['both have the same filter', steel, steel],
  ])('are refused when they would own the same suppliers: %s', (_why, first, second) => {
    expect(checkTwo(first, second)).toThrow(
      'bridge.intakes[1] and "vendors-1" would own the same suppliers of "main"; give each a prefix or a filter (only)',
    );
  });
  test.each([
    ['prefixes of their own', { prefix: 'A-' }, { prefix: 'B-' }],
    ['filters of their own', steel, paper],
    ['sources of their own', {}, { source: 'other' }],
  ])('work side by side with %s', (_how, first, second) => {
    expect(checkTwo(first, second)).not.toThrow();
  });
});

describe('a flow whose source is not configured', () => {
  const flowFrom = (source: string) => ({ flows: [{ name: 'orders', source, connector: 'memory', settings: {} }] });

  test('is refused with its place', () => {
    expect(() => checkNames(bridgeSettings.parse(flowFrom('main')))).toThrow(
      /flows\[0\]\.source names the source "main", which is not configured\.$/,
    );
  });

  test('when it is "local", a command says that only the data folder of npm start has it', async () => {
    const data = await mkdtemp(join(tmpdir(), 'configuration-'));
    onTestFinished(() => rm(data, { recursive: true }));
    const config = join(data, 'my-flow.yaml');
    await writeFile(config, JSON.stringify({ bridge: flowFrom('local') }));
    const read = readCommandConfiguration({ config, data });
    await expect(read).rejects.toThrow('flows[0].source names the source "local"');
    await expect(read).rejects.toThrow(
      'npm start adds this source, and it exists only with the data folder of npm start (--data)',
    );
  });
});
