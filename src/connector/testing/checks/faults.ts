/**
 * Faults during a write, injected at each of its requests: a kill, a lost answer, a rate limit, an invalid answer, an
 * expired login. After each of them the bridge's continuation ends with each document in the ERP once.
 */
import type { Operation, Outcome } from '#connector/connector.ts';
import type { Document, DocumentKind } from '#connector/documents.ts';
import type { Check } from '#connector/testing/check.ts';
import type { FaultAction, FaultProxy, ProxiedRequest } from '#connector/testing/fault-proxy.ts';
import { failCheck, missingMember, NotApplicable } from '#connector/testing/finding.ts';
import { finishAsBridge, withdrawAsBridge } from '#connector/testing/finish-as-bridge.ts';
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
export function faultPointsOf({ target }: Stage, total: number): number[] {
  const count = Math.min(total, target.faultPoints ?? pointsMax);
  // With a single point, the last request: those before it are mostly reads.
  if (count === 1) return [total];
  return Array.from({ length: count }, (_, n) => 1 + Math.round((n * (total - 1)) / (count - 1)));
}

function operationsOf(steps: readonly Step[]): Operation[] {
  return steps.map((step) => step.operation);
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

interface Disturbance {
  /** In words: what happens. */
  readonly when: string;
  /** Called before the write; the proxy lets everything pass again after it. */
  readonly disturb: () => void | Promise<void>;
  /** Looks at the outcomes; default: they have to be honest. */
  readonly expect?: (outcomes: readonly Outcome[]) => void;
}

/** Disturbs a write, and continues as the bridge does: in the end each document has to be in the ERP once. */
async function writeDisturbed(
  stage: Stage,
  session: WatchedSession,
  kind: DocumentKind,
  { when, disturb, expect }: Disturbance,
): Promise<void> {
  const steps = await prepare(stage, session, kind);
  await disturb();
  const outcomes = await writeAll(stage, session, steps);
  session.proxy?.reset();
  await stage.waitUntilIdle(session);
  if (expect) expect(outcomes);
  else await expectHonest(stage, steps, outcomes, when);
  await finishAsBridge(stage, session, operationsOf(steps), outcomes);
  for (const { sample, operation, after } of steps)
    await stage.expectHeld(sample, after, `${when} (${operation.action})`);
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
      const kills = faultPointsOf(stage, total).map((point) => ({ point, action: 'kill-after' as const }));
      for (const { point, action } of [{ point: 1, action: 'kill-before' as const }, ...kills]) {
        const steps = await prepare(stage, healthy, kind);
        const killed = await stage.open();
        stage.needProxy(killed).inject(({ n }) => (n === point ? action : 'pass'));
        await writeAll(stage, killed, steps);
        await stage.waitUntilIdle(killed);
        const next = await stage.open();
        await finishAsBridge(stage, next, operationsOf(steps));
        await stage.leave(killed, next);
        const when = `a kill ${action === 'kill-after' ? 'after' : 'before'} request ${point} of a write`;
        for (const { sample, operation, after } of steps)
          await stage.expectHeld(sample, after, `${when} (${operation.action})`);
      }
    }
  },
};

export interface InjectedFault {
  /** Completed by the number of the request. */
  readonly what: string;
  readonly action: FaultAction;
}

export const brokenConnections: readonly InjectedFault[] = [
  { what: 'the connection breaks before request', action: 'drop-before' },
  { what: 'the answer is lost of request', action: 'drop-after' },
];

export const lostAnswer: Check = {
  name: 'lost answer',
  guarantee: 'after a connection breaks at any request, the outcomes lead to each document being written once',
  async run(stage) {
    const healthy = await stage.open();
    const proxy = stage.needProxy(healthy);
    await atEachPoint(stage, healthy, proxy, () => brokenConnections);
  },
};

const page = '<!doctype html><title>Maintenance</title><h1>We will be back</h1>';
const html = { 'content-type': 'text/html' };

function jsonAnswer(body: string): FaultAction {
  return { status: 200, headers: { 'content-type': 'application/json' }, body };
}

/** Answers in place of the ERP's, which has done nothing. */
export const serverFaults: readonly InjectedFault[] = [
  { what: '503 answers request', action: { status: 503, headers: html, body: page } },
  { what: '500 answers request', action: { status: 500 } },
  { what: '200 with an HTML page answers request', action: { status: 200, headers: html, body: page } },
  { what: '200 with half of a JSON answers request', action: jsonAnswer('{"result": [{') },
  // A JSON that does not say what the ERP has done.
  ...['{}', 'null'].map((body) => ({ what: `200 with ${body} answers request`, action: jsonAnswer(body) })),
];

/** To a search of an ERP without an envelope it is an answer: nothing was found. To a write it says nothing. */
const emptyList: InjectedFault = { what: '200 with [] answers request', action: jsonAnswer('[]') };

