/**
 * The page of the audit log in a real browser: both logs as one, what was refused, what an erasure has removed; on a desk and
 * on a phone, by the keyboard's filters, and readable for everybody.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type AuditedProgram, recordAction } from '#platform/audit-log.ts';
import { createTestDatabase } from '../harness/test-database.ts';
import { buildPages, type ConsoleBrowser, desktop, launchBrowser, phone } from './browser.ts';
import { chromiumPath } from './chromium.ts';
import { type ConsoleServer, startConsole } from './console-server.ts';
import { pictures } from './pictures.ts';

type Entry = Partial<Parameters<typeof recordAction>[2]> & { readonly program: AuditedProgram };

const mark = 'erased-5d41402abc4b@erased.invalid';
const entries: readonly Entry[] = [
  {
    program: 'service',
    who: { kind: 'token', name: 'anna' },
    what: 'api-key.create',
    object: 'api-key 0f8e',
    details: { name: 'desk of Acme', scopes: ['desk'], desk: { as: 'supplier', supplier: 'S1' } },
  },
  {
    program: 'service',
    who: { kind: 'key', name: 'desk of Acme (0f8e)' },
    what: 'event.close',
    object: 'event 77aa',
    outcome: 'refused',
    details: { why: 'This API key acts for the supplier "S1", and only a buyer does this.' },
  },
  {
    program: 'service',
    who: { kind: 'key', name: 'unknown' },
    what: 'api.login',
    object: null,
    outcome: 'refused',
    details: { more: 1204 },
  },
  {
    program: 'bridge',
    who: { kind: 'user', name: 'Ada' },
    what: 'flow.pause',
    object: 'flow sap',
    details: { reason: 'Year-end closing' },
  },
  {
    program: 'bridge',
    who: { kind: 'cli', name: 'root' },
    what: 'person.erase',
    object: `person ${mark}`,
    details: { salt: '00ff', scrypt: 'a1b2' },
  },
  {
    program: 'bridge',
    who: { kind: 'cli', name: 'root' },
    what: 'person.erased',
    object: `person ${mark}`,
    details: { removed: { 'bridge.mirror': 12, 'bridge.document_versions': 3, 'bridge.inbox': 1 } },
  },
  {
    program: 'service',
    who: { kind: 'cli', name: 'root' },
    what: 'organisation.erased',
    object: 'organisation 9c1b',
    details: { removed: { 'service.files': 4, 'service.sourcing_events': 2 } },
  },
];

describe.skipIf(chromiumPath === undefined)('the page of the audit log', () => {
  let server: ConsoleServer;
  let browser: ConsoleBrowser;

  beforeAll(async () => {
    await buildPages();
    const { database } = await createTestDatabase();
    for (const [index, { program, ...entry }] of entries.entries())
      await recordAction(database, program, {
        who: { kind: 'program', name: 'x' },
        what: 'x',
        object: null,
        from: '192.0.2.7',
        details: {},
        outcome: 'allowed',
        when: `2030-05-01T10:0${index}:00.000000Z`,
        ...entry,
      });
    server = await startConsole(database);
    browser = await launchBrowser();
  });
  afterAll(async () => {
    await browser?.close();
  });

  const rows = () => browser.page.locator('table[aria-label="Actions"] tbody tr, [aria-label="Actions"] tbody tr');

  test('shows both logs, the latest first, with who, what, on what, from where, and what was refused and why', async () => {
    const { page } = browser;
    await browser.open(`${server.url}/actions`, 'Audit log');
    await rows().first().waitFor();
    const texts = await rows().allInnerTexts();
    expect(texts).toHaveLength(entries.length);
    expect(texts[0]).toContain('organisation.erased');
    expect(texts.at(-1)).toMatch(/anna \(token\)[\s\S]*service[\s\S]*api-key\.create/);
    const erased = texts.find((text) => text.includes('person.erased'));
    expect(erased).toContain(`person ${mark}`);
    expect(erased).toContain('removed: bridge.mirror 12, bridge.document_versions 3, bridge.inbox 1');
    expect(texts.at(-1)).toContain('scopes: desk · desk: as supplier, supplier S1');
    expect(texts.find((text) => text.includes('event.close'))).toMatch(/acts for the supplier "S1"[\s\S]*refused/);
    expect(await browser.violations()).toEqual([]);
    await pictures(page)('console-audit-log');
  });

  test('is narrowed by its filters, also in its address', async () => {
    const { page } = browser;
    await browser.open(`${server.url}/actions?outcome=refused`, 'Audit log');
    await expect.poll(() => rows().count()).toBe(2);
    await page.getByLabel('What, like flow or flow.pause').fill('api');
    await expect.poll(() => rows().count()).toBe(1);
    await browser.open(`${server.url}/actions?program=bridge&what=person`, 'Audit log');
    await expect.poll(() => rows().count()).toBe(2);
    expect(await browser.violations()).toEqual([]);
  });

  test('fits on a phone', async () => {
    const { page } = browser;
    await page.setViewportSize(phone);
    await browser.open(`${server.url}/actions`, 'Audit log');
    await rows().first().waitFor();
    const width = await page.evaluate('document.documentElement.scrollWidth');
    expect(width).toBeLessThanOrEqual(phone.width);
    expect(await browser.violations()).toEqual([]);
    await page.setViewportSize(desktop);
    expect(browser.complaints).toEqual([]);
  });
});
