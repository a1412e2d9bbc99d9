/** Wraps a session: each call must end in time, and the leak detector searches everything that the session says. */
import type { Acknowledgement } from '#connector/acknowledgements.ts';
import type { Found, Operation, Outcome, Session } from '#connector/connector.ts';
import type { Document } from '#connector/documents.ts';
import { type ReadBack, readBackForm, type TakenDocument } from '#connector/read-back.ts';
import type { ReadPage, ReadStream } from '#connector/records.ts';
import { errorText } from '#platform/errors.ts';
import { endsWithin } from './ends-within.ts';
import type { FaultProxy } from './fault-proxy.ts';
import { CheckFailure, failCheck } from './finding.ts';
import type { LeakDetector } from './leak-detector.ts';
import { outcomeText } from './operations.ts';

export type WatchedSession = ReturnType<typeof watchSession>;

interface Surroundings {
  readonly proxy: FaultProxy | undefined;
  readonly leakDetector: LeakDetector;
  /** What the session logs; `watchSession` removes the lines that it has searched. */
  readonly logged: string[];
  /** The longest time that a call may take. */
  readonly callMs: number;
}

const never: AbortSignal = new AbortController().signal;

/** Watches an open session of the connector. */
export function watchSession(session: Session, { proxy, leakDetector, logged, callMs }: Surroundings) {
  let linesSearched = 0;
  function searchLines(): void {
    for (const line of logged.splice(0)) leakDetector.add('a log line', line);
    const lines = proxy?.lines.slice(linesSearched) ?? [];
    linesSearched += lines.length;
    for (const line of lines) leakDetector.add('the address of a request', line);
  }

  async function call<T>(what: string, run: () => Promise<T>): Promise<T> {
    const lookAt = 'what it waits for: a call has to end by itself';
    try {
      const answer = await endsWithin(callMs, what, lookAt, Promise.resolve().then(run));
      leakDetector.add(`what ${what} returned`, answer);
      return answer;
    } catch (error) {
      leakDetector.add(`what ${what} threw`, error);
      throw error;
    } finally {
      searchLines();
    }
  }

  async function* read<Stream extends ReadStream>(
    stream: Stream,
    checkpoint: string | undefined,
    signal: AbortSignal,
  ): AsyncGenerator<ReadPage<Stream>> {
    if (!session.read) failCheck({ expected: 'a session with read()', seen: 'none', lookAt: 'capabilities.reads' });
    try {
      for await (const page of session.read(stream, checkpoint, signal)) {
        leakDetector.add('what read() returned', page);
        yield page;
      }
    } catch (error) {
      leakDetector.add('what read() threw', error);
      throw error;
    } finally {
      searchLines();
    }
  }

  let closing: Promise<void> | undefined;
  const plan = session.plan?.bind(session);
  const acknowledge = session.acknowledge?.bind(session);
  const openRequisitions = session.openRequisitions?.bind(session);
  const readBack = session.readBack?.bind(session);

  async function outcomesOf(
    what: 'write' | 'acknowledge',
    operations: readonly Pick<Operation, 'action'>[],
    run: () => Promise<Outcome[]>,
  ): Promise<Outcome[]> {
    const outcomes = await call(`${what}()`, run).catch((error: unknown) => {
      if (error instanceof CheckFailure) throw error;
      return operations.map((): Outcome => ({ status: 'unknown', message: errorText(error) }));
    });
    checkForm(what, operations, outcomes);
    return outcomes;
  }

  return {
    proxy,
    /** Fails the check unless there is one valid outcome per operation. All outcomes are unknown when the write throws. */
    write: async (operations: readonly Operation[], signal: AbortSignal = never) =>
      outcomesOf('write', operations, () => session.write(operations, signal)),
    // It writes no document, so its outcomes are those of a write that amends.
    acknowledge:
      acknowledge &&
      (async (given: readonly Acknowledgement[]) =>
        outcomesOf(
          'acknowledge',
          given.map(() => ({ action: 'amend' })),
          () => acknowledge(given, never),
        )),
    lookup: async (documents: readonly Document[], signal: AbortSignal = never): Promise<Found[]> => {
      const found = await call('lookup()', () => session.lookup(documents, signal));
      return found.map((entry) => {
        if ('unclear' in entry)
          throw new Error(`lookup() cannot tell what the ERP holds for ${entry.key}: ${entry.unclear}`);
        return entry;
      });
    },
    check: async () => call('check()', () => session.check()),
    /** The numbers of all open requisitions. */
    openRequisitions:
      openRequisitions &&
      (async () =>
        call('openRequisitions()', async () => {
          const numbers: string[] = [];
          for await (const page of openRequisitions(never)) numbers.push(...page);
          return numbers;
        })),
    /** Fails the check unless there is one valid answer per delivery, in their order; rejects with what it throws. */
    readBack:
      readBack &&
      (async (deliveries: readonly TakenDocument[], signal: AbortSignal) => {
        const answers = await call('readBack()', () => readBack(deliveries, signal));
        checkReadBack(deliveries, answers);
        return answers;
      }),
    plan: plan && (async (operations: readonly Operation[]) => call('plan()', () => plan(operations, never))),
    /** Has no time limit of its own: the caller applies one. */
    read,
    /** Closes the session; repeated calls close it only once. */
    close: async (): Promise<void> => {
      closing ??= session.close().finally(searchLines);
      await closing;
    },
  };
}

