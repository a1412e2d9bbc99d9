/** Feeds: how far they are read and why not further; backfill, audit, read now. */
import { z } from 'zod';
import { cancelBackfill, readBackfills, requestAudit, startBackfill } from '#bridge/operate/control-feeds.ts';
import { feedNames } from '#contract/feed.ts';
import { timestamp } from '#contract/scalars.ts';
import { timestampNow } from '#platform/clock.ts';
import { AppError } from '#platform/errors.ts';
import { actionCall, type ConsoleApiDeps, noQuery, readCall, requireAllFlows } from './console-call.ts';
import { statusFor } from './read-overview.ts';

const feedId = z.strictObject({ source: z.string().min(1).max(100), feed: z.enum(feedNames) });

export type FeedsAnswer = Pick<Awaited<ReturnType<typeof statusFor>>, 'feeds' | 'backfills' | 'audits' | 'conditions'>;

export const feedsCall = (deps: ConsoleApiDeps) =>
  readCall('/api/feeds', noQuery, async ({ viewer }): Promise<FeedsAnswer> => {
    const { feeds, backfills, audits, conditions } = await statusFor(deps, viewer);
    return { feeds, backfills, audits, conditions };
  });

export const backfillCall = ({ database, clock, note }: ConsoleApiDeps) =>
  actionCall(
    '/api/feeds/backfill',
    feedId.extend({ from: timestamp, to: timestamp.optional() }),
    async ({ viewer, body: { source, feed, from, to } }) => {
      requireAllFlows(viewer);
      const now = timestampNow(clock);
      await note(viewer, {
        what: 'backfill.start',
        object: `feed ${source}/${feed}`,
        details: { from, to: to ?? now },
      });
      return { id: await startBackfill(database, { source, feed, from, to: to ?? now }, now) };
    },
  );

export const cancelBackfillCall = ({ database, clock, note }: ConsoleApiDeps) =>
  actionCall('/api/feeds/cancel-backfill', z.strictObject({ id: z.int().min(1) }), async ({ viewer, body: { id } }) => {
    requireAllFlows(viewer);
    const [backfill] = await readBackfills(database, [id]);
    if (!backfill) throw new AppError('not-found', `There is no backfill ${id}.`);
    await note(viewer, { what: 'backfill.cancel', object: `backfill ${id}` });
    await cancelBackfill(database, id, timestampNow(clock));
  });

export const auditCall = ({ database, clock, note }: ConsoleApiDeps) =>
  actionCall('/api/feeds/audit', feedId, async ({ viewer, body }) => {
    requireAllFlows(viewer);
    await note(viewer, { what: 'audit.request', object: `feed ${body.source}/${body.feed}` });
    await requestAudit(database, body, timestampNow(clock));
  });
