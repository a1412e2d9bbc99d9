/**
 * `npm run bench [-- <name> …]`: ratios of things that are measured in the same run, in turns, as medians; nothing here
 * asserts a time. DATABASE_URL and REDIS_URL choose other servers than the embedded one.
 */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { cpus } from 'node:os';
import type { Installation } from '#cli/installation.ts';
import { describeDatabase, withInstallation } from './bench-installation.ts';
import { benchDeliveries } from './deliveries.ts';
import { benchFeedPage } from './feed-page.ts';
import { type Goal, goalsSoFar, noteGoal, printGoals } from './goals.ts';
import { benchPullRecords } from './pull-records.ts';
import { benchScale } from './scale.ts';
import { benchSources } from './sources.ts';
import { benchWebhookEndpoint } from './webhook-endpoint.ts';
import { benchWholeWay } from './whole-way.ts';

const benchmarks: Record<string, (installation: Installation) => Promise<void>> = {
  'webhook-endpoint': benchWebhookEndpoint,
  'feed-page': benchFeedPage,
  deliveries: benchDeliveries,
  'whole-way': benchWholeWay,
  'pull-records': benchPullRecords,
  scale: benchScale,
  sources: benchSources,
};

const names = process.argv.slice(2);
const unknown = names.find((name) => !(name in benchmarks));
if (unknown !== undefined) {
  console.error(`There is no benchmark "${unknown}". There are: ${Object.keys(benchmarks).join(', ')}.`);
  process.exitCode = 2;
} else if (process.send && names[0] !== undefined) {
  const [name] = names;
  await withInstallation(async (installation) => benchmarks[name]?.(installation));
  process.send(goalsSoFar());
  process.disconnect();
} else {
  console.log(`Node ${process.version}, ${cpus().length} processors (${cpus()[0]?.model.trim()})`);
  await withInstallation(async (installation) => {
    const queue = process.env['REDIS_URL'] ? 'Redis' : 'PostgreSQL';
    console.log(`${await describeDatabase(installation)}; queue on ${queue}\n`);
  });
  for (const name of names.length > 0 ? names : Object.keys(benchmarks)) await runApart(name);
  printGoals();
}

/** In a process of its own: what one leaves in the heap, and in the compiler's view of shared code, changes the next. */
async function runApart(name: string): Promise<void> {
  const child = fork(import.meta.filename, [name]);
  child.on('message', (goals: readonly Goal[]) => goals.forEach(noteGoal));
  // Its goals may arrive after its exit, and before the end of the channel.
  const [[code]] = (await Promise.all([once(child, 'exit'), once(child, 'disconnect')])) as [[number | null], unknown];
  if (code !== 0) throw new Error(`The benchmark "${name}" has ended with ${code ?? 'a signal'}.`);
}