export const serverErrors: Check = {
  name: 'server errors',
  guarantee:
    'an error of the server, an HTML page, or a JSON that does not say what was done counts neither as success nor as the record’s fault',
  async run(stage) {
    const healthy = await stage.open();
    const proxy = stage.needHttpProxy(healthy);
    const doneAllTheSame: readonly InjectedFault[] = [
      { what: '502 answers, after the ERP has done it, request', action: { status: 502, body: page, forward: true } },
      {
        what: '200 with an HTML page answers, after the ERP has done it, request',
        action: { status: 200, headers: html, body: page, forward: true },
      },
    ];
    // To save time, each request gets every other fault of the first list: a write has several requests.
    await atEachPoint(stage, healthy, proxy, (point) => [
      ...[...serverFaults, emptyList].filter((_, n) => n % 2 === point % 2),
      ...doneAllTheSame,
    ]);
  },
};

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
    for (const point of faultPointsOf(stage, total))
      for (const { what, action } of faultsAt(point))
        await writeDisturbed(stage, healthy, kind, {
          when: `${what} ${point}`,
          disturb: () => proxy.inject(({ n }) => (n === point ? action : 'pass')),
        });
  }
}

/** The ERP refuses a request, and has done those before it. */
const refusals: readonly InjectedFault[] = [
  { what: '422 answers request', action: { status: 422, body: 'the ERP does not like it' } },
  { what: '403 answers request', action: { status: 403, body: 'this user may not do that' } },
];

export const refusedInTheMiddle: Check = {
  name: 'refused in the middle',
  guarantee: 'a create of which the ERP refuses any request, also after it has carried out others, can be withdrawn',
  async run(stage) {
    const session = await stage.open();
    const proxy = stage.needHttpProxy(session);
    const kinds = stage.faultKinds.filter((kind) => stage.sample(kind).withdrawn);
    if (kinds.length === 0) throw new NotApplicable('suppliers and jobs are never withdrawn');
    const create = (sample: Sample) => session.write([operation('create', sample, sample.versions[0])]);
    for (const kind of kinds) {
      const known = stage.sample(kind, 0);
      proxy.reset();
      const [whole] = await create(known);
      const total = proxy.count;
      await withdrawAsBridge(stage, session, known, whole);
      for (const point of faultPointsOf(stage, total))
        for (const { what, action } of refusals) {
          const sample = stage.sample(kind, 1);
          proxy.inject(({ n }) => (n === point ? action : 'pass'));
          const [outcome] = await create(sample);
          proxy.reset();
          await stage.waitUntilIdle(session);
          await withdrawAsBridge(stage, session, sample, outcome);
          await stage.expectHeld(
            sample,
            undefined,
            `${what} ${point} of a create (${outcomeText(outcome)}), and it was withdrawn`,
            'the error of a refused request: it is `partial` when an earlier request of the same write has taken effect',
          );
        }
    }
  },
};

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
      ] as const)
        await writeDisturbed(stage, session, kind, {
          when: 'every request was answered 429',
          disturb: () => proxy.inject(() => ({ status: 429, headers, body: 'slow down' })),
          expect: (outcomes) => outcomes.forEach((outcome) => expectRateLimited(outcome, expectedMs)),
        });
      const point = Math.ceil((total + 1) / 2);
      await writeDisturbed(stage, session, kind, {
        when: `429 answers request ${point}`,
        disturb: () =>
          proxy.inject(({ n }) => (n === point ? { status: 429, headers: { 'retry-after': '7' } } : 'pass')),
      });
    }
  },
};

function expectRateLimited(outcome: Outcome, expectedMs: number | undefined): void {
  const error = outcome.status === 'retry' ? outcome.error : undefined;
  if (error?.type === 'rate-limited' && error.retryAfterMs === expectedMs) return;
  failCheck({
    expected: `429 ${expectedMs === undefined ? 'without Retry-After' : 'with Retry-After: 7'} becomes "retry", rate-limited, retryAfterMs ${expectedMs}`,
    seen: `${outcomeText(outcome)}${error?.type === 'rate-limited' ? ` (retryAfterMs ${error.retryAfterMs})` : ''}`,
    lookAt: 'RateLimited: thrown for 429 with retryAfterMs, and not turned into another error on the way',
  });
}

export const refusedLogin: Check = {
  name: 'refused login',
  guarantee:
    'a login that the ERP refuses for good (401) becomes "auth", which pauses the flow; no record is rejected for it',
  async run(stage) {
    const session = await stage.open();
    const proxy = stage.needHttpProxy(session);
    for (const kind of stage.faultKinds)
      await writeDisturbed(stage, session, kind, {
        when: 'every request was answered 401',
        disturb: () => proxy.inject(() => ({ status: 401, body: 'who are you?' })),
        expect: (outcomes) => {
          for (const outcome of outcomes)
            if (outcome.status !== 'retry' || outcome.error.type !== 'auth')
              failCheck({
                expected: `401 to every request, those of logins included, becomes "retry", auth (${kind})`,
                seen: outcomeText(outcome),
                lookAt: 'AuthError: thrown for 401, also to a login, and not turned into another error on the way',
              });
        },
      });
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
      for (const point of faultPointsOf(stage, total)) {
        const expireAtPoint = async ({ n }: ProxiedRequest): Promise<FaultAction> => {
          if (n === point) await expireLogin();
          return 'pass';
        };
        await writeDisturbed(stage, session, kind, {
          when: `the login expired before request ${point}`,
          disturb: () => (proxy ? proxy.inject(expireAtPoint) : expireLogin()),
        });
      }
    }
  },
};
