import type { Operation } from '#connector/connector.ts';
import type { Document, DocumentKind } from '#connector/documents.ts';
import type { Timestamp } from '#contract/timestamp.ts';
import { type Clock, timestampNow } from '#platform/clock.ts';
import type { Database } from '#platform/database/database.ts';
import { errorText } from '#platform/errors.ts';
import { type DocumentsMade, makeDocuments } from '../assemble/make-documents.ts';
import type { OpenFlow } from '../flows/open-flows.ts';
import { createProcessIdentity, type ProcessIdentity } from '../leases/process-identity.ts';
import { resolveCutOff } from './batch/resolve-cut-off.ts';
import { createConnectorCalls } from './calls/connector-calls.ts';
import { type Claimed, mustLookUp, operationFor } from './claim/claim-documents.ts';
import { documentColumns, type FlowDocument } from './claim/flow-document-store.ts';
import { documentDifferences } from './document-differences.ts';

/** What the push would do with a document now. */
export interface PlannedChange {
  readonly kind: DocumentKind;
  readonly key: string;
  /** `none`: the ERP holds it already. `wait`: not now. `reject`: it would be a dead letter. `hold`: left as it is. */
  readonly action: Operation['action'] | 'none' | 'wait' | 'reject' | 'hold';
  /** What the connector would do, as it says itself; else what differs from what was delivered; or why nothing is done. */
  readonly steps: readonly string[];
  /** When it is to be tried again; undefined when it is its turn. */
  readonly notBefore?: Timestamp;
}

interface PlannedDocument extends FlowDocument {
  readonly due: Timestamp | null;
  readonly deliveredBody: string | null;
}

/**
 * What the push would do with the documents that are due, in its order; with `all` with every document of the flow.
 * Changes nothing and takes no lease: the daemon may be working meanwhile. The ERP is only asked what it holds. `skip`
 * passes over the first ones, which an earlier page has shown.
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
  const calls = createConnectorCalls(session, { tell: secrets.tell, graceMs: deps.abortGraceMs });
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
    // What there was no room for comes with the next batch; the first is always made.
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
    const resolved = await resolveCutOff(
      { connector, calls, processIdentity },
      claimed.filter(mustLookUp),
      deps.clock.nowMs(),
      limits,
    );
    for (const { document, outcome } of resolved.settled)
      planned.set(document.key, {
        action: 'message' in outcome ? 'wait' : 'none',
        steps: 'message' in outcome ? [outcome.message] : [],
      });
    const toDo = [...claimed.filter((one) => !mustLookUp(one)), ...resolved.remaining];
    const said =
      toDo.length === 0
        ? undefined
        : await calls
            .plan(
              toDo.map(({ operation }) => operation),
              limits,
            )
            .catch((error: unknown) => `the connector's plan failed: ${errorText(error)}`);
    for (const { document, operation } of toDo) {
      // It has looked at the ERP, which may hold other than what was delivered.
      const own = typeof said === 'object' ? said.get(document.key) : undefined;
      const delivered = batch.find(({ key }) => key === document.key);
      const steps = own?.steps ?? [...(typeof said === 'string' ? [said] : []), ...differences(delivered, operation)];
      planned.set(document.key, { action: own?.action ?? operation.action, steps });
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

/** How many documents `planFlow` has to look at without a limit. */
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

/** Between what was delivered and what is to be; a create and a cancellation need none. */
function differences(delivered: PlannedDocument | undefined, { action, document }: Operation): string[] {
  if (action !== 'amend') return [];
  if (!delivered?.deliveredBody) return ['what was delivered is not known in detail'];
  return documentDifferences(JSON.parse(delivered.deliveredBody) as Document, document);
}
