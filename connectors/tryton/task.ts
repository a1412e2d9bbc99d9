/**
 * What all kinds of documents share: an operation becomes a task, which says in words what would be done (the plan), and
 * in the end what became of it (the outcome).
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
} from 'sourcing-bridge/connector';

/** One kind of documents. */
export interface Kind<K extends DocumentKind> {
  /** Asks Tryton what it holds, and decides what to do with each operation. Changes nothing; throws when it cannot tell. */
  plan(operations: readonly Operation<K>[], signal: AbortSignal): Promise<Plan<K>>;
  lookup(documents: readonly DocumentOf<K>[], signal: AbortSignal): Promise<Found[]>;
}

export interface Plan<K extends DocumentKind> {
  /** In the order of the operations. */
  readonly tasks: readonly Task<K>[];
  /** Does what was decided, in as few calls as Tryton allows. What Tryton refuses becomes the `error` of its task. */
  send(signal: AbortSignal): Promise<void>;
}

/** What is to be done for one operation. */
export interface Task<K extends DocumentKind> extends Progress {
  readonly operation: Operation<K>;
}

/** What is known of it: what will be done, then what became of it. */
export interface Progress {
  action: PlannedOperation['action'];
  /** In words for a person. */
  readonly steps: string[];
  /** Of the object, as `purchase.purchase,12`; empty until it is known. */
  reference: string;
  /** Why it cannot go on; what comes after is not sent. */
  error: ConnectorError | undefined;
}

export function newTask<K extends DocumentKind>(operation: Operation<K>): Task<K> {
  return { operation, action: 'none', steps: [], reference: '', error: undefined };
}

/** Runs `how`, which may throw why the task cannot be done. */
export function decide<T extends Pick<Progress, 'error'>>(task: T, how: (task: T) => void): T {
  try {
    how(task);
  } catch (error) {
    if (!(error instanceof ConnectorError)) throw error;
    task.error = error;
  }
  return task;
}

export function outcomeOfTask<K extends DocumentKind>({ operation, action, reference, error }: Task<K>): Outcome {
  if (error) return outcomeOf(error);
  // What is to be withdrawn and is not there is withdrawn.
  if (operation.action === 'cancel')
    return { status: 'cancelled', reference: reference || (operation.reference ?? operation.document.key) };
  return { status: action === 'create' ? 'created' : action === 'amend' ? 'updated' : 'unchanged', reference };
}

export function plannedOf<K extends DocumentKind>({ operation, action, steps, error }: Task<K>): PlannedOperation {
  const { key } = operation.document;
  return error ? { key, action: operation.action, steps: [error.message] } : { key, action, steps };
}
