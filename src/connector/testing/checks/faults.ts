/**
 * Writing when something goes wrong, at each request that a write makes: killed, the answer lost, limited, answered with
 * rubbish, the login expired. Whatever happens, the bridge's way of going on ends with each document in the ERP once.
 */
import type { Operation, Outcome } from '#connector/connector.ts';
import type { Document, DocumentKind } from '#connector/documents.ts';
import { finish } from '#connector/testing/bridge-rule.ts';
import type { Check } from '#connector/testing/check.ts';
import type { FaultAction, FaultProxy } from '#connector/testing/fault-proxy.ts';
import { fault, missingMember, NotApplicable } from '#connector/testing/finding.ts';
import { operation, shownOutcome, slices } from '#connector/testing/operations.ts';
import type { Sample } from '#connector/testing/sample-documents.ts';
import type { Stage } from '#connector/testing/stage.ts';
import type { Opened } from '#connector/testing/watched-session.ts';

/** Of longer writes as many points, spread evenly. */
const pointsMost = 64;

/** Something to do to each of some documents, and what the ERP holds before and after. */
interface Job {
  readonly sample: Sample;
  readonly operation: Operation;
  readonly before: Document | undefined;
  readonly after: Document | undefined;
}

/** A creation, an amendment, a cancellation and another creation, ready to be written. */
async function prepare(stage: Stage, opened: Opened, kind: DocumentKind): Promise<Job[]> {
  const fresh = stage.sample(kind, 0);
  const changed = stage.sample(kind, 1);
  const gone = stage.sample(kind, 2);
  const other = stage.sample(kind, 3);
  const [toChange, toCancel] = await stage.create(opened, [changed, gone]);
  const create = (sample: Sample): Job => {
    const [document] = sample.versions;
    return { sample, operation: operation('create', sample, document), before: undefined, after: document };
  };
  const [v1, v2] = changed.versions;
  const amend = operation('amend', changed, v2, toChange?.reference);
  const jobs: Job[] = [create(fresh), { sample: changed, operation: amend, before: v1, after: v2 }];
  if (gone.withdrawn) {
    const cancel = operation('cancel', gone, gone.withdrawn, toCancel?.reference);
    jobs.push({ sample: gone, operation: cancel, before: gone.versions[0], after: undefined });
  }
  return [...jobs, create(other)];
}

/** All at once, or as few at a time as the connector takes. Gives the outcomes. */
async function writeAll(stage: Stage, opened: Opened, jobs: readonly Job[]): Promise<Outcome[]> {
  const outcomes: Outcome[] = [];
  for (const slice of slices(jobs, stage.capabilities.batchMax))
    outcomes.push(...(await opened.write(operationsOf(slice))));
  return outcomes;
}

/** From the first request to the last, how many the write of such jobs makes. */
async function countRequests(stage: Stage, healthy: Opened, kind: DocumentKind, isWarm: boolean): Promise<number> {
  const jobs = await prepare(stage, healthy, kind);
  const opened = isWarm ? healthy : await stage.open();
  const proxy = stage.needProxy(opened);
  proxy.steer();
  await finish(stage, opened, operationsOf(jobs), await writeAll(stage, opened, jobs));
  if (proxy.count === 0)
    fault({
      expected:
        'a write reaches the ERP by the address that target.settings() is given, where the kit stands in between',
      seen: 'nothing came there',
      lookAt: 'settings() of the conformance test',
    });
  return proxy.count;
}

function points({ target }: Stage, total: number): number[] {
  const count = Math.min(total, target.faultPoints ?? pointsMost);
  // The last one, where there is but one: what comes before it mostly asks.
  if (count === 1) return [total];
  return Array.from({ length: count }, (_, n) => 1 + Math.round((n * (total - 1)) / (count - 1)));
}

function operationsOf(jobs: readonly Job[]): Operation[] {
  return jobs.map((job) => job.operation);
}

async function expectDone(stage: Stage, jobs: readonly Job[], when: string): Promise<void> {
  for (const { sample, operation, after } of jobs)
    await stage.expectHeld(sample, after, `${when} (${operation.action})`);
}

/** What says that it is done must be; nothing is wrong with any record. */
async function expectHonest(stage: Stage, jobs: readonly Job[], outcomes: readonly Outcome[], when: string) {
  for (const [index, { sample, operation, after }] of jobs.entries()) {
    const outcome = outcomes[index];
    if (outcome && 'reference' in outcome)
      await stage.expectHeld(sample, after, `${when}: ${operation.action} was answered ${shownOutcome(outcome)}`);
    if (outcome?.status === 'rejected')
      fault({
        expected: `no record is refused when ${when}: nothing is wrong with it`,
        seen: shownOutcome(outcome),
        lookAt:
          'which ConnectorError is thrown for this answer: TransientError when nothing was done, UnknownOutcome when it may have been',
      });
  }
}

