/** Limits on how many requests a connector makes at once. */
import type { Check } from '#connector/testing/check.ts';
import type { FaultAction } from '#connector/testing/fault-proxy.ts';
import { failCheck } from '#connector/testing/finding.ts';
import { operation, outcomeText } from '#connector/testing/operations.ts';
import type { Stage } from '#connector/testing/stage.ts';

/** Requests that arrive within this time of each other are held until they overlap. */
const gatherMs = 20;

export const atOnce: Check = {
  name: 'requests at once',
  guarantee: 'concurrent writes, and lookups, never make more requests at once than the capabilities declare',
  async run(stage) {
    const session = await stage.open();
    const proxy = stage.needProxy(session);
    const { concurrency = 1, requestsAtOnce = concurrency, batchMax } = stage.capabilities;
    const writes = Math.min(concurrency, 10);
    for (const kind of stage.kinds) {
      // Enough operations for a single write to exceed the limit.
      const size = Math.min(batchMax, requestsAtOnce + 4);
      const batches = Array.from({ length: writes }, (_, write) =>
        Array.from({ length: size }, (_, n) => stage.sample(kind, write + n)),
      );
      const gather = createGather();
      proxy.inject(async (): Promise<FaultAction> => {
        await gather();
        return 'pass';
      });
      const outcomes = await Promise.all(
        batches.map((samples) =>
          session.write(samples.map((sample) => operation('create', sample, sample.versions[0]))),
        ),
      );
      expectAtMost(stage, proxy.atOnceMax, requestsAtOnce, `${writes} writes at once`);
      const written = batches.flat();
      for (const [index, outcome] of outcomes.flat().entries()) {
        if (outcome.status !== 'created')
          failCheck({
            expected: `${writes} writes at once of ${kind} documents are all "created"`,
            seen: outcomeText(outcome),
            lookAt: 'what concurrent calls of write() share',
          });
        const sample = written[index];
        if (sample) await stage.expectHeld(sample, sample.versions[0], `${writes} writes at once`);
      }
      await stage.waitUntilIdle(session);
      await session.lookup(written.slice(0, batchMax).map(({ versions }) => versions[0]));
      expectAtMost(stage, proxy.atOnceMax, requestsAtOnce, 'a lookup');
      proxy.reset();
    }
  },
};

function expectAtMost({ target }: Stage, seen: number, max: number, when: string): void {
  if (seen > max)
    failCheck({
      expected: `at most ${max} ${target.proxy?.protocol === 'tcp' ? 'connections' : 'requests'} at once during ${when}`,
      seen: `${seen}`,
      lookAt: 'the client’s own limit (createHttp: connections; a pool: max), and the capability requestsAtOnce',
    });
}

/** Holds each request until no further one has arrived for `gatherMs`. */
function createGather(): () => Promise<void> {
  let waiting: (() => void)[] = [];
  let timer: NodeJS.Timeout | undefined;
  return () =>
    new Promise<void>((resolve) => {
      waiting.push(resolve);
      clearTimeout(timer);
      timer = setTimeout(() => {
        for (const wake of waiting) wake();
        waiting = [];
      }, gatherMs);
    });
}
