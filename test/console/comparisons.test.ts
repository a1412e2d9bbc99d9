/** Comparisons in the console, in a real browser: what differs, and what an operator does about it. */
import { readFile } from 'node:fs/promises';
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { ReportContent } from '#bridge/operate/reconcile/read-report.ts';
import {
  beginReconciliation,
  endReconciliation,
  storeComparedPage,
} from '#bridge/operate/reconcile/reconciliation-store.ts';
import { isReportSigned, reportPublicKey } from '#bridge/operate/reconcile/report-files.ts';
import { readActions } from '#platform/audit-log.ts';
import { timestampNow } from '#platform/clock.ts';
import { createSecretBox } from '#platform/secrets.ts';
import { settingsOf } from '../bridge/parts.ts';
import { createFakeErp } from '../bridge/push/fake-erp.ts';
import { createPusher, keyOf, type Pusher } from '../bridge/push/pusher.ts';
import { buildPages, type ConsoleBrowser, desktop, launchBrowser } from './browser.ts';
import { chromiumPath } from './chromium.ts';
import { type ConsoleServer, operator, startConsole } from './console-server.ts';
import { pictures } from './pictures.ts';

/** What Ben has changed in the ERP. */
const finding = {
  kind: 'award',
  key: keyOf(0),
  finding: 'changed',
  reference: 'PO-1',
  field: null,
  expected: null,
  held: null,
  changedBy: 'Ben <b>',
  changedAt: '2030-01-01',
  reason: null,
} as const;

describe.skipIf(chromiumPath === undefined)('comparisons', () => {
  let world: Pusher;
  let server: ConsoleServer;
  let browser: ConsoleBrowser;
  let page: Page;
  let run: number;

  beforeAll(async () => {
    await buildPages();
    browser = await launchBrowser();
    page = browser.page;
  }, 120_000);
  afterAll(async () => {
    await browser?.close();
  });

  /** Three awards are delivered; a person has changed one of them in the ERP, deleted one, and one is as it was. */
  beforeEach(async () => {
    world = await createPusher(6);
    const erp = createFakeErp();
    await world.award([0, '10.50'], [1, '20.00'], [2, '30.25']);
    await (await world.worker(erp)).push();
    const { database } = world.db;
    const now = timestampNow(world.clock);
    const begun = await beginReconciliation(
      database,
      { flow: 'erp', events: null, askedBy: 'Ada', goesOn: false },
      now,
    );
    run = begun.id;
    const compared = await storeComparedPage(database, begun, {
      last: { kind: 'award', key: keyOf(2) },
      documents: 3,
      asDelivered: 1,
      comparedValues: 6,
      findings: [
        { ...finding, field: 'total_cost', expected: '10.5', held: '99.5' },
        { ...finding, field: 'plant', expected: '1000', held: null },
        { ...finding, key: keyOf(1), finding: 'missing', reference: 'PO-2', changedBy: null, changedAt: null },
      ],
      states: (['changed', 'missing', 'as delivered'] as const).map((state, n) => ({
        kind: 'award',
        state,
        currency: 'EUR',
        amount: `${n + 1}0.00`,
      })),
    });
    await endReconciliation(database, compared, now);
    server = await startConsole(database, { settings: settingsOf({}, [world.flow]) });
    browser.complaints.length = 0;
  });

  const open = (path: string, heading: string) => browser.open(`${server.url}${path}`, heading);
  const text = () => page.locator('main').innerText();

  test('what differs is on the overview by name, and leads to where a person looks at it', async () => {
    await open('/', 'Overview');
    const verdict = page.locator('.verdict');
    expect(await verdict.getByRole('link').allInnerTexts()).toEqual([
      `Flow erp: 2 differences in the comparison of 3 documents with the ERP (comparison ${run})`,
    ]);
    expect(await verdict.innerText()).toContain('One thing needs a look.');
    await verdict.getByRole('link').click();
    await page.getByRole('heading', { level: 1, name: 'erp' }).waitFor();
    await page.getByRole('cell', { name: '2 differ' }).waitFor();
  });

  test('the list says which comparison found what, and one shows each value that differs, and who changed it', async () => {
    await open('/flows', 'Flows');
    await page.getByRole('cell', { name: '2 differ' }).waitFor();
    expect(await browser.violations()).toEqual([]);
    await page.getByRole('region', { name: 'Comparisons' }).getByRole('link', { name: /^erp/ }).click();
    await page.getByRole('heading', { name: 'Comparison of erp' }).waitFor();
    const shown = await text();
    expect(shown).toContain('3 documents compared, 1 as they were delivered: 1 changed in the ERP, 1 not in the ERP.');
    for (const part of ['total_cost', '10.5', '99.5', 'changed by Ben <b>', 'PO-2', 'Supplier 0'])
      expect(shown).toContain(part);
    await pictures(page)('console-comparison');
    expect(await browser.violations()).toEqual([]);
    await page.setViewportSize({ width: 390, height: 800 });
    expect(await page.evaluate<number>('document.documentElement.scrollWidth')).toBeLessThanOrEqual(390);
    await page.setViewportSize(desktop);
    expect(browser.complaints).toEqual([]);
  });

  test('what differs is written again after a question, by the same way as the command', async () => {
    await open(`/comparisons/${run}`, 'Comparison of erp');
    await page.getByRole('button', { name: 'Bring these 2 documents back into step' }).click();
    const dialog = page.getByRole('dialog', { name: 'Write 2 documents again?' });
    expect(await dialog.innerText()).toContain('What people have changed there is lost.');
    const due = () =>
      world.db.database.query("select key from bridge.flow_documents where flow = 'erp' and due is not null");
    expect(await due()).toEqual([]);
    await dialog.getByRole('button', { name: 'Write them' }).click();
    await page.getByText('2 documents are due').waitFor();
    expect(await due()).toHaveLength(2);
    const [action] = await readActions(world.db.database, 'bridge', { limit: 1 });
    expect(action).toMatchObject({
      what: 'documents.replay',
      object: 'flow erp',
      details: { count: 2, reconciliation: run },
    });
  });

  test('a person who may not operate sees no button, and without prices no value and no report', async () => {
    server.viewer = { ...operator, role: 'viewer-without-prices' };
    await open(`/comparisons/${run}`, 'Comparison of erp');
    await page.getByRole('link', { name: 'Office chairs' }).first().waitFor();
    const shown = await text();
    expect(shown).not.toContain('99.5');
    expect(shown).toContain('not shown');
    expect(await page.getByRole('button', { name: /back into step|Report|signature/ }).count()).toBe(0);
    const refused = await page.request.get(`${server.url}/api/comparisons/report?run=${run}`);
    expect(refused.status()).toBe(403);
    server.viewer = { ...operator, flows: ['another'] };
    expect((await page.request.get(`${server.url}/api/comparisons/one?run=${run}`)).status()).toBe(404);
  });

  test('the report is downloaded with its signature', async () => {
    await open(`/comparisons/${run}`, 'Comparison of erp');
    const bytesOf = async (name: string) => {
      const button = page.getByRole('button', { name });
      const [download] = await Promise.all([page.waitForEvent('download'), button.click()]);
      return readFile(await download.path());
    };
    const json = await bytesOf('Report (JSON)');
    const report = JSON.parse(json.toString('utf8')) as ReportContent;
    expect(report).toMatchObject({ number: run, flow: 'erp', documents: 3 });
    expect(
      isReportSigned(json, await bytesOf('Its signature'), reportPublicKey(createSecretBox(Buffer.alloc(32, 7)))),
    ).toBe(true);
    expect(browser.complaints).toEqual([]);
  });
});
