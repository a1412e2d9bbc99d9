/** Sends many tasks in as few calls as Tryton allows. Each task still gets a result of its own. */
import {
  asConnectorError,
  ConnectorError,
  concernsOneRecord,
  dueOf,
  LockedError,
  type Progress,
  TransientError,
  UnknownOutcome,
  z,
} from 'sourcing-bridge/connector';
import { ServerFault, type Tryton } from './rpc.ts';
import { id, idIn } from './values.ts';

interface SendOptions<T, R> {
  readonly signal: AbortSignal;
  /** Called for each task that Tryton carried out. */
  readonly done?: (task: T, result: R) => void;
  /**
   * Looks up, for each item, what `send` has created. Needed wherever sending an item a second time would create a
   * second object.
   */
  readonly findCreated?: (items: readonly T[]) => Promise<readonly (R | undefined)[]>;
}

/** For `done`: a task that is refused later was not refused as a whole. */
export function begun(task: Pick<Progress, 'isBegun'>): void {
  task.isBegun = true;
}

/** Sends, in one call of `send`, the tasks that have not failed. A task that Tryton refuses gets the error. */
export async function sendTasks<T extends Pick<Progress, 'error'>, R>(
  tasks: readonly T[],
  send: (tasks: readonly T[]) => Promise<readonly R[]>,
  options: SendOptions<T, R>,
): Promise<void> {
  const due = dueOf(tasks);
  const results = await sendBatch(due, send, options);
  for (const [index, task] of due.entries()) {
    const result = results[index];
    if (result instanceof ConnectorError) task.error = result;
    else options.done?.(task, result as R);
  }
}

/**
 * Sends the items in one call, which Tryton carries out as a whole or not at all. If Tryton refuses because of one
 * record, the halves are sent, and so on until the refused record is alone. Returns for each item its result, or the
 * error.
 */
export async function sendBatch<T, R>(
  items: readonly T[],
  send: (items: readonly T[]) => Promise<readonly R[]>,
  options: Pick<SendOptions<T, R>, 'signal' | 'findCreated'>,
): Promise<(R | ConnectorError)[]> {
  const { signal, findCreated } = options;
  if (items.length === 0) return [];
  if (signal.aborted) return items.map(() => new TransientError('stopped before it was sent'));
  try {
    const results = await send(items);
    if (results.length === items.length) return [...results];
    throw new UnknownOutcome(`Tryton answered for ${results.length} records, and ${items.length} were sent.`);
  } catch (thrown) {
    const error = asConnectorError(thrown);
    const created =
      error instanceof ServerFault && findCreated ? await findCreatedDespite(error, items, findCreated) : undefined;
    if (created) return created;
    if (items.length === 1 || !concernsOneRecord(error)) return items.map(() => error);
    const half = Math.ceil(items.length / 2);
    const first = await sendBatch(items.slice(0, half), send, options);
    const forAll = first.find(
      (result) => result instanceof ConnectorError && !concernsOneRecord(result) && result.type !== 'unknown',
    );
    const rest = items.slice(half);
    return [...first, ...(forAll === undefined ? await sendBatch(rest, send, options) : rest.map(() => forAll))];
  }
}

/**
 * What Tryton created although it answered with a fault, which may have come after the commit. Undefined: it created
 * nothing, so the items may be sent again.
 */
async function findCreatedDespite<T, R>(
  fault: ServerFault,
  items: readonly T[],
  findCreated: NonNullable<SendOptions<T, R>['findCreated']>,
): Promise<(R | ConnectorError)[] | undefined> {
  try {
    const found = await findCreated(items);
    if (found.every((result) => result === undefined)) return undefined;
    return items.map((_, index) => found[index] ?? new UnknownOutcome(fault.message));
  } catch (error) {
    const why = asConnectorError(error).message;
    return items.map(
      () => new UnknownOutcome(`${fault.message} The connector could not look up whether it was done: ${why}`),
    );
  }
}

const stateRows = z.array(z.object({ id, state: z.string() }));

/**
 * Takes a step of Tryton's workflow, such as `quote`. Tryton does not report a step that was impossible, so the state
 * is read afterwards: a task whose record is not in one of the states `to` fails with LockedError.
 */
export async function runWorkflowStep(
  tryton: Tryton,
  tasks: readonly Pick<Progress, 'reference' | 'error' | 'isBegun'>[],
  { model, method, to }: { model: string; method: string; to: string | readonly string[] },
  signal: AbortSignal,
): Promise<void> {
  await sendTasks(
    tasks,
    async (batch) => {
      const recordIds = batch.map(({ reference }) => idIn(reference, model));
      await tryton.change(`${model}.${method}`, [recordIds], z.unknown(), signal);
      const rows = await tryton.ask(`${model}.read`, [recordIds, ['state']], stateRows, signal);
      return recordIds.map((recordId) => rows.find((row) => row.id === recordId)?.state ?? 'gone');
    },
    {
      signal,
      done: (task, state) => {
        if ([to].flat().includes(state)) task.isBegun = true;
        else
          task.error = new LockedError(
            `${task.reference} is ${state} in Tryton and could not become ${[to].flat()[0]}: a user may be working on it.`,
          );
      },
    },
  );
}
