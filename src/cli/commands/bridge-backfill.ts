/** `bridge backfill`: reads a range of time again, beside the live pull and without touching its checkpoint. */
import { readingProgress } from '#bridge/mirror/read-progress.ts';
import { cancelBackfill, readBackfills, startBackfill } from '#bridge/operate/control-feeds.ts';
import type { Timestamp } from '#contract/timestamp.ts';
import { timestampNow } from '#platform/clock.ts';
import { AppError } from '#platform/errors.ts';
import { type BridgeCommand, type BridgeCommandOptions, feedOf, withBridge } from '../bridge-command.ts';
import { underWay } from '../feed-words.ts';
import { print, shortTime, tableOf } from '../output.ts';

export interface BackfillOptions extends BridgeCommandOptions {
  from: Timestamp;
  to?: Timestamp;
}

type ListedBackfill = Awaited<ReturnType<typeof readBackfills>>[number];

/** A process with the role pull does the work. */
export function runBackfill(options: BackfillOptions, name: string): Promise<number> {
  return withBridge(
    options,
    async (command) => {
      const { database, clock, perform } = command;
      const feed = feedOf(command, name);
      const { from, to = timestampNow(clock) } = options;
      if (from >= to) throw new AppError('invalid', '--from must be before --to.');
      const id = await perform({ what: 'backfill.start', object: `feed ${name}`, details: { from, to } }, () =>
        startBackfill(database, { ...feed, from, to }, timestampNow(clock)),
      );
      const backfill = await readOne(command, id);
      print(options, backfill, () => textOf([backfill], timestampNow(clock)));
      return 0;
    },
    { withoutSecrets: true },
  );
}

/** Lists the open backfills and the latest finished ones. */
export function runBackfillList(options: BridgeCommandOptions): Promise<number> {
  return withBridge(
    options,
    async ({ database, clock }) => {
      const backfills = await readBackfills(database);
      print(options, { backfills }, () => textOf(backfills, timestampNow(clock)));
      return 0;
    },
    { withoutSecrets: true },
  );
}

/** Stops a backfill; the records that it has read stay in the mirror. Exit code 1 when there is nothing to cancel. */
export function runBackfillCancel(options: BridgeCommandOptions, number: string): Promise<number> {
  return withBridge(
    options,
    async (command) => {
      const { database, clock } = command;
      const id = Number(number);
      if (!/^\d{1,15}$/.test(number))
        throw new AppError(
          'invalid',
          `"${number}" is not the number of a backfill: bridge backfill list shows the numbers.`,
        );
      const before = await readOne(command, id);
      await command.perform({ what: 'backfill.cancel', object: `backfill ${id}` }, () =>
        cancelBackfill(database, id, timestampNow(clock)),
      );
      const after = await readOne(command, id);
      print(options, after, () => textOf([after], timestampNow(clock)));
      return before.finished === null && after.cancelled !== null ? 0 : 1;
    },
    { withoutSecrets: true },
  );
}

async function readOne({ database }: BridgeCommand, id: number): Promise<ListedBackfill> {
  const [backfill] = await readBackfills(database, [id]);
  if (backfill) return backfill;
  throw new AppError('invalid', `There is no backfill ${id}: bridge backfill list shows the existing ones.`);
}

function textOf(backfills: readonly ListedBackfill[], now: Timestamp): string {
  return tableOf(
    ['number', 'kind', 'source', 'feed', 'from', 'to', 'read up to', 'records', 'changed', 'late', 'state'],
    backfills.map((backfill) => [
      backfill.id,
      backfill.kind,
      backfill.source,
      backfill.feed,
      shortTime(backfill.from),
      shortTime(backfill.to),
      shortTime(backfill.position),
      backfill.records,
      backfill.changed,
      backfill.lateArrivals,
      stateOf(backfill, now),
    ]),
    'No backfills.',
  );
}

function stateOf(backfill: ListedBackfill, now: Timestamp): string {
  const { finished, cancelled, lastError } = backfill;
  if (finished !== null) return `finished ${shortTime(finished)}`;
  if (cancelled !== null) return `cancelled ${shortTime(cancelled)}`;
  return lastError === null ? underWay(readingProgress(backfill, now)) : `tried again: ${lastError}`;
}
