/**
 * The worker of a shadow flow. It makes each due document as the pusher would, asks the ERP what it holds, and writes
 * down what it would do and how that differs from what the live flow makes of the same records. It never calls `write`:
 * a shadow has no session that could (`read-only-session.ts`).
 *
 * Example: live flow `erp`, shadow `erp-new` with another mapping and the same connector settings.
 *
 *     12:00:00  award A-17 changes: it is due in both flows
 *     12:00:01  `erp` amends order 4711
 *     12:00:02  `erp-new` makes A-17, finds that it says `fields.plant: 2000` where `erp` says 1000, and writes down:
 *               would amend, differs
 *
 * Where both have the same ERP, it holds, or will hold, what the live flow makes: so that is compared, and the ERP is not
 * asked. Another ERP is asked by `lookup`. One row a document is kept.
 */
import type { RecordVersion } from '#bridge/assemble/made-of.ts';
import { recordVersionsMax } from '#bridge/assemble/made-of.ts';
import { type DocumentMade, type DocumentsMade, documentHash, makeDocuments } from '#bridge/assemble/make-documents.ts';
import type { OpenFlow } from '#bridge/flows/open-flows.ts';
import { type AcquireLease, type Lease, LeaseLost } from '#bridge/leases/lease.ts';
import { type ConnectorCalls, createConnectorCalls } from '#bridge/push/calls/connector-calls.ts';
import type { FlowDocument } from '#bridge/push/claim/flow-document-store.ts';
import { documentDifferences } from '#bridge/push/plan/document-differences.ts';
import { retrySchedules, retryWaitMs } from '#bridge/retry-schedules.ts';
import type { FlowSettings } from '#bridge/settings.ts';
import type { Found, Operation, Unclear } from '#connector/connector.ts';
import type { Document } from '#connector/documents.ts';
import { parseTimestamp, timestampFromMs } from '#contract/timestamp.ts';
import { type Clock, timestampNow } from '#platform/clock.ts';
import type { Database } from '#platform/database/database.ts';
import { errorText } from '#platform/errors.ts';
import type { Logger } from '#platform/log.ts';
import { timeOrderedId } from '#platform/time-ordered-id.ts';
import { hasSameErp } from './live-flow.ts';
import {
  type Examined,
  hasUnexamined,
  postponeExamination,
  readLiveHashes,
  readUnexamined,
  type ShadowAction,
  storeExamined,
} from './shadow-store.ts';

export interface ExaminationDeps {
  readonly openFlow: OpenFlow;
  /** The live flow to compare with; undefined where there is none. */
  readonly live: FlowSettings | undefined;
  readonly database: Database;
  readonly acquireLease: AcquireLease;
  readonly clock: Clock;
  readonly log: Logger;
  readonly abortGraceMs?: number;
}

const documentsMax = 100;
const differencesKept = 20;

/**
 * Creates the worker of a shadow. It examines everything that is due, and returns when nothing is, or another process
 * holds the flow's lease. A document about which the ERP could not be asked is tried again later.
 */
export function createExamination(deps: ExaminationDeps) {
  const { openFlow, database, clock, log } = deps;
  const { flow, session, secrets } = openFlow;
  const calls = createConnectorCalls(session, { secrets, graceMs: deps.abortGraceMs });
  const isDue = () => hasUnexamined(database, flow, timestampNow(clock));
  return async (signal: AbortSignal): Promise<void> => {
    while (!signal.aborted && !calls.isStuck() && (await isDue())) {
      const lease = await deps.acquireLease(`push/${flow.name}`);
      if (!lease) return;
      try {
        while (!signal.aborted && !calls.isStuck() && (await examineNext(deps, calls, lease, signal))) continue;
      } catch (error) {
        if (!(error instanceof LeaseLost)) throw error;
        log.warn({ flow: flow.name }, error.message);
        return;
      } finally {
        await lease.release();
      }
    }
  };
}

