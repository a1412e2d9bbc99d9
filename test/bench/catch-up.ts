/**
 * Catching up after an outage: while no bridge runs, every record of a feed changes several times; then the bridge starts,
 * with the quotas of the documentation on both sides. It reads the newest state only: the limit per minute is what takes
 * the time. BENCH_RECORDS: how many records instead of 100,000.
 */
import { type Installation, startInstalledBridge } from '#cli/installation.ts';
import { startLocalPrograms } from '#cli/local-programs.ts';
import { countRequests, untilMirrored } from './bridge-requests.ts';
import { changedFeed, openFeedChanges } from './feed-changes.ts';
import { megabytes, printTable } from './figures.ts';
import { call } from './set-up.ts';

const records = Number(process.env['BENCH_RECORDS'] ?? 100_000);
const versions = 3;
const pageSize = 1_000;
const graceMs = 5_000;

/** Runs it; prints the requests against the full pages, those refused, and the time. */
export async function benchCatchUp(installation: Installation): Promise<void> {
  const { database } = installation.open;
  const programs = await startLocalPrograms(installation, { freePorts: true });
  const feed = await openFeedChanges(installation, programs);
  try {
    await programs.bridge.close(graceMs);
    for (let version = 0; version < versions; version += 1)
      for (let first = 0; first < records; first += 500)
        await feed.append(
          Array.from({ length: Math.min(500, records - first) }, (_, index) => first + index),
          version,
        );
    const organisation = `${programs.service.url}/admin/organisations/${programs.setup.organisation}`;
    await call(`${organisation}/limits`, await installation.adminToken(), 'PUT', { enabled: true });
    const settings = {
      ...programs.settings,
      sources: programs.settings.sources.map((source) => ({
        ...source,
        page_size: pageSize,
        quotas: { enabled: true },
      })),
    };
    await database.query(`update bridge.checkpoints set next_pull = now(), failures = 0`);
    const began = performance.now();
    const bridge = await startInstalledBridge(installation, settings);
    try {
      const rssBefore = process.memoryUsage.rss();
      await untilMirrored(installation, changedFeed, 15 * 60_000);
      const elapsedMs = performance.now() - began;
      const { each } = await countRequests(bridge);
      const ofFeed = [...each].filter(([what]) => what.startsWith(`feeds.${changedFeed} `));
      const asked = ofFeed.reduce((sum, [, count]) => sum + count, 0);
      const refused = [...each].reduce((sum, [what, count]) => sum + (what.endsWith(' 429') ? count : 0), 0);
      const [kept] = await database.query<{ versions: number }>(
        'select count(*)::int as versions from bridge.mirror_history where feed = $1',
        [changedFeed],
      );
      console.log(
        `Catching up with ${records.toLocaleString('en')} records that changed ${versions} times each, within 60 requests a minute`,
      );
      printTable([
        ['full pages', 'requests', 'refused with 429', 'earlier versions read', 'time'],
        [
          `${Math.ceil(records / pageSize)}`,
          `${asked}`,
          `${refused}`,
          `${kept?.versions}`,
          `${(elapsedMs / 1000).toFixed(1)} s`,
        ],
      ]);
      console.log(`  memory ${megabytes(rssBefore)} before, ${megabytes(process.memoryUsage.rss())} after\n`);
    } finally {
      await bridge.close(graceMs);
    }
  } finally {
    await feed.close();
    await programs.close();
  }
}
