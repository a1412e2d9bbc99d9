/**
 * An ERP in memory, behind a connector whose calls a test can script. It stands for an ERP without idempotency keys: a
 * repeated create makes a second object, which is recorded as a fault. Calls of a killed process never end here: a test
 * that kills a process drops them with `forgetCalls`.
 */
import { z } from 'zod';
import type { Connector, Found, Operation, Outcome, Session, Unclear } from '#connector/connector.ts';
import type { Document } from '#connector/documents.ts';

export interface ErpObject {
  reference: string;
  kind: string;
  key: string;
  contentHash: string;
  total: string;
  cancelled: boolean;
}

export interface FakeErp {
  readonly connector: Connector;
  readonly session: Session;
  readonly objects: ErpObject[];
  /**
   * What the bridge must never do: create a second object beside a living one, change an object that is not there, or
   * make calls at the same time that the connector interface rules out.
   */
  readonly faults: string[];
  /** The calls, as `write create amend` and `lookup 2`. */
  readonly calls: string[];
  readonly operations: Operation[];
  /** Replaces the plain write; may call `apply` for some or all of the operations. */
  onWrite: (
    operations: readonly Operation[],
    apply: (one: Operation) => Outcome,
    signal: AbortSignal,
  ) => Promise<Outcome[]>;
  onLookup: (documents: readonly Document[], find: () => Found[]) => Promise<(Found | Unclear)[]>;
  living(key?: string): ErpObject[];
  /** Drops the calls in flight: the process that made them is dead. */
  forgetCalls(): void;
  /** Throws when there are faults. */
  throwFaults(): void;
}

export function createFakeErp(capabilities: Partial<Connector['capabilities']> = {}): FakeErp {
  const objects: ErpObject[] = [];
  const living = (key?: string) => objects.filter((one) => !one.cancelled && (key === undefined || one.key === key));
  const held = (document: Document) => living(document.key).filter(({ kind }) => kind === document.kind);
  /** The calls of `write` that have not ended. */
  const underWay = new Set<readonly Operation[]>();

  function apply({ action, document, contentHash }: Operation): Outcome {
    const [found] = held(document);
    if (action === 'create') {
      if (found) erp.faults.push(`a second object for ${document.key}`);
      const reference = `PO-${objects.length + 1}`;
      const { kind, key } = document;
      objects.push({ reference, kind, key, contentHash, total: totalOf(document), cancelled: false });
      return { status: 'created', reference };
    }
    if (!found) {
      erp.faults.push(`${action} of ${document.key}, which is not there`);
      return { status: 'rejected', error: { type: 'data', message: 'not there' } };
    }
    if (action === 'cancel') found.cancelled = true;
    else Object.assign(found, { contentHash, total: totalOf(document) });
    return { status: action === 'cancel' ? 'cancelled' : 'updated', reference: found.reference };
  }

  function checkPromises(operations: readonly Operation[]): void {
    const { batchMax, concurrency = 1 } = erp.connector.capabilities;
    const others = [...underWay].flat();
    const keys = operations.map(({ document }) => document.key);
    const kinds = new Set([...others, ...operations].map(({ document }) => document.kind));
    if (operations.length === 0 || operations.length > batchMax) erp.faults.push(`${operations.length} in a batch`);
    if (underWay.size >= concurrency) erp.faults.push('too many calls at once');
    if (kinds.size > 1) erp.faults.push(`written at once: ${[...kinds].join(', ')}`);
    if (new Set(keys).size < keys.length || others.some(({ document }) => keys.includes(document.key)))
      erp.faults.push('one key twice at once');
  }

  const session: Session = {
    check: async () => [],
    write: async (operations, signal) => {
      erp.calls.push(`write ${operations.map(({ action }) => action).join(' ')}`);
      erp.operations.push(...operations);
      checkPromises(operations);
      underWay.add(operations);
      try {
        return await erp.onWrite(operations, apply, signal);
      } finally {
        underWay.delete(operations);
      }
    },
    lookup: async (documents) => {
      erp.calls.push(`lookup ${documents.length}`);
      if (underWay.size > 0) erp.faults.push('lookup during a write');
      return erp.onLookup(documents, () =>
        documents.flatMap((document) =>
          held(document).map(({ key, reference, contentHash }) => ({ key, reference, contentHash })),
        ),
      );
    },
    close: async () => undefined,
  };
  const erp: FakeErp = {
    connector: {
      name: 'fake',
      settings: z.unknown(),
      capabilities: {
        kinds: ['award'],
        batchMax: 10,
        timeoutMs: 5_000,
        lateEffectMs: 0,
        idempotency: 'lookup',
        ...capabilities,
      },
      open: async () => session,
    },
    session,
    objects,
    faults: [],
    calls: [],
    operations: [],
    onWrite: async (operations, applyOne) => operations.map(applyOne),
    onLookup: async (_documents, find) => find(),
    living,
    forgetCalls: () => underWay.clear(),
    throwFaults: () => {
      if (erp.faults.length > 0)
        throw new Error(`The bridge broke the rules of the connector interface: ${erp.faults.join(', ')}`);
    },
  };
  return erp;
}

function totalOf(document: Document): string {
  if ('total_cost' in document) return document.total_cost;
  return document.kind === 'sourcing-event' ? document.event.name : '';
}