export const crash: Check = {
  name: 'crash',
  guarantee: 'killed before or after any request of a batch, the next process ends with each document in the ERP once',
  async run(stage) {
    const healthy = await stage.open();
    stage.needProxy(healthy);
    for (const kind of stage.faultKinds) {
      const total = await countRequests(stage, healthy, kind, false);
      // Dead after one request is dead before the next: so every state is met in which a kill can leave the ERP.
      const deaths = points(stage, total).map((point) => ({ point, action: 'die-after' as const }));
      for (const { point, action } of [{ point: 1, action: 'die-before' as const }, ...deaths]) {
        const jobs = await prepare(stage, healthy, kind);
        const killed = await stage.open();
        stage.needProxy(killed).steer(({ n }) => (n === point ? action : 'pass'));
        await writeAll(stage, killed, jobs);
        await stage.settled(killed);
        const next = await stage.open();
        await finish(stage, next, operationsOf(jobs));
        await stage.leave(killed, next);
        await expectDone(
          stage,
          jobs,
          `a kill ${action === 'die-after' ? 'after' : 'before'} request ${point} of a write`,
        );
      }
    }
  },
};

export const lostAnswer: Check = {
  name: 'lost answer',
  guarantee: 'a connection that breaks at any request gives outcomes by which each document is written once',
  async run(stage) {
    const healthy = await stage.open();
    const proxy = stage.needProxy(healthy);
    const faults: readonly Fault[] = [
      { what: 'the connection breaks before request', action: 'lose-before' },
      { what: 'the answer is lost of request', action: 'lose-after' },
    ];
    await atEachPoint(stage, healthy, proxy, () => faults);
  },
};

const page = '<!doctype html><title>Maintenance</title><h1>We will be back</h1>';
const html = { 'content-type': 'text/html' };
const json = { 'content-type': 'application/json' };

export const serverErrors: Check = {
  name: 'server errors',
  guarantee: 'an error of the server, or a page instead of an answer, is neither success nor the record’s fault',
  async run(stage) {
    const healthy = await stage.open();
    const proxy = stage.needHttpProxy(healthy);
    const refusals: readonly Fault[] = [
      { what: '503 answers request', action: { status: 503, headers: html, body: page } },
      { what: '500 answers request', action: { status: 500 } },
      { what: '200 with an HTML page answers request', action: { status: 200, headers: html, body: page } },
      {
        what: '200 with half of a JSON answers request',
        action: { status: 200, headers: json, body: '{"result": [{' },
      },
    ];
    const lies: readonly Fault[] = [
      { what: '502 answers, after the ERP has done it, request', action: { status: 502, body: page, forward: true } },
      {
        what: '200 with an HTML page answers, after the ERP has done it, request',
        action: { status: 200, headers: html, body: page, forward: true },
      },
    ];
    // Each way to do nothing at every other request: a write has several.
    await atEachPoint(stage, healthy, proxy, (point) => [...refusals.filter((_, n) => n % 2 === point % 2), ...lies]);
  },
};

