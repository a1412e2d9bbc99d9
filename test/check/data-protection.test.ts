/**
 * docs/data-protection.md says of every table what it holds of persons and how long, and of every column of bytes whether it
 * is sealed or a hash; and nothing of what is gone.
 */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { bridgeSealedColumns } from '#bridge/sealed-bridge-columns.ts';
import { readConfiguration } from '#cli/configuration.ts';
import { serviceSealedColumns } from '#service/webhooks/sealed-webhook-columns.ts';
import { createTestDatabase } from '../harness/test-database.ts';

const root = join(import.meta.dirname, '../..');
const text = await readFile(join(root, 'docs/data-protection.md'), 'utf8');
const rows = [...text.matchAll(/^\| `((?:service|bridge)\.\w+)` \| (.+) \| (.+) \| (?:`([\w.]+)` )?\|$/gm)].map(
  ([, table = '', persons = '', howLong = '', setting]) => ({ table, persons, howLong, setting }),
);
const documented = rows.map(({ table }) => table).sort();
const { database } = await createTestDatabase();

test('every table of the migrated database has one row', async () => {
  const tables = await database.query<{ name: string }>(
    `select n.nspname || '.' || c.relname as name from pg_class c join pg_namespace n on n.oid = c.relnamespace
     where n.nspname in ('service', 'bridge') and c.relkind in ('r', 'p') and c.relname <> 'migrations' order by 1`,
  );
  expect(tables.length).toBeGreaterThan(0);
  expect(documented).toEqual(tables.map(({ name }) => name).sort());
});

/** The value of `service.submission_days`; undefined where there is no such setting. */
function valueOf(settings: unknown, path: readonly string[]): unknown {
  const [name = '', ...rest] = path;
  const value = (settings as Record<string, unknown> | undefined)?.[name];
  return rest.length === 0 ? value : valueOf(value, rest);
}

test.each(rows.filter(({ setting }) => setting !== undefined))(
  'the setting of $table exists, and its default is what the row says',
  ({ setting = '', howLong }) => {
    const value = valueOf(readConfiguration(undefined, {}, {}), setting.split('.'));
    // Null: for ever, unless it is set.
    expect(value === null ? howLong.includes('as set') : typeof value === 'number').toBe(true);
    const days = /^(\d+) days/.exec(howLong)?.[1];
    // A row may say no number of days, but no other one.
    expect([undefined, String(value)]).toContain(days);
  },
);

describe('what is encrypted', () => {
  const section = text.slice(text.indexOf('## What is encrypted'), text.indexOf('## Export'));
  const columns = [...section.matchAll(/^\| (`.+`) \| .+ \| (.+) \|$/gm)].flatMap(([, names = '', how = '']) =>
    [...names.matchAll(/`([\w.]+)`/g)].map(([, name = '']) => ({ name, how })),
  );
  const named = (how: (how: string) => boolean) => columns.filter((column) => how(column.how)).map(({ name }) => name);

  test('what the page calls sealed is what the programs seal, and what a new master key seals anew', () => {
    const sealed = [...serviceSealedColumns, ...bridgeSealedColumns].map(({ table, column }) => `${table}.${column}`);
    expect(named((how) => how === 'sealed').sort()).toEqual(sealed.sort());
  });

  test('every column of bytes is on the page: sealed, a hash, or plain on purpose', async () => {
    const bytes = await database.query<{ name: string }>(
      `select table_schema || '.' || table_name || '.' || column_name as name from information_schema.columns
       where table_schema in ('service', 'bridge') and data_type = 'bytea'`,
    );
    const onPage = new Set(columns.map(({ name }) => name));
    expect(bytes.map(({ name }) => name).filter((name) => !onPage.has(name))).toEqual([]);
    const all = await database.query<{ name: string }>(
      `select table_schema || '.' || table_name || '.' || column_name as name from information_schema.columns`,
    );
    const there = new Set(all.map(({ name }) => name));
    expect([...onPage].filter((name) => !there.has(name))).toEqual([]);
  });
});