/** Fails the check for outcomes that the bridge would not accept. */
function checkForm(
  what: 'write' | 'acknowledge',
  operations: readonly Pick<Operation, 'action'>[],
  outcomes: readonly Outcome[],
): void {
  const lookAt = `what ${what}() returns: exactly one outcome for each operation, in their order (writeEach does that)`;
  if (!Array.isArray(outcomes) || outcomes.length !== operations.length)
    failCheck({
      expected: `${operations.length} outcomes for as many operations`,
      seen: Array.isArray(outcomes) ? `${outcomes.length}` : 'no list',
      lookAt,
    });
  for (const [index, { action }] of operations.entries()) {
    const outcome = outcomes[index] as Outcome;
    const fits =
      action === 'cancel'
        ? outcome.status !== 'created' && outcome.status !== 'updated'
        : outcome.status !== 'cancelled';
    const isNamed = !('reference' in outcome) || (outcome.reference !== '' && outcome.reference.length <= 2_000);
    if (!fits || !isNamed)
      failCheck({
        expected: `an outcome that fits "${action}", with a reference of 1 to 2,000 characters when it is done`,
        seen: outcomeText(outcome),
        lookAt,
      });
  }
}

/** Fails the check for answers that the bridge would not accept. */
function checkReadBack(deliveries: readonly TakenDocument[], answers: readonly ReadBack[]): void {
  const keys = deliveries.map(({ document }) => document.key);
  const answered = Array.isArray(answers) ? answers.map(({ key }) => key) : [];
  if (answered.length !== keys.length || answered.some((key, index) => key !== keys[index]))
    failCheck({
      expected: `one answer for each of ${keys.length} documents, in their order: ${keys.join(', ')}`,
      seen: answered.length === 0 ? 'none' : answered.join(', '),
      lookAt: 'what readBack() returns for a document that it did not find, or could not read',
    });
  for (const answer of answers) {
    const { success, error } = readBackForm.safeParse(answer);
    const names = answer.status === 'held' ? answer.fields.map(({ name }) => name) : [];
    const twice = names.find((name, index) => names.indexOf(name) !== index);
    if (!success || twice !== undefined)
      failCheck({
        expected: 'an answer as ReadBack specifies it, in which no two fields share a name',
        seen: success ? `two fields "${twice}"` : String(error),
        lookAt: 'what readBack() returns',
      });
  }
}
