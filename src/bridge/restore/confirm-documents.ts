/**
 * Asks the ERP about every document of a flow after a restore, before the flow sends anything: what the ERP holds becomes
 * the ledger. Nothing is written to the ERP. Example: the database is empty, the ERP holds orders 4711 and 4712.
 *
 *     13:11:00  the source was read; documents are uncertain, the flow is held (`follow-restore.ts`)
 *     13:11:01  `lookup`: A-17 is 4711 with the same content, A-18 is 4712 with another, A-19 is not there
 *     13:11:01  one transaction: A-17 is in step; the ledger knows 4712, and its content; the cursor stands at A-19
 *     13:11:02  the end: the flow is let go. A-18 is amended, A-19 is created, A-17 is left alone
 *
 * A process that dies leaves the cursor: the next one goes on from there. A document of which the ERP cannot say what it
 * holds stays uncertain: it is asked about again before it is written, and does not hold the others up. While the ERP
 * says nothing of any document of a page, the page is asked for again.
 */
import { makeDocuments } from '#bridge/assemble/make-documents.ts';
import type { OpenFlow } from '#bridge/flows/open-flows.ts';
import { type AcquireLease, type Lease, LeaseLost } from '#bridge/leases/lease.ts';
import type { ProcessIdentity } from '#bridge/leases/process-identity.ts';
import { lookUpDocuments } from '#bridge/push/batch/look-up-documents.ts';
import { type ConnectorCalls, createConnectorCalls } from '#bridge/push/calls/connector-calls.ts';
import type { Claimed } from '#bridge/push/claim/claim-documents.ts';
import { isUntried, operationFor } from '#bridge/push/claim/decide-operation.ts';
import { documentColumns, type FlowDocument, forgetUntried } from '#bridge/push/claim/flow-document-store.ts';
import { settleOutcomes, type TimedSettled } from '#bridge/push/settle/settle-outcomes.ts';
import type { FlowSettings } from '#bridge/settings.ts';
import { storableText } from '#bridge/storable-text.ts';
import type { DocumentKind } from '#connector/documents.ts';
import type { Clock } from '#platform/clock.ts';
import type { Database } from '#platform/database/database.ts';
import type { Sql } from '#platform/database/sql.ts';
import type { Logger } from '#platform/log.ts';
import { timeOrderedId } from '#platform/time-ordered-id.ts';

export interface ConfirmationDeps {
  readonly openFlow: OpenFlow;
  readonly database: Database;
  readonly acquireLease: AcquireLease;
  readonly processIdentity: ProcessIdentity;
  readonly clock: Clock;
  readonly log: Logger;
  readonly abortGraceMs?: number;
}

const documentsMax = 200;
/** The wait before a page is asked for again of which the ERP has said nothing. */
const againMs = 1_000;

const isHeld = `name = $1 and restored is not null and confirmed_kind is not null`;

/** Returns the names of those of these flows of which documents are to be confirmed. */
export async function flowsToConfirm(sql: Sql, flows: readonly FlowSettings[]): Promise<string[]> {
  const rows = await sql.query<{ name: string }>(
    `select name from bridge.flows where name = any($1) and restored is not null and confirmed_kind is not null
     order by name`,
    [flows.map(({ name }) => name)],
  );
  return rows.map(({ name }) => name);
}

/**
 * Creates the worker that confirms a flow's documents. It returns when nothing is to be confirmed, or cannot be now; true
 * when it has asked the ERP.
 */
export function createConfirmation(deps: ConfirmationDeps) {
  const { openFlow, database, log } = deps;
  const { flow, session, secrets } = openFlow;
  const calls = createConnectorCalls(session, { secrets, graceMs: deps.abortGraceMs });
  return async (signal: AbortSignal): Promise<boolean> => {
    if (calls.isStuck() || (await flowsToConfirm(database, [flow])).length === 0) return false;
    const lease = await deps.acquireLease(`push/${flow.name}`);
    if (!lease) return false;
    try {
      while (!signal.aborted && !calls.isStuck() && (await confirmNext(deps, calls, lease, signal))) continue;
    } catch (error) {
      if (!(error instanceof LeaseLost)) throw error;
      log.warn({ flow: flow.name }, error.message);
    } finally {
      await lease.release();
    }
    return true;
  };
}

