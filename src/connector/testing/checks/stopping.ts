/** Stopping: a session stops soon after an abort, changes nothing later, and closes all it has opened. */
import type { Outcome } from '#connector/connector.ts';
import type { Check } from '#connector/testing/check.ts';
import { abortAndEnd, endsWithin } from '#connector/testing/ends-within.ts';
import { failCheck } from '#connector/testing/finding.ts';
import { finishAsBridge } from '#connector/testing/finish-as-bridge.ts';
import { operation, outcomeText } from '#connector/testing/operations.ts';
import type { Stage } from '#connector/testing/stage.ts';
import type { WatchedSession } from '#connector/testing/watched-session.ts';

const lookAt = 'whether the signal is passed on to every request and wait';

export const cancellation: Check = {
  name: 'cancellation',
  guarantee: 'while the ERP hangs, a write and a lookup return within 5 s of an abort and claim nothing',
  async run(stage) {
    const healthy = await stage.open();
    for (const kind of stage.kinds) {
      const session = await stage.open();
      const size = Math.min(3, stage.capabilities.batchMax);
      const samples = Array.from({ length: size }, (_, n) => stage.sample(kind, n));
      const operations = samples.map((sample) => operation('create', sample, sample.versions[0]));
      await expectNothingWhenStopped(stage, session, operations);
      const proxy = session.proxy;
      if (proxy) {
        proxy.inject(() => 'hold');
        const outcomes = await abortAndEnd(proxy, stage.stopMs, 'write()', (signal) =>
          session.write(operations, signal),
        );
        for (const outcome of outcomes)
          if (outcome.status !== 'retry' && outcome.status !== 'unknown')
            failCheck({
              expected: 'a write that was aborted before the ERP answered returns "retry" or "unknown"',
              seen: outcomeText(outcome),
              lookAt: 'the outcome of a request that was aborted',
            });
        proxy.inject(() => 'hold');
        const documents = samples.map((sample) => sample.versions[0]);
        const answer = await abortAndEnd(proxy, stage.stopMs, 'lookup()', (signal) =>
          session.lookup(documents, signal),
        ).catch(() => undefined);
        if (answer !== undefined)
          failCheck({
            expected: 'a lookup that was aborted throws, because it cannot tell',
            seen: `it returned ${answer.length} objects`,
            lookAt: 'lookup(): an empty list claims that the ERP holds nothing',
          });
        proxy.cutOff();
      }
      await finishAsBridge(stage, healthy, operations);
      for (const sample of samples) await stage.expectHeld(sample, sample.versions[0], 'a write was aborted');
    }
  },
};

async function expectNothingWhenStopped(
  stage: Stage,
  session: WatchedSession,
  operations: Parameters<WatchedSession['write']>[0],
) {
  const outcomes = await endsWithin(
    stage.stopMs,
    'write() with an aborted signal',
    lookAt,
    session.write(operations, AbortSignal.abort()),
  );
  for (const outcome of outcomes)
    if (outcome.status !== 'retry' && outcome.status !== 'unknown')
      failCheck({
        expected: 'a write with an aborted signal sends nothing and returns "retry"',
        seen: outcomeText(outcome),
        lookAt: 'write(): it checks the signal before each request (writeEach does)',
      });
  for (const { document } of operations) {
    const held = await stage.target.held(document);
    if (held.length > 0)
      failCheck({
        expected: 'a write with an aborted signal sends nothing',
        seen: `the ERP holds ${held[0]?.reference}`,
        lookAt: 'write(): it checks the signal before each request (writeEach does)',
      });
  }
}

export const lateEffect: Check = {
  name: 'late effect',
  guarantee: 'a write that was aborted and has returned changes nothing after a later write',
  async run(stage) {
    for (const kind of stage.faultKinds) {
      const session = await stage.open();
      const { proxy } = session;
      const sample = stage.sample(kind);
      const [v1, v2, v3] = sample.versions;
      const [created] = await stage.create(session, [sample]);
      const amend = operation('amend', sample, v2, created?.reference);
      for (let point = 1; point <= (proxy ? pointsMax : 1); point += 1) {
        const stop = new AbortController();
        proxy?.inject(({ n }) => (n === point ? 'hold' : 'pass'));
        const writing = session.write([amend], stop.signal);
        const requestArrived = proxy?.untilRequest(point).then(() => true) ?? true;
        // The write makes fewer requests than that.
        if (!(await Promise.race([requestArrived, writing.then(() => false)]))) break;
        stop.abort(new Error('the conformance kit stops this call'));
        const outcomes = await endsWithin(stage.stopMs, 'write() that was aborted', lookAt, writing);
        proxy?.reset();
        await stage.waitUntilIdle();
        // The bridge now writes another version.
        const later = operation('amend', sample, v3, created?.reference);
        const isUnsent = outcomes[0]?.status === 'retry';
        await finishAsBridge(stage, session, [later], isUnsent ? outcomes : [unknown]);
        await proxy?.release();
        await stage.waitUntilIdle(session);
        const when = `a write that followed one that was aborted at request ${point}`;
        await stage.expectHeld(sample, v3, when, afterReturn);
        await session.lookup([v3]);
        await stage.expectHeld(sample, v3, when, afterReturn);
        await finishAsBridge(stage, session, [operation('amend', sample, v1, created?.reference)], [unknown]);
      }
    }
  },
};

const pointsMax = 8;
const afterReturn = 'what still runs after write() has returned: it has to wait for everything that it started';
const unknown: Outcome = { status: 'unknown', message: 'the write was aborted' };

export const closing: Check = {
  name: 'close',
  guarantee: 'close() ends within 5 s, also while the ERP hangs, and leaves no connection open',
  async run(stage) {
    const [kind] = stage.kinds;
    if (!kind) return;
    for (const hangs of [false, true]) {
      const session = await stage.open();
      await stage.create(session, [stage.sample(kind)]);
      const { proxy } = session;
      if (hangs) proxy?.inject(() => 'hold');
      await endsWithin(
        stage.stopMs,
        'close()',
        'what close() waits for: it must not depend on the ERP',
        session.close(),
      );
      if (!proxy) continue;
      // The proxy sees the end of a connection a moment later.
      for (let turn = 0; turn < 100 && proxy.connections > 0; turn += 1)
        await new Promise((resolve) => setTimeout(resolve, 10));
      if (proxy.connections > 0)
        failCheck({
          expected: 'no connection of the connector is open after close()',
          seen: `${proxy.connections} are`,
          lookAt: 'close(): it closes every client, pool and session that open() or a call has created',
        });
    }
  },
};
