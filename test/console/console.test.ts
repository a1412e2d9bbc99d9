/**
 * The console in a real browser, on the rows of a small company: every page, every action, wrong rights, an ended session,
 * names that are markup, the keyboard alone. One browser and one database for all of it; the tests run in their order.
 * With SCREENSHOTS=1 it also makes the pictures of the documentation.
 */
import { readFile, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { type Browser, type BrowserContext, chromium, type Page } from 'playwright-core';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { readActions } from '#platform/audit-log.ts';
import { createTestDatabase, type TestDatabase } from '../harness/test-database.ts';
import { chromiumPath, sayWithoutChromium } from './chromium.ts';
import { type ConsoleServer, operator, startConsole } from './console-server.ts';
import { eventName, hostileName, seedConsole } from './seed-console.ts';

const root = join(import.meta.dirname, '..', '..');
const images = join(root, 'docs', 'images');
const takesPictures = process.env['SCREENSHOTS'] === '1';
if (chromiumPath === undefined) sayWithoutChromium();

describe.skipIf(chromiumPath === undefined)('the console in a browser', () => {
  let db: TestDatabase;
  let server: ConsoleServer;
  let browser: Browser;
  let context: BrowserContext;
  let page: Page;
  /** What the browser complained of: a broken policy, an uncaught error. */
  const complaints: string[] = [];

  beforeAll(async () => {
    // The pages as the sources are now, and not as an earlier build has left them.
    await import(join(root, 'src', 'console', 'web', 'build.js'));
    db = await createTestDatabase();
    await seedConsole(db.database, Date.now());
    server = await startConsole(db.database);
    browser = await chromium.launch({ executablePath: chromiumPath ?? '', args: ['--no-sandbox', '--disable-gpu'] });
    context = await browser.newContext({
      viewport: { width: 1360, height: 860 },
      locale: 'en-GB',
      timezoneId: 'Europe/Berlin',
      colorScheme: 'light',
    });
    page = await context.newPage();
    page.on('pageerror', (error) => complaints.push(error.message));
    page.on('console', (message) => {
      // A refused call is shown on the page; the browser also writes a line of its own.
      if (message.type() === 'error' && !message.text().includes('Failed to load resource'))
        complaints.push(message.text());
    });
  });
  afterAll(async () => {
    await browser?.close();
  });
  beforeEach(() => {
    server.viewer = operator;
    complaints.length = 0;
  });

  async function open(path: string, heading?: string | RegExp): Promise<void> {
    await page.goto(`${server.url}${path}`);
    if (heading !== undefined) await page.getByRole('heading', { level: 1, name: heading }).waitFor();
    await page.locator('.loading').first().waitFor({ state: 'detached' });
  }

  const axe = createRequire(import.meta.url).resolve('axe-core/axe.min.js');
  async function violations(): Promise<string[]> {
    await page.evaluate(await readFile(axe, 'utf8'));
    return page.evaluate(async () => {
      type Axe = {
        run(
          options: object,
        ): Promise<{ violations: { id: string; nodes: { html: string; failureSummary?: string }[] }[] }>;
      };
      const { axe: tool } = globalThis as unknown as { axe: Axe };
      const { violations: found } = await tool.run({ resultTypes: ['violations'] });
      return found.map(({ id, nodes }) => `${id}: ${nodes[0]?.html} ${nodes[0]?.failureSummary}`);
    });
  }

  async function picture(name: string, options: { phone?: boolean; dark?: boolean } = {}): Promise<void> {
    if (!takesPictures) return;
    await page.setViewportSize(options.phone ? { width: 390, height: 844 } : { width: 1240, height: 760 });
    if (options.dark) await page.emulateMedia({ colorScheme: 'dark' });
    await page.waitForTimeout(400);
    await writeFile(join(images, `${name}.png`), await page.screenshot());
    await page.setViewportSize({ width: 1360, height: 860 });
    await page.emulateMedia({ colorScheme: 'light' });
  }

  const firstDocument = () => page.locator('tbody tr').first().getByRole('link').first();

  test.each([
    ['/', 'Overview', 'console-overview'],
    ['/documents', 'Documents', 'console-documents'],
    ['/events', 'Events', 'console-events'],
    ['/suppliers', 'Suppliers', undefined],
    ['/dead-letters', 'Dead letters', 'console-dead-letters'],
    ['/flows', 'Flows', undefined],
    ['/flows/sap', 'sap', 'console-flow'],
    ['/feeds', 'Feeds', 'console-feeds'],
    ['/webhooks', 'Webhooks', 'console-webhooks'],
    ['/quotas', 'Quotas', undefined],
    ['/doctor', 'Doctor', undefined],
    ['/settings', 'Settings', undefined],
    ['/search?q=chairs', 'Search: chairs', undefined],
  ])('%s is complete, keeps to its policy, and axe finds no violation', async (path, heading, image) => {
    await open(path, heading);
    expect(await violations()).toEqual([]);
    expect(complaints).toEqual([]);
    expect(await page.title()).not.toBe('owned');
    await page.setViewportSize({ width: 390, height: 844 });
    expect(
      await page.evaluate('document.documentElement.scrollWidth'),
      'a phone scrolls down only',
    ).toBeLessThanOrEqual(390);
    await page.setViewportSize({ width: 1360, height: 860 });
    if (image) await picture(image);
    if (path === '/') {
      await picture('console-overview-phone', { phone: true });
      await picture('console-overview-dark', { dark: true });
    }
  });

  test('an event is found from any page by the keyboard alone, and its award opened', async () => {
    await open('/feeds', 'Feeds');
    await page.keyboard.press('/');
    await page.keyboard.type('office chairs');
    await page.getByRole('option').first().waitFor();
    await picture('console-search');
    await page.keyboard.press('ArrowDown');
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { level: 1, name: eventName(0) }).waitFor();
    await firstDocument().focus();
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { level: 2, name: 'What happened' }).waitFor();
    expect(await page.getByText('Delivery to Hamburg').count()).toBeGreaterThan(0);
    expect(await violations()).toEqual([]);
  });

  test('a document shows its lots, what was sent, the differences between versions, and its raw JSON', async () => {
    await open('/documents?q=RFQ-4711&flow=sap&state=delivered', 'Documents');
    await firstDocument().click();
    // 120 chairs at 121.40, the second version's price, and 40 at 64.95.
    await page.getByText('17,166.00 EUR').first().waitFor();
    await picture('console-document');
    await picture('console-document-phone', { phone: true });
    await page.getByRole('button', { name: 'versions' }).click();
    await page.locator('main select').nth(0).selectOption('1');
    await page.locator('main select').nth(1).selectOption('2');
    await page.locator('.differences li', { hasText: 'total_cost' }).waitFor();
    // 120 at 118.40 and 40 at 64.95.
    expect(await page.locator('.differences li', { hasText: 'total_cost' }).innerText()).toMatch(
      /16806\.00.*17166\.00/s,
    );
    await picture('console-differences');
    expect(await violations()).toEqual([]);
    await page.getByRole('button', { name: 'attempts' }).click();
    await page.getByText('write: amend').waitFor();
    await page.getByRole('button', { name: 'raw' }).click();
    await page.getByText('"total_cost": "17166').waitFor();
    expect(await page.locator('main').innerText(), 'ids are shown on demand only').not.toMatch(/idempotency/);
  });

  test('a name that is markup is text wherever it is shown', async () => {
    for (const path of ['/suppliers', '/documents', '/search?q=S%C3%B6hne']) {
      await open(path);
      await page.getByText(hostileName).first().waitFor();
      expect(await page.locator('img[src="x"]').count()).toBe(0);
    }
    expect(await page.title()).not.toBe('owned');
  });

  test('filters stand in the address, and a link shows the same list', async () => {
    await open('/documents', 'Documents');
    await page.getByLabel('State').selectOption('dead letter');
    await page.getByLabel('Flow').selectOption('sap');
    await page.waitForURL(/state=dead\+letter&flow=sap|flow=sap&state=dead\+letter/);
    await expect.poll(() => page.locator('tbody tr').count()).toBe(6);
    await page.getByLabel('Amount from').fill('10000000');
    await page.getByText('No document matches.').waitFor();
    await page.goto(`${server.url}/documents?state=dead+letter&flow=sap`);
    await expect.poll(() => page.locator('tbody tr').count()).toBe(6);
  });

  test('what is being selected stays while the bridge changes, and a paused page stands still', async () => {
    await open('/documents?flow=archive', 'Documents');
    await page.locator('tbody tr').first().waitFor();
    await expect.poll(() => server.asked.get('/api/live') ?? 0).toBeGreaterThan(0);
    const selection = 'document.getSelection()?.toString()';
    await page.evaluate(`document.getSelection()?.selectAllChildren(document.querySelector('tbody tr strong'))`);
    const selected = await page.evaluate(selection);
    expect(selected).not.toBe('');
    await db.database.query(
      `update bridge.flow_documents set reference = 'renamed.json', delivered = now() where flow = 'archive'`,
    );
    await new Promise((resolve) => setTimeout(resolve, 3_000));
    expect(await page.evaluate(selection)).toBe(selected);
    expect(await page.getByText('renamed.json').count()).toBe(0);
    await page.evaluate('document.getSelection()?.removeAllRanges()');
    await page.getByText('renamed.json').first().waitFor();
    await page.getByRole('button', { name: 'Live' }).click();
    await db.database.query(
      `update bridge.flow_documents set reference = 'later.json', delivered = now() where flow = 'archive'`,
    );
    await new Promise((resolve) => setTimeout(resolve, 3_000));
    expect(await page.getByText('later.json').count()).toBe(0);
    await page.getByRole('button', { name: 'Paused' }).click();
  });

  test('a group of dead letters is replayed: the dialog names it, the server fixes the set, the progress is shown', async () => {
    await open('/dead-letters', 'Dead letters');
    await page.getByRole('button', { name: 'Replay these 4' }).click();
    const dialog = page.getByRole('dialog', { name: 'Replay 4 documents?' });
    await dialog.waitFor();
    await picture('console-replay');
    expect(await dialog.innerText()).toMatch(
      /Award documents of the flow sap that were refused with: Vendor .* is blocked/,
    );
    expect(await violations()).toEqual([]);
    await dialog.getByRole('button', { name: 'Replay 4' }).click();
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
    await open('/dead-letters', 'Dead letters');
    const button = page.getByRole('button', { name: 'Replay these 2' });
    await button.click();
    await db.database.query(
      `update bridge.flow_documents set dead_since = null, due = null, waiting_since = null where (flow, kind, key) in
       (select flow, kind, key from bridge.flow_documents where dead_since is not null limit 1)`,
    );
    const dialog = page.getByRole('dialog');
    await dialog.getByRole('button', { name: 'Replay 2' }).click();
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
    await open('/actions', 'Actions');
    await page.getByText('reason: Year-end closing').waitFor();
    expect(await violations()).toEqual([]);
  });

  test('a mapping is tried on real documents, and its differences are shown; nothing is stored', async () => {
    await open('/flows/archive', 'archive');
    await page.getByLabel('Mapping, as YAML').fill('award:\n  document:\n    buyer_group: { const: "G42" }');
    await page.getByRole('button', { name: 'Try it on the newest documents' }).click();
    await page.getByRole('status').or(page.locator('.action .failure')).first().waitFor();
    expect(await page.locator('main').innerText()).toMatch(/G42|The mapping is not valid/);
  });

  test('a backfill is asked for with its range', async () => {
    await open('/feeds', 'Feeds');
    await page
      .getByRole('row', { name: /awards/ })
      .first()
      .getByRole('button', { name: 'Backfill' })
      .click();
    await page.getByLabel('From').fill('2026-01-01T00:00');
    await page.getByRole('button', { name: 'Read it again' }).click();
    await page.getByText(/Backfill \d+ reads the range again/).waitFor();
    // Midnight in Berlin.
    const [row] = await db.database.query<{ from: string }>(
      'select range_start as "from" from bridge.backfills order by id desc limit 1',
    );
    expect(row?.from).toBe('2025-12-31T23:00:00.000000Z');
  });

  test('a viewer is offered no action; one without prices sees no amount; one of a flow sees nothing of the others', async () => {
    server.viewer = { name: 'Vic', role: 'viewer-without-prices', flows: ['sap'] };
    await open('/documents?state=delivered', 'Documents');
    await page.locator('tbody tr').first().waitFor();
    const text = await page.locator('main').innerText();
    expect(text).not.toMatch(/\d,\d{3}\.\d\d|EUR/);
    expect(text).not.toContain('renamed.json');
    expect(await page.getByLabel('Amount from').count()).toBe(0);
    await firstDocument().click();
    await page.getByText('Delivery to Hamburg').first().waitFor();
    expect(await page.locator('main').innerText()).not.toMatch(/EUR\b.*\d|\d+\.\d\d\b/);
    expect(await page.getByRole('button', { name: 'Replay' }).count()).toBe(0);
    await open('/dead-letters', 'Dead letters');
    expect(await page.getByRole('button', { name: /Replay/ }).count()).toBe(0);
  });

  test('a session that has ended is said, with the way back; what was shown stays', async () => {
    await open('/documents', 'Documents');
    await page.locator('tbody tr').first().waitFor();
    server.viewer = undefined;
    await page.getByLabel('State').selectOption('delivered');
    const link = page.getByRole('link', { name: 'Log in again' });
    await link.waitFor();
    expect(await link.getAttribute('href')).toBe('/login?next=%2Fdocuments%3Fstate%3Ddelivered');
    expect(await page.locator('tbody tr').count()).toBeGreaterThan(0);
  });
});