/** Examines the next documents, all of one kind; returns false when none is due. */
async function examineNext(
  deps: ExaminationDeps,
  calls: ConnectorCalls,
  lease: Lease,
  signal: AbortSignal,
): Promise<boolean> {
  const { openFlow, live, database, clock } = deps;
  const { flow, connector } = openFlow;
  const { batchMax, timeoutMs } = connector.capabilities;
  const kinds = connector.capabilities.kinds.filter((kind) => flow.documents.includes(kind));
  const due = await readUnexamined(database, flow, kinds, timestampNow(clock), Math.min(batchMax, documentsMax));
  if (due.length === 0) return false;
  const made = await makeDocuments(database, flow, due);
  const liveKind = live?.documents.some((kind) => kind === due[0]?.kind) ? live : undefined;
  // A document that there is no room to make now comes with the next batch; the first one is always made.
  const documents = due.filter(({ kind, key }) => made.has(`${kind} ${key}`));
  const liveMade: DocumentsMade = liveKind ? await makeAll(database, liveKind, documents) : new Map();
  const liveHashes = liveKind ? await readLiveHashes(database, liveKind.name, documents) : new Map<string, string>();
  const isSameErp = live !== undefined && hasSameErp(flow, live);
  const asked = documents.filter(({ kind, key }) => made.get(`${kind} ${key}`)?.made === 'document');
  const { held, failure } = await lease.during(async (lost) => {
    if (isSameErp || asked.length === 0) return { held: new Map<string, Found | Unclear>(), failure: undefined };
    const limit = { timeoutMs, signal: AbortSignal.any([signal, lost]) };
    const given = asked.map((document) => contentOf(made, document)).filter((each) => each !== undefined);
    return calls.lookup(given, limit).then(
      (found) => ({ held: found, failure: undefined }),
      (error: unknown) => ({ held: new Map<string, Found | Unclear>(), failure: errorText(error) }),
    );
  });
  const examined: Examined[] = [];
  const operations: Operation[] = [];
  const postponed: { document: FlowDocument; reason: string; waitMs: number }[] = [];
  for (const document of documents) {
    const place = `${document.kind} ${document.key}`;
    const result = made.get(place);
    if (!result) continue;
    const found = held.get(document.key);
    const reason = failure ?? (found && 'unclear' in found ? found.unclear : undefined);
    if (result.made === 'document' && !isSameErp && reason !== undefined) {
      postponed.push({ document, reason, waitMs: retryWaitMs(retrySchedules.document, document.attempts) });
      continue;
    }
    const ofLive = liveMade.get(place);
    const heldHash = isSameErp
      ? hashOfLive(ofLive, liveHashes.get(document.key))
      : found && 'reference' in found
        ? (found.contentHash ?? 'unknown')
        : null;
    const one = examinedOf(document, result, ofLive, heldHash);
    examined.push(one);
    const operation = operationOf(document, result, one.action, found, clock.nowMs());
    if (operation) operations.push(operation);
  }
  const planned = await planOf(deps, calls, lease, operations, signal);
  const now = timestampNow(clock);
  await lease.transaction(async (tx) => {
    await storeExamined(
      tx,
      flow.name,
      examined.map((one) => ({ ...one, steps: planned.get(one.document.key) ?? one.steps })),
      now,
    );
    await postponeExamination(
      tx,
      flow.name,
      postponed.map(({ document, reason, waitMs }) => ({
        document,
        reason,
        due: timestampFromMs(clock.nowMs() + waitMs),
      })),
    );
  });
  return true;
}

/** Makes these documents by the live flow's settings; in several steps where there is no room for all at once. */
async function makeAll(
  database: Database,
  live: FlowSettings,
  documents: readonly FlowDocument[],
): Promise<DocumentsMade> {
  const all: DocumentsMade = new Map();
  for (let open = documents; open.length > 0; open = open.filter(({ kind, key }) => !all.has(`${kind} ${key}`)))
    for (const [place, result] of await makeDocuments(database, live, open)) all.set(place, result);
  return all;
}

function contentOf(made: DocumentsMade, { kind, key }: FlowDocument): Document | undefined {
  const result = made.get(`${kind} ${key}`);
  return result?.made === 'document' ? result.document : undefined;
}