export const emptyAnswers: Check = {
  name: 'empty answers',
  guarantee: 'a 200 whose JSON says nothing of what the ERP has done is neither success nor the record’s fault',
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

interface Fault {
  /** Before the number of the request. */
  readonly what: string;
  readonly action: FaultAction;
}

/** Faults at each request of a write, one at a time, in a session that lives on. */
async function atEachPoint(
  stage: Stage,
  healthy: Opened,
  proxy: FaultProxy,
  faultsAt: (point: number) => readonly Fault[],
) {
  for (const kind of stage.faultKinds) {
    // The login is made by then.
    const total = await countRequests(stage, healthy, kind, true);
    for (const point of points(stage, total))
      for (const { what, action } of faultsAt(point)) {
        const jobs = await prepare(stage, healthy, kind);
        proxy.steer(({ n }) => (n === point ? action : 'pass'));
        const outcomes = await writeAll(stage, healthy, jobs);
        proxy.steer();
        await stage.settled(healthy);
        await expectHonest(stage, jobs, outcomes, `${what} ${point}`);
        await finish(stage, healthy, operationsOf(jobs), outcomes);
        await expectDone(stage, jobs, `${what} ${point}`);
      }
  }
}

export const rateLimit: Check = {
  name: 'rate limit',
  guarantee: '429 is "rate-limited" with the time that the ERP names, or none; whatever came through is written once',
  async run(stage) {
    const opened = await stage.open();
    const proxy = stage.needHttpProxy(opened);
    for (const kind of stage.faultKinds) {
      const total = await countRequests(stage, opened, kind, true);
      for (const [headers, expectedMs] of [
        [{ 'retry-after': '7' }, 7_000],
        [{}, undefined],
      ] as const) {
        const jobs = await prepare(stage, opened, kind);
        proxy.steer(() => ({ status: 429, headers, body: 'slow down' }));
        const outcomes = await writeAll(stage, opened, jobs);
        proxy.steer();
        for (const outcome of outcomes)
          if (
            outcome.status !== 'retry' ||
            outcome.error.type !== 'rate-limited' ||
            outcome.error.retryAfterMs !== expectedMs
          )
            fault({
              expected: `429 ${expectedMs === undefined ? 'without Retry-After' : 'with Retry-After: 7'} gives "retry", rate-limited, retryAfterMs ${expectedMs}`,
              seen: `${shownOutcome(outcome)}${'error' in outcome && outcome.error.type === 'rate-limited' ? ` (retryAfterMs ${outcome.error.retryAfterMs})` : ''}`,
              lookAt: 'RateLimited: thrown for 429 with retryAfterMs, and not turned into another error on the way',
            });
        await finish(stage, opened, operationsOf(jobs), outcomes);
        await expectDone(stage, jobs, 'every request was answered 429');
      }
      const jobs = await prepare(stage, opened, kind);
      const point = Math.ceil((total + 1) / 2);
      proxy.steer(({ n }) => (n === point ? { status: 429, headers: { 'retry-after': '7' } } : 'pass'));
      const outcomes = await writeAll(stage, opened, jobs);
      proxy.steer();
      await expectHonest(stage, jobs, outcomes, `429 answers request ${point}`);
      await finish(stage, opened, operationsOf(jobs), outcomes);
      await expectDone(stage, jobs, `429 answered request ${point}`);
    }
  },
};

export const refusedLogin: Check = {
  name: 'refused login',
  guarantee: 'a login that the ERP refuses for good (401) is "auth", which pauses the flow: no record is blamed for it',
  async run(stage) {
    const opened = await stage.open();
    const proxy = stage.needHttpProxy(opened);
    for (const kind of stage.faultKinds) {
      const jobs = await prepare(stage, opened, kind);
      proxy.steer(() => ({ status: 401, body: 'who are you?' }));
      const outcomes = await writeAll(stage, opened, jobs);
      proxy.steer();
      for (const outcome of outcomes)
        if (outcome.status !== 'retry' || outcome.error.type !== 'auth')
          fault({
            expected: `401 to every request, those of logins included, gives "retry", auth (${kind})`,
            seen: shownOutcome(outcome),
            lookAt: 'AuthError: thrown for 401, also to a login, and not turned into another error on the way',
          });
      await finish(stage, opened, operationsOf(jobs), outcomes);
      await expectDone(stage, jobs, 'every request was answered 401');
    }
  },
};

export const expiredLogin: Check = {
  name: 'expired login',
  guarantee: 'a login that expires in mid-batch loses nothing and doubles nothing, and is renewed or said',
  async run(stage) {
    const { expireLogin, proxy: network } = stage.target;
    if (!network && !expireLogin) throw new NotApplicable('the ERP is not reached over a network');
    if (!expireLogin) missingMember('expireLogin', 'expired login', 'the login never expires');
    const opened = await stage.open();
    const { proxy } = opened;
    for (const kind of stage.faultKinds) {
      const total = proxy ? await countRequests(stage, opened, kind, true) : 1;
      for (const point of points(stage, total)) {
        const jobs = await prepare(stage, opened, kind);
        if (proxy)
          proxy.steer(async ({ n }): Promise<FaultAction> => {
            if (n === point) await expireLogin();
            return 'pass';
          });
        else await expireLogin();
        const outcomes = await writeAll(stage, opened, jobs);
        proxy?.steer();
        const when = `the login expired before request ${point}`;
        await stage.settled(opened);
        await expectHonest(stage, jobs, outcomes, when);
        await finish(stage, opened, operationsOf(jobs), outcomes);
        await expectDone(stage, jobs, when);
      }
    }
  },
};
