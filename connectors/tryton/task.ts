/**
 * What all kinds of documents share. Each operation becomes a task. A task describes first what will be done (the
 * plan), and records later what was done (the outcome).
 */
import {
  ConnectorError,
  type DocumentKind,
  type DocumentOf,
  type Found,
  type Operation,
  type Outcome,
  outcomeOf,
  type PlannedOperation,
  type ReadBack,
  type TakenDocument,
} from 'sourcing-bridge/connector';

/** What the connector does with one kind of documents. */
export interface Kind<K extends DocumentKind> {
  /**
   * Reads what Tryton holds and decides what to do with each operation. Changes nothing. Rejects if Tryton cannot be
   * read.
   */
  plan(operations: readonly Operation<K>[], signal: AbortSignal): Promise<Plan<K>>;
  /** What Tryton holds for these documents; one that it does not hold is left out. */
  lookup(documents: readonly DocumentOf<K>[], signal: AbortSignal): Promise<Found[]>;
  /** What Tryton holds of delivered documents, field by field; only of some kinds. */
  readBack?(deliveries: readonly TakenDocument<K>[], signal: AbortSignal): Promise<ReadBack[]>;
}

export interface Plan<K extends DocumentKind> {
  /** In the order of the operations. */
  readonly tasks: readonly Task<K>[];
  /**
   * Carries the plan out, in as few calls as Tryton allows. If Tryton refuses a task, the refusal becomes the task's
   * `error`.
   */
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
  /** The object's reference, such as `purchase.purchase,12`; empty until it is known. */
  reference: string;
  /** Why the task failed. Its remaining steps are not sent. */
  error: ConnectorError | undefined;
}

export function newTask<K extends DocumentKind>(operation: Operation<K>): Task<K> {
  return { operation, action: 'none', steps: [], reference: '', error: undefined };
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

/** The outcome of a task that was sent. */
export function outcomeOfTask<K extends DocumentKind>({ operation, action, reference, error }: Task<K>): Outcome {
  if (error) return outcomeOf(error);
  // Also if Tryton did not hold the document: then there was nothing to cancel.
  if (operation.action === 'cancel')
    return { status: 'cancelled', reference: reference || (operation.reference ?? operation.document.key) };
  return { status: action === 'create' ? 'created' : action === 'amend' ? 'updated' : 'unchanged', reference };
}

/** The plan of a task that was not sent. */
export function plannedOf<K extends DocumentKind>({ operation, action, steps, error }: Task<K>): PlannedOperation {
  const { key } = operation.document;
  return error ? { key, action: operation.action, steps: [error.message] } : { key, action, steps };
}
