/** PostgreSQL is killed while the demo runs: all its processes at once with -9, as when memory runs out. */
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { readServiceState, readUnfinished } from './awards-in-sql.ts';
import { killPostgres } from './kill-postgres.ts';
import { createInstallation, lineOf, outcomeOf, useEmbedded } from './program-process.ts';
import { seededRandom } from './seeded-random.ts';

const seed = Number(process.env['FAULT_SEED'] ?? 5);

test('the demo, or one more run of it, succeeds when all of PostgreSQL is killed in its middle', async () => {
  const installation = await createInstallation();
  const random = seededRandom(seed);
  const demo = ['demo', '--events', '4', '--suppliers', '5', '--lots', '6'];
  const first = installation.start(demo);
  for (const number of [1, 3]) {
    await lineOf(first, new RegExp(`"RFQ ${number}.* bids on`)).catch(() => undefined);
    if (first.ended) break;
    await sleep(random.upTo(100));
    await killPostgres(installation.dataDir);
  }
  await first.end;
  const last = outcomeOf(first) === 'exit code 0' ? first : installation.start(demo);
  await last.end;
  expect(outcomeOf(last)).toBe('exit code 0');
  const runs = [...new Set([first, last])];
  const acknowledged = runs.reduce((sum, { lines }) => sum + draftedEvents(lines), 0);
  await useEmbedded(installation.dataDir, async (url) => {
    expect((await readServiceState(url)).events).toBeGreaterThanOrEqual(acknowledged);
    expect(await readUnfinished(url)).toEqual([]);
  });
});

const draftedEvents = (lines: readonly string[]) => lines.filter((line) => line.includes('" drafted')).length;
