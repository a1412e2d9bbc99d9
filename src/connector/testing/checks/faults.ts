/**
 * Faults during a write, injected at each of its requests: a kill, a lost answer, a rate limit, an invalid answer, an
 * expired login. After each of them the bridge's continuation ends with each document in the ERP once.
 */
import type { Operation, Outcome } from '#connector/connector.ts';
import type { Document, DocumentKind } from '#connector/documents.ts';
import type { Check } from '#connector/testing/check.ts';
import type { FaultAction, FaultProxy } from '#connector/testing/fault-proxy.ts';
import { failCheck, missingMember, NotApplicable } from '#connector/testing/finding.ts';
import { finishAsBridge } from '#connector/testing/finish-as-bridge.ts';
import { operation, outcomeText, slices } from '#connector/testing/operations.ts';
import type { Sample } from '#connector/testing/sample-documents.ts';
import type { Stage } from '#connector/testing/stage.ts';
import type { WatchedSession } from '#connector/testing/watched-session.ts';

/** The largest number of requests of one write at which faults are injected, spread evenly. */
const pointsMax = 64;

/** An operation, and what the ERP holds before and after it. */
interface Step {
  readonly sample: Sample;
  readonly operation: Operation;
  readonly before: Document | undefined;
  readonly after: Document | undefined;
}

/** Prepares a create, an amend, a cancel and a second create; the documents of the amend and the cancel exist then. */
async function prepare(stage: Stage, session: WatchedSession, kind: DocumentKind): Promise<Step[]> {
  const created = stage.sample(kind, 0);
  const changed = stage.sample(kind, 1);
  const gone = stage.sample(kind, 2);
  const other = stage.sample(kind, 3);
  const [toChange, toCancel] = await stage.create(session, [changed, gone]);
  const create = (sample: Sample): Step => {
    const [document] = sample.versions;
    return { sample, operation: operation('create', sample, document), before: undefined, after: document };
  };
  const [v1, v2] = changed.versions;
  const amend = operation('amend', changed, v2, toChange?.reference);
  const steps: Step[] = [create(created), { sample: changed, operation: amend, before: v1, after: v2 }];
  if (gone.withdrawn) {
    const cancel = operation('cancel', gone, gone.withdrawn, toCancel?.reference);
    steps.push({ sample: gone, operation: cancel, before: gone.versions[0], after: undefined });
  }
  return [...steps, create(other)];
}

/** Writes the steps in batches as large as the connector allows; returns the outcomes. */
async function writeAll(stage: Stage, session: WatchedSession, steps: readonly Step[]): Promise<Outcome[]> {
  const outcomes: Outcome[] = [];
  for (const slice of slices(steps, stage.capabilities.batchMax))
    outcomes.push(...(await session.write(operationsOf(slice))));
  return outcomes;
}

/**
 * How many requests a write of such steps makes. `isWarm`: on the session that has written before, not on a new one.
 */
async function countRequests(
  stage: Stage,
  healthy: WatchedSession,
  kind: DocumentKind,
  isWarm: boolean,
): Promise<number> {
  const steps = await prepare(stage, healthy, kind);
  const session = isWarm ? healthy : await stage.open();
  const proxy = stage.needProxy(session);
  proxy.reset();
  await finishAsBridge(stage, session, operationsOf(steps), await writeAll(stage, session, steps));
  if (proxy.count === 0)
    failCheck({
      expected: 'a write reaches the ERP through the address that target.settings() gets, which is the fault proxy',
      seen: 'no request arrived there',
      lookAt: 'settings() of the conformance test',
    });
  return proxy.count;
}

/** The numbers of the requests at which faults are injected. */
function points({ target }: Stage, total: number): number[] {
  const count = Math.min(total, target.faultPoints ?? pointsMax);
  // With a single point, the last request: those before it are mostly reads.
  if (count === 1) return [total];
  return Array.from({ length: count }, (_, n) => 1 + Math.round((n * (total - 1)) / (count - 1)));
}

function operationsOf(steps: readonly Step[]): Operation[] {
  return steps.map((step) => step.operation);
}

async function expectDone(stage: Stage, steps: readonly Step[], when: string): Promise<void> {
  for (const { sample, operation, after } of steps)
    await stage.expectHeld(sample, after, `${when} (${operation.action})`);
}

/** An operation whose outcome is done must be done in the ERP, and none may be rejected: no record is at fault. */
async function expectHonest(stage: Stage, steps: readonly Step[], outcomes: readonly Outcome[], when: string) {
  for (const [index, { sample, operation, after }] of steps.entries()) {
    const outcome = outcomes[index];
    if (outcome && 'reference' in outcome)
      await stage.expectHeld(sample, after, `${when}: ${operation.action} was answered ${outcomeText(outcome)}`);
    if (outcome?.status === 'rejected')
      failCheck({
        expected: `no record is rejected when ${when}: nothing is wrong with it`,
        seen: outcomeText(outcome),
        lookAt:
          'which ConnectorError is thrown for this answer: TransientError when nothing was done, UnknownOutcome when something may have been done',
      });
  }
}

