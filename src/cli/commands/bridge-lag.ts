/** `bridge lag`: how far behind every feed, flow and intake is, in seconds, and why. Exit code 1 beyond `--max`. */
import { readStatus } from '#bridge/operate/status/status.ts';
import { timestampNow } from '#platform/clock.ts';
import { type BridgeCommandOptions, requireSource, withBridge } from '../bridge-command.ts';
import { behindText, whysOf } from '../feed-words.ts';
import { lagText, print, tableOf } from '../output.ts';

export interface LagOptions extends BridgeCommandOptions {
  max?: number;
}

export function runLag(options: LagOptions): Promise<number> {
  return withBridge(
    options,
    async ({ settings, database, clock }) => {
      requireSource(settings);
      const status = await readStatus(database, { settings, now: timestampNow(clock) });
      const feeds = status.feeds.map(({ source, feed, lag }) => ({ source, feed, ...lag }));
      const flows = status.flows.map(({ flow, lag }) => ({ flow, ...lag }));
      const intakes = status.intakes.map(({ intake, lag }) => ({ intake, ...lag }));
      const whys = whysOf(status.feeds);
      print(options, { feeds, flows, intakes }, () =>
        tableOf(
          ['what', 'behind by', 'seconds', 'why'],
          [
            ...feeds.map(({ source, feed, seconds, ...lag }, index) => [
              `feed ${source}/${feed}`,
              behindText({ ...lag, seconds }),
              seconds === null ? null : Math.round(seconds),
              whys[index],
            ]),
            ...flows.map(({ flow, seconds, why }) => [
              `flow ${flow}`,
              lagText(seconds),
              seconds === null ? null : Math.round(seconds),
              why,
            ]),
            ...intakes.map(({ intake, seconds, why }) => [
              `intake ${intake}`,
              lagText(seconds),
              seconds === null ? null : Math.round(seconds),
              why,
            ]),
          ],
          'Nothing has been read yet: start the bridge, or use `bridge run`.',
        ),
      );
      const { max = Number.POSITIVE_INFINITY } = options;
      const beyond = [...feeds, ...flows, ...intakes].some(
        ({ seconds }) => (seconds ?? Number.POSITIVE_INFINITY) > max,
      );
      return options.max !== undefined && beyond ? 1 : 0;
    },
    { withoutSecrets: true },
  );
}
