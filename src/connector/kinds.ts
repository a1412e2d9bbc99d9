/**
 * The skeleton of a connector that writes several kinds of documents: each kind plans first, reading only, and sends its
 * plan then; `sessionOf` makes of all kinds the calls of a session. A batch in which one record is at fault is planned, looked
 * up and read back in halves, until that record is alone.
 */
import { readFile } from 'node:fs/promises';
import { resolve } from 'node:path';
import { errorText } from '#platform/errors.ts';
import { mapWithLimit, meetsOthers } from './at-once.ts';
import type { CheckResult, Found, Operation, Outcome, PlannedOperation, Session, Unclear } from './connector.ts';
import type { DocumentKind, DocumentOf } from './documents.ts';
import { ConfigError, ConnectorError, TransientError, UnknownOutcome } from './errors.ts';
import { outcomeOf } from './outcomes.ts';
import type { ReadBack, TakenDocument } from './read-back.ts';

/** What a connector does with one kind of documents. */
export interface Kind<K extends DocumentKind> {
  /** Reads what the ERP holds and decides what to do with each operation. Changes nothing. Rejects if the ERP cannot be read. */
  plan(operations: readonly Operation<K>[], signal: AbortSignal): Promise<Plan<K>>;
  /** What the ERP holds for these documents; one that it does not hold is left out. */
  lookup(documents: readonly DocumentOf<K>[], signal: AbortSignal): Promise<(Found | Unclear)[]>;
  /** What the ERP holds of delivered documents, field by field; only of some kinds. */
  readBack?(deliveries: readonly TakenDocument<K>[], signal: AbortSignal): Promise<ReadBack[]>;
}

export interface Plan<K extends DocumentKind> {
  /** In the order of the operations. */
  readonly tasks: readonly Task<K>[];
  /** Carries the plan out, in as few calls as the ERP allows. If the ERP refuses a task, the refusal becomes its `error`. */
  send(signal: AbortSignal): Promise<void>;
}

/** One operation, what will be done for it, and what was done. */
export interface Task<K extends DocumentKind> extends Progress {
  readonly operation: Operation<K>;
}

export interface Progress {
  action: PlannedOperation['action'];
  /** What will be done, in sentences for an operator. */
  readonly steps: string[];
  /** The object's reference, such as `purchase.order,12`; empty until it is known. */
  reference: string;
  /** Why the task failed. Its remaining steps are not sent. */
  error: ConnectorError | undefined;
  /**
   * Whether a step has taken effect that gave the object no new reference: a task that is refused after it is `partial`,
   * as is one whose object was made.
   */
  isBegun: boolean;
}

export function newTask<K extends DocumentKind>(operation: Operation<K>): Task<K> {
  return { operation, action: 'none', steps: [], reference: '', error: undefined, isBegun: false };
}

/** Runs `planTask`. If it throws a ConnectorError, the task fails with that error; any other error is thrown on. */
export function decide<T extends Pick<Progress, 'error'>>(task: T, planTask: (task: T) => void): T {
  try {
    planTask(task);
  } catch (error) {
    if (!(error instanceof ConnectorError)) throw error;
    task.error = error;
  }
  return task;
}

/** Those that have not failed. */
export function dueOf<T extends Pick<Progress, 'error'>>(tasks: readonly T[]): T[] {
  return tasks.filter(({ error }) => error === undefined);
}

/**
 * Calls `send` for each task that has not failed, up to `atOnce` at a time. What it throws becomes the task's error. Starts
 * no further task once `signal` is aborted, nor after an error that would meet the others, too.
 */
export async function sendEach<T extends Pick<Progress, 'error' | 'isBegun'>>(
  tasks: readonly T[],
  send: (task: T) => Promise<void>,
  { signal, atOnce }: { readonly signal: AbortSignal; readonly atOnce: number },
): Promise<void> {
  let refusal: ConnectorError | undefined;
  await mapWithLimit(dueOf(tasks), atOnce, async (task) => {
    task.error = signal.aborted ? new TransientError('stopped before it was sent') : refusal;
    if (task.error) return;
    try {
      await send(task);
    } catch (error) {
      task.error = asConnectorError(error);
      task.isBegun ||= task.error.partial;
      // The error may become that of others, of which nothing was sent.
      task.error.partial = false;
      if (meetsOthers(task.error.type)) refusal = task.error;
    }
  });
}

/** Returns the calls of a session that concern documents; a call has documents of one kind. */
export function sessionOf<K extends DocumentKind>(
  kinds: {
    readonly [Each in K]: Kind<Each>;
  },
): Required<Pick<Session<K>, 'plan' | 'write' | 'lookup' | 'readBack'>> {
  const kindOf = (kind: K) => kinds[kind] as unknown as Kind<K>;
  return {
    plan: async (operations, signal) => {
      const [first] = operations;
      if (!first) return [];
      const kind = kindOf(first.document.kind);
      const planAll = async (batch: typeof operations) => (await kind.plan(batch, signal)).tasks.map(plannedOf);
      const refused = (operation: Operation<K>, error: ConnectorError) => plannedOf({ ...newTask(operation), error });
      return runInHalves(operations, planAll, refused, signal);
    },
    write: async (operations, signal) => {
      const [first] = operations;
      if (!first) return [];
      const kind = kindOf(first.document.kind);
      const writeAll = (batch: typeof operations) => write(kind, batch, signal);
      return runInHalves(operations, writeAll, (_, error) => outcomeOf(error), signal);
    },
    lookup: async (documents, signal) => {
      const [first] = documents;
      if (!first) return [];
      const kind = kindOf(first.kind);
      const unclear = ({ key }: DocumentOf<K>, { message }: ConnectorError): Found | Unclear => ({
        key,
        unclear: message,
      });
      return runInHalves(documents, (batch) => kind.lookup(batch, signal), unclear, signal);
    },
    readBack: async (deliveries, signal) => {
      const [first] = deliveries;
      if (!first) return [];
      const { kind: name } = first.document;
      const kind = kindOf(name);
      const unclear = ({ document: { key } }: TakenDocument<K>, { message }: ConnectorError): ReadBack => ({
        key,
        status: 'unclear',
        reason: message,
      });
      const read = kind.readBack?.bind(kind);
      if (!read) throw new ConfigError(`The connector does not read back documents of the kind ${name}.`);
      return runInHalves(deliveries, (batch) => read(batch, signal), unclear, signal);
    },
  };
}

