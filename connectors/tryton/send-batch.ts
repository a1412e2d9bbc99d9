/** Tasks are sent in as few calls as Tryton allows, and each gets a result of its own. */
import { ConnectorError, LockedError, TransientError, UnknownOutcome, z } from 'sourcing-bridge/connector';
import { ServerFault, type Tryton } from './rpc.ts';
import type { Progress } from './task.ts';
import { id, idIn } from './values.ts';

interface Sending<T, R> {
  readonly signal: AbortSignal;
  /** Called for each that was done. */
  readonly done?: (task: T, result: R) => void;
  /** Asks Tryton what `send` has made, for each. Needed wherever a second `send` makes a second object. */
  readonly findMade?: (items: readonly T[]) => Promise<readonly (R | undefined)[]>;
}

/** Sends the tasks that have not failed in one call of `send`; those that it refuses keep the error. */
export async function sendTasks<T extends Pick<Progress, 'error'>, R>(
  tasks: readonly T[],
  send: (tasks: readonly T[]) => Promise<readonly R[]>,
  sending: Sending<T, R>,
): Promise<void> {
  const going = tasks.filter(({ error }) => error === undefined);
  const results = await sendBatch(going, send, sending);
  for (const [index, task] of going.entries()) {
    const result = results[index];
    if (result instanceof ConnectorError) task.error = result;
    else sending.done?.(task, result as R);
  }
}

/**
 * Sends several in one call, which Tryton does as a whole or not at all. Where it refuses, halves are sent, until what it
 * refuses stands alone. Gives for each what `send` gave for it, or why it was not done.
 */
export async function sendBatch<T, R>(
  items: readonly T[],
  send: (items: readonly T[]) => Promise<readonly R[]>,
  sending: Pick<Sending<T, R>, 'signal' | 'findMade'>,
): Promise<(R | ConnectorError)[]> {
  const { signal, findMade } = sending;
  if (items.length === 0) return [];
  if (signal.aborted) return items.map(() => new TransientError('stopped before it was sent'));
  try {
    const results = await send(items);
    if (results.length === items.length) return [...results];
    throw new UnknownOutcome(`Tryton answered for ${results.length} records, and ${items.length} were sent.`);
  } catch (thrown) {
    const error = asConnectorError(thrown);
    const made = error instanceof ServerFault && findMade ? await madeInSpiteOf(error, items, findMade) : undefined;
    if (made) return made;
    if (items.length === 1 || !isOfOne(error)) return items.map(() => error);
    const half = Math.ceil(items.length / 2);
    const first = await sendBatch(items.slice(0, half), send, sending);
    const forAll = first.find((one) => one instanceof ConnectorError && !isOfOne(one) && one.type !== 'unknown');
    const rest = items.slice(half);
    return [...first, ...(forAll === undefined ? await sendBatch(rest, send, sending) : rest.map(() => forAll))];
  }
}

/** What a fault that may have come after the commit has left; undefined: nothing, so that it may be sent again. */
async function madeInSpiteOf<T, R>(
  fault: ServerFault,
  items: readonly T[],
  findMade: NonNullable<Sending<T, R>['findMade']>,
): Promise<(R | ConnectorError)[] | undefined> {
  try {
    const found = await findMade(items);
    if (found.every((one) => one === undefined)) return undefined;
    return items.map((_, index) => found[index] ?? new UnknownOutcome(fault.message));
  } catch (error) {
    const why = asConnectorError(error).message;
    return items.map(() => new UnknownOutcome(`${fault.message} It could not be looked up what was done: ${why}`));
  }
}

/**
 * Asks for several at once. Where Tryton refuses, halves are asked, until what it cannot even be asked of stands alone:
 * that gets what `ofOne` makes of the error. Throws what has nothing to do with one of them.
 */
export async function askInHalves<T, R>(
  items: readonly T[],
  ask: (items: readonly T[]) => Promise<readonly R[]>,
  ofOne: (item: T, error: ConnectorError) => R,
  signal: AbortSignal,
): Promise<R[]> {
  try {
    return [...(await ask(items))];
  } catch (thrown) {
    const error = asConnectorError(thrown);
    if (!isOfOne(error)) throw thrown;
    if (items.length <= 1) return items.map((item) => ofOne(item, error));
    if (signal.aborted) return items.map((item) => ofOne(item, new TransientError('stopped before it was asked')));
    const half = Math.ceil(items.length / 2);
    const first = await askInHalves(items.slice(0, half), ask, ofOne, signal);
    return [...first, ...(await askInHalves(items.slice(half), ask, ofOne, signal))];
  }
}

/** Whether another record may fare better. */
export function isOfOne({ type }: ConnectorError): boolean {
  return type === 'data' || type === 'conflict' || type === 'locked';
}

export function asConnectorError(error: unknown): ConnectorError {
  if (error instanceof ConnectorError) return error;
  return new UnknownOutcome(error instanceof Error ? error.message : String(error), { cause: error });
}

const stateRows = z.array(z.object({ id, state: z.string() }));

/** A step of Tryton's workflow, as `quote`. Tryton does not say when it was not possible: the state is read again. */
export async function takeStep(
  tryton: Tryton,
  tasks: readonly Pick<Progress, 'reference' | 'error'>[],
  { model, method, to }: { model: string; method: string; to: string },
  signal: AbortSignal,
): Promise<void> {
  await sendTasks(
    tasks,
    async (some) => {
      const all = some.map(({ reference }) => idIn(reference, model));
      await tryton.change(`${model}.${method}`, [all], z.unknown(), signal);
      const rows = await tryton.ask(`${model}.read`, [all, ['state']], stateRows, signal);
      return all.map((one) => rows.find((row) => row.id === one)?.state ?? 'gone');
    },
    {
      signal,
      done: (task, state) => {
        if (state !== to)
          task.error = new LockedError(
            `${task.reference} is ${state} in Tryton and could not become ${to}: somebody works on it.`,
          );
      },
    },
  );
}
