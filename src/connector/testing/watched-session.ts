/** A session as the bridge calls it: each call ends in time, and whatever it says is kept for the search for secrets. */
import type { CheckResult, Found, Operation, Outcome, PlannedOperation, Session } from '#connector/connector.ts';
import type { Document } from '#connector/documents.ts';
import type { ReadPage, ReadStream } from '#connector/records.ts';
import { errorText } from '#platform/errors.ts';
import type { FaultProxy } from './fault-proxy.ts';
import { Fault, fault } from './finding.ts';
import type { LeakDetector } from './leak-detector.ts';
import { shownOutcome } from './operations.ts';
import { within } from './within.ts';

export interface Opened {
  readonly proxy: FaultProxy | undefined;
  /** Exactly one outcome each, that fits; unknown for each when it throws. */
  write(operations: readonly Operation[], signal?: AbortSignal): Promise<Outcome[]>;
  lookup(documents: readonly Document[], signal?: AbortSignal): Promise<Found[]>;
  check(): Promise<CheckResult[]>;
  /** Undefined where the session has none. */
  readonly plan: ((operations: readonly Operation[]) => Promise<PlannedOperation[]>) | undefined;
  /** Without a time limit: the caller has one. */
  read<Stream extends ReadStream>(
    stream: Stream,
    checkpoint: string | undefined,
    signal: AbortSignal,
  ): AsyncIterable<ReadPage<Stream>>;
  /** Closes the session once, however often it is called. */
  close(): Promise<void>;
}

interface Surroundings {
  readonly proxy: FaultProxy | undefined;
  readonly told: LeakDetector;
  /** What it logs; taken away here. */
  readonly logged: string[];
  /** Longest time that a call may take. */
  readonly callMs: number;
}

const never = new AbortController().signal;

export function watchSession(session: Session, { proxy, told, logged, callMs }: Surroundings): Opened {
  let linesHeard = 0;
  function hear(): void {
    for (const line of logged.splice(0)) told.add('a log line', line);
    const lines = proxy?.lines.slice(linesHeard) ?? [];
    linesHeard += lines.length;
    for (const line of lines) told.add('the address of a request', line);
  }

  async function call<T>(what: string, run: () => Promise<T>): Promise<T> {
    const lookAt = 'what it waits for: a call ends by itself';
    try {
      const answer = await within(callMs, what, lookAt, Promise.resolve().then(run));
      told.add(`what ${what} gave`, answer);
      return answer;
    } catch (error) {
      told.add(`what ${what} threw`, error);
      throw error;
    } finally {
      hear();
    }
  }

  async function* read<Stream extends ReadStream>(
    stream: Stream,
    checkpoint: string | undefined,
    signal: AbortSignal,
  ): AsyncGenerator<ReadPage<Stream>> {
    if (!session.read) fault({ expected: 'a session with read()', seen: 'none', lookAt: 'capabilities.reads' });
    try {
      for await (const page of session.read(stream, checkpoint, signal)) {
        told.add('what read() gave', page);
        yield page;
      }
    } catch (error) {
      told.add('what read() threw', error);
      throw error;
    } finally {
      hear();
    }
  }

  let closing: Promise<void> | undefined;
  const plan = session.plan?.bind(session);
  return {
    proxy,
    write: async (operations, signal = never) => {
      const outcomes = await call('write()', () => session.write(operations, signal)).catch((error: unknown) => {
        if (error instanceof Fault) throw error;
        return operations.map((): Outcome => ({ status: 'unknown', message: errorText(error) }));
      });
      checkForm(operations, outcomes);
      return outcomes;
    },
    lookup: async (documents, signal = never) => {
      const found = await call('lookup()', () => session.lookup(documents, signal));
      return found.map((one) => {
        if ('unclear' in one) throw new Error(`lookup() cannot tell what the ERP holds for ${one.key}: ${one.unclear}`);
        return one;
      });
    },
    check: async () => call('check()', () => session.check()),
    plan: plan && (async (operations) => call('plan()', () => plan(operations, never))),
    read,
    close: async () => {
      closing ??= session.close().finally(hear);
      await closing;
    },
  };
}

/** What the bridge would not take. */
function checkForm(operations: readonly Operation[], outcomes: readonly Outcome[]): void {
  const lookAt = 'what write() returns: exactly one outcome for each operation, in their order (writeEach does that)';
  if (!Array.isArray(outcomes) || outcomes.length !== operations.length)
    fault({
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
      fault({
        expected: `an outcome that fits "${action}", with a reference of 1 to 2,000 characters when it is done`,
        seen: shownOutcome(outcome),
        lookAt,
      });
  }
}
