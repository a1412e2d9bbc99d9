/** `/status.json`, with what who asks may see. */
import type { Express } from 'express';
import { type BridgeStatus, readStatus } from '#bridge/operate/status/status.ts';
import { timestampNow } from '#platform/clock.ts';
import type { Application } from '#platform/http/application.ts';
import { maySeePrices, viewerOf } from './access/viewer.ts';
import type { ConsoleDeps } from './api/console-call.ts';
import { withoutPrices } from './api/prices.ts';
import { statusFor } from './api/read-overview.ts';
import { shareRead } from './shared-read.ts';

/** What a process without the console's pages has. */
export function mountStatus(
  { express }: Application,
  { settings, database, clock, certificates }: Pick<ConsoleDeps, 'settings' | 'database' | 'clock' | 'certificates'>,
): void {
  const status = shareRead(
    () => readStatus(database, { settings, now: timestampNow(clock), ...certificates?.() }),
    clock,
  );
  answerStatus(express, { settings, status: status.read });
}

export function answerStatus(
  express: Express,
  deps: Pick<ConsoleDeps, 'settings'> & { status: () => Promise<BridgeStatus> },
): void {
  express.get('/status.json', async (_request, response) => {
    response.locals.route = '/status.json';
    const viewer = viewerOf(response);
    const shown = await statusFor(deps, viewer);
    response.json(maySeePrices(viewer) ? shown : withoutPrices(shown));
  });
}
