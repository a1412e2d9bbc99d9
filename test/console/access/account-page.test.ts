/** Login and account in a real browser: readable for everybody, and a second factor from its code on the page to its removal. */
import { Secret, TOTP } from 'otpauth';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { addUser } from '#console/access/users.ts';
import { systemClock } from '#platform/clock.ts';
import { createTestDatabase, type TestDatabase } from '../../harness/test-database.ts';
import { buildPages, type ConsoleBrowser, desktop, launchBrowser, phone } from '../browser.ts';
import { chromiumPath } from '../chromium.ts';
import { pictures } from '../pictures.ts';
import { startWholeConsole } from './whole-console.ts';

const password = 'correct horse battery';

describe.skipIf(chromiumPath === undefined)('login and account in a browser', () => {
  let db: TestDatabase;
  let url: string;
  let browser: ConsoleBrowser;

  beforeAll(async () => {
    await buildPages();
    db = await createTestDatabase();
    await addUser(db.database, { name: 'anna', role: 'operator', flows: 'all', password }, systemClock);
    url = await startWholeConsole(db.database);
    browser = await launchBrowser();
  }, 120_000);
  afterAll(async () => {
    await browser?.close();
  });

  async function logIn(code?: string) {
    const { page } = browser;
    await page.goto(`${url}/login?next=/account`);
    await page.getByLabel('Name').fill('anna');
    await page.getByLabel('Password').fill(password);
    if (code !== undefined) await page.getByLabel(/^Code of your app/).fill(code);
    await page.getByRole('button', { name: 'Log in' }).click();
  }

  /** On a desk and on a phone, in light and dark. */
  async function expectReadable() {
    const { page } = browser;
    for (const viewport of [phone, desktop])
      for (const colorScheme of ['dark', 'light'] as const) {
        await page.setViewportSize(viewport);
        await page.emulateMedia({ colorScheme });
        expect(await browser.violations(), `${viewport.width} pixels, ${colorScheme}`).toEqual([]);
        const width = await page.evaluate('document.documentElement.scrollWidth');
        expect(width).toBeLessThanOrEqual(viewport.width);
      }
  }

  test('a second factor is set up from the page, asked for at the login, and removed again', async () => {
    const { page, complaints } = browser;
    await page.goto(`${url}/login`);
    await expectReadable();
    expect(await page.getByRole('img').or(page.locator('.brand img')).count(), 'in the look of the console').toBe(1);
    await logIn();
    await page.getByRole('heading', { level: 1, name: 'Account' }).waitFor();
    await page.getByRole('button', { name: 'Set up an app' }).click();
    await page.getByRole('img', { name: 'QR code of the secret' }).waitFor();
    await expectReadable();
    await pictures(page)('console-account');
    const secret = Secret.fromBase32(await page.locator('.enrolment code').innerText());
    const form = page.locator('section', { hasText: 'Second factor' });
    const first = TOTP.generate({ secret, timestamp: Date.now() });
    await form.getByLabel('Current password').fill(password);
    await form.getByLabel('Code of the app').fill(first);
    await form.getByRole('button', { name: 'Ask for codes from now on' }).click();
    await page.getByLabel(/^Code of your app/).waitFor();
    await expectReadable();
    await logIn();
    await page.getByRole('alert').waitFor();
    expect(await page.getByRole('alert').innerText()).toBe('Name, password or code is wrong. A code counts once.');
    // As if the code before had been used a step ago.
    await db.database.query('update bridge.second_factors set used_step = used_step - 1');
    await logIn(first);
    await page.getByRole('heading', { level: 1, name: 'Account' }).waitFor();
    await db.database.query('update bridge.second_factors set used_step = used_step - 1');
    await form.getByLabel('Current password').fill(password);
    await form.getByLabel('Code of the app').fill(first);
    await form.getByRole('button', { name: 'Remove it' }).click();
    await page.getByRole('heading', { level: 1, name: 'Log in' }).waitFor();
    expect(await page.getByLabel(/^Code of your app/).count()).toBe(0);
    expect(complaints).toEqual([]);
  });
});