/** Rejects with an error that concerns one record. Any other error becomes the outcome of all: nothing was sent. */
async function write<K extends DocumentKind>(
  kind: Kind<K>,
  operations: readonly Operation<K>[],
  signal: AbortSignal,
): Promise<Outcome[]> {
  let plan: Plan<K>;
  try {
    plan = await kind.plan(operations, signal);
  } catch (thrown) {
    if (concernsOneRecord(asConnectorError(thrown))) throw thrown;
    return operations.map(() => outcomeOf(thrown));
  }
  const known = plan.tasks.map(({ reference }) => reference);
  await plan.send(signal);
  return plan.tasks.map((task, index) => outcomeOfTask(task, known[index]));
}

/** The outcome of a task that was sent; `known` is the reference that it had before. */
function outcomeOfTask<K extends DocumentKind>(task: Task<K>, known: string | undefined): Outcome {
  const { operation, action, reference, error } = task;
  if (error) {
    const outcome = outcomeOf(error);
    const isPartial = task.isBegun || (reference !== '' && reference !== known);
    return isPartial && 'error' in outcome ? { ...outcome, partial: true } : outcome;
  }
  // Also if the ERP did not hold the document: then there was nothing to cancel.
  if (operation.action === 'cancel')
    return { status: 'cancelled', reference: reference || (operation.reference ?? operation.document.key) };
  return { status: action === 'create' ? 'created' : action === 'amend' ? 'updated' : 'unchanged', reference };
}

/** The plan of a task that was not sent. */
function plannedOf<K extends DocumentKind>({ operation, action, steps, error }: Task<K>): PlannedOperation {
  const { key } = operation.document;
  return error ? { key, action: operation.action, steps: [error.message] } : { key, action, steps };
}

/**
 * Runs `run` for all items at once. If it fails because of one record, it is run for the halves, and so on until that
 * record is alone: its result is then `resultOf(item, error)`. Rejects with any error that does not concern a single
 * record.
 */
export async function runInHalves<T, R>(
  items: readonly T[],
  run: (items: readonly T[]) => Promise<readonly R[]>,
  resultOf: (item: T, error: ConnectorError) => R,
  signal: AbortSignal,
): Promise<R[]> {
  try {
    return [...(await run(items))];
  } catch (thrown) {
    const error = asConnectorError(thrown);
    if (!concernsOneRecord(error)) throw thrown;
    if (items.length <= 1) return items.map((item) => resultOf(item, error));
    if (signal.aborted)
      return items.map((item) => resultOf(item, new TransientError('stopped before the ERP was asked')));
    const half = Math.ceil(items.length / 2);
    const first = await runInHalves(items.slice(0, half), run, resultOf, signal);
    return [...first, ...(await runInHalves(items.slice(half), run, resultOf, signal))];
  }
}

/** Whether the error concerns one record, so that other records of the same call may succeed without it. */
export function concernsOneRecord({ type }: ConnectorError): boolean {
  return type === 'data' || type === 'conflict' || type === 'locked';
}

/** The error itself; one that is not a ConnectorError becomes an UnknownOutcome. */
export function asConnectorError(error: unknown): ConnectorError {
  if (error instanceof ConnectorError) return error;
  return new UnknownOutcome(errorText(error), { cause: error });
}

/** The results of `check`, one for each thing that has to be right. */
export interface CheckList {
  readonly results: CheckResult[];
  /** Adds what `run` says, or why it failed; returns whether it did not fail. */
  readonly attempt: (name: string, run: () => Promise<string>) => Promise<boolean>;
}

export function createCheckList(): CheckList {
  const results: CheckResult[] = [];
  return {
    results,
    attempt: async (name, run) => {
      try {
        results.push({ name, ok: true, message: await run() });
        return true;
      } catch (error) {
        results.push({ name, ok: false, message: asConnectorError(error).message });
        return false;
      }
    },
  };
}

/** The text of a file that the setting names, below the data folder; undefined where the setting is not set. */
export async function readSettingsFile(
  file: string | undefined,
  { setting, dataDir }: { setting: string; dataDir: string },
): Promise<string | undefined> {
  if (file === undefined) return undefined;
  const path = resolve(dataDir, file);
  return readFile(path, 'utf8').catch((cause: unknown) => {
    throw new ConfigError(`The file ${path} (settings.${setting}) cannot be read: ${errorText(cause)}`, { cause });
  });
}