export const crash: Check = {
  name: 'crash',
  guarantee:
    'after a kill before or after any request of a batch, the next process ends with each document in the ERP once',
  async run(stage) {
    const healthy = await stage.open();
    stage.needProxy(healthy);
    for (const kind of stage.faultKinds) {
      const total = await countRequests(stage, healthy, kind, false);
      // A kill after one request equals a kill before the next one. So these cover every state that a kill can leave.
      const kills = points(stage, total).map((point) => ({ point, action: 'kill-after' as const }));
      for (const { point, action } of [{ point: 1, action: 'kill-before' as const }, ...kills]) {
        const steps = await prepare(stage, healthy, kind);
        const killed = await stage.open();
        stage.needProxy(killed).inject(({ n }) => (n === point ? action : 'pass'));
        await writeAll(stage, killed, steps);
        await stage.waitUntilIdle(killed);
        const next = await stage.open();
        await finishAsBridge(stage, next, operationsOf(steps));
        await stage.leave(killed, next);
        await expectDone(
          stage,
          steps,
          `a kill ${action === 'kill-after' ? 'after' : 'before'} request ${point} of a write`,
        );
      }
    }
  },
};

export const lostAnswer: Check = {
  name: 'lost answer',
  guarantee: 'after a connection breaks at any request, the outcomes lead to each document being written once',
  async run(stage) {
    const healthy = await stage.open();
    const proxy = stage.needProxy(healthy);
    const faults: readonly InjectedFault[] = [
      { what: 'the connection breaks before request', action: 'drop-before' },
      { what: 'the answer is lost of request', action: 'drop-after' },
    ];
    await atEachPoint(stage, healthy, proxy, () => faults);
  },
};

const page = '<!doctype html><title>Maintenance</title><h1>We will be back</h1>';
const html = { 'content-type': 'text/html' };
const json = { 'content-type': 'application/json' };

export const serverErrors: Check = {
  name: 'server errors',
  guarantee: 'an error of the server, or an HTML page as answer, counts neither as success nor as the record’s fault',
  async run(stage) {
    const healthy = await stage.open();
    const proxy = stage.needHttpProxy(healthy);
    const notDone: readonly InjectedFault[] = [
      { what: '503 answers request', action: { status: 503, headers: html, body: page } },
      { what: '500 answers request', action: { status: 500 } },
      { what: '200 with an HTML page answers request', action: { status: 200, headers: html, body: page } },
      {
        what: '200 with half of a JSON answers request',
        action: { status: 200, headers: json, body: '{"result": [{' },
      },
    ];
    const doneAllTheSame: readonly InjectedFault[] = [
      { what: '502 answers, after the ERP has done it, request', action: { status: 502, body: page, forward: true } },
      {
        what: '200 with an HTML page answers, after the ERP has done it, request',
        action: { status: 200, headers: html, body: page, forward: true },
      },
    ];
    // To save time, each request gets every other fault of the first list: a write has several requests.
    await atEachPoint(stage, healthy, proxy, (point) => [
      ...notDone.filter((_, n) => n % 2 === point % 2),
      ...doneAllTheSame,
    ]);
  },
};

export const emptyAnswers: Check = {
  name: 'empty answers',
  guarantee: 'a 200 whose JSON does not say what the ERP has done counts neither as success nor as the record’s fault',
  async run(stage) {
    const healthy = await stage.open();
    const proxy = stage.needHttpProxy(healthy);
    const bodies = ['{}', 'null', '[]'];
    const faults = bodies.map((body) => ({
      what: `200 with ${body} answers request`,
      action: { status: 200, headers: json, body },
    }));
    await atEachPoint(stage, healthy, proxy, (point) => faults.filter((_, n) => n === point % faults.length));
  },
};

interface InjectedFault {
  /** Completed by the number of the request. */
  readonly what: string;
  readonly action: FaultAction;
}

/** Injects faults at each request of a write, one at a time, in a session that stays open. */
async function atEachPoint(
  stage: Stage,
  healthy: WatchedSession,
  proxy: FaultProxy,
  faultsAt: (point: number) => readonly InjectedFault[],
) {
  for (const kind of stage.faultKinds) {
    // `true`: the session has logged in already.
    const total = await countRequests(stage, healthy, kind, true);
    for (const point of points(stage, total))
      for (const { what, action } of faultsAt(point)) {
        const steps = await prepare(stage, healthy, kind);
        proxy.inject(({ n }) => (n === point ? action : 'pass'));
        const outcomes = await writeAll(stage, healthy, steps);
        proxy.reset();
        await stage.waitUntilIdle(healthy);
        await expectHonest(stage, steps, outcomes, `${what} ${point}`);
        await finishAsBridge(stage, healthy, operationsOf(steps), outcomes);
        await expectDone(stage, steps, `${what} ${point}`);
      }
  }
}

