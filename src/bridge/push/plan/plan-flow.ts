/**
 * What the pusher would do with the documents of a flow now, for `bridge plan`. Makes and compares the documents as the
 * pusher does, and asks the ERP what it holds, but writes nothing and takes no lease: a daemon may push meanwhile.
 */
import { type DocumentsMade, makeDocuments } from '#bridge/assemble/make-documents.ts';
import type { OpenFlow } from '#bridge/flows/open-flows.ts';
import { createProcessIdentity, type ProcessIdentity } from '#bridge/leases/process-identity.ts';
import type { Operation } from '#connector/connector.ts';
import type { Document, DocumentKind } from '#connector/documents.ts';
import type { Timestamp } from '#contract/timestamp.ts';
import { type Clock, timestampNow } from '#platform/clock.ts';
import type { Database } from '#platform/database/database.ts';
import { errorText } from '#platform/errors.ts';
import { lookUpDocuments } from '../batch/look-up-documents.ts';
import { createConnectorCalls } from '../calls/connector-calls.ts';
import type { Claimed } from '../claim/claim-documents.ts';
import { mustLookUp, operationFor } from '../claim/decide-operation.ts';
import { documentColumns, type FlowDocument } from '../claim/flow-document-store.ts';
import { documentDifferences } from './document-differences.ts';

/** What the pusher would do with a document now. */
export interface PlannedChange {
  readonly kind: DocumentKind;
  readonly key: string;
  /**
   * The operation; or `none`: the ERP holds the document already; `wait`: it cannot be sent yet; `reject`: it would
   * become a dead letter; `hold`: the ERP keeps what it has.
   */
  readonly action: Operation['action'] | 'none' | 'wait' | 'reject' | 'hold';
  /**
   * What the connector would do, in its own words; without those, what differs from what was delivered; or why nothing
   * is done.
   */
  readonly steps: readonly string[];
  /** When the document is tried next; undefined when it may be sent now. */
  readonly notBefore?: Timestamp;
}

interface PlannedDocument extends FlowDocument {
  readonly due: Timestamp | null;
  readonly deliveredBody: string | null;
}

/**
 * Returns what the pusher would do with the documents that are due, in its order; with `all`, with every document of
 * the flow. `skip` leaves out the first documents, which an earlier page has shown. Throws when the signal aborts.
 */
export async function planFlow(
  deps: {
    database: Database;
    openFlow: OpenFlow;
    clock: Clock;
    processIdentity?: ProcessIdentity;
    abortGraceMs?: number;
  },
  { limit, skip = 0, all = false, signal }: { limit: number; skip?: number; all?: boolean; signal: AbortSignal },
): Promise<PlannedChange[]> {
  const { flow, connector, session, secrets } = deps.openFlow;
  const { batchMax, timeoutMs } = connector.capabilities;
  const calls = createConnectorCalls(session, { redact: secrets.redact, graceMs: deps.abortGraceMs });
  const processIdentity = deps.processIdentity ?? createProcessIdentity();
  const kinds = connector.capabilities.kinds.filter((kind) => flow.documents.includes(kind));
  const documents = await deps.database.query<PlannedDocument>(
    `select ${documentColumns}, due, delivered_body as "deliveredBody" from bridge.flow_documents
     where flow = $1 and kind = any($2) and ($4 or due is not null)
     order by array_position($2, kind), withdraws is not distinct from wanted, due, key
     limit $3 offset $5`,
    [flow.name, kinds, limit, all, skip],
  );
  const changes: PlannedChange[] = [];
  while (changes.length < documents.length) {
    signal.throwIfAborted();
    const from = changes.length;
    const batch = documents.slice(from, from + batchMax).filter(({ kind }) => kind === documents[from]?.kind);
    const made = await makeDocuments(deps.database, flow, batch);
    // A document that there was no room to make comes with the next batch; the first one is always made.
    changes.push(
      ...(await planBatch(
        batch.filter(({ kind, key }) => made.has(`${kind} ${key}`)),
        made,
      )),
    );
  }
  return changes;

  async function planBatch(batch: readonly PlannedDocument[], made: DocumentsMade): Promise<PlannedChange[]> {
    const planned = new Map<string, Pick<PlannedChange, 'action' | 'steps'>>();
    const claimed: Claimed[] = [];
    for (const document of batch) {
      const result = made.get(`${document.kind} ${document.key}`);
      if (result?.made !== 'document') {
        const action = result?.made === 'rejected' ? 'reject' : result?.made === 'held' ? 'hold' : 'wait';
        planned.set(document.key, { action, steps: [result?.reason ?? 'it could not be made'] });
        continue;
      }
      const operation = operationFor(document, result.document, result.wanted);
      if (operation) claimed.push({ document, operation });
      else planned.set(document.key, { action: 'none', steps: [] });
    }
    const limits = { timeoutMs, signal };
    const lookedUp = await lookUpDocuments(
      { connector, calls, processIdentity },
      claimed.filter(mustLookUp),
      deps.clock.nowMs(),
      limits,
    );
    for (const { document, outcome } of lookedUp.settled)
      planned.set(document.key, {
        action: 'message' in outcome ? 'wait' : 'none',
        steps: 'message' in outcome ? [outcome.message] : [],
      });
    const toWrite = [...claimed.filter((entry) => !mustLookUp(entry)), ...lookedUp.remaining];
    const operations = toWrite.map(({ operation }) => operation);
    let connectorPlan: Awaited<ReturnType<typeof calls.plan>>;
    let failure: string[] = [];
    if (operations.length > 0)
      try {
        connectorPlan = await calls.plan(operations, limits);
      } catch (error) {
        failure = [`the connector's plan failed: ${errorText(error)}`];
      }
    for (const { document, operation } of toWrite) {
      // The connector has looked at the ERP, which may hold something else than what was delivered.
      const ownPlan = connectorPlan?.get(document.key);
      const delivered = batch.find(({ key }) => key === document.key);
      const steps = ownPlan?.steps ?? [...failure, ...differences(delivered, operation)];
      planned.set(document.key, { action: ownPlan?.action ?? operation.action, steps });
    }
    const now = timestampNow(deps.clock);
    return batch.map(({ kind, key, due }) => ({
      kind,
      key,
      ...(planned.get(key) ?? { action: 'none', steps: [] }),
      ...(due !== null && due > now ? { notBefore: due } : {}),
    }));
  }
}

/** Returns how many documents `planFlow` returns without a limit. */
export async function countPlanned(
  { database, openFlow: { flow, connector } }: { database: Database; openFlow: OpenFlow },
  { all = false }: { all?: boolean },
): Promise<number> {
  const [row] = await database.query<{ count: number }>(
    `select count(*)::int as count from bridge.flow_documents
     where flow = $1 and kind = any($2) and ($3 or due is not null)`,
    [flow.name, connector.capabilities.kinds.filter((kind) => flow.documents.includes(kind)), all],
  );
  return row?.count ?? 0;
}

/** The differences between what was delivered and what would be written; none for a create and a cancellation. */
function differences(delivered: PlannedDocument | undefined, { action, document }: Operation): string[] {
  if (action !== 'amend') return [];
  if (!delivered?.deliveredBody) return ['what was delivered is not known in detail'];
  return documentDifferences(JSON.parse(delivered.deliveredBody) as Document, document);
}
