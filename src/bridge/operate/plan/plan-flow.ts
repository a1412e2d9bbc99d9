/**
 * What the pusher would do with the documents of a flow now, for `bridge plan`. Makes and compares the documents as the
 * pusher does, and asks the ERP what it holds, but writes nothing and takes no lease: a daemon may push meanwhile.
 */
import { createConnectorCalls } from '#bridge/connectors/connector-calls.ts';
import type { OpenFlow } from '#bridge/connectors/open-flows.ts';
import { documentColumns, type FlowDocument } from '#bridge/ledger/flows/flow-document-store.ts';
import { type DocumentsMade, makeDocuments } from '#bridge/mirror/assemble/make-documents.ts';
import { lookUpDocuments } from '#bridge/push/batch/look-up-documents.ts';
import type { Claimed } from '#bridge/push/claim/claim-documents.ts';
import { mustLookUp, operationFor } from '#bridge/push/claim/decide-operation.ts';
import { createProcessIdentity, type ProcessIdentity } from '#bridge/settings/process-identity.ts';
import type { Operation } from '#connector/connector.ts';
import type { Document, DocumentKind } from '#connector/documents.ts';
import type { Timestamp } from '#contract/timestamp.ts';
import { type Clock, timestampNow } from '#platform/clock.ts';
import type { Database } from '#platform/database/database.ts';
import { errorText } from '#platform/errors.ts';
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
  /** The names that the source shows now; null where there is none. */
  readonly eventName: string | null;
  readonly supplierName: string | null;
  /** The ERP's reference of the object that it holds, or held. */
  readonly reference: string | null;
}

/** Which documents are planned. */
export interface PlanFilter {
  /** Also documents that are not due. */
  readonly all?: boolean;
  /** Only documents of these events, or about these suppliers: the service's ids. */
  readonly events?: readonly string[] | undefined;
  readonly suppliers?: readonly string[] | undefined;
  /** Only this document. */
  readonly document?: { readonly kind: DocumentKind; readonly key: string } | undefined;
}

/** `$1`: the flow, `$2`: kinds, `$3`: all, `$4`: events, `$5`: suppliers, `$6` and `$7`: kind and key. */
const isPlanned = `flow = $1 and kind = any($2) and ($3 or due is not null)
  and ($4::text[] is null or sourcing_event = any($4)) and ($5::text[] is null or supplier = any($5))
  and ($6::text is null or (kind, key) = ($6, $7))`;

interface PlannedDocument extends FlowDocument {
  readonly due: Timestamp | null;
  readonly deliveredBody: string | null;
  readonly eventName: string | null;
  readonly supplierName: string | null;
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
  { limit, skip = 0, signal, ...filter }: PlanFilter & { limit: number; skip?: number; signal: AbortSignal },
): Promise<PlannedChange[]> {
  const { flow, connector, session, secrets } = deps.openFlow;
  const { batchMax, timeoutMs } = connector.capabilities;
  const calls = createConnectorCalls(session, { secrets, graceMs: deps.abortGraceMs });
  const processIdentity = deps.processIdentity ?? createProcessIdentity();
  const kinds = connector.capabilities.kinds.filter((kind) => flow.documents.includes(kind));
  const documents = await deps.database.query<PlannedDocument>(
    `select d.*, v.body as "deliveredBody", nullif(e.name, '') as "eventName", nullif(s.name, '') as "supplierName"
     from (
       select ${documentColumns}, due, row_number() over (
         order by array_position($2, kind), withdraws is not distinct from wanted, due, key) as place
       from bridge.flow_documents
       where ${isPlanned} order by place limit $8 offset $9) d
     left join bridge.document_versions v
       on v.flow = $1 and v.kind = d.kind and v.key = d.key and v.content_hash = d."deliveredHash"
     left join bridge.subjects e on e.source = $10 and e.kind = 'event' and e.id = d."sourcingEvent"
     left join bridge.subjects s on s.source = $10 and s.kind = 'supplier' and s.id = d.supplier
     order by d.place`,
    [...paramsOf(flow.name, kinds, filter), limit, skip, flow.source],
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
      const operation = operationFor(document, result.document, {
        wanted: result.wanted,
        nowMs: deps.clock.nowMs(),
      });
      if (operation) claimed.push({ document, operation, madeOf: result.madeOf });
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
    return batch.map(({ kind, key, due, eventName, supplierName, reference }) => ({
      kind,
      key,
      eventName,
      supplierName,
      reference,
      ...(planned.get(key) ?? { action: 'none', steps: [] }),
      ...(due !== null && due > now ? { notBefore: due } : {}),
    }));
  }
}

/** Returns how many documents `planFlow` returns without a limit. */
export async function countPlanned(
  { database, openFlow: { flow, connector } }: { database: Database; openFlow: OpenFlow },
  filter: PlanFilter,
): Promise<number> {
  const [row] = await database.query<{ count: number }>(
    `select count(*)::int as count from bridge.flow_documents where ${isPlanned}`,
    paramsOf(
      flow.name,
      connector.capabilities.kinds.filter((kind) => flow.documents.includes(kind)),
      filter,
    ),
  );
  return row?.count ?? 0;
}

function paramsOf(
  flow: string,
  kinds: readonly DocumentKind[],
  { all = false, events, suppliers, document }: PlanFilter,
): unknown[] {
  return [flow, kinds, all, events ?? null, suppliers ?? null, document?.kind ?? null, document?.key ?? null];
}

/** The differences between what was delivered and what would be written; none for a create and a cancellation. */
function differences(delivered: PlannedDocument | undefined, { action, document }: Operation): string[] {
  if (action !== 'amend') return [];
  if (!delivered?.deliveredBody) return ['what was delivered is not known in detail'];
  return documentDifferences(JSON.parse(delivered.deliveredBody) as Document, document);
}