/** Confirms one page; returns false when the flow is let go, or the ERP cannot be asked now. */
async function confirmNext(
  deps: ConfirmationDeps,
  calls: ConnectorCalls,
  lease: Lease,
  signal: AbortSignal,
): Promise<boolean> {
  const { openFlow, database, clock, processIdentity, log } = deps;
  const { flow, connector } = openFlow;
  const { capabilities } = connector;
  const kinds = capabilities.kinds.filter((kind) => flow.documents.includes(kind));
  const page = await readPage(database, flow.name, kinds, Math.min(capabilities.batchMax, documentsMax));
  if (page.length === 0) {
    await lease.transaction((tx) => letGo(tx, flow.name));
    log.info({ flow: flow.name }, 'the ERP was asked about every document after the restore: it is delivered to again');
    return false;
  }
  const made = await makeDocuments(database, flow, page);
  const documents = page.filter(({ kind, key }) => made.has(`${kind} ${key}`));
  const startedMs = clock.nowMs();
  const claimed = documents.flatMap((document): Claimed[] => {
    const result = made.get(`${document.kind} ${document.key}`);
    if (result?.made !== 'document') return [];
    const operation = operationFor(document, result.document, { wanted: result.wanted, nowMs: startedMs });
    return operation ? [{ document, operation, madeOf: result.madeOf }] : [];
  });
  const { settled, remaining } = await lease.during((lost) =>
    lookUpDocuments({ connector, calls, processIdentity }, claimed, startedMs, {
      timeoutMs: capabilities.timeoutMs,
      signal: AbortSignal.any([signal, lost]),
    }),
  );
  const unknown = settled.filter(({ outcome }) => outcome.status === 'unknown');
  const waits = unknown.some(({ step }) => step === 'wait');
  if (waits || (unknown.length > 0 && unknown.length === claimed.length)) {
    const [first] = unknown;
    const why = first && 'message' in first.outcome ? first.outcome.message : 'no reason known';
    await lease.transaction((tx) => noteError(tx, flow.name, why));
    await clock.sleep(againMs, signal).catch(() => undefined);
    return false;
  }
  const endedMs = clock.nowMs();
  const inStep: TimedSettled[] = settled
    .filter(({ outcome }) => outcome.status === 'unchanged')
    .map((entry) => ({ ...entry, attemptId: timeOrderedId(endedMs), startedMs, endedMs }));
  const absent = settled.filter(({ outcome }) => outcome.status === 'cancelled');
  const last = documents.at(-1);
  await lease.transaction(async (tx) => {
    await settleOutcomes(tx, flow, inStep, endedMs);
    await noteAbsent(
      tx,
      flow.name,
      absent.map(({ document }) => document),
    );
    await noteHeld(
      tx,
      flow.name,
      remaining.map(({ document }) => document),
    );
    if (last) await moveCursor(tx, flow.name, last);
  });
  return true;
}

/** The next uncertain documents after the cursor, all of one kind. */
async function readPage(
  sql: Sql,
  flow: string,
  kinds: readonly DocumentKind[],
  limit: number,
): Promise<FlowDocument[]> {
  const rows = await sql.query<FlowDocument>(
    `select ${documentColumns} from bridge.flow_documents d
     where flow = $1 and kind = any($2) and uncertain_since is not null
       and (kind, key) > (select confirmed_kind, confirmed_key from bridge.flows where ${isHeld})
     order by kind, key limit $3`,
    [flow, kinds, limit],
  );
  return rows.filter(({ kind }) => kind === rows[0]?.kind);
}

/** The ERP holds nothing, and nothing is wanted. What nothing says was ever sent is forgotten (`mark-possible.ts`). */
async function noteAbsent(tx: Sql, flow: string, documents: readonly FlowDocument[]): Promise<void> {
  await forgetUntried(tx, flow, documents.filter(isUntried));
  const others = documents.filter((document) => !isUntried(document));
  if (others.length === 0) return;
  await tx.query(
    `update bridge.flow_documents d
     set delivered_hash = null, due = null, waiting_since = null, reconciled = o.wanted, ${settledColumns}
     from unnest($2::text[], $3::text[], $4::bigint[]) as o (kind, key, wanted)
     where d.flow = $1 and d.kind = o.kind and d.key = o.key and d.wanted = o.wanted`,
    [flow, ...columnsOf(others)],
  );
}

/** What the ERP holds differs from what is wanted: the ledger knows it now, and the document stays due. */
async function noteHeld(tx: Sql, flow: string, documents: readonly FlowDocument[]): Promise<void> {
  if (documents.length === 0) return;
  await tx.query(
    `update bridge.flow_documents d
     set delivered_hash = o.hash, reference = o.reference, delivered = case when o.hash is null then d.delivered else now() end,
       ${settledColumns}
     from unnest($2::text[], $3::text[], $4::bigint[], $5::text[], $6::text[]) as o (kind, key, wanted, hash, reference)
     where d.flow = $1 and d.kind = o.kind and d.key = o.key and d.wanted = o.wanted`,
    [
      flow,
      ...columnsOf(documents),
      documents.map(({ deliveredHash }) => deliveredHash),
      documents.map(({ reference }) => reference),
    ],
  );
}

/** A document that changed since it was made (another `wanted`) stays uncertain, and is asked about before it is sent. */
const settledColumns = `uncertain_since = null, intent_id = null, intent_hash = null, intent_at = null,
  intent_by = null, intent_limit_ms = 0, call_ended = null, call_answered = false, withdraws = null`;

function columnsOf(documents: readonly FlowDocument[]): unknown[] {
  return [documents.map(({ kind }) => kind), documents.map(({ key }) => key), documents.map(({ wanted }) => wanted)];
}

async function moveCursor(tx: Sql, flow: string, { kind, key }: FlowDocument): Promise<void> {
  await tx.query(
    `update bridge.flows set confirmed_kind = $2, confirmed_key = $3, confirm_error = null where ${isHeld}`,
    [flow, kind, key],
  );
}

async function noteError(tx: Sql, flow: string, why: string): Promise<void> {
  await tx.query(`update bridge.flows set confirm_error = $2 where ${isHeld}`, [flow, storableText(why)]);
}

async function letGo(tx: Sql, flow: string): Promise<void> {
  await tx.query(
    `update bridge.flows set restored = null, confirmed_kind = null, confirmed_key = null, confirm_error = null
     where ${isHeld}`,
    [flow],
  );
}
