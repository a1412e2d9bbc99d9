/**
 * A newcomer at `npm start` in a real browser, the console with a certificate of its own: the one-time link, an order in the ERP, webhooks; then people
 * with accounts and people of an OpenID provider at its login page. One program for all of it.
 */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { addUser } from '#console/access/users.ts';
import { readActions } from '#platform/audit-log.ts';
import { systemClock } from '#platform/clock.ts';
import { runCommandLine, startCommandLine } from '../cli/command-line.ts';
import { freePort } from '../harness/free-port.ts';
import { scratchFolder } from '../harness/scratch-folder.ts';
import { testCertificates } from '../harness/test-certificates.ts';
import { createTestDatabase } from '../harness/test-database.ts';
import { openIdClient, startOpenIdProvider } from './access/openid-provider.ts';
import { buildPages, type ConsoleBrowser, launchBrowser } from './browser.ts';
import { chromiumPath } from './chromium.ts';

describe.skipIf(chromiumPath === undefined)('npm start in a browser', () => {
  let browser: ConsoleBrowser;
  beforeAll(async () => {
    await buildPages();
    browser = await launchBrowser();
  });
  afterAll(async () => {
    await browser?.close();
  });

  test('a newcomer sees a bid become an order; accounts and an OpenID provider let people in', async () => {
    const { page } = browser;
    const { url: databaseUrl, database } = await createTestDatabase();
    const folder = await scratchFolder();
    const port = await freePort();
    const url = `https://localhost:${port}`;
    const { certPem, keyPem } = testCertificates();
    const consoleTls = { cert_file: join(folder, 'cert.pem'), key_file: join(folder, 'key.pem') };
    await writeFile(consoleTls.cert_file, certPem);
    await writeFile(consoleTls.key_file, keyPem);
    const issuer = await startOpenIdProvider(url);
    const openid = {
      issuer,
      ...openIdClient,
      roles: [{ claim: 'groups', value: 'bridge-readers', role: 'viewer-without-prices' }],
    };
    const config = join(folder, 'bridge.yaml');
    await writeFile(
      config,
      JSON.stringify({
        service: { port: 0 },
        bridge: { port: 0, console_port: port, console_url: url, console_tls: consoleTls, console_login: { openid } },
      }),
    );
    const program = startCommandLine(['start', '--demo', '--config', config, '--data', join(folder, 'data')], {
      DATABASE_URL: databaseUrl,
    });
    await program.line(/^sourcing-bridge ready/);
    const printed = await runCommandLine(['console', 'link', '--config', config, '--data', join(folder, 'data')], {
      DATABASE_URL: databaseUrl,
    });
    const link = /https:\S+\/login\/link\/\S+/.exec(printed.stdout)?.[0] ?? '';

    // The link logs in once.
    await page.goto(`${url}${new URL(link).pathname}`);
    await page.waitForURL(`${url}/`);
    const cookies = await browser.context.cookies();
    expect(cookies.map(({ name, secure, httpOnly }) => [name.startsWith('__Host-'), secure, httpOnly])).toContainEqual([
      true,
      true,
      true,
    ]);
    await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor();
    expect(await browser.violations()).toEqual([]);
    const delivered = page.getByRole('region', { name: 'Delivered last' });
    const order = delivered.locator('tr', { hasText: 'Award' }).first();
    await order.waitFor({ timeout: 90_000 });
    await order.getByRole('link').first().click();
    await page.getByRole('heading', { level: 2, name: 'What happened' }).waitFor();
    await page.getByText('answered', { exact: true }).first().waitFor();

    // The webhook that the start has registered is tested, its key replaced, and another one registered.
    await browser.open(`${url}/sources`, 'Sources');
    const own = page.getByRole('region', { name: /^Webhooks of / });
    await own.getByText('active').first().waitFor();
    await page.getByRole('button', { name: 'Test' }).click();
    await page.getByText(/^The test is in the inbox, after \d+ ms\./).waitFor({ timeout: 40_000 });
    expect(await browser.violations()).toEqual([]);
    await page.getByRole('button', { name: 'Rotate keys' }).click();
    await page.getByRole('button', { name: 'Replace them' }).click();
    await page.getByRole('dialog').waitFor({ state: 'detached' });
    await page.getByRole('button', { name: 'Test' }).click();
    await page
      .getByText(/^The test is in the inbox, after \d+ ms\./)
      .first()
      .waitFor({ timeout: 40_000 });
    await page.getByRole('button', { name: 'Register' }).click();
    await page.getByRole('dialog').getByLabel('URL by which').fill('http://not-secure.example/webhooks');
    await page.getByRole('dialog').getByRole('button', { name: 'Register' }).click();
    await page.getByRole('dialog').getByRole('alert').waitFor();
    await page.getByRole('dialog').getByLabel('URL by which').fill('https://localhost:9443/webhooks/other');
    await page.getByRole('dialog').getByRole('button', { name: 'Register' }).click();
    await own.getByText('https://localhost:9443/webhooks/other').waitFor();
    const done = await readActions(database, 'bridge', { limit: 20, what: 'webhook' });
    expect(new Set(done.map(({ what }) => what))).toEqual(
      new Set(['webhook.test', 'webhook.rotate', 'webhook.register']),
    );

    // A session that ends on the server is said on the page; the link does not work a second time.
    await database.query('delete from bridge.console_tokens');
    await page.getByRole('link', { name: 'Documents', exact: true }).click();
    await page.getByRole('link', { name: 'Log in again' }).click();
    await page.getByRole('heading', { name: 'Log in' }).waitFor();
    expect(await browser.violations()).toEqual([]);
    await page.goto(link);
    await page.getByRole('alert').waitFor();

    // An account: a wrong password, the right one, and the page that was asked for.
    await addUser(database, { name: 'anna', role: 'viewer', flows: 'all', password: 'a long password' }, systemClock);
    await page.goto(`${url}/documents?state=delivered`);
    await page.getByLabel('Name').fill('anna');
    await page.getByLabel('Password').fill('a wrong password');
    await page.getByRole('button', { name: 'Log in', exact: true }).click();
    await page.getByRole('alert').waitFor();
    await page.getByLabel('Password').fill('a long password');
    await page.getByRole('button', { name: 'Log in', exact: true }).click();
    await page.waitForURL(`${url}/documents?state=delivered`);
    await page.locator('tbody tr').first().waitFor();
    await page.getByRole('link', { name: 'anna', exact: true }).first().click();
    await page.getByRole('heading', { level: 1, name: 'Account' }).waitFor();
    await page.getByText('this browser').waitFor();
    await page.getByLabel('Current password').waitFor();
    expect(await browser.violations()).toEqual([]);
    await page.getByRole('button', { name: 'Log out' }).click();
    await page.getByRole('heading', { name: 'Log in' }).waitFor();

    // A person of the provider, with the role of a group.
    await page.getByRole('link', { name: 'Single sign-on' }).click();
    await page.locator('input[name=login]').fill('bert');
    await page.locator('input[name=password]').fill('any');
    await page.locator('button[type=submit]').click();
    await page.locator('button[type=submit]').click();
    await page.waitForURL(`${url}/`);
    await page
      .getByText(/^bert at /)
      .first()
      .waitFor();
    await browser.open(`${url}/documents?state=delivered`, 'Documents');
    await page.locator('tbody tr').first().waitFor();
    expect(await page.locator('main').innerText(), 'without prices').not.toMatch(/\d[\d,]*\.\d\d /);
    expect(browser.complaints).toEqual([]);
    program.signal('SIGTERM');
    expect(await program.ended).toBe(0);
  }, 240_000);
});
