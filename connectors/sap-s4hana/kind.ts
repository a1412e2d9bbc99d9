/**
 * How each kind uses the skeleton: its operations are read together, decided one by one, written up to `connections` at a
 * time, and read back together. A change that SAP has answered with success may have changed nothing, and SAP may have
 * found another price; so what is left to do after a write is done once more, and what is still left then is refused.
 */
import {
  type Clock,
  type ConnectorError,
  type ConnectorLog,
  DataError,
  type DocumentKind,
  decide,
  dueOf,
  type Kind,
  newTask,
  type Operation,
  type PlannedOperation,
  sendEach,
  type Task,
  UnknownOutcome,
} from 'sourcing-bridge/connector';
import type { OData } from './odata.ts';
import type { Orders } from './orders.ts';
import { plainCode } from './sap-values.ts';
import type { Settings } from './settings.ts';

export interface Deps {
  readonly odata: OData;
  readonly orders: Orders;
  readonly settings: Settings;
  readonly log: ConnectorLog;
  readonly clock: Clock;
}

/** What is to be done for one operation. */
export interface Decision {
  readonly action: PlannedOperation['action'];
  /** In words for an operator; empty where there is nothing to do. */
  readonly steps: readonly string[];
  /** Empty for an object that SAP does not have yet. */
  readonly reference: string;
  /** Does it, and returns the reference of the object, which may be a new one. */
  readonly run?: (signal: AbortSignal) => Promise<string>;
}

interface KindParts<K extends DocumentKind, Held> extends Pick<Kind<K>, 'lookup' | 'readBack'> {
  /** Asks SAP for all that the operations need. */
  readonly read: (operations: readonly Operation<K>[], signal: AbortSignal) => Promise<Held>;
  /**
   * Throws a ConnectorError for a document that cannot be written. `isWritten`: the connector has just written it, so what
   * differs is SAP's doing and no person's.
   */
  readonly decideOn: (operation: Operation<K>, held: Held, isWritten: boolean) => Decision;
  /** Removes what was created and is wrong, and says so. */
  readonly undo?: (operation: Operation<K>, held: Held, signal: AbortSignal) => Promise<string>;
}

interface SapTask<K extends DocumentKind> extends Task<K> {
  run: Decision['run'];
}

interface Limits {
  readonly signal: AbortSignal;
  readonly atOnce: number;
}

export function kindOfParts<K extends DocumentKind, Held>(parts: KindParts<K, Held>, { settings }: Deps): Kind<K> {
  const { read, decideOn, lookup, readBack } = parts;
  return {
    async plan(operations, signal) {
      const held = await read(operations, signal);
      const tasks = operations.map((operation) =>
        decide<SapTask<K>>({ ...newTask(operation), run: undefined }, (task) => {
          const decision = decideOn(operation, held, false);
          task.action = decision.action;
          task.steps.push(...decision.steps);
          task.reference = decision.reference;
          task.run = decision.run;
        }),
      );
      return { tasks, send: (signal) => send(parts, tasks, { signal, atOnce: settings.connections }) };
    },
    lookup,
    ...(readBack ? { readBack } : {}),
  };
}

async function send<K extends DocumentKind, Held>(
  parts: KindParts<K, Held>,
  tasks: readonly SapTask<K>[],
  limits: Limits,
): Promise<void> {
  const changed = dueOf(tasks).filter(({ run }) => run);
  await sendEach(
    changed,
    async (task) => {
      task.reference = (await task.run?.(limits.signal)) ?? task.reference;
      task.isBegun = true;
    },
    limits,
  );
  const left = await finish(parts, dueOf(changed), false, limits);
  await finish(parts, left, true, limits);
}

/**
 * Reads back what was written, and does what is left to do, or refuses it the last time. Returns the tasks for which it did
 * anything.
 */
async function finish<K extends DocumentKind, Held>(
  parts: KindParts<K, Held>,
  tasks: readonly SapTask<K>[],
  isLast: boolean,
  limits: Limits,
): Promise<SapTask<K>[]> {
  if (tasks.length === 0) return [];
  const { signal } = limits;
  let held: Held;
  try {
    held = await parts.read(tasks.map(asWritten), signal);
  } catch (error) {
    for (const task of tasks) task.error = notReadBack(error);
    return [];
  }
  const again: SapTask<K>[] = [];
  await sendEach(
    tasks,
    async (task) => {
      const left = decisionLeft(parts, task, held);
      if (!left.run) return;
      if (isLast) throw await refusal(parts, task, left, held, signal);
      await left.run(signal);
      again.push(task);
    },
    limits,
  );
  return dueOf(again);
}

/** The operation as it has to be after it was carried out. */
function asWritten<K extends DocumentKind>({ operation, reference }: SapTask<K>): Operation<K> {
  return operation.action === 'cancel' ? operation : { ...operation, action: 'amend', reference };
}

function decisionLeft<K extends DocumentKind, Held>(
  { decideOn }: KindParts<K, Held>,
  task: SapTask<K>,
  held: Held,
): Decision {
  try {
    return decideOn(asWritten(task), held, true);
  } catch (error) {
    throw error instanceof DataError ? error : notReadBack(error);
  }
}

async function refusal<K extends DocumentKind, Held>(
  { undo }: KindParts<K, Held>,
  { operation, reference, action }: SapTask<K>,
  { steps }: Decision,
  held: Held,
  signal: AbortSignal,
): Promise<ConnectorError> {
  const undone =
    action === 'create' && undo ? await undo(operation, held, signal) : 'Correct it in SAP, then replay the document.';
  return new DataError(
    `SAP took ${reference}, and holds other values than were sent; left to do: ${steps.slice(0, 10).join('; ')}. ${undone}`,
  );
}

function notReadBack(error: unknown): UnknownOutcome {
  const message = error instanceof Error ? error.message : String(error);
  return new UnknownOutcome(`it was written, but could not be read back: ${message}`, { answered: true, cause: error });
}

/** Everything is as it has to be, or what is to be removed is not there. */
export function nothingToDo(reference: string): Decision {
  return { action: 'none', steps: [], reference };
}

/** `PurchaseOrder/4500000001`: what outcomes, `lookup` and `urlOf` name an object by, without zeros before the number. */
export function referenceOf(object: string, number: string): string {
  return `${object}/${plainCode(number)}`;
}
