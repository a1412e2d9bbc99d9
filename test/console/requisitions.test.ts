/** An intake of requisitions in the console, in a real browser: what became of each, and its life. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type BridgeSettings, bridgeSettings } from '#bridge/settings/settings.ts';
import type { RequisitionRecord } from '#connector/records.ts';
import { timestampFromMs } from '#contract/timestamp.ts';
import { readActions } from '#platform/audit-log.ts';
import { createTestDatabase, type TestDatabase } from '../harness/test-database.ts';
import { buildPages, type ConsoleBrowser, launchBrowser } from './browser.ts';
import { chromiumPath } from './chromium.ts';
import { type ConsoleServer, startConsole } from './console-server.ts';

const settings: BridgeSettings = bridgeSettings.parse({
  sources: [{ name: 'main', base_url: 'https://sourcing.example.com', api_key: 'key' }],
  intakes: [{ name: 'needs', source: 'main', connector: 'memory', stream: 'requisition', make: 'event' }],
});
const [made, held, gathering] = [
  '0e7a1c1e-0000-4000-8000-000000000001',
  '0e7a1c1e-0000-4000-8000-000000000002',
  '0e7a1c1e-0000-4000-8000-000000000003',
];
const entity = '0e7a1c1e-0000-4000-8000-00000000000e';

async function seed({ database }: TestDatabase): Promise<void> {
  const at = (minutesAgo: number) => timestampFromMs(Date.now() - minutesAgo * 60_000);
  await database.query(
    `insert into bridge.intakes (name, source, stream, connector, next_read, last_read, begun)
     values ('needs', 'main', 'requisition', 'memory', $1, $2, $2)`,
    [at(-5), at(1)],
  );
  const records: [RequisitionRecord, string | null][] = [
    [requisition(1, { name: 'Steel <b>for</b> Lyon' }), null],
    [requisition(2), 'uncertain'],
    [requisition(3), null],
    [requisition(4, { open: false }), null],
  ];
  for (const [index, [record, error]] of records.entries())
    await database.query(
      `insert into bridge.intake_records (intake, erp_key, source, content_hash, body, first_seen, seen, error_type,
         last_error, dead_since)
       values ('needs', $1, 'main', '', $2, $3, $3, $4, 'it may have become an event', case when $4::text is not null then $3::timestamptz end)`,
      [record.reference_id, JSON.stringify(record), at(10 + index), error],
    );
  for (const [id, state, key] of [
    [made, 'made', 1],
    [held, 'held', 2],
    [gathering, 'gathering', 3],
  ] as const) {
    await database.query(
      `insert into bridge.intake_events (id, intake, source, make, group_key, state, created, ready, name, reference_id,
         entity, made)
       values ($1, 'needs', 'main', 'event', '', $2, $3, $3, $4, $5, $6, case when $6::text is not null then $3::timestamptz end)`,
      [id, state, at(8), state === 'gathering' ? null : `Event ${key}`, `PR-${key}`, id === made ? entity : null],
    );
    await database.query(
      `insert into bridge.intake_members (event, intake, erp_key, lots, need_hash, made_lots)
       values ($1, 'needs', $2, 1, '', $3)`,
      [id, `PR-${key}`, id === made ? '[{"lot":"Bolt","line":"10"}]' : '[]'],
    );
  }
  await database.query(
    `insert into bridge.mirror (source, feed, record_id, modified, content_hash, sourcing_event, body, seen)
     values ('main', 'sourcing-events', $1, now(), '', $1, $2, now())`,
    [entity, JSON.stringify({ id: entity, status: 'OPEN', description: 'a\0b' })],
  );
  await database.query(
    `update bridge.intake_records set news = $1, news_id = gen_random_uuid(), news_state = 'told', told = $1,
       told_reference = 'PR-1', told_at = $2
     where intake = 'needs' and erp_key = 'PR-1'`,
    [JSON.stringify({ status: 'published', make: 'event', entity, name: 'Event 1', reference: 'PR-1' }), at(2)],
  );
}

function requisition(n: number, more: Partial<RequisitionRecord> = {}): RequisitionRecord {
  const items = [{ line: '10', name: 'Bolt', quantity: '4' }];
  return { reference_id: `PR-${n}`, name: `Need ${n}`, tags: [], items, open: true, ...more };
}

describe.skipIf(chromiumPath === undefined)('requisitions in the console', () => {
  let db: TestDatabase;
  let server: ConsoleServer;
  let browser: ConsoleBrowser;

  beforeAll(async () => {
    await buildPages();
    db = await createTestDatabase();
    await seed(db);
    server = await startConsole(db.database, { settings });
    browser = await launchBrowser();
  });
  afterAll(async () => {
    await browser?.close();
  });

  test('each shows its event and how far that is; a click shows its life', async () => {
    const { page } = browser;
    await browser.open(`${server.url}/intakes/needs`, 'needs');
    const table = page.getByRole('region', { name: 'Requisitions' });
    await table.getByRole('row', { name: /PR-4/ }).waitFor();
    const rowOf = async (key: string) =>
      (await table.getByRole('row', { name: new RegExp(key) }).innerText()).replaceAll(/\s+/g, ' ');
    expect(await rowOf('PR-1')).toContain('PR-1 Steel <b>for</b> Lyon open Event 1 OPEN');
    expect(await rowOf('PR-2')).toContain('Event 2 may be made or not uncertain');
    expect(await rowOf('PR-3')).toContain('open its event waits for others of its group');
    expect(await rowOf('PR-4')).toContain('not open nothing');
    await table.getByRole('button', { name: 'PR-1' }).click();
    const life = await page.getByRole('dialog').getByRole('list').innerText();
    expect(life).toContain('version 1 was read from the ERP');
    expect(life).toContain(`"Event 1" is ${entity} at the service; line 10 is lot "Bolt"`);
    expect(life).toContain(
      `the ERP shows at PR-1: At the sourcing service, the event "Event 1" (${entity}) is published`,
    );
    expect(await browser.violations()).toEqual([]);
    expect(browser.complaints).toEqual([]);
    await page.getByRole('button', { name: 'Close' }).click();
    await page.getByLabel('Number or name').fill('lyon');
    await table.getByRole('row', { name: /PR-4/ }).waitFor({ state: 'detached' });
    expect(await table.getByRole('row').count()).toBe(2);
  });

  test('the plan shows the events that would be made, and a person says what became of an uncertain one', async () => {
    const { page } = browser;
    await browser.open(`${server.url}/intakes/needs`, 'needs');
    await page.getByRole('button', { name: 'What would be sent now?' }).click();
    const planned = page.locator('.plan li', { hasText: 'PR-3' });
    await planned.waitFor();
    expect(await planned.innerText()).toMatch(/would be created.*Need 3.*1 lot of PR-3/s);
    await page.getByRole('button', { name: 'Say which it is' }).click();
    await page.getByLabel('Id of the event at the service').fill('e-2');
    await page.getByRole('button', { name: 'It is this one' }).click();
    await page.getByText('None: nothing was refused.').waitFor();
    const linked = await db.database.query(`select state, entity from bridge.intake_events where id = $1`, [held]);
    expect(linked).toEqual([{ state: 'made', entity: 'e-2' }]);
    const [action] = await readActions(db.database, 'bridge', { limit: 1, what: 'intake.link' });
    expect(action).toMatchObject({ object: 'intake needs', details: { erpKey: 'PR-2', key: 'e-2' } });
  });
});
