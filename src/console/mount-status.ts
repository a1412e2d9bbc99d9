/** `/status.json` alone. */
import { readStatus } from '#bridge/operate/status/status.ts';
import { timestampNow } from '#platform/clock.ts';
import type { Application } from '#platform/http/application.ts';
import type { ConsoleDeps } from './api/console-call.ts';
import { shareRead } from './shared-read.ts';

/** What a process without the console's pages has. */
export function mountStatus(
  { express }: Application,
  { settings, database, clock }: Pick<ConsoleDeps, 'settings' | 'database' | 'clock'>,
): () => void {
  const status = shareRead(() => readStatus(database, { settings, now: timestampNow(clock) }), clock);
  express.get('/status.json', async (_request, response) => {
    response.locals.route = '/status.json';
    response.json(await status.read());
  });
  return () => undefined;
}
