/**
 * 400 delivered awards, of which 30 were edited by a person, 6 were lost by a restore of the ERP, and 6 are there in
 * half: exactly those are found, also when the comparison is killed with `kill -9` in the middle of a page. On the
 * connectors postgres and file, whichever documents a property test chooses.
 */
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { readReport } from '#bridge/operate/reconcile/read-report.ts';
import { runHere, startCommandLine } from '../../../cli/command-line.ts';
import { scratchFolder } from '../../../harness/scratch-folder.ts';
import { createEmptyDatabase, createTestDatabase, type TestDatabase } from '../../../harness/test-database.ts';
import { startFeedSource } from '../../feed-source.ts';
import { eventRecord, idOf, lotAwardRecord } from '../../parts.ts';

const events = 40;
const winnersOfEach = 10;
const [edited, lost, halved] = [30, 6, 6];
const title = 'Other title';

/** Changes what the ERP holds of a document; returns the way back, and the field that then differs, if only one does. */
type Deed = (key: string) => Promise<{ undo: () => unknown; field?: string }>;

interface PlantedErp {
  readonly connector: string;
  readonly settings: Readonly<Record<string, unknown>>;
  readonly edit: Deed;
  /** As a restore of an older backup does. */
  readonly lose: Deed;
  /** As a batch that was written in part. */
  readonly halve: Deed;
}

async function postgresErp(): Promise<PlantedErp> {
  const { database, url } = await createEmptyDatabase();
  const take = async (table: string, where: string, key: string) => {
    const rows = await database.query<{ row: unknown }>(
      `with gone as (delete from sourcing.${table} where ${where} returning *) select to_jsonb(gone) as row from gone`,
      [key],
    );
    return () =>
      database.query(
        `insert into sourcing.${table} select * from jsonb_populate_recordset(null::sourcing.${table}, $1)`,
        [JSON.stringify(rows.map(({ row }) => row))],
      );
  };
  return {
    connector: 'postgres',
    settings: { url },
    edit: async (key) => {
      const set = (to: string) =>
        database.query(`update sourcing.award set total_cost = total_cost ${to} where key = $1`, [key]);
      await set('+ 0.01');
      return { undo: () => set('- 0.01'), field: 'total_cost' };
    },
    lose: async (key) => {
      const lines = await take('award_line', 'key = $1', key);
      const values = await take('award', 'key = $1', key);
      return {
        undo: async () => {
          await values();
          await lines();
        },
      };
    },
    halve: async (key) => ({ undo: await take('award_line', 'key = $1 and line = 1', key) }),
  };
}

async function fileErp(): Promise<PlantedErp> {
  const directory = join(await scratchFolder(), 'erp');
  const pathOf = (key: string) => join(directory, `award_${key.replace('/', '_')}.json`);
  const replace = (path: string, to: string | undefined) => {
    const before = readFileSync(path, 'utf8');
    if (to === undefined) rmSync(path);
    else writeFileSync(path, to);
    return () => writeFileSync(path, before);
  };
  return {
    connector: 'file',
    settings: { directory },
    edit: async (key) => {
      const json = JSON.parse(readFileSync(pathOf(key), 'utf8')) as { event: object };
      const changed = { ...json, event: { ...json.event, name: title } };
      return { undo: replace(pathOf(key), JSON.stringify(changed)), field: 'event.name' };
    },
    lose: async (key) => ({ undo: replace(pathOf(key), undefined) }),
    halve: async (key) => ({ undo: replace(pathOf(key).replace('.json', '.csv'), undefined) }),
  };
}

/** Delivers the awards through the real command, and returns their keys. */
async function deliverAll(erp: PlantedErp) {
  const db = await createTestDatabase();
  const source = await startFeedSource();
  const folder = await scratchFolder();
  const config = join(folder, 'bridge.yaml');
  const main = { name: 'main', base_url: source.url, api_key: 'k', feeds: ['sourcing-events', 'awards'] };
  const flow = { name: 'erp', source: 'main', connector: erp.connector, settings: erp.settings };
  const sources = [{ ...main, includes: false, audit_hours: 0, quotas: { enabled: false } }];
  writeFileSync(config, JSON.stringify({ bridge: { port: 0, console_port: 0, sources, flows: [flow] } }));
  const suppliers = Array.from({ length: winnersOfEach }, (_, n) => idOf(900 + n));
  const keys: string[] = [];
  let made = 0;
  const modified = () => {
    made += 1;
    return `2026-01-01T00:00:00.${String(made).padStart(6, '0')}Z`;
  };
  for (let n = 1; n <= events; n += 1) {
    source.append('sourcing-events', eventRecord(idOf(n), suppliers, { modified: modified() }));
    for (const lot of [1, 2]) {
      const winners = suppliers.map((supplier, index) => ({ supplier, cost: `${n}${index}.${lot}5` }));
      source.append('awards', lotAwardRecord(idOf(lot * 10_000 + n), idOf(n), winners, { modified: modified() }));
    }
    keys.push(...suppliers.map((supplier) => `${idOf(n)}/${supplier}`));
  }
  const args = (...command: string[]) => ['bridge', ...command, '--config', config, '--data', folder];
  const { code, stdout, stderr } = await runHere(args('run'), { DATABASE_URL: db.url });
  if (code !== 0) throw new Error(`${stdout}${stderr}`);
  return { db, args, keys };
}

