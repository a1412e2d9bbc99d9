/**
 * The console in a real browser, on the rows of a small company: every page, every action, wrong rights, an ended session,
 * names that are markup, the keyboard alone. One browser and one database for all of it; the tests run in their order.
 * With SCREENSHOTS=1 it also makes the pictures of the documentation.
 */
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { createTestDatabase, type TestDatabase } from '../harness/test-database.ts';
import { buildPages, type ConsoleBrowser, countingPerson, desktop, launchBrowser, phone } from './browser.ts';
import { chromiumPath, sayWithoutChromium } from './chromium.ts';
import { type ConsoleServer, operator, startConsole } from './console-server.ts';
import { pictures } from './pictures.ts';
import { eventId, eventName, hostileName, seedConsole, supplierId } from './seed-console.ts';

if (chromiumPath === undefined) sayWithoutChromium();

describe.skipIf(chromiumPath === undefined)('the console in a browser', () => {
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

  const picture: ReturnType<typeof pictures> = (name, options) => pictures(page)(name, options);

  const firstDocument = () =>
    page.getByRole('region', { name: 'Documents' }).locator('tbody tr').first().getByRole('link').first();

  test.each([
    ['/', 'Overview', 'console-overview'],
    ['/documents', 'Documents', 'console-documents'],
    [`/documents?supplier=${supplierId(0)}`, 'Documents', undefined],
    ['/events', 'Events and awards', undefined],
    [`/events/main/${eventId(0)}`, eventName(0), undefined],
    ['/refused', 'Refused documents', 'console-refused'],
    ['/flows', 'Flows', undefined],
    ['/flows/sap', 'sap', undefined],
    ['/intakes/vendors', 'vendors', 'console-intake'],
    ['/sources', 'Sources', undefined],
    ['/system', 'Doctor and settings', 'console-settings'],
    ['/actions', 'Audit log', undefined],
    ['/flows/a/b', 'There is no such page', undefined],
    ['/no/such/page', 'There is no such page', undefined],
  ])(
    '%s is complete, keeps to its policy, and axe finds no violation: on a light desk and a dark phone',
    async (path, heading, image) => {
      // Colours do not depend on the width: of the four pairs these two show what the others would.
      for (const [viewport, colorScheme] of [
        [desktop, 'light'],
        [phone, 'dark'],
      ] as const) {
        await page.setViewportSize(viewport);
        await page.emulateMedia({ colorScheme });
        await open(path, heading);
        expect(await violations(), `${viewport.width} pixels, ${colorScheme}`).toEqual([]);
        const width = await page.evaluate('document.documentElement.scrollWidth');
        expect(width, 'it scrolls down only').toBeLessThanOrEqual(viewport.width);
      }
      await page.setViewportSize(desktop);
      await page.emulateMedia({ colorScheme: 'light' });
      expect(browser.complaints).toEqual([]);
      expect(await page.title()).not.toBe('owned');
      if (image) await picture(image);
      if (path === '/') {
        await picture('console-overview-phone', { phone: true });
        await picture('console-overview-dark', { dark: true });
      }
    },
  );

  test('a feed that is up to date is not called behind, and an audit that goes on shows its progress', async () => {
    // It has read a little more than half of the time since the oldest record, in an hour and a half.
    const [audit] = await db.database.query<{ id: number }>(
      `insert into bridge.backfills (source, feed, kind, range_start, range_end, asked, next_try, position)
       select 'main', 'awards', 'full', 'epoch', now(), now() - interval '90 minutes', now(),
         min(modified) + (now() - min(modified)) * 0.504 from bridge.mirror where feed = 'awards' returning id`,
    );
    const shown = async () => {
      await open('/sources', 'Sources');
      return page.locator('main').innerText();
    };
    await expect.poll(shown, { timeout: 15_000 }).toMatch(/check of the whole feed[^]*50 %, about 1\.5 h left/);
    expect(await shown()).toMatch(/awards\s+main\s+up to date, read \d+ s ago/);
    expect(await shown()).not.toMatch(/behind/i);
    await open('/', 'Overview');
    const feeds = await page.locator('a.node[href="/sources"]').allInnerTexts();
    expect(feeds.length).toBeGreaterThan(0);
    for (const feed of feeds) expect(feed).toMatch(/up to date, read \d+ s ago/);
    expect(await violations()).toEqual([]);
    await db.database.query('delete from bridge.backfills where id = $1', [audit?.id]);
  });

  test('the settings are shown without any secret', async () => {
    await open('/system', 'Doctor and settings');
    await page.getByText('https://erp.example.com').waitFor();
    const shown = await page.locator('main').innerText();
    expect(shown).toMatch(/client_secret\s*\(hidden\)/);
    expect(shown).toMatch(/api_key\s*\(hidden\)/);
    const answer = await (await fetch(`${server.url}/api/settings`)).text();
    expect(shown + answer).not.toMatch(/hunter-2|key-of-the-source/);
  });

  test('an event is found from any page by the keyboard alone, and its award opened', async () => {
    await open('/sources', 'Sources');
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
    await page.locator('.differences li', { hasText: 'total_cost' }).waitFor();
    // 120 at 118.40 and 40 at 64.95.
    expect(await page.locator('.differences li', { hasText: 'total_cost' }).innerText()).toMatch(
      /16806\.00.*17166\.00/s,
    );
    await picture('console-differences');
    expect(await violations()).toEqual([]);
    await page.getByRole('button', { name: 'raw' }).click();
    await page.getByText('"total_cost": "17166').waitFor();
    expect(await page.locator('main').innerText(), 'ids are shown on demand only').not.toMatch(/idempotency/);
  });

  test('filters stand in the address, and a link shows the same list', async () => {
    await open('/documents', 'Documents');
    await page.getByLabel('State').selectOption('refused');
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

  describe('the three questions, from the overview', () => {
    async function begin() {
      await open('/', 'Overview');
      return countingPerson(page);
    }

    test('"why is it not there": one click, or a word and three keys', async () => {
      const byMouse = await begin();
      await byMouse.click(
        page
          .getByRole('region', { name: 'Refused' })
          .locator('tr', { hasText: 'Tax code A0' })
          .first()
          .getByRole('link'),
      );
      await page.locator('main .failure', { hasText: 'Tax code A0 is not valid for company code 2100' }).waitFor();
      expect(byMouse.counts).toEqual({ clicks: 1, keys: 0, texts: 0 });

      const byKeys = await begin();
      await byKeys.press('/');
      await byKeys.type('chairs nordst');
      await page.getByRole('option', { name: /refused/ }).waitFor();
      // The event is offered first, then the supplier, then the documents.
      const options = await page.getByRole('option').allInnerTexts();
      await byKeys.press('ArrowDown', options.findIndex((text) => text.includes('refused')) + 1);
      await byKeys.press('Enter');
      await page.locator('main .failure', { hasText: 'is blocked for purchasing' }).waitFor();
      expect(byKeys.counts).toEqual({ clicks: 0, keys: 5, texts: 1 });
    });

    test('"when was it sent and by what request": two clicks, or the keyboard', async () => {
      const byMouse = await begin();
      await byMouse.click(
        page
          .getByRole('region', { name: 'Delivered last' })
          .locator('tr', { hasText: '4500017317' })
          .getByRole('link')
          .first(),
      );
      const sent = page.locator('.timeline li', { has: page.locator('.step', { hasText: 'sent' }) }).first();
      expect(await sent.locator('time').innerText()).toMatch(/^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d$/);
      await byMouse.click(sent.getByRole('button', { name: 'ids' }));
      const ids = sent.locator('.ids-list');
      await ids.getByText('idempotency key').waitFor();
      expect(await ids.innerText()).toMatch(/[0-9a-f]{8}-[0-9a-f]{4}-/);
      expect(byMouse.counts).toEqual({ clicks: 2, keys: 0, texts: 0 });

      const byKeys = await begin();
      await byKeys.press('/');
      await byKeys.type('4500017317');
      await page.getByRole('option').first().waitFor();
      await byKeys.press('ArrowDown');
      await byKeys.press('Enter');
      await page.getByRole('heading', { level: 2, name: 'What happened' }).waitFor();
      await page.locator('main').focus();
      await byKeys.tabTo(/^Raw$/i);
      const isThere = `document.activeElement?.closest('li')?.querySelector('.step')?.textContent === 'sent'`;
      while (!(await page.evaluate(isThere)) && byKeys.counts.keys < 40) await byKeys.press('Tab');
      await byKeys.press('Enter');
      await page.locator('.timeline .ids-list:popover-open', { hasText: 'idempotency key' }).waitFor();
      expect(byKeys.counts.clicks).toBe(0);
      expect(byKeys.counts.keys).toBeLessThanOrEqual(20);
    });

    test('"what changed between the two orders": two clicks, or the keyboard', async () => {
      const changed = page.locator('.differences li', { hasText: 'total_cost' });
      const byMouse = await begin();
      await byMouse.click(page.getByRole('combobox', { name: /^Search/ }));
      await byMouse.type('4500017302');
      await byMouse.click(page.getByRole('option').first());
      await byMouse.click(page.getByRole('button', { name: 'versions' }));
      await changed.waitFor();
      // 120 chairs at 118.40, then at 121.40, and 40 at 64.95.
      expect(await changed.innerText()).toMatch(/16806\.00.*17166\.00/s);
      expect(byMouse.counts).toEqual({ clicks: 3, keys: 0, texts: 1 });

      const byKeys = await begin();
      await byKeys.press('/');
      await byKeys.type('4500017302');
      await page.getByRole('option').first().waitFor();
      await byKeys.press('ArrowDown');
      await byKeys.press('Enter');
      await page.getByRole('heading', { level: 2, name: 'What happened' }).waitFor();
      await page.locator('main').focus();
      await byKeys.tabTo(/^Versions$/i);
      await byKeys.press('Enter');
      await changed.waitFor();
      expect(byKeys.counts.clicks).toBe(0);
      expect(byKeys.counts.keys).toBeLessThanOrEqual(14);
    });
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
    expect(await page.getByRole('button', { name: /again|note/ }).count()).toBe(0);
    await open('/refused', 'Refused documents');
    expect(await page.getByRole('button', { name: /again/ }).count()).toBe(0);
  });

  test('a viewer without prices finds none: not in raw JSON, differences, attempts, the search, nor in any answer', async () => {
    const { documents } = (await (await fetch(`${server.url}/api/documents?q=RFQ-4711&state=delivered`)).json()) as {
      documents: { flow: string; kind: string; key: string }[];
    };
    const [found] = documents.filter(({ flow }) => flow === 'sap');
    const place = new URLSearchParams({ flow: 'sap', kind: 'award', key: found?.key ?? '' }).toString();
    const paths = [
      ...'viewer overview documents events events/export dead-letters flows feeds notifications intakes doctor settings actions search?q=chairs search?q=4500017302'.split(
        ' ',
      ),
      `document?${place}`,
      `document/version?${place}&version=1`,
      `document/version?${place}&version=2`,
    ];
    const pricesIn = async () => {
      const answers = await Promise.all(paths.map(async (path) => (await fetch(`${server.url}/api/${path}`)).text()));
      // The prices and totals of the seeded awards, as JSON and as a sentence have them.
      const price = /\b(?:1[0-9]{2}\.40|(?:64|69|74|79|84|89)\.95|[0-9]{4,5}\.(?:00|40))\b/;
      return paths.filter((_, index) => price.test(answers[index] ?? ''));
    };
    expect(await pricesIn(), 'what others see').toEqual(
      expect.arrayContaining(['overview', 'documents', `document?${place}`, `document/version?${place}&version=1`]),
    );
    server.viewer = { name: 'Vic', role: 'viewer-without-prices', flows: 'all' };
    expect(await pricesIn()).toEqual([]);
    expect((await fetch(`${server.url}/api/documents?min=17000`)).status, 'nor by trying').toBe(403);
    expect((await fetch(`${server.url}/api/documents?reason=price`)).status, 'nor words').toBe(403);
    await open(`/documents/sap/award/${encodeURIComponent(found?.key ?? '')}`, eventName(0));
    const shown: string[] = [];
    for (const view of ['fields', 'versions', 'raw']) {
      await page.getByRole('button', { name: view, exact: true }).click();
      await page.locator('.loading').first().waitFor({ state: 'detached' });
      if (/\d+\.\d\d\b|EUR \d|\d EUR/.test(await page.locator('main').innerText())) shown.push(view);
    }
    expect(shown).toEqual([]);
  });

  test('a viewer who tries an action all the same is refused, for each of them', async () => {
    server.viewer = { name: 'Vic', role: 'viewer', flows: 'all' };
    const actions = [
      'document/replay',
      'document/note',
      'dead-letters/replay',
      'plan',
      'feeds/backfill',
      'feeds/cancel-backfill',
      'feeds/audit',
      'flows/pause',
      'flows/resume',
      'flows/try-mapping',
      'webhooks/register',
      'webhooks/test',
      'webhooks/rotate',
      'intakes/pause',
      'intakes/resume',
      'intakes/plan',
      'intakes/replay',
      'intakes/read',
      'intakes/link',
    ];
    const headers = { 'content-type': 'application/json', 'x-console-request': '1' };
    const taken: string[] = [];
    for (const action of actions) {
      const answer = await fetch(`${server.url}/api/${action}`, { method: 'POST', headers, body: '{}' });
      if (answer.status !== 403) taken.push(action);
    }
    expect(taken).toEqual([]);
    for (const path of ['/flows/sap', '/intakes/vendors', '/sources']) {
      await open(path);
      const offered = /^(Pause|Resume|Re-read|Check|Register|Test|Rotate keys|What would|Look at|Compare|Read the)/;
      expect(await page.locator('main').getByRole('button', { name: offered }).allInnerTexts()).toEqual([]);
    }
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

  test('names, messages and reasons that are markup are text on every page', async () => {
    const { database } = db;
    await database.query(`update bridge.subjects set name = $1 where kind = 'event'`, [hostileName]);
    await database.query(
      `update bridge.mirror set body = (body::jsonb || jsonb_build_object('name', $1::text, 'status', $1::text))::text
       where feed = 'sourcing-events'`,
      [hostileName],
    );
    await database.query(
      `update bridge.inbox set body = (body::jsonb || jsonb_build_object('sourcing_event_name', $1::text))::text`,
      [hostileName],
    );
    await database.query(
      `update bridge.flow_documents set last_error = $1 || coalesce(last_error, ''), reference = $1
       where last_error is not null or reference is not null`,
      [hostileName],
    );
    await database.query(`update bridge.attempts set message = $1, reference = $1, event_name = $1`, [hostileName]);
    await database.query(
      `update bridge.flows set paused_kind = 'operator', paused_reason = $1, paused_at = now() where name = 'archive'`,
      [hostileName],
    );
    await database.query(`update bridge.checkpoints set failures = 1, last_error = $1`, [hostileName]);
    await database.query(
      `insert into bridge.backfills
         (source, feed, kind, range_start, range_end, asked, next_try, finished, last_error, warning)
       values ('main', 'awards', 'full', 'epoch', now(), now(), now(), now(), null, $1),
         ('main', 'latest-bids', 'audit', 'epoch', now(), now(), now(), null, $1, null)`,
      [hostileName],
    );
    await database.query(`update bridge.intake_records set last_error = $1 where dead_since is not null`, [
      hostileName,
    ]);
    const headers = { 'content-type': 'application/json', 'x-console-request': '1' };
    const body = JSON.stringify({ flow: 'sap', reason: hostileName });
    await fetch(`${server.url}/api/flows/pause`, { method: 'POST', headers, body });
    const { documents } = (await (await fetch(`${server.url}/api/documents?state=dead+letter`)).json()) as {
      documents: { flow: string; kind: string; key: string }[];
    };
    const [letter] = documents;
    const paths = [
      '/',
      '/documents',
      '/events',
      '/refused',
      '/flows',
      '/flows/sap',
      '/sources',
      '/intakes/vendors',
      '/actions',
      '/documents?q=S%C3%B6hne',
      `/events/main/${eventId(0)}`,
      `/documents?supplier=${supplierId(6)}`,
      `/documents/${letter?.flow}/award/${encodeURIComponent(letter?.key ?? '')}`,
    ];
    for (const path of paths) {
      await open(path);
      await page.getByText(`<img src=x onerror="document.title='owned'">`).first().waitFor();
      expect(await page.locator('img[src="x"]').count()).toBe(0);
      expect(await page.title()).not.toBe('owned');
    }
    await page.keyboard.press('/');
    await page.keyboard.type('Söhne');
    await page.getByRole('option').first().waitFor();
    expect(await page.locator('img[src="x"]').count()).toBe(0);
    expect(await page.title()).not.toBe('owned');
    expect(browser.complaints).toEqual([]);
  });
});
