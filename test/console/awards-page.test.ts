/** What a buyer looks for: who has won what in an event, where that is, as a page and as a file; and a note on a refusal. */
import { readFile } from 'node:fs/promises';
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { bridgeSettings } from '#bridge/settings/settings.ts';
import { readActions } from '#platform/audit-log.ts';
import type { Database } from '#platform/database/database.ts';
import { createTestDatabase } from '../harness/test-database.ts';
import { buildPages, type ConsoleBrowser, launchBrowser } from './browser.ts';
import { chromiumPath } from './chromium.ts';
import { type ConsoleServer, operator, startConsole } from './console-server.ts';
import { pictures } from './pictures.ts';
import { eventId, eventName, seedConsole, seededSettings, supplierId } from './seed-console.ts';

const { sources, flows, ...others } = seededSettings;
const settings = bridgeSettings.parse({
  ...others,
  sources: sources.map((source) => ({ ...source, event_url: 'https://buyers.example.com/events/{id}' })),
  flows,
});
const openEvent = 'c0ffee00-0000-4000-8000-000000000001';

describe.skipIf(chromiumPath === undefined)('awards in the console', () => {
  let database: Database;
  let server: ConsoleServer;
  let browser: ConsoleBrowser;
  let page: Page;

  beforeAll(async () => {
    await buildPages();
    ({ database } = await createTestDatabase());
    await seedConsole(database, Date.now());
    await database.query(
      `insert into bridge.mirror (source, feed, record_id, modified, content_hash, sourcing_event, body, seen)
       values ('main', 'sourcing-events', $1, now(), '\\x00', $1, '{"status": "OPEN", "type": "RFQ"}', now())`,
      [openEvent],
    );
    await database.query(
      `insert into bridge.subjects (source, kind, id, name, reference, folded)
       values ('main', 'event', $1, 'Cranes 2031', 'RFQ-5000', 'cranes 2031 rfq-5000')`,
      [openEvent],
    );
    await database.query(`update bridge.subjects set name = 'Lindner Labor AG' where id = $1`, [supplierId(6)]);
    server = await startConsole(database, { settings });
    browser = await launchBrowser();
    page = browser.page;
  }, 120_000);
  afterAll(async () => {
    await browser?.close();
  });
  beforeEach(() => {
    server.viewer = operator;
    browser.complaints.length = 0;
  });

  const open = (path: string, heading: string) => browser.open(`${server.url}${path}`, heading);
  const card = (name: string) => page.locator('section.group', { has: page.getByRole('heading', { name }) });

  test('each event shows who has won what, its total, where it is in each ERP, and the way to the service', async () => {
    await open('/events', 'Events and awards');
    const chairs = card(eventName(0));
    // Meyer & Söhne, in two flows, and counted once: 120 at 118.40 and 40 at 64.95, as the second flow sent it last.
    // Nordstål: 120 at 118.40 and 40 at 74.95.
    expect(await chairs.getByRole('cell', { name: /EUR$/ }).allInnerTexts()).toEqual([
      '16,806.00 EUR',
      '17,206.00 EUR',
    ]);
    expect(await chairs.locator('.totals').innerText()).toBe('34,012.00 EUR');
    expect(await chairs.locator('.deliveries').first().locator('li').count()).toBe(2);
    expect(await chairs.innerText()).toContain('refused');
    expect(await chairs.getByRole('link', { name: 'Open it at the service' }).getAttribute('href')).toBe(
      `https://buyers.example.com/events/${eventId(0)}`,
    );
    await pictures(page)('console-awards');
    expect(await browser.violations()).toEqual([]);
  });

  test('an event that is still open says that nothing is awarded yet', async () => {
    await open('/events?status=OPEN', 'Events and awards');
    await card('Cranes 2031').waitFor();
    expect(await card('Cranes 2031').innerText()).toContain('Nothing awarded yet.');
    expect(await page.locator('section.group').count(), 'and the filter is in the address').toBe(2);
    await open(`/events/main/${openEvent}`, 'Cranes 2031');
    await page.getByText('Nothing awarded yet.').waitFor();
  });

  /** A spreadsheet would run this name. */
  const rename = (name: string) =>
    database.query('update bridge.subjects set name = $1 where id = $2', [name, supplierId(1)]);

  const exported = async (path: string) => {
    await open(path, 'Events and awards');
    const button = page.getByRole('button', { name: 'Export (CSV)' });
    const [download] = await Promise.all([page.waitForEvent('download'), button.click()]);
    return readFile(await download.path(), 'utf8');
  };

  test('the export has what the filters show, no text that a spreadsheet would run, and is in the audit log', async () => {
    await rename('=cmd|calc');
    const csv = await exported('/events?q=steel');
    await rename('Acme Industrial');
    const [head, ...lines] = csv.trimEnd().split('\r\n');
    expect(head).toBe(
      'Event number,Event,Status,Supplier number,Supplier,Amount,Currency,Flow,State,ERP number,Delivered (UTC)',
    );
    expect(lines).toHaveLength(3);
    const won = lines.find((line) => line.includes(',sap,delivered,'));
    // 130 at 125.40 and 40 at 69.95.
    expect(won).toMatch(
      /^RFQ-4712,Steel sheets 2 mm 2029,CLOSED,V-100217,'=cmd\|calc,19100\.00,EUR,sap,delivered,4500017305,/,
    );
    const [action] = await readActions(database, 'bridge', { limit: 1 });
    expect(action).toMatchObject({ what: 'awards.export', who: { name: 'Ada' }, details: { q: 'steel' } });
  });

  test('a role without prices gets awards and file without amounts', async () => {
    server.viewer = { ...operator, role: 'viewer-without-prices' };
    await open('/events', 'Events and awards');
    expect(await card(eventName(1)).innerText()).toContain('Acme Industrial');
    expect(await page.locator('main').innerText()).not.toMatch(/\d,\d{3}\.\d\d|EUR/);
    const csv = await exported('/events?q=steel');
    expect(csv.split('\r\n')[0]).toBe(
      'Event number,Event,Status,Supplier number,Supplier,Flow,State,ERP number,Delivered (UTC)',
    );
    expect(csv).not.toMatch(/19100|EUR/);
  });

  test('a refused document takes a note: who looks after it, and what was decided', async () => {
    await open('/refused', 'Refused documents');
    const group = page.locator('tr', { hasText: 'Tax code A0 is not valid' });
    const count = Number(await group.getByRole('cell').nth(1).innerText());
    await group.getByRole('link', { name: 'Show' }).click();
    const rows = page.getByRole('region', { name: 'Documents' }).locator('tbody tr');
    await expect.poll(() => rows.count()).toBe(count);
    for (const row of await rows.allInnerTexts()) expect(row).toContain('Tax code A0 is not valid');
    await rows.first().getByRole('link').first().click();
    await page.getByText('Nobody looks after it yet.').waitFor();
    await page.getByRole('button', { name: 'Add a note' }).click();
    await page.getByLabel('Who looks after it').fill('Bea');
    await page.getByLabel('What was decided').fill('The tax code is asked for at the finance desk.');
    expect(await browser.violations()).toEqual([]);
    await page.getByRole('button', { name: 'Save' }).click();
    await page.getByText('Bea looks after it.').waitFor();
    await pictures(page)('console-refused-document');
    const [action] = await readActions(database, 'bridge', { limit: 1 });
    expect(action).toMatchObject({
      what: 'document.note',
      object: 'flow sap',
      details: { lookedAfterBy: 'Bea', decision: 'The tax code is asked for at the finance desk.' },
    });
    await open('/documents?state=dead+letter', 'Documents');
    await page.getByText('Bea looks after it').waitFor();
    server.viewer = { ...operator, role: 'viewer-without-prices' };
    const shown = await (await fetch(`${server.url}/api/documents?state=dead+letter`)).text();
    expect(shown, 'free text').not.toContain('finance desk');
  });

  test('an address that leads nowhere is a page for a person, and an error for a program', async () => {
    const answer = await page.goto(`${server.url}/no/such/page`);
    expect(answer?.status()).toBe(404);
    await page.getByRole('heading', { level: 1, name: 'There is no such page' }).waitFor();
    const program = await fetch(`${server.url}/no/such/page`);
    expect([program.status, program.headers.get('content-type')]).toEqual([
      404,
      expect.stringContaining('application/problem+json'),
    ]);
    expect((await fetch(`${server.url}/api/nothing`, { headers: { accept: 'text/html' } })).status).toBe(404);
  });
});
