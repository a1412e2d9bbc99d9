/** Being told to stop: soon, for good, and with nothing left open. */
import type { Outcome } from '#connector/connector.ts';
import { finish } from '#connector/testing/bridge-rule.ts';
import type { Check } from '#connector/testing/check.ts';
import { fault } from '#connector/testing/finding.ts';
import { operation, shownOutcome } from '#connector/testing/operations.ts';
import type { Stage } from '#connector/testing/stage.ts';
import type { Opened } from '#connector/testing/watched-session.ts';
import { within } from '#connector/testing/within.ts';

const lookAt = 'whether the signal is passed on to every request and wait';

const patienceMs = 1_000;

/** Stops a call once its first request is under way; gives its end, which must come soon. */
async function stopped<T>(
  { stopMs }: Stage,
  opened: Opened,
  what: string,
  call: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const stop = new AbortController();
  const running = call(stop.signal);
  running.catch(() => undefined);
  // One that asks the ERP nothing, or waits for something else first, sends none.
  const patience = AbortSignal.timeout(patienceMs);
  const tired = new Promise<void>((resolve) => patience.addEventListener('abort', () => resolve(), { once: true }));
  await Promise.race([opened.proxy?.arrived(1), running.catch(() => undefined), tired]);
  stop.abort(new Error('the conformance kit stops this call'));
  return within(stopMs, `${what} that is told to stop`, lookAt, running);
}

export const cancellation: Check = {
  name: 'cancellation',
  guarantee: 'while the ERP hangs, a write and a lookup that are told to stop return within 5 s and claim nothing',
  async run(stage) {
    const healthy = await stage.open();
    for (const kind of stage.kinds) {
      const opened = await stage.open();
      const size = Math.min(3, stage.capabilities.batchMax);
      const samples = Array.from({ length: size }, (_, n) => stage.sample(kind, n));
      const operations = samples.map((sample) => operation('create', sample, sample.versions[0]));
      await expectNothingWhenStopped(stage, opened, operations);
      const proxy = opened.proxy;
      if (proxy) {
        proxy.steer(() => 'hold');
        const outcomes = await stopped(stage, opened, 'write()', (signal) => opened.write(operations, signal));
        for (const outcome of outcomes)
          if (outcome.status !== 'retry' && outcome.status !== 'unknown')
            fault({
              expected: 'a write that was stopped before the ERP answered gives "retry" or "unknown"',
              seen: shownOutcome(outcome),
              lookAt: 'the outcome of a request that was aborted',
            });
        proxy.steer(() => 'hold');
        const documents = samples.map((sample) => sample.versions[0]);
        const answer = await stopped(stage, opened, 'lookup()', (signal) => opened.lookup(documents, signal)).catch(
          () => undefined,
        );
        if (answer !== undefined)
          fault({
            expected: 'a lookup that was stopped throws: it cannot tell',
            seen: `it gave ${answer.length} objects`,
            lookAt: 'lookup(): an empty list says that the ERP holds nothing',
          });
        proxy.die();
      }
      await finish(stage, healthy, operations);
      for (const sample of samples) await stage.expectHeld(sample, sample.versions[0], 'a write was stopped');
    }
  },
};

async function expectNothingWhenStopped(stage: Stage, opened: Opened, operations: Parameters<Opened['write']>[0]) {
  const outcomes = await within(
    stage.stopMs,
    'write() with a signal that is aborted',
    lookAt,
    opened.write(operations, AbortSignal.abort()),
  );
  for (const outcome of outcomes)
    if (outcome.status !== 'retry' && outcome.status !== 'unknown')
      fault({
        expected: 'a write whose signal is aborted already sends nothing and gives "retry"',
        seen: shownOutcome(outcome),
        lookAt: 'write(): it asks the signal before each request (writeEach does)',
      });
  for (const { document } of operations) {
    const held = await stage.target.held(document);
    if (held.length > 0)
      fault({
        expected: 'a write whose signal is aborted already sends nothing',
        seen: `the ERP holds ${held[0]?.reference}`,
        lookAt: 'write(): it asks the signal before each request (writeEach does)',
      });
  }
}

export const lateEffect: Check = {
  name: 'late effect',
  guarantee: 'a write that was stopped and has returned changes nothing after a later write',
  async run(stage) {
    for (const kind of stage.faultKinds) {
      const opened = await stage.open();
      const { proxy } = opened;
      const sample = stage.sample(kind);
      const [v1, v2, v3] = sample.versions;
      const [created] = await stage.create(opened, [sample]);
      const amend = operation('amend', sample, v2, created?.reference);
      for (let point = 1; point <= (proxy ? pointsMost : 1); point += 1) {
        const stop = new AbortController();
        proxy?.steer(({ n }) => (n === point ? 'hold' : 'pass'));
        const writing = opened.write([amend], stop.signal);
        const hasArrived = proxy?.arrived(point).then(() => true) ?? true;
        // It makes fewer requests than that.
        if (!(await Promise.race([hasArrived, writing.then(() => false)]))) break;
        stop.abort(new Error('the conformance kit stops this call'));
        const outcomes = await within(stage.stopMs, 'write() that is told to stop', lookAt, writing);
        proxy?.steer();
        await stage.settled();
        // By now the bridge wants another version.
        const later = operation('amend', sample, v3, created?.reference);
        const isUnsent = outcomes[0]?.status === 'retry';
        await finish(stage, opened, [later], isUnsent ? outcomes : [unknown]);
        await proxy?.letGo();
        await stage.settled(opened);
        const when = `a later write than one that was stopped at request ${point}`;
        await stage.expectHeld(sample, v3, when, afterReturn);
        await opened.lookup([v3]);
        await stage.expectHeld(sample, v3, when, afterReturn);
        await finish(stage, opened, [operation('amend', sample, v1, created?.reference)], [unknown]);
      }
    }
  },
};

const pointsMost = 8;
const afterReturn = 'what goes on after write() has returned: it waits until everything that it began is over';
const unknown: Outcome = { status: 'unknown', message: 'it was stopped' };

export const closing: Check = {
  name: 'close',
  guarantee: 'close() ends within 5 s, also while the ERP hangs, and leaves no connection open',
  async run(stage) {
    const [kind] = stage.kinds;
    if (!kind) return;
    for (const hangs of [false, true]) {
      const opened = await stage.open();
      await stage.create(opened, [stage.sample(kind)]);
      const { proxy } = opened;
      if (hangs) proxy?.steer(() => 'hold');
      await within(stage.stopMs, 'close()', 'what close() waits for: it may not need the ERP', opened.close());
      if (!proxy) continue;
      // The other side sees the end of a connection a moment later.
      for (let turn = 0; turn < 100 && proxy.connections > 0; turn += 1)
        await new Promise((resolve) => setTimeout(resolve, 10));
      if (proxy.connections > 0)
        fault({
          expected: 'no connection of the connector is open after close()',
          seen: `${proxy.connections} are`,
          lookAt: 'close(): it closes every client, pool and session that open() or a call has made',
        });
    }
  },
};
