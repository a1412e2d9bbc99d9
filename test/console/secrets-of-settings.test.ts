/**
 * A canary at each place of the settings where a secret may stand: no call of the console shows one to a
 * viewer. The schemas say where; a mark that is added there without a canary fails.
 */
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, expect, test } from 'vitest';
import { z } from 'zod';
import { loadConnector } from '#bridge/connectors/load-connector.ts';
import { bridgeSettings } from '#bridge/settings/settings.ts';
import { consoleApi } from '#console/api/console-api.ts';
import { withoutSecretSettings } from '#platform/secret-settings.ts';
import { createTestDatabase } from '../harness/test-database.ts';
import { type ConsoleServer, startConsole } from './console-server.ts';
import { eventId, seedConsole, supplierId } from './seed-console.ts';

const canaries = new Set<string>();
/** A text that nothing else holds; as long as the longest that a schema demands. */
const canary = (place: string) => {
  const text = `canary-${place}-4f9c2b7a6d8e1035c2b7a6d8`;
  canaries.add(text);
  return text;
};
const tokenUrl = `https://login.example.com/token?key=${canary('token-url')}`;
const tokenRequest = { access_token_url: tokenUrl, client_id: 'bridge', client_secret: canary('token-secret') };
const fromEnvironment = [canary('environment')];

const settings = bridgeSettings.parse({
  port: 8443,
  console_url: 'https://bridge.example.com',
  console_token: canary('console-token'),
  console_login: {
    openid: {
      issuer: 'https://login.example.com',
      client_id: 'console',
      client_secret: canary('openid'),
      roles: [{ claim: 'groups', value: `group of ${fromEnvironment[0]}`, role: 'viewer' }],
    },
  },
  alerts: {
    webhook: {
      url: `https://hooks.example.com/services/${canary('slack')}`,
      headers: { Authorization: `Bearer ${canary('alert-header')}` },
    },
    email: {
      host: 'mail.example.com',
      user: 'bridge',
      password: canary('mail'),
      from: 'a@example.com',
      to: ['b@example.com'],
    },
  },
  sources: [
    {
      name: 'main',
      base_url: 'https://sourcing.example.com',
      api_key: canary('api-key'),
      signing_keys: [canary('signing-key')],
      bearer: { type: 'token', token: canary('bearer').replaceAll('-', '.'), token_request: tokenRequest },
    },
    {
      name: 'other',
      base_url: 'https://other.example.com',
      api_key: canary('other-key'),
      bearer: {
        type: 'jwt',
        jwks_url: `https://login.example.com/keys?code=${canary('jwks-url')}`,
        issuer: 'login',
        audience: 'bridge',
        token_request: tokenRequest,
      },
    },
  ],
  flows: [
    {
      name: 'sap',
      source: 'main',
      connector: 'http',
      settings: {
        base_url: `https://user:${canary('user-info')}@erp.example.com/api?code=${canary('base-url')}`,
        auth: { type: 'header', name: 'X-API-Key', value: canary('auth-header') },
        headers: { 'X-Tenant': canary('header') },
        documents: {
          award: {
            create: {
              method: 'POST',
              path: `/orders?key=${canary('path')}`,
              headers: { 'X-Site': canary('request-header') },
            },
          },
        },
      },
    },
    { name: 'archive', source: 'main', connector: 'nowhere', settings: { door: canary('unknown-connector') } },
  ],
});
canaries.add(canary('bearer').replaceAll('-', '.'));

const shownCanaries = (text: string) => [...canaries].filter((each) => text.includes(each));

let server: ConsoleServer;

beforeAll(async () => {
  const { database } = await createTestDatabase();
  await seedConsole(database, Date.now());
  server = await startConsole(database, { settings, fromEnvironment });
  server.viewer = { name: 'Vera', role: 'viewer', flows: 'all' };
});

