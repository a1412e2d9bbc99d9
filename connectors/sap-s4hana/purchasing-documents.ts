/**
 * What becomes of an award as an order or as a contract. Both are found by the mark of the document's key in "Your
 * reference", are made by one request and changed by one changeset, and SAP carries each out as a whole: so no kill leaves
 * one half changed. Where SAP cannot make it what the award says, another one takes its place.
 */
import { type AwardDocument, ConflictError, type Operation, UnknownOutcome } from 'sourcing-bridge/connector';
import type { Change } from './batch.ts';
import { type Decision, nothingToDo, referenceOf } from './kind.ts';
import { keyMarker } from './markers.ts';
import { equals } from './odata.ts';
import { type OrderItem, stateOf } from './order-values.ts';
import { changed } from './sap-values.ts';

interface Wanted {
  readonly supplier: string;
  readonly currency: string;
  readonly items: readonly OrderItem[];
}

export interface Shape<Held, Values extends Wanted> {
  readonly name: 'purchase order' | 'purchase contract';
  readonly object: 'PurchaseOrder' | 'PurchaseContract';
  readonly numberOf: (held: Held) => string;
  readonly wantedOf: (operation: Operation<'award'>) => Values;
  /** Undefined where only another one can be as the award says. Throws where it must not be changed. */
  readonly changesOf: (wanted: Values, held: Held, isWritten: boolean) => Change[] | undefined;
  /** Throws for one that a person has changed, or that SAP changes not now, or never. */
  readonly expectChangeable: (held: Held) => void;
  /** Returns what SAP answers. */
  readonly create: (wanted: Values, signal: AbortSignal) => Promise<unknown>;
  readonly change: (changes: readonly Change[], signal: AbortSignal) => Promise<void>;
  /** How one is withdrawn. */
  readonly removal: 'delete' | 'end';
  readonly remove: (held: Held, signal: AbortSignal) => Promise<void>;
}

/** `found` are all that SAP holds for the document. */
export function decideDocument<Held, Values extends Wanted>(
  shape: Shape<Held, Values>,
  operation: Operation<'award'>,
  found: readonly Held[],
  isWritten: boolean,
): Decision {
  const { action, document, reference } = operation;
  const { name, numberOf } = shape;
  const [held, second] = found;
  if (second)
    throw new ConflictError(
      `SAP holds ${found.length} ${name}s for ${document.key}: ${found.map(numberOf).join(', ')}. Leave "Your reference" to one of them in SAP, or delete the others.`,
    );
  if (action === 'cancel') return held ? removal(shape, held) : nothingToDo(reference ?? '');
  if (action === 'amend' && !held && reference !== undefined)
    throw new ConflictError(
      `${reference} is no longer in SAP: a person has deleted it, or has changed its "Your reference" (CorrespncExternalReference)`,
    );
  const wanted = shape.wantedOf(operation);
  if (!held)
    return {
      action: 'create',
      steps: [`create a ${name} with supplier ${wanted.supplier}`, ...wanted.items.map(shownItem)],
      reference: '',
      run: (signal) => create(shape, wanted, signal),
    };
  const own = referenceOf(shape.object, numberOf(held));
  const changes = shape.changesOf(wanted, held, isWritten);
  if (!changes) return replacement(shape, wanted, held);
  if (changes.length === 0) return nothingToDo(own);
  return {
    action: 'amend',
    steps: changes.map(({ what }) => what),
    reference: own,
    run: async (signal) => {
      await shape.change(changes, signal);
      return own;
    },
  };
}

function removal<Held, Values extends Wanted>(shape: Shape<Held, Values>, held: Held): Decision {
  shape.expectChangeable(held);
  const reference = referenceOf(shape.object, shape.numberOf(held));
  return {
    action: 'cancel',
    steps: [`${shape.removal} ${shape.name} ${shape.numberOf(held)}`],
    reference,
    run: async (signal) => {
      await shape.remove(held, signal);
      return reference;
    },
  };
}

function replacement<Held, Values extends Wanted>(shape: Shape<Held, Values>, wanted: Values, held: Held): Decision {
  shape.expectChangeable(held);
  const before = `${shape.removal} ${shape.name} ${shape.numberOf(held)}`;
  return {
    action: 'amend',
    steps: [
      `${before}, and create another: supplier ${wanted.supplier}, ${wanted.currency}`,
      ...wanted.items.map(shownItem),
    ],
    reference: referenceOf(shape.object, shape.numberOf(held)),
    run: async (signal) => {
      await shape.remove(held, signal);
      try {
        return await create(shape, wanted, signal);
      } catch (cause) {
        // The old one is gone: only a lookup finds the way on.
        throw new UnknownOutcome(`done: ${before}; but not the one in its place: ${String(cause)}`, {
          answered: true,
          cause,
        });
      }
    },
  };
}

async function create<Held, Values extends Wanted>(
  { create: make, object, name }: Shape<Held, Values>,
  wanted: Values,
  signal: AbortSignal,
): Promise<string> {
  const made = (await make(wanted, signal)) as Readonly<Record<string, unknown>> | undefined;
  const number = made?.[object];
  if (typeof number === 'string' && number !== '') return referenceOf(object, number);
  throw new UnknownOutcome(`SAP made a ${name} and did not return its number`, { answered: true });
}

/** Filters for the orders or contracts of these documents. */
export function marksOf(documents: readonly AwardDocument[]): string[] {
  return equals(
    'CorrespncExternalReference',
    documents.map(({ key }) => keyMarker(key)),
  );
}

/** Fields of the header that are compared, and changed; the others only a new order or contract has. */
export const headerFields = ['PaymentTerms', 'IncotermsClassification', 'IncotermsLocation1'] as const;

export function changedHeader(header: Readonly<Record<string, string>>, held: object): Record<string, string> {
  const wanted = headerFields.flatMap((name) => (header[name] === undefined ? [] : [[name, header[name]] as const]));
  return changed(Object.fromEntries(wanted), held);
}

function shownItem(item: OrderItem): string {
  return `${item.lot}: ${stateOf(item)}`;
}

/** Throws for an order or contract that a person has changed: `changes` says in what. */
export function expectUnchanged(what: string, changes: readonly string[]): void {
  if (changes.length > 0)
    throw new ConflictError(`${what} was changed in SAP, so it is not overwritten: ${changes.slice(0, 10).join('; ')}`);
}
