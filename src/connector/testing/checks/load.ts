/** How much a connector asks of the ERP at once. */
import type { Check } from '#connector/testing/check.ts';
import type { FaultAction } from '#connector/testing/fault-proxy.ts';
import { fault } from '#connector/testing/finding.ts';
import { operation, shownOutcome } from '#connector/testing/operations.ts';
import type { Stage } from '#connector/testing/stage.ts';

/** Requests that come within this time of each other are made to overlap. */
const gatherMs = 20;

export const atOnce: Check = {
  name: 'requests at once',
  guarantee: 'writes that run at once, and lookups, never make more requests at once than the capabilities say',
  async run(stage) {
    const opened = await stage.open();
    const proxy = stage.needProxy(opened);
    const { concurrency = 1, requestsAtOnce = concurrency, batchMax } = stage.capabilities;
    const writes = Math.min(concurrency, 10);
    for (const kind of stage.kinds) {
      // So many that one write by itself could make too many requests.
      const size = Math.min(batchMax, requestsAtOnce + 4);
      const batches = Array.from({ length: writes }, (_, write) =>
        Array.from({ length: size }, (_, n) => stage.sample(kind, write + n)),
      );
      const gather = createGather();
      proxy.steer(async (): Promise<FaultAction> => {
        await gather();
        return 'pass';
      });
      const outcomes = await Promise.all(
        batches.map((samples) => opened.write(samples.map((one) => operation('create', one, one.versions[0])))),
      );
      expectAtMost(stage, proxy.atOnceMost, requestsAtOnce, `${writes} writes at once`);
      const written = batches.flat();
      for (const [index, outcome] of outcomes.flat().entries()) {
        if (outcome.status !== 'created')
          fault({
            expected: `${writes} writes at once of ${kind} documents are all "created"`,
            seen: shownOutcome(outcome),
            lookAt: 'what write() shares between calls that run at once',
          });
        const sample = written[index];
        if (sample) await stage.expectHeld(sample, sample.versions[0], `${writes} writes at once`);
      }
      await stage.settled(opened);
      await opened.lookup(written.slice(0, batchMax).map(({ versions }) => versions[0]));
      expectAtMost(stage, proxy.atOnceMost, requestsAtOnce, 'a lookup');
      proxy.steer();
    }
  },
};

function expectAtMost({ target }: Stage, seen: number, most: number, when: string): void {
  if (seen > most)
    fault({
      expected: `at most ${most} ${target.proxy?.protocol === 'tcp' ? 'connections' : 'requests'} at once during ${when}`,
      seen: `${seen}`,
      lookAt: 'the client’s own limit (createHttp: connections; a pool: max), and the capability requestsAtOnce',
    });
}

/** Holds whoever comes until nobody else has come for a while. */
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
