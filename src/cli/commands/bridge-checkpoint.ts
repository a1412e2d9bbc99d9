/** `bridge checkpoint get|set|reset`: how far each feed has been read, and reading from elsewhere. */
import { resetFeed, setCheckpoint } from '#bridge/pull/control-feeds.ts';
import { readStatus } from '#bridge/status/status.ts';
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

/** Of all feeds, or of the one that is named `<source>/<feed>`. */
export function runCheckpointGet(options: BridgeCommandOptions, name: string | undefined): Promise<number> {
  return withBridge(options, async (command) => {
    requireSource(command.settings);
    const wanted = name === undefined ? undefined : feedOf(command, name);
    const all = await readCheckpoints(command);
    const checkpoints = all.filter(
      ({ source, feed }) => wanted === undefined || (source === wanted.source && feed === wanted.feed),
    );
    print(options, { checkpoints }, () => textOf(checkpoints));
    return 0;
  });
}

/** From then on everything changed after `time` is read again. Asks first: a later time than now leaves records out. */
export function runCheckpointSet(options: CheckpointOptions, name: string, time: string): Promise<number> {
  return withBridge(options, async (command) => {
    const feed = feedOf(command, name);
    const watermark = parseTimestamp(time);
    if (watermark === undefined)
      throw new AppError('invalid', `"${time}" is no time: it must be like 2030-12-31T23:59:59Z.`);
    const [held] = (await readCheckpoints(command)).filter(
      (one) => one.source === feed.source && one.feed === feed.feed,
    );
    const skips = held !== undefined && (held.watermark === null || held.watermark < watermark);
    const question = `What changed in ${name} between ${held?.watermark ?? 'the beginning'} and ${watermark} will not be read. Go on?`;
    if (skips && !(await confirm(question, options, command.signal))) return 1;
    const told = await setCheckpoint(command.database, feed, watermark, timestampNow(command.clock));
    print(options, { ...feed, watermark }, () => told);
    return 0;
  });
}

/** The feed is read from its beginning again; what the mirror holds stays, and the ERP gets only what differs. */
export function runCheckpointReset(options: CheckpointOptions, name: string): Promise<number> {
  return withBridge(options, async (command) => {
    const feed = feedOf(command, name);
    if (!(await confirm(`Read all of ${name} again?`, options, command.signal))) return 1;
    const told = await resetFeed(command.database, feed, timestampNow(command.clock));
    print(options, { ...feed, watermark: null }, () => told);
    return 0;
  });
}

/** Throws AppError `invalid` that lists what there is. */
export function feedOf({ settings }: Pick<BridgeCommand, 'settings'>, name: string): { source: string; feed: string } {
  const [sourceName = '', feedName] = name.split('/');
  const source = findSource(settings, sourceName);
  if (feedName === undefined)
    throw new AppError(
      'invalid',
      `Name the feed, too: ${source.feeds.map((feed) => `${source.name}/${feed}`).join(', ')}.`,
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

/** To the microsecond: what is shown here is what `set` takes. */
function textOf(checkpoints: readonly Checkpoint[]): string {
  return tableOf(
    ['feed', 'watermark', 'last read', 'next read', 'lateness'],
    checkpoints.map((one) => [
      `${one.source}/${one.feed}`,
      one.watermark,
      one.lastPull,
      one.nextPull,
      `${one.latenessSeconds} s`,
    ]),
    'No feed has been read yet.',
  );
}
