/** `bridge audit`: requests a full audit, which reads a whole feed again and counts late arrivals. */
import { requestAudit } from '#bridge/operate/control-feeds.ts';
import { timestampNow } from '#platform/clock.ts';
import { type BridgeCommandOptions, feedOf, requireSource, withBridge } from '../bridge-command.ts';
import { print } from '../output.ts';

/**
 * Audits the feed `<source>/<feed>`, or all feeds. A process with the role pull does it, and `bridge status` shows the
 * result.
 */
export function runAudit(options: BridgeCommandOptions, name: string | undefined): Promise<number> {
  return withBridge(
    options,
    async (command) => {
      requireSource(command.settings);
      const feeds =
        name === undefined
          ? command.settings.sources.flatMap((source) => source.feeds.map((feed) => ({ source: source.name, feed })))
          : [feedOf(command, name)];
      for (const feed of feeds)
        await command.perform({ what: 'audit.request', object: `feed ${feed.source}/${feed.feed}` }, () =>
          requestAudit(command.database, feed, timestampNow(command.clock)),
        );
      const names = feeds.map(({ source, feed }) => `${source}/${feed}`);
      print(options, { asked: names }, () => `An audit is requested for ${names.join(', ')}.`);
      return 0;
    },
    { withoutSecrets: true },
  );
}
