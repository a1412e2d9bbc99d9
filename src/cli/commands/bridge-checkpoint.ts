/** `bridge checkpoint set`: reads a feed from another time on, or from its beginning. `bridge status` shows where it is. */
import { resetFeed, setCheckpoint } from '#bridge/operate/control-feeds.ts';
import { readStatus } from '#bridge/operate/status/status.ts';
import { parseTimestamp } from '#contract/timestamp.ts';
import { timestampNow } from '#platform/clock.ts';
import { AppError } from '#platform/errors.ts';
import { type BridgeCommandOptions, feedOf, withBridge } from '../bridge-command.ts';
import { confirm } from '../confirm.ts';
import { print } from '../output.ts';

export interface CheckpointOptions extends BridgeCommandOptions {
  yes?: boolean;
}

/**
 * It asks for confirmation where all is read again, and when `time` is later than the watermark: then the records in
 * between are not read. The mirror keeps its records, and the ERP gets only the differences.
 */
export function runCheckpointSet(options: CheckpointOptions, name: string, time: string | undefined): Promise<number> {
  return withBridge(
    options,
    async (command) => {
      const { database, settings, clock, signal, perform } = command;
      const feed = feedOf(command, name);
      const watermark = time === undefined ? null : parseTimestamp(time);
      if (watermark === undefined)
        throw new AppError('invalid', `"${time}" is not a time: it must be like 2030-12-31T23:59:59Z.`);
      const { feeds } = await readStatus(database, { settings, now: timestampNow(clock) });
      const before = feeds.find((each) => each.source === feed.source && each.feed === feed.feed)?.watermark ?? null;
      const question =
        watermark === null
          ? `Read all of ${name} again?`
          : `Changes in ${name} between ${before ?? 'the beginning'} and ${watermark} will not be read. Go on?`;
      const isHarmless = watermark !== null && before !== null && watermark <= before;
      if (!isHarmless && !(await confirm(question, options, signal))) return 1;
      const now = timestampNow(clock);
      const message = await perform(
        { what: 'checkpoint.set', object: `feed ${name}`, details: { watermark, before } },
        () => (watermark === null ? resetFeed(database, feed, now) : setCheckpoint(database, feed, watermark, now)),
      );
      print(options, { ...feed, watermark }, () => message);
      return 0;
    },
    { withoutSecrets: true },
  );
}
