/** The pictures of the documentation, which the tests make with SCREENSHOTS=1. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Page } from 'playwright-core';
import { desktop, phone } from './browser.ts';

const images = join(import.meta.dirname, '..', '..', 'docs', 'images');
const takesPictures = process.env['SCREENSHOTS'] === '1';

/** Returns a function that makes a picture of what the page shows now. */
export function pictures(page: Page) {
  return async (name: string, options: { phone?: boolean; dark?: boolean } = {}): Promise<void> => {
    if (!takesPictures) return;
    await page.setViewportSize(options.phone ? phone : { width: 1280, height: 780 });
    if (options.dark) await page.emulateMedia({ colorScheme: 'dark' });
    await writeFile(join(images, `${name}.png`), await page.screenshot());
    await page.setViewportSize(desktop);
    await page.emulateMedia({ colorScheme: 'light' });
  };
}
