/**
 * What all kinds of documents share: operations are prepared together, sent in as few calls as Tryton allows, and each
 * gets an outcome of its own. Prepared ones also say in words what they would do: that is the plan.
 */
import { createHash } from 'node:crypto';
import {
  ConnectorError,
  type DocumentKind,
  type DocumentOf,
  type Found,
  type Operation,
  type Outcome,
  outcomeOf,
  type PlannedOperation,
  TransientError,
  UnknownOutcome,
} from 'sourcing-bridge/connector';
import { ServerFault } from './rpc.ts';

/** One kind of documents. */
export interface Kind<K extends DocumentKind> {
  write(operations: readonly Operation<K>[], signal: AbortSignal): Promise<Outcome[]>;
  plan(operations: readonly Operation<K>[], signal: AbortSignal): Promise<PlannedOperation[]>;
  lookup(documents: readonly DocumentOf<K>[], signal: AbortSignal): Promise<Found[]>;
}

/** What is to be done for one operation, as far as it is known before anything is sent. */
export interface Prepared {
  action: PlannedOperation['action'];
  /** In words for a person. */
  readonly steps: string[];
  /** Of the object, once it is known. */
  reference: string;
  /** Why it cannot go on; the first one counts. */
  error?: ConnectorError;
}

export function nothingYet(): Prepared {
  return { action: 'none', steps: [], reference: '' };
}

export function outcomeOfPrepared(
  prepared: Prepared,
  operation: Pick<Operation, 'action' | 'document' | 'reference'>,
): Outcome {
  if (prepared.error) return outcomeOf(prepared.error);
  // What is to be withdrawn and is not there is withdrawn.
  if (operation.action === 'cancel')
    return { status: 'cancelled', reference: prepared.reference || (operation.reference ?? operation.document.key) };
  const { reference, action } = prepared;
  return { status: action === 'create' ? 'created' : action === 'amend' ? 'updated' : 'unchanged', reference };
}

export function plannedOf(
  prepared: Prepared,
  { document, action }: { readonly document: { readonly key: string }; readonly action: Operation['action'] },
): PlannedOperation {
  return prepared.error
    ? { key: document.key, action, steps: [prepared.error.message] }
    : { key: document.key, action: prepared.action, steps: prepared.steps };
}

/** Asks Tryton for what `send` makes: one for each that is there. Needed wherever a second `send` makes a second object. */
type FindMade<T, R> = (items: readonly T[]) => Promise<readonly (R | undefined)[]>;

/**
 * Sends several in one call, which Tryton does as a whole or not at all. Where it refuses, halves are tried, until what
 * it refuses stands alone. Gives for each what `send` gave for it, or why it was not done.
 */
export async function together<T, R>(
  items: readonly T[],
  send: (items: readonly T[]) => Promise<readonly R[]>,
  signal: AbortSignal,
  findMade?: FindMade<T, R>,
): Promise<(R | ConnectorError)[]> {
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
    const first = await together(items.slice(0, half), send, signal, findMade);
    const forAll = first.find((one) => one instanceof ConnectorError && !isOfOne(one) && one.type !== 'unknown');
    const rest = items.slice(half);
    return [
      ...first,
      ...(forAll === undefined ? await together(rest, send, signal, findMade) : rest.map(() => forAll)),
    ];
  }
}

/** What a fault that may have come after the commit has left; undefined: nothing, so that it may be sent again. */
async function madeInSpiteOf<T, R>(
  fault: ServerFault,
  items: readonly T[],
  findMade: FindMade<T, R>,
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

/** Whether another record may fare better. */
function isOfOne({ type }: ConnectorError): boolean {
  return type === 'data' || type === 'conflict' || type === 'locked';
}

export function asConnectorError(error: unknown): ConnectorError {
  if (error instanceof ConnectorError) return error;
  return new UnknownOutcome(error instanceof Error ? error.message : String(error), { cause: error });
}

/** Does `send` for those that have not failed, and keeps the errors with them. */
export async function sendAll<T extends { prepared: Prepared }, R>(
  tasks: readonly T[],
  send: (tasks: readonly T[]) => Promise<readonly R[]>,
  signal: AbortSignal,
  onDone: (task: T, result: R) => void = () => undefined,
  findMade?: FindMade<T, R>,
): Promise<void> {
  const going = tasks.filter(({ prepared }) => prepared.error === undefined);
  const results = await together(going, send, signal, findMade);
  for (const [index, task] of going.entries()) {
    const result = results[index];
    if (result instanceof ConnectorError) task.prepared.error = result;
    else onDone(task, result as R);
  }
}

/**
 * Sixteen letters and digits that stand for a document in a field that Tryton can search: no field of it keeps a name of
 * somebody else's, and 80 bits are enough for none to meet.
 */
export function markerOf(kind: DocumentKind, key: string, part = ''): string {
  const digest = createHash('sha256').update(`${kind}\n${key}\n${part}`).digest();
  let bits = BigInt(`0x${digest.subarray(0, 10).toString('hex')}`);
  let marker = '';
  for (let index = 0; index < 16; index += 1) {
    marker = `${alphabet[Number(bits & 31n)]}${marker}`;
    bits >>= 5n;
  }
  return `SB-${marker}`;
}

/** Without letters that are taken for digits. */
const alphabet = '0123456789ABCDEFGHJKMNPQRSTVWXYZ';

/** What is behind the marker of an object that was withdrawn: it is found no more. */
export const withdrawnMark = ' withdrawn';

export function quoted(value: string): string {
  return `"${value}"`;
}
