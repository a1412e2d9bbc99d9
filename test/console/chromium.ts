/** A real Chromium for tests: Debian's, or the one that CHROMIUM names. */
import { existsSync } from 'node:fs';

const places = [process.env['CHROMIUM'], '/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'];

/** The path of the browser; undefined where there is none. */
export const chromiumPath = places.find((path) => path !== undefined && existsSync(path));

/** Says once why the tests in a browser do not run here. */
export function sayWithoutChromium(): void {
  process.stderr.write(
    'No Chromium here (apt-get install chromium, or CHROMIUM=<path>): the console is not tried in a browser.\n',
  );
}
