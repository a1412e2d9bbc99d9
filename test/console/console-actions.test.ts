/**
 * What an operator does in the console, in a real browser: every action, its dialog, what it leaves in the database and
 * in the audit log. One browser and one database; the tests run in their order.
 */
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { advanceReplays } from '#bridge/ledger/flows/replay-set.ts';
import { readActions } from '#platform/audit-log.ts';
import { systemClock, timestampNow } from '#platform/clock.ts';
import { createTestDatabase, type TestDatabase } from '../harness/test-database.ts';
import { buildPages, type ConsoleBrowser, launchBrowser } from './browser.ts';
import { chromiumPath } from './chromium.ts';
import { type ConsoleServer, operator, startConsole } from './console-server.ts';
import { pictures } from './pictures.ts';
import { eventId, eventName, seedConsole, supplierId, supplierName } from './seed-console.ts';

describe.skipIf(chromiumPath === undefined)('what an operator does in the console', () => {
  let db: TestDatabase;
  let server: ConsoleServer;
  let browser: ConsoleBrowser;
  let page: Page;

  beforeAll(async () => {
    await buildPages();
    db = await createTestDatabase();
    await seedConsole(db.database, Date.now());
    server = await startConsole(db.database);
    browser = await launchBrowser();
    page = browser.page;
  });
  afterAll(async () => {
    await browser?.close();
  });
  beforeEach(() => {
    server.viewer = operator;
    browser.complaints.length = 0;
  });

  const open = (path: string, heading?: string | RegExp) => browser.open(`${server.url}${path}`, heading);
  const violations = () => browser.violations();
  const picture = (name: string) => pictures(page)(name);

  async function countDue(flow: string): Promise<number> {
    const [row] = await db.database.query<{ count: number }>(
      'select count(*)::int as count from bridge.flow_documents where flow = $1 and due is not null',
      [flow],
    );
    return row?.count ?? 0;
  }

  test('a group of dead letters is replayed: the dialog names it, the server fixes the set, the progress is shown', async () => {
    await open('/refused', 'Refused documents');
    await page.getByRole('button', { name: 'Send these 4 again' }).click();
    const dialog = page.getByRole('dialog', { name: 'Send 4 documents again?' });
    await dialog.waitFor();
    await picture('console-replay');
    expect(await dialog.innerText()).toMatch(
      /Award documents of the flow sap that were refused with: Vendor .* is blocked/,
    );
    expect(await violations()).toEqual([]);
    await dialog.getByRole('button', { name: 'Send 4 again' }).click();
    await page.getByText('0 of 4 through').waitFor();
    const due = await db.database.query(
      `select key from bridge.flow_documents where flow = 'sap' and due <= now() and dead_since is null`,
    );
    expect(due).toHaveLength(4);
    const [action] = await readActions(db.database, 'bridge', { limit: 1 });
    const title = expect.stringMatching(/^Award documents of the flow sap that were refused with: Vendor /);
    expect(action).toMatchObject({
      who: { kind: 'user', name: 'Ada' },
      what: 'documents.replay',
      outcome: 'allowed',
      details: { count: 4, flows: ['sap'], title },
    });
    // What the pusher does when the ERP takes them.
    await db.database.query(
      `update bridge.flow_documents set due = null, waiting_since = null, delivered = now(), reconciled = wanted
       where flow = 'sap' and due <= now() and dead_since is null`,
    );
    await page.getByText('4 of 4 through').waitFor();
  });

  test('a replay whose set has changed since it was shown does nothing and says so', async () => {
    await open('/refused', 'Refused documents');
    const button = page.getByRole('button', { name: 'Send these 2 again' });
    await button.click();
    await db.database.query(
      `update bridge.flow_documents set dead_since = null, due = null, waiting_since = null where (flow, kind, key) in
       (select flow, kind, key from bridge.flow_documents where dead_since is not null limit 1)`,
    );
    const dialog = page.getByRole('dialog');
    await dialog.getByRole('button', { name: 'Send 2 again' }).click();
    const refusal = dialog.getByText('1 dead letters match now, and not the 2 that were shown');
    await refusal.waitFor();
    await page.keyboard.press('Escape');
    const [made] = await db.database.query<{ count: number }>('select count(*)::int as count from bridge.replays');
    expect(made?.count, 'the replay of the test before').toBe(1);
  });

  test('a flow is paused with a reason that everybody sees, and resumed', async () => {
    await open('/flows/sap', 'sap');
    await page.getByRole('button', { name: 'Pause' }).click();
    await page.getByLabel('Why? Everybody sees it.').fill('Year-end closing');
    await page.getByRole('dialog').getByRole('button', { name: 'Pause' }).click();
    await page.locator('main .failure', { hasText: 'Year-end closing (Ada)' }).waitFor();
    await page.getByRole('button', { name: 'Resume' }).click();
    await page.getByRole('button', { name: 'Pause', exact: true }).waitFor();
    const done = await readActions(db.database, 'bridge', { limit: 2, what: 'flow' });
    expect(done.map(({ what, object }) => `${what} ${object}`)).toEqual([
      'flow.resume flow sap',
      'flow.pause flow sap',
    ]);
    await open('/actions', 'Audit log');
    await page.getByText('reason: Year-end closing').waitFor();
    expect(await violations()).toEqual([]);
  });

  test('a mapping is tried on real documents: each with what it would add, and nothing is stored', async () => {
    const dueBefore = await countDue('archive');
    await open('/flows/archive', 'archive');
    await page.locator('summary', { hasText: 'Mapping' }).click();
    const mapping = page.getByLabel('Mapping, as YAML');
    await mapping.fill(
      'award:\n  fields:\n    BuyerGroup: { value: G42 }\n    Order: { template: "{event.reference_id}!" }',
    );
    await page.getByRole('button', { name: 'Try it on the newest documents' }).click();
    const trial = page.locator('.plan[role=status]');
    await trial.getByText(/^(\d+) of \1 documents would change\.$/).waitFor();
    await picture('console-mapping');
    const pumps = trial.locator('li', {
      has: page.getByRole('link', { name: `${eventName(5)} / ${supplierName(5)}` }),
    });
    expect(await pumps.locator('.facts').innerText()).toMatch(/^BuyerGroup\s+G42\s+Order\s+RFQ-4716!$/);
    await mapping.fill('award:\n  fields:\n    Order: no.such.path');
    await page.getByRole('button', { name: 'Try it on the newest documents' }).click();
    await page.locator('.action .failure', { hasText: 'Order leads to nothing' }).waitFor();
    expect(await countDue('archive')).toBe(dueBefore);
    await open('/flows/archive', 'archive');
    expect(await mapping.inputValue(), 'nothing is stored').not.toContain('BuyerGroup');
  });

  test('a backfill is asked for with its range', async () => {
    await open('/sources', 'Sources');
    await page
      .getByRole('row', { name: /awards/ })
      .first()
      .getByRole('button', { name: 'Re-read' })
      .click();
    await page.getByLabel('From').fill('2026-01-01T00:00');
    await page.getByRole('button', { name: 'Read it again' }).click();
    await page.getByText(/Re-read \d+ reads the range again/).waitFor();
    // Midnight in Berlin.
    const [row] = await db.database.query<{ from: string }>(
      'select range_start as "from" from bridge.backfills order by id desc limit 1',
    );
    expect(row?.from).toBe('2025-12-31T23:00:00.000000Z');
  });

  test('a replay that runs is stopped: what was not handed over stays as it was', async () => {
    await db.database.query(
      `insert into bridge.flow_documents (flow, kind, key, wanted, waiting_since, attempts, error_type, last_error, dead_since)
       select 'archive', 'award', 'many/' || n, 1, now(), 1, 'data', 'The company code 2100 is closed', now()
       from generate_series(1, 600) n`,
    );
    await open('/refused', 'Refused documents');
    await page.getByRole('button', { name: 'Send these 600 again' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Send 600 again' }).click();
    const replay = page.getByRole('region', { name: 'Sent again' }).locator('tr', { hasText: 'The company code' });
    // The pusher gets 500 at once.
    await replay.getByText('0 of 600 through').waitFor();
    await replay.getByRole('button', { name: 'Stop' }).click();
    await replay.getByText(/Ada, .*stopped after 500/).waitFor();
    expect(await replay.getByRole('button').count()).toBe(0);
    const [rows] = await db.database.query<{ dead: number; due: number }>(
      `select (count(*) filter (where dead_since is not null))::int as dead,
         (count(*) filter (where due is not null))::int as due from bridge.flow_documents where key like 'many/%'`,
    );
    expect(rows).toEqual({ dead: 100, due: 500 });
    await advanceReplays(db.database, timestampNow(systemClock));
    expect(await countDue('archive'), 'and no more are handed over').toBe(500);
    const [action] = await readActions(db.database, 'bridge', { limit: 1 });
    expect(action).toMatchObject({ what: 'documents.stop-replay', who: { name: 'Ada' }, outcome: 'allowed' });
    await db.database.query(`delete from bridge.flow_documents where key like 'many/%'`);
  });

  test('"would it go through now?" says what the pusher would do with a document, and with all of a flow', async () => {
    await open('/documents?q=RFQ-4711&flow=archive&state=delivered', 'Documents');
    await page.locator('tbody tr').first().getByRole('link').first().click();
    await page.getByRole('button', { name: 'Would it go through now?' }).click();
    const plan = page.locator('.plan[role=status]');
    await plan.waitFor();
    expect(await plan.locator('> ul > li').allInnerTexts()).toEqual([expect.stringContaining('would be changed')]);
    expect(await plan.innerText()).toContain('total_cost');
    await db.database.query(
      `update bridge.flow_documents set due = now(), waiting_since = now(), wanted = wanted + 1
       where flow = 'archive' and key = $1`,
      [`${eventId(0)}/${supplierId(0)}`],
    );
    await open('/flows/archive', 'archive');
    await page.getByRole('button', { name: 'What would be written now?' }).click();
    await plan.locator('li').first().waitFor();
    expect(await plan.innerText()).toMatch(/would be changed.*Office chairs 2029/s);
    expect(await violations()).toEqual([]);
    const attempts = await db.database.query(`select from bridge.attempts where started > now() - interval '10 s'`);
    expect(attempts, 'nothing was sent').toHaveLength(0);
  });

  test('withdrawals are shown before somebody agrees to them, and the agreement is kept with its author', async () => {
    const key = `${eventId(1)}/${supplierId(1)}`;
    await db.database.query(`delete from bridge.mirror where feed = 'awards' and sourcing_event = $1`, [eventId(1)]);
    await db.database.query(
      `update bridge.flow_documents set wanted = wanted + 1, withdraws = wanted + 1, due = now(), waiting_since = now()
       where flow = 'archive' and key = $1`,
      [key],
    );
    await db.database.query(
      `update bridge.flows set paused_kind = 'withdrawals', paused_reason = '30 documents would be withdrawn', paused_at = now()
       where name = 'archive'`,
    );
    await open('/flows/archive', 'archive');
    await page.getByText('30 documents would be withdrawn').first().waitFor();
    await page.getByRole('button', { name: 'Look at the withdrawals' }).click();
    const dialog = page.getByRole('dialog', { name: 'Withdrawals to agree to' });
    const agree = dialog.getByRole('button', { name: 'Agree and resume' });
    expect(await agree.isDisabled(), 'before they were shown').toBe(true);
    await dialog.getByRole('button', { name: 'Show what would be cancelled' }).click();
    const shown = dialog.locator('.plan > ul > li');
    await shown.first().waitFor();
    expect(await shown.allInnerTexts()).toEqual([expect.stringContaining('would be cancelled')]);
    expect(await shown.first().innerText()).toContain(eventName(1));
    expect(await violations()).toEqual([]);
    await agree.click();
    await page.getByRole('button', { name: 'Pause', exact: true }).waitFor();
    const [flow] = await db.database.query<{ agreed: boolean; kind: string | null }>(
      `select withdrawals_agreed is not null as agreed, paused_kind as kind from bridge.flows where name = 'archive'`,
    );
    expect(flow).toEqual({ agreed: true, kind: null });
    const [action] = await readActions(db.database, 'bridge', { limit: 1 });
    expect(action).toMatchObject({ what: 'flow.resume', details: { agreeToWithdrawals: true }, who: { name: 'Ada' } });
  });

  test('an intake: archives are shown before somebody agrees, dead letters are compared again, or linked by a person', async () => {
    await open('/', 'Overview');
    await page
      .getByRole('region', { name: 'The way through' })
      .getByRole('link', { name: /vendors/ })
      .click();
    await page.getByRole('heading', { level: 1, name: 'vendors' }).waitFor();
    await page.getByText('6 suppliers in 1 submission').waitFor();
    await page.getByText(/done about/).waitFor();
    await page.getByRole('button', { name: 'What would be sent now?' }).click();
    const plan = page.locator('.actions > .plan');
    await plan.locator('li').nth(5).waitFor();
    expect(await plan.locator('li', { hasText: 'Ernst Metall' }).innerText()).toMatch(
      /would be changed.*name "Ernst Metall GmbH"; City "Utrecht"/s,
    );
    await page.getByRole('button', { name: 'Look at the archivings' }).click();
    const dialog = page.getByRole('dialog', { name: 'Archivings to agree to' });
    expect(await dialog.getByRole('button', { name: 'Agree and resume' }).isDisabled()).toBe(true);
    await dialog.getByRole('button', { name: 'Show which would be archived' }).click();
    await dialog.locator('.plan li').nth(2).waitFor();
    expect(await dialog.locator('.plan li strong').allInnerTexts()).toEqual([
      'Alt & Söhne',
      'Beaumont Frères',
      'Castle Forge',
    ]);
    expect(await violations()).toEqual([]);
    await dialog.getByRole('button', { name: 'Agree and resume' }).click();
    await page.getByRole('button', { name: 'Pause', exact: true }).click();
    await page.getByLabel('Why? Everybody sees it.').fill('Stocktaking');
    await page.getByRole('dialog').getByRole('button', { name: 'Pause' }).click();
    await page.locator('main .failure', { hasText: 'Stocktaking (Ada)' }).waitFor();
    await page.getByRole('button', { name: 'Resume' }).click();
    await page.getByRole('button', { name: 'Pause', exact: true }).waitFor();
    await page
      .getByRole('row', { name: /Ferro Ltd/ })
      .getByRole('button', { name: 'Compare again' })
      .click();
    await page.getByRole('row', { name: /Ferro Ltd/ }).waitFor({ state: 'detached' });
    await page.getByRole('row', { name: /Grün/ }).getByRole('button', { name: 'Say which it is' }).click();
    await page.getByLabel('External id of the supplier at the service').fill('S-9');
    await page.getByRole('button', { name: 'It is this one' }).click();
    await page.getByText('None: the service has refused no supplier.').waitFor();
    const linked = await db.database.query(
      `select erp_key as "erpKey", key, linked from bridge.intake_records where erp_key = 'K-7008'`,
    );
    expect(linked).toEqual([{ erpKey: 'K-7008', key: 'S-9', linked: 'person' }]);
    const done = await readActions(db.database, 'bridge', { limit: 10, what: 'intake' });
    expect(done.map(({ what, details }) => [what, details]).toReversed()).toEqual([
      ['intake.resume', { agreeToArchive: true }],
      ['intake.pause', { reason: 'Stocktaking' }],
      ['intake.resume', { agreeToArchive: false }],
      ['intake.replay', { intake: 'vendors', dead: true, keys: ['K-7007'] }],
      ['intake.link', { erpKey: 'K-7008', key: 'S-9' }],
    ]);
  });
});
