/** `bridge checkpoint get|set|reset`: shows how far each feed has been read, and reads a feed from another time. */
import { resetFeed, setCheckpoint } from '#bridge/operate/control-feeds.ts';
import { readStatus } from '#bridge/operate/status/status.ts';
import { parseTimestamp, type Timestamp } from '#contract/timestamp.ts';
import { timestampNow } from '#platform/clock.ts';
import { AppError } from '#platform/errors.ts';
import {
  type BridgeCommand,
  type BridgeCommandOptions,
  findFeed,
  findSource,
  requireSource,
  withBridge,
} from '../bridge-command.ts';
import { confirm } from '../confirm.ts';
import { print, tableOf } from '../output.ts';

export interface CheckpointOptions extends BridgeCommandOptions {
  yes?: boolean;
}

/** Shows the checkpoints of all feeds, or of the feed `<source>/<feed>`. */
export function runCheckpointGet(options: BridgeCommandOptions, name: string | undefined): Promise<number> {
  return withBridge(
    options,
    async (command) => {
      requireSource(command.settings);
      const wanted = name === undefined ? undefined : feedOf(command, name);
      const all = await readCheckpoints(command);
      const checkpoints = all.filter(
        ({ source, feed }) => wanted === undefined || (source === wanted.source && feed === wanted.feed),
      );
      print(options, { checkpoints }, () => textOf(checkpoints));
      return 0;
    },
    { withoutSecrets: true },
  );
}

/**
 * Reads the feed again from `time` on. It asks for confirmation when `time` is later than the watermark: then the
 * records in between are not read.
 */
export function runCheckpointSet(options: CheckpointOptions, name: string, time: string): Promise<number> {
  return withBridge(
    options,
    async (command) => {
      const feed = feedOf(command, name);
      const watermark = parseTimestamp(time);
      if (watermark === undefined)
        throw new AppError('invalid', `"${time}" is not a time: it must be like 2030-12-31T23:59:59Z.`);
      const current = (await readCheckpoints(command)).find(
        (checkpoint) => checkpoint.source === feed.source && checkpoint.feed === feed.feed,
      );
      const skips = current !== undefined && (current.watermark === null || current.watermark < watermark);
      const from = current?.watermark ?? 'the beginning';
      const question = `Changes in ${name} between ${from} and ${watermark} will not be read. Go on?`;
      if (skips && !(await confirm(question, options, command.signal))) return 1;
      const subject = {
        what: 'checkpoint.set',
        object: `feed ${name}`,
        details: { watermark, before: current?.watermark },
      };
      const message = await command.perform(subject, () =>
        setCheckpoint(command.database, feed, watermark, timestampNow(command.clock)),
      );
      print(options, { ...feed, watermark }, () => message);
      return 0;
    },
    { withoutSecrets: true },
  );
}

/** Reads the feed from its beginning again. The mirror keeps its records, and the ERP gets only the differences. */
export function runCheckpointReset(options: CheckpointOptions, name: string): Promise<number> {
  return withBridge(
    options,
    async (command) => {
      const feed = feedOf(command, name);
      if (!(await confirm(`Read all of ${name} again?`, options, command.signal))) return 1;
      const message = await command.perform({ what: 'checkpoint.reset', object: `feed ${name}` }, () =>
        resetFeed(command.database, feed, timestampNow(command.clock)),
      );
      print(options, { ...feed, watermark: null }, () => message);
      return 0;
    },
    { withoutSecrets: true },
  );
}

/** Reads `<source>/<feed>`. Throws an AppError `invalid` that lists the configured sources or feeds. */
export function feedOf({ settings }: Pick<BridgeCommand, 'settings'>, name: string): { source: string; feed: string } {
  const [sourceName = '', feedName] = name.split('/');
  const source = findSource(settings, sourceName);
  if (feedName === undefined)
    throw new AppError(
      'invalid',
      `Name the source and the feed: ${source.feeds.map((feed) => `${source.name}/${feed}`).join(', ')}.`,
    );
  return { source: source.name, feed: findFeed(source, feedName) };
}

interface Checkpoint {
  source: string;
  feed: string;
  watermark: Timestamp | null;
  lastPull: Timestamp | null;
  nextPull: Timestamp;
  latenessSeconds: number;
}

async function readCheckpoints({ database, settings, clock }: BridgeCommand): Promise<Checkpoint[]> {
  const { feeds } = await readStatus(database, { settings, now: timestampNow(clock) });
  return feeds.map(({ source, feed, watermark, lastPull, nextPull, latenessSeconds }) => ({
    source,
    feed,
    watermark,
    lastPull,
    nextPull,
    latenessSeconds,
  }));
}

/** Times to the microsecond, so that `set` can take them back unchanged. */
function textOf(checkpoints: readonly Checkpoint[]): string {
  return tableOf(
    ['feed', 'watermark', 'last read', 'next read', 'lateness'],
    checkpoints.map(({ source, feed, watermark, lastPull, nextPull, latenessSeconds }) => [
      `${source}/${feed}`,
      watermark,
      lastPull,
      nextPull,
      `${latenessSeconds} s`,
    ]),
    'No feed has been read yet.',
  );
}
