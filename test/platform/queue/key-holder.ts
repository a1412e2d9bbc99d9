/**
 * A process with its own queue, for tests that kill processes. Arguments: `hold` or `finish`, and the options of
 * createSignals as JSON. It works the lane `held` and prints `working <key>`. With `hold` the work never ends. With
 * `finish` it closes the queue after the first key, and the process must then end by itself.
 */
import { silentLogger } from '#platform/log.ts';
import { createSignals, type SignalsOptions } from '#platform/queue.ts';

const [mode, options = '{}'] = process.argv.slice(2);
const signals = await createSignals({ ...(JSON.parse(options) as Omit<SignalsOptions, 'log'>), log: silentLogger });
const worked = Promise.withResolvers<void>();
signals.work('held', { concurrency: 1 }, async (key) => {
  process.stdout.write(`working ${key}\n`);
  if (mode === 'hold') await new Promise(() => {});
  worked.resolve();
});
await worked.promise;
await signals.close();