/** What the ERP holds once the live flow is through; where it makes no document, what it has delivered. */
function hashOfLive(ofLive: DocumentMade | undefined, delivered: string | undefined): string | null {
  if (ofLive?.made !== 'document') return delivered ?? null;
  return ofLive.wanted ? documentHash(ofLive.document) : null;
}

function examinedOf(
  document: FlowDocument,
  result: DocumentMade,
  ofLive: DocumentMade | undefined,
  heldHash: string | null,
): Examined {
  const live = ofLive === undefined ? 'none' : ofLive.made !== 'document' ? ofLive.made : wordOf(ofLive.wanted);
  const changed = newestOf(result.madeOf);
  if (result.made !== 'document') {
    const action = result.made === 'rejected' ? 'reject' : result.made === 'held' ? 'hold' : 'wait';
    const differs = live !== result.made && live !== 'none';
    return {
      document,
      action,
      steps: [result.reason],
      differs,
      differences: [],
      live,
      contentHash: null,
      changed,
    };
  }
  const contentHash = documentHash(result.document);
  const action = actionOf(result.wanted, contentHash, heldHash);
  const isSameState = ofLive?.made === 'document' && ofLive.wanted === result.wanted;
  const differences =
    isSameState && result.wanted ? documentDifferences(ofLive.document, result.document) : ([] as string[]);
  return {
    document,
    action,
    steps: [],
    differs: live !== 'none' && (!isSameState || differences.length > 0),
    differences: firstOf(differences),
    live,
    contentHash: result.wanted ? contentHash : null,
    changed,
  };
}

function wordOf(wanted: boolean): 'document' | 'withdrawn' {
  return wanted ? 'document' : 'withdrawn';
}

function actionOf(wanted: boolean, contentHash: string, heldHash: string | null): ShadowAction {
  if (!wanted) return heldHash === null ? 'none' : 'cancel';
  if (heldHash === null) return 'create';
  return heldHash === contentHash ? 'none' : 'amend';
}

function firstOf(lines: readonly string[]): string[] {
  if (lines.length <= differencesKept) return [...lines];
  return [...lines.slice(0, differencesKept - 1), `and ${lines.length - differencesKept + 1} more`];
}

/** Null where a record has no readable stamp, or where not all versions are known: it then counts as just changed. */
function newestOf(versions: readonly RecordVersion[]): string | null {
  if (versions.length === 0 || versions.length >= recordVersionsMax) return null;
  let newest = '';
  for (const { modified } of versions) {
    const read = modified === undefined ? undefined : parseTimestamp(modified);
    if (read === undefined) return null;
    if (read > newest) newest = read;
  }
  return newest;
}

function operationOf(
  document: FlowDocument,
  result: DocumentMade,
  action: ShadowAction,
  found: Found | Unclear | undefined,
  nowMs: number,
): Operation | undefined {
  if (result.made !== 'document' || (action !== 'create' && action !== 'amend' && action !== 'cancel'))
    return undefined;
  return {
    action,
    document: result.document,
    contentHash: documentHash(result.document),
    idempotencyKey: timeOrderedId(nowMs),
    reference: found && 'reference' in found ? found.reference : (document.reference ?? undefined),
  };
}

/** What the connector says that it would do, by key; a plan that fails is said in its place. */
async function planOf(
  { openFlow }: ExaminationDeps,
  calls: ConnectorCalls,
  lease: Lease,
  operations: readonly Operation[],
  signal: AbortSignal,
): Promise<Map<string, string[]>> {
  if (operations.length === 0) return new Map();
  const { timeoutMs } = openFlow.connector.capabilities;
  return lease.during(async (lost) => {
    try {
      const planned = await calls.plan(operations, { timeoutMs, signal: AbortSignal.any([signal, lost]) });
      return new Map([...(planned ?? [])].map(([key, { steps }]) => [key, firstOf(steps)]));
    } catch (error) {
      return new Map(
        operations.map(({ document }) => [document.key, [`the connector's plan failed: ${errorText(error)}`]]),
      );
    }
  });
}
