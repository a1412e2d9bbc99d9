/** A source that changes is noticed by the pull, and named by status, check and metrics; records are kept as they came. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { neededFields } from '#bridge/documents/needed-fields.ts';
import { type Liveness, startLiveness } from '#bridge/leases/liveness.ts';
import { createSourceWatch, type SourceWatch } from '#bridge/pull/watch/source-watch.ts';
import type { FlowSettings } from '#bridge/settings.ts';
import { type BridgeStatus, readStatus } from '#bridge/status/status.ts';
import { timestampNow } from '#platform/clock.ts';
import { silentLogger } from '#platform/log.ts';
import { Counter, Registry } from '#platform/metrics.ts';
import { createTestDatabase, type TestDatabase } from '../../../harness/test-database.ts';
import { settingsOf, testClock } from '../../parts.ts';
import { ListSource } from '../list-source.ts';
import { startReader } from '../reader.ts';

let db: TestDatabase;
let liveness: Liveness;
beforeAll(async () => {
  db = await createTestDatabase();
  liveness = await startLiveness({ database: db.database, log: silentLogger });
});
afterAll(async () => {
  await liveness.close();
  await db.drop();
});

type Change = (record: Record<string, unknown>) => Record<string, unknown>;

/** A reader that has learned from 1,200 awards, and what it notices of further ones. */
async function startLearned(flow: Partial<FlowSettings> = {}) {
  const clock = testClock();
  const source = new ListSource(clock);
  let written = 0;
  let change: Change = (record) => record;
  /** Adds awards that are as documented, but for `change`. */
  const write = (count: number, next: Change = change) => {
    change = next;
    for (let n = 0; n < count; n += 1) {
      written += 1;
      const award = { supplier: 's', share_awarded: '1', cost: '12.50', bid_sheet_values: [] };
      const record = { sourcing_event: 'e', lot_name: `Lot ${written}`, awards: [award] };
      const modified = source.put(`r${written}`, written, 0);
      source.rows.set(`r${written}`, { ...change(structuredClone(record)), modified, value: written });
      clock.advance(1);
    }
  };
  source.answer = () => ({ clockDifference: { leastMs: 0, mostMs: 1_000 } });
  write(1_200);
  const settings = settingsOf({}, [{ name: 'erp', documents: ['award'], ...flow }]);
  let watch: SourceWatch | undefined;
  const registry = new Registry();
  const changes = new Counter({
    name: 'changes',
    help: 'changes',
    labelNames: ['source', 'feed', 'kind'] as const,
    registers: [registry],
  });
  const start = () =>
    startReader({
      database: db.database,
      liveness,
      client: source.client,
      clock,
      settings: { page_size: 100, lateness_seconds: 1 },
      watchOf: (feed, name) => {
        watch ??= createSourceWatch({
          feed: { source: name, feed },
          needed: neededFields(settings.flows, feed),
          changes,
        });
        return watch;
      },
    });
  const reader = await start();
  await reader.pullFor(60);
  return {
    source,
    reader,
    write,
    /** Another process, which knows only what is in SQL. */
    restart: () => {
      watch = undefined;
    },
    look: async () => {
      await reader.pullFor(60);
      const configured = settingsOf({ ...reader.source, feeds: ['awards'] }, [
        { name: 'erp', documents: ['award'], ...flow, source: reader.feed.source },
      ]);
      const status = await readStatus(db.database, { settings: configured, now: timestampNow(clock) });
      const { values } = await changes.get();
      return {
        status,
        seen: status.changes.map(({ kind, subject }) => `${kind} ${subject}`),
        details: status.changes.map(({ detail }) => detail),
        counted: values.reduce((sum, { value }) => sum + value, 0),
      };
    },
  };
}

const kindsOf = ({ conditions }: Pick<BridgeStatus, 'conditions'>) => conditions.map(({ kind }) => kind);

const firstAward = (record: Record<string, unknown>) => (record['awards'] as Record<string, unknown>[])[0] ?? {};