/** A page that would bring the run to this many documents waits for a lock, inside of its transaction. */
async function holdAt(db: TestDatabase, documents: number): Promise<void> {
  await db.database.query(`create or replace function bridge.held_page() returns trigger language plpgsql as $$
    begin
      if new.documents >= ${documents} and old.documents < ${documents} then perform pg_advisory_xact_lock(4711); end if;
      return new;
    end $$`);
  await db.database.query(
    'create or replace trigger held_page before update on bridge.reconciliations for each row execute function bridge.held_page()',
  );
}

const isWaiting = `select 1 from pg_locks where locktype = 'advisory' and objid = 4711 and not granted
  and database = (select oid from pg_database where datname = current_database())`;

const planted = fc.record({
  chosen: fc.uniqueArray(fc.nat(events * winnersOfEach - 1), {
    minLength: edited + lost + halved,
    maxLength: edited + lost + halved,
  }),
  killAt: fc.integer({ min: 1, max: events * winnersOfEach }),
});

describe.each([
  ['postgres', postgresErp],
  ['file', fileErp],
] as const)('on the connector %s', (_name, start) => {
  test('each planted difference is found, none is invented, also after a kill -9', async () => {
    const erp = await start();
    const { db, args, keys } = await deliverAll(erp);
    expect(keys).toHaveLength(events * winnersOfEach);
    await fc.assert(
      fc.asyncProperty(fc.noShrink(planted), async ({ chosen, killAt }) => {
        const expected: { key: string; finding: string; field: string | null }[] = [];
        const halves = new Set<string>();
        const undo: (() => unknown)[] = [];
        for (const [index, n] of chosen.entries()) {
          const key = keys[n] ?? '';
          const deed = index < edited ? erp.edit : index < edited + lost ? erp.lose : erp.halve;
          const done = await deed(key);
          undo.push(done.undo);
          if (index < edited) expected.push({ key, finding: 'changed', field: done.field ?? null });
          else if (index < edited + lost) expected.push({ key, finding: 'missing', field: null });
          else halves.add(key);
        }
        await holdAt(db, killAt);
        await db.database.transaction(async (tx) => {
          await tx.query('select pg_advisory_xact_lock(4711)');
          const killed = startCommandLine(args('reconcile', 'erp'), { DATABASE_URL: db.url });
          await expect.poll(async () => (await db.database.query(isWaiting)).length, { timeout: 60_000 }).toBe(1);
          killed.signal('SIGKILL');
          expect(await killed.ended).toBe('SIGKILL');
        });
        await holdAt(db, 1_000_000);
        const { code, stdout } = await runHere(args('reconcile', 'erp', '--json'), { DATABASE_URL: db.url });
        const report = await readReport(db.database, JSON.parse(stdout).reports[0].run.id);
        for (const back of undo) await back();

        const found = report.differences.map(({ key, finding, field }) => ({ key, finding, field }));
        const byKey = (a: { key: string }, b: { key: string }) => (a.key < b.key ? -1 : 1);
        expect(found.filter(({ key }) => !halves.has(key)).toSorted(byKey)).toEqual(expected.toSorted(byKey));
        // Of a half each value that is not there is named, and the whole is one document that differs.
        expect(new Set(found.filter(({ key }) => halves.has(key)).map(({ key }) => key))).toEqual(halves);
        expect({ code, documents: report.documents }).toEqual({ code: 1, documents: keys.length });
        const asDelivered = report.totals
          .filter(({ state }) => state === 'as delivered')
          .reduce((sum, { documents }) => sum + documents, 0);
        expect(asDelivered).toBe(keys.length - edited - lost - halved);
      }),
      { numRuns: Number(process.env['PLANTED_DRAWS'] ?? 1) },
    );
  });
});
