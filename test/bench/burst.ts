/**
 * HTTP requests per change in a burst: many transactions change ten records each, the service announces them by signed
 * webhooks, the bridge reads the feed. Requests in both directions count.
 * BENCH_CHANGES: how many changes instead of 10,000.
 */
import type { Installation } from '#cli/installation.ts';
import { startLocalPrograms } from '#cli/local-programs.ts';
import { countRequests, untilMirrored } from './bridge-requests.ts';
import { changedFeed, openFeedChanges } from './feed-changes.ts';
import { megabytes, printTable } from './figures.ts';

const changes = Number(process.env['BENCH_CHANGES'] ?? 10_000);
/** A supplier's bid changes the records of ten lots, say. */
const recordsOfCommand = 10;
const commandsAtOnce = 8;

/** Runs it; prints the requests, by what they were, and per change. */
export async function benchBurst(installation: Installation): Promise<void> {
  const { database } = installation.open;
  const programs = await startLocalPrograms(installation, { freePorts: true });
  const feed = await openFeedChanges(installation, programs);
  try {
    // One to begin with: what a start costs is not the burst's.
    await feed.append([changes], 0);
    await untilMirrored(installation, changedFeed, 60_000);
    const rssBefore = process.memoryUsage.rss();
    const before = await countRequests(programs.bridge);
    const notificationsOf = async () =>
      (await database.query<{ count: number }>('select count(*)::int as count from bridge.inbox'))[0]?.count ?? 0;
    const announcedBefore = await notificationsOf();
    const began = performance.now();
    let next = 0;
    await Promise.all(
      Array.from({ length: commandsAtOnce }, async () => {
        for (let first = next; first < changes; first = next) {
          next += recordsOfCommand;
          // Each record changes twice.
          const numbers = Array.from({ length: recordsOfCommand }, (_, index) => (first + index) % (changes / 2));
          await feed.append(numbers, first);
        }
      }),
    );
    const changedMs = performance.now() - began;
    await untilMirrored(installation, changedFeed, 120_000);
    const behindMs = performance.now() - began - changedMs;
    const after = await countRequests(programs.bridge);
    const asked = after.all - before.all;
    const announced = (await notificationsOf()) - announcedBefore;
    const perChange = (requests: number) => (requests / changes).toFixed(4);
    console.log(
      `${changes.toLocaleString('en')} changes in a burst of ${(changedMs / 1000).toFixed(1)} s, ten in a transaction; all in the mirror ${behindMs.toFixed(0)} ms after the last`,
    );
    printTable([
      ['', 'requests', 'per change'],
      ['pages read by the bridge', `${asked}`, perChange(asked)],
      ['notifications sent by the service', `${announced}`, perChange(announced)],
      ['together', `${asked + announced}`, perChange(asked + announced)],
    ]);
    console.log(`  memory ${megabytes(rssBefore)} before, ${megabytes(process.memoryUsage.rss())} after\n`);
  } finally {
    await feed.close();
    await programs.close();
  }
}