describe('a source that', () => {
  test('goes on as before is not noticed, nor is what the contract documents and was not seen yet', async () => {
    const { write, look } = await startLearned();
    write(50, (record) => ({ ...record, scenario_name: 'Cheapest', sourcing_request: 'q' }));
    expect((await look()).seen).toEqual([]);
  });

  test('sends a field that was never seen: noticed once, and the record is kept as it came', async () => {
    const { reader, write, look, restart } = await startLearned();
    write(3, (record) => ({ ...record, cost_centre: { code: '7' } }));
    const { seen, counted, status } = await look();
    expect(seen).toEqual(['field cost_centre', 'field cost_centre.code']);
    expect(counted).toBe(2);
    expect(kindsOf(status)).not.toContain('field-gone');
    const row = await reader.readRow<{ body: string }>(
      `select body from bridge.mirror where source = $1 and record_id = 'r1201'`,
    );
    expect(JSON.parse(row?.body ?? '')).toMatchObject({ cost_centre: { code: '7' } });
    restart();
    write(3);
    expect((await look()).counted).toBe(2);
  });

  test('sends a value of a new form', async () => {
    const { write, look } = await startLearned();
    write(2, (record) => {
      firstAward(record)['cost'] = '12,50';
      return record;
    });
    const { seen, details } = await look();
    expect(seen).toEqual(['form awards[].cost']);
    expect(details).toEqual(['is text; it was decimal before']);
  });

  test('no longer sends a field that every document needs: seen before the next record, and needs a look', async () => {
    const { write, look } = await startLearned();
    const without = (record: Record<string, unknown>) => {
      delete firstAward(record)['cost'];
      return record;
    };
    write(1, without);
    const gone = await look();
    expect(gone.seen).toEqual(['gone awards[].cost']);
    expect(gone.details[0]).toMatch(/^is needed by flow erp, every award: the last record lacks it; \d+ of \d+/);
    expect(kindsOf(gone.status)).toContain('field-gone');
    write(1, (record) => record);
    const back = await look();
    expect(back.seen).toEqual([]);
    expect(kindsOf(back.status)).not.toContain('field-gone');
  });

  test('no longer sends a bid sheet column that half of the records had: noticed when it is no chance any more', async () => {
    const { source, reader, write, look } = await startLearned({ quantity_column: 'Volume' });
    const columns = (names: string[]) => (record: Record<string, unknown>) => {
      firstAward(record)['bid_sheet_values'] = names.map((column_name) => ({ column_name, value: '1' }));
      return record;
    };
    for (let n = 0; n < 30; n += 1) {
      write(1, columns(['Volume']));
      write(1, columns(['Other']));
    }
    expect((await look()).seen).toEqual([]);
    expect(source.rows.size).toBe(1_260);
    // Few of all records had it: 9 without it are chance.
    write(9, columns(['Other']));
    expect((await look()).seen).toEqual([]);
    write(600, columns(['Other']));
    const { seen, details } = await look();
    expect(seen).toEqual(['gone awards[].bid_sheet_values[Volume]']);
    expect(details[0]).toContain('flow erp, the bid sheet column Volume');
    expect((await reader.mirror()).size).toBe(1_869);
  });

  test('sends ever new names fills neither memory nor tables', async () => {
    const { write, look, reader } = await startLearned();
    let name = 0;
    for (let page = 0; page < 20; page += 1)
      write(60, (record) => ({ ...record, [`extra ${(name += 1)}`]: 1, [`long ${'x'.repeat(200)}${name}`]: 1 }));
    await look();
    const row = await reader.readRow<{ size: number; changes: number }>(
      `select length(fields) as size, (select count(*)::int from bridge.source_changes where source = $1) as changes
       from bridge.source_forms where source = $1`,
    );
    expect(row?.changes).toBeLessThanOrEqual(500);
    expect(row?.size).toBeLessThan(50_000);
  });

  test('answers with another clock', async () => {
    const { source, write, look } = await startLearned();
    source.answer = () => ({ clockDifference: { leastMs: 400_000, mostMs: 401_000 } });
    write(1);
    expect((await look()).seen).toEqual(['clock Date']);
  });
});

test('while nothing is new, nothing is written', async () => {
  const { reader, write, look } = await startLearned();
  const version = () =>
    reader.readRow<{ version: number }>('select version from bridge.source_forms where source = $1');
  write(20);
  await look();
  const first = await version();
  write(20);
  await look();
  expect(await version()).toEqual(first);
});