test('a viewer gets no secret from any call of the console', async () => {
  const document = { flow: 'sap', kind: 'award', key: `${eventId(0)}/${supplierId(0)}` };
  const queries: Record<string, Record<string, string>> = {
    '/api/search': { q: 'RFQ' },
    '/api/document': document,
    '/api/document/version': { ...document, version: '1' },
    '/api/notifications/led-to': { pull: crypto.randomUUID() },
    '/api/webhooks': { source: 'main' },
    '/api/comparisons/one': { run: '1' },
    '/api/comparisons/report': { run: '1' },
    '/api/intake': { intake: 'none' },
    '/api/intake/requisitions': { intake: 'none' },
    '/api/intake/requisition': { intake: 'none', key: '1' },
  };
  const reads = consoleApi({ settings } as never).filter(({ method }) => method === 'GET');
  for (const { path } of [...reads, { path: '/status.json' }]) {
    const response = await fetch(`${server.url}${path}?${new URLSearchParams(queries[path]).toString()}`);
    expect({ path, shown: shownCanaries(await response.text()) }).toEqual({ path, shown: [] });
    expect([200, 404, 502, 503]).toContain(response.status);
  }
});

test('the settings still show what is no secret', async () => {
  const answer = (await (await fetch(`${server.url}/api/settings`)).json()) as {
    settings: { alerts: { webhook: { url: string } }; flows: { settings: object }[] };
  };
  expect(answer.settings.alerts.webhook).toEqual({
    url: '(hidden)',
    headers: { Authorization: '(hidden)' },
  });
  expect(answer.settings.flows[0]?.settings).toMatchObject({
    base_url: 'https://…@erp.example.com/api?…',
    headers: { 'X-Tenant': '(hidden)' },
    auth: '(hidden)',
    documents: { award: { create: { method: 'POST', path: '/orders?…' } } },
  });
});

test('every secret of the schema of the bridge has a canary here', () => {
  for (const path of markedPaths(jsonOf(bridgeSettings)))
    expect({ path, canaries: textsAt(settings, path).flatMap(shownCanaries) }).not.toEqual({ path, canaries: [] });
});

test('a secret of a connector is hidden where its schema marks it', async () => {
  const names = await readdir(join(import.meta.dirname, '..', '..', 'connectors'));
  for (const name of names) {
    const { settings: schema } = await loadConnector(name);
    for (const path of markedPaths(jsonOf(schema))) {
      const shown = JSON.stringify(withoutSecretSettings(sampleOf(path), schema));
      expect({ name, path, shown: shown.includes(mark) }).toEqual({ name, path, shown: false });
    }
  }
});

interface Json {
  writeOnly?: boolean;
  properties?: Record<string, Json>;
  additionalProperties?: Json | boolean;
  items?: Json;
  anyOf?: Json[];
  oneOf?: Json[];
}

const jsonOf = (schema: z.ZodType) => z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' }) as Json;

/** The places of all secrets; `*` is any entry of a list, or any name. */
function markedPaths(schema: Json, path: readonly string[] = []): string[][] {
  if (schema.writeOnly) return [[...path]];
  const { properties = {}, additionalProperties: others, items, anyOf = [], oneOf = [] } = schema;
  return [
    ...Object.entries(properties).flatMap(([name, member]) => markedPaths(member, [...path, name])),
    ...(typeof others === 'object' ? markedPaths(others, [...path, '*']) : []),
    ...(items ? markedPaths(items, [...path, '*']) : []),
    ...[...anyOf, ...oneOf].flatMap((choice) => markedPaths(choice, path)),
  ];
}

function textsAt(value: unknown, [name, ...rest]: readonly string[]): string[] {
  if (name === undefined) return typeof value === 'string' ? [value] : [];
  if (typeof value !== 'object' || value === null) return [];
  const members = name === '*' ? Object.values(value) : [Reflect.get(value, name)];
  return members.flatMap((member) => textsAt(member, rest));
}

const mark = 'canary-of-a-mark';

function sampleOf([name, ...rest]: readonly string[]): unknown {
  if (name === undefined) return mark;
  return name === '*' ? [sampleOf(rest)] : { [name]: sampleOf(rest) };
}
