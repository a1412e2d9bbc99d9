/**
 * An ERP in memory behind a connector whose every call a test can script. It stands for an ERP without idempotency keys:
 * whoever creates twice has two objects, and it remembers that.
 */
import { z } from 'zod';
import type { Connector, Found, Operation, Outcome, Session } from '#connector/connector.ts';
import type { Document } from '#connector/documents.ts';

export interface ErpObject {
  reference: string;
  key: string;
  contentHash: string;
  total: string;
  cancelled: boolean;
}

export interface FakeErp {
  readonly connector: Connector;
  readonly session: Session;
  readonly objects: ErpObject[];
  /** What a careful bridge never does: a second object beside a living one, or a change of what is not there. */
  readonly faults: string[];
  /** The calls, as `write create amend` and `lookup 2`. */
  readonly calls: string[];
  readonly operations: Operation[];
  /** Instead of the plain write: may call `apply` for some or all of the operations. */
  onWrite: (
    operations: readonly Operation[],
    apply: (one: Operation) => Outcome,
    signal: AbortSignal,
  ) => Promise<Outcome[]>;
  onLookup: (documents: readonly Document[], find: () => Found[]) => Promise<Found[]>;
  living(key?: string): ErpObject[];
}

export function createFakeErp(capabilities: Partial<Connector['capabilities']> = {}): FakeErp {
  const objects: ErpObject[] = [];
  const living = (key?: string) => objects.filter((one) => !one.cancelled && (key === undefined || one.key === key));

  function apply({ action, document, contentHash }: Operation): Outcome {
    const held = living(document.key)[0];
    if (action === 'create') {
      if (held) erp.faults.push(`a second object for ${document.key}`);
      const reference = `PO-${objects.length + 1}`;
      objects.push({ reference, key: document.key, contentHash, total: document.total_cost, cancelled: false });
      return { status: 'created', reference };
    }
    if (!held) {
      erp.faults.push(`${action} of ${document.key}, which is not there`);
      return { status: 'rejected', error: { type: 'data', message: 'not there' } };
    }
    if (action === 'cancel') held.cancelled = true;
    else Object.assign(held, { contentHash, total: document.total_cost });
    return { status: action === 'cancel' ? 'cancelled' : 'updated', reference: held.reference };
  }

  const session: Session = {
    check: async () => [],
    write: async (operations, signal) => {
      erp.calls.push(`write ${operations.map(({ action }) => action).join(' ')}`);
      erp.operations.push(...operations);
      return erp.onWrite(operations, apply, signal);
    },
    lookup: async (documents) => {
      erp.calls.push(`lookup ${documents.length}`);
      return erp.onLookup(documents, () =>
        documents.flatMap(({ key }) =>
          living(key).map(({ reference, contentHash }) => ({ key, reference, contentHash })),
        ),
      );
    },
    close: async () => undefined,
  };
  const erp: FakeErp = {
    connector: {
      name: 'fake',
      settings: z.unknown(),
      capabilities: { kinds: ['award'], batchMax: 10, timeoutMs: 5_000, settleMs: 0, ...capabilities },
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
  };
  return erp;
}
