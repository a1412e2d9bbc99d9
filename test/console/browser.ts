/** A real Chromium on the console's pages, with what every test of them needs. */
import { mkdir, readdir, readFile, rm, stat } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { type Browser, type BrowserContext, chromium, type Page } from 'playwright-core';
import { systemClock } from '#platform/clock.ts';
import { chromiumPath } from './chromium.ts';

export interface ConsoleBrowser {
  readonly context: BrowserContext;
  readonly page: Page;
  /** What the browser complained of: a broken policy, an uncaught error. */
  readonly complaints: string[];
  /** Opens a page, and waits until it shows what it has loaded. */
  open(url: string, heading?: string | RegExp): Promise<void>;
  /** What axe finds. */
  violations(): Promise<string[]>;
  close(): Promise<void>;
}

const root = join(import.meta.dirname, '..', '..');
const axe = createRequire(import.meta.url).resolve('axe-core/axe.min.js');
export const desktop = { width: 1280, height: 860 } as const;
export const phone = { width: 390, height: 844 } as const;

/**
 * Builds the pages as the sources are now, and not as an earlier build has left them: once, although several processes
 * of a test run ask for it.
 */
export async function buildPages(): Promise<void> {
  const dist = join(root, 'dist');
  await mkdir(dist, { recursive: true });
  const lock = join(dist, 'console.lock');
  const took = () => mkdir(lock).then(isTrue, isFalse);
  while (!(await took())) {
    // One that was killed leaves its lock.
    const { mtimeMs } = await stat(lock).catch(() => ({ mtimeMs: Date.now() }));
    if (Date.now() - mtimeMs > buildMsMost) await rm(lock, { recursive: true, force: true });
    await systemClock.sleep(50);
  }
  try {
    if (!(await areBuilt(join(dist, 'console', 'index.html'))))
      await import(join(root, 'src', 'console', 'web', 'build.js'));
  } finally {
    await rm(lock, { recursive: true, force: true });
  }
}

const isTrue = () => true;
const isFalse = () => false;
const buildMsMost = 60_000;

async function areBuilt(page: string): Promise<boolean> {
  const built = await stat(page).catch(() => undefined);
  if (!built) return false;
  const sources = join(root, 'src');
  for (const folder of ['console', join('bridge', 'operate', 'plan')])
    for (const file of await readdir(join(sources, folder), { recursive: true }))
      if ((await stat(join(sources, folder, file))).mtimeMs > built.mtimeMs) return false;
  return true;
}

export async function launchBrowser(): Promise<ConsoleBrowser> {
  const browser: Browser = await chromium.launch({
    executablePath: chromiumPath ?? '',
    args: ['--no-sandbox', '--disable-gpu'],
  });
  const context = await browser.newContext({
    viewport: desktop,
    locale: 'en-GB',
    timezoneId: 'Europe/Berlin',
    colorScheme: 'light',
    // A colour on its way to another is no colour to judge.
    reducedMotion: 'reduce',
    ignoreHTTPSErrors: true,
  });
  const page = await context.newPage();
  const complaints: string[] = [];
  page.on('pageerror', (error) => complaints.push(error.message));
  page.on('console', (message) => {
    // A refused call is shown on the page; the browser also writes a line of its own.
    if (message.type() === 'error' && !message.text().includes('Failed to load resource'))
      complaints.push(message.text());
  });
  return {
    context,
    page,
    complaints,
    async open(url, heading) {
      await page.goto(url);
      if (heading !== undefined) await page.getByRole('heading', { level: 1, name: heading }).waitFor();
      await page.locator('.loading').first().waitFor({ state: 'detached' });
    },
    async violations() {
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
    },
    close: () => browser.close(),
  };
}

/** Counts what a person does: clicks, and strokes of keys. A typed text counts as one, whatever its length. */
export function countingPerson(page: Page) {
  const counts = { clicks: 0, keys: 0, texts: 0 };
  return {
    counts,
    async click(what: { click(): Promise<void> }): Promise<void> {
      counts.clicks += 1;
      await what.click();
    },
    async press(key: string, times = 1): Promise<void> {
      for (let time = 0; time < times; time += 1) {
        counts.keys += 1;
        await page.keyboard.press(key);
      }
    },
    async type(text: string): Promise<void> {
      counts.texts += 1;
      await page.keyboard.type(text);
    },
    /** Presses Tab until the element has the focus. */
    async tabTo(name: string | RegExp): Promise<void> {
      for (let step = 0; step < 60; step += 1) {
        const focused = await page.evaluate(
          `(() => { const e = document.activeElement; return e ? (e.getAttribute('aria-label') ?? e.textContent ?? '').trim() : ''; })()`,
        );
        if (typeof name === 'string' ? focused === name : name.test(String(focused))) return;
        counts.keys += 1;
        await page.keyboard.press('Tab');
      }
      throw new Error(`Tab does not lead to ${String(name)}`);
    },
  };
}