export const rateLimit: Check = {
  name: 'rate limit',
  guarantee:
    '429 becomes "rate-limited" with the time of Retry-After, if there is one, and each document is written once',
  async run(stage) {
    const session = await stage.open();
    const proxy = stage.needHttpProxy(session);
    for (const kind of stage.faultKinds) {
      const total = await countRequests(stage, session, kind, true);
      for (const [headers, expectedMs] of [
        [{ 'retry-after': '7' }, 7_000],
        [{}, undefined],
      ] as const) {
        const steps = await prepare(stage, session, kind);
        proxy.inject(() => ({ status: 429, headers, body: 'slow down' }));
        const outcomes = await writeAll(stage, session, steps);
        proxy.reset();
        for (const outcome of outcomes)
          if (
            outcome.status !== 'retry' ||
            outcome.error.type !== 'rate-limited' ||
            outcome.error.retryAfterMs !== expectedMs
          )
            failCheck({
              expected: `429 ${expectedMs === undefined ? 'without Retry-After' : 'with Retry-After: 7'} becomes "retry", rate-limited, retryAfterMs ${expectedMs}`,
              seen: `${outcomeText(outcome)}${'error' in outcome && outcome.error.type === 'rate-limited' ? ` (retryAfterMs ${outcome.error.retryAfterMs})` : ''}`,
              lookAt: 'RateLimited: thrown for 429 with retryAfterMs, and not turned into another error on the way',
            });
        await finishAsBridge(stage, session, operationsOf(steps), outcomes);
        await expectDone(stage, steps, 'every request was answered 429');
      }
      const steps = await prepare(stage, session, kind);
      const point = Math.ceil((total + 1) / 2);
      proxy.inject(({ n }) => (n === point ? { status: 429, headers: { 'retry-after': '7' } } : 'pass'));
      const outcomes = await writeAll(stage, session, steps);
      proxy.reset();
      await expectHonest(stage, steps, outcomes, `429 answers request ${point}`);
      await finishAsBridge(stage, session, operationsOf(steps), outcomes);
      await expectDone(stage, steps, `429 answered request ${point}`);
    }
  },
};

export const refusedLogin: Check = {
  name: 'refused login',
  guarantee:
    'a login that the ERP refuses for good (401) becomes "auth", which pauses the flow; no record is rejected for it',
  async run(stage) {
    const session = await stage.open();
    const proxy = stage.needHttpProxy(session);
    for (const kind of stage.faultKinds) {
      const steps = await prepare(stage, session, kind);
      proxy.inject(() => ({ status: 401, body: 'who are you?' }));
      const outcomes = await writeAll(stage, session, steps);
      proxy.reset();
      for (const outcome of outcomes)
        if (outcome.status !== 'retry' || outcome.error.type !== 'auth')
          failCheck({
            expected: `401 to every request, those of logins included, becomes "retry", auth (${kind})`,
            seen: outcomeText(outcome),
            lookAt: 'AuthError: thrown for 401, also to a login, and not turned into another error on the way',
          });
      await finishAsBridge(stage, session, operationsOf(steps), outcomes);
      await expectDone(stage, steps, 'every request was answered 401');
    }
  },
};

export const expiredLogin: Check = {
  name: 'expired login',
  guarantee: 'a login that expires during a batch loses nothing and doubles nothing, and is renewed or reported',
  async run(stage) {
    const { expireLogin, proxy: network } = stage.target;
    if (!network && !expireLogin) throw new NotApplicable('the ERP is not reached over a network');
    if (!expireLogin) missingMember('expireLogin', 'expired login', 'the login never expires');
    const session = await stage.open();
    const { proxy } = session;
    for (const kind of stage.faultKinds) {
      const total = proxy ? await countRequests(stage, session, kind, true) : 1;
      for (const point of points(stage, total)) {
        const steps = await prepare(stage, session, kind);
        if (proxy)
          proxy.inject(async ({ n }): Promise<FaultAction> => {
            if (n === point) await expireLogin();
            return 'pass';
          });
        else await expireLogin();
        const outcomes = await writeAll(stage, session, steps);
        proxy?.reset();
        const when = `the login expired before request ${point}`;
        await stage.waitUntilIdle(session);
        await expectHonest(stage, steps, outcomes, when);
        await finishAsBridge(stage, session, operationsOf(steps), outcomes);
        await expectDone(stage, steps, when);
      }
    }
  },
};
