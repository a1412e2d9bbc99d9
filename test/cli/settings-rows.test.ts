import { expect, test } from 'vitest';
import { z } from 'zod';
import { type SettingsSchema, settingsRows } from '#cli/settings-rows.ts';
import { secret } from '#connector/settings.ts';

const rowsOf = (schema: z.ZodType) => settingsRows(z.toJSONSchema(schema, { io: 'input' }) as SettingsSchema);

test('a row has the path of its setting, its type, its default and its purpose', () => {
  const schema = z.strictObject({
    url: z.url().describe('Where it is'),
    batch: z.int().default(20),
    mode: z.enum(['fast', 'safe']).optional(),
    tags: z.array(z.string()),
    strict: z.boolean().default(false),
    codes: z.record(z.string(), z.string()).default({}),
    either: z.union([z.string(), z.number()]),
  });
  expect(rowsOf(schema)).toEqual([
    { path: 'url', type: 'text', required: true, description: 'Where it is' },
    { path: 'batch', type: 'whole number', required: false, default: '20' },
    { path: 'mode', type: 'fast | safe', required: false },
    { path: 'tags', type: 'list of text', required: true },
    { path: 'strict', type: 'true | false', required: false, default: 'false' },
    { path: 'codes', type: 'object', required: false, default: '{}' },
    { path: 'either', type: 'text | number', required: true },
  ]);
});

test('a secret is shown as one, also when it is optional or part of another setting', () => {
  const schema = z.strictObject({
    token: secret().describe('Of the user'),
    old: secret().optional(),
    proxy: z.strictObject({ password: secret() }).optional(),
  });
  expect(rowsOf(schema)).toEqual([
    { path: 'token', type: 'secret', required: true, description: 'Of the user' },
    { path: 'old', type: 'secret', required: false },
    { path: 'proxy', type: 'object', required: false },
    { path: 'proxy.password', type: 'secret', required: true },
  ]);
});

test('each choice shows its own settings, and the choice to which they belong', () => {
  const login = z.discriminatedUnion('type', [
    z.strictObject({ type: z.literal('basic'), user: z.string() }),
    z.strictObject({ type: z.literal('bearer'), token: secret() }),
  ]);
  expect(rowsOf(z.strictObject({ login: login.describe('Who it is') }))).toEqual([
    { path: 'login', type: 'object', required: true, description: 'Who it is' },
    { path: 'login.type', type: 'basic', required: true, only: 'login.type: basic' },
    { path: 'login.user', type: 'text', required: true, only: 'login.type: basic' },
    { path: 'login.type', type: 'bearer', required: true, only: 'login.type: bearer' },
    { path: 'login.token', type: 'secret', required: true, only: 'login.type: bearer' },
  ]);
});

test('a setting in a list or under a free name has the path of that list or name', () => {
  const column = z.strictObject({ name: z.string() });
  const schema = z.strictObject({ columns: z.array(column).describe('All'), tables: z.record(z.string(), column) });
  expect(rowsOf(schema).map(({ path }) => path)).toEqual(['columns', 'columns[].name', 'tables.<name>.name']);
});
