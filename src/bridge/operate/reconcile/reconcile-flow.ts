/**
 * Compares what a flow has delivered with what its ERP holds now, a page after another. It only reads: a daemon may push
 * meanwhile, and a document that is written while it is compared is `unclear`, never different.
 *
 * Example: the flow `erp` has delivered A-1 as order 4711 and A-2 as 4712, and has withdrawn A-3; batchMax is 2.
 *
 *     page 1     readBack: 4711 has price 1.7 instead of 1.5, 4712 is not there
 *                         commits: position A-2; A-1 changed (lines[M8].price), A-2 missing
 *     page 2   A-3        lookup: the ERP holds it all the same; commits: position A-3; A-3 orphaned
 *     page 3   none       commits: the run has ended
 *
 * A process that dies before a commit leaves the position before the page, and the next one compares that page again.
 */

import { createConnectorCalls } from '#bridge/connectors/connector-calls.ts';
import type { OpenFlow } from '#bridge/connectors/open-flows.ts';
import { unknownContent } from '#bridge/ledger/flows/flow-document-store.ts';
import { RateLimited } from '#connector/errors.ts';
import { comparedValuesOf, isDifferent, type ReadBack, type TakenDocument } from '#connector/read-back.ts';
import { type Clock, timestampNow } from '#platform/clock.ts';
import type { Database } from '#platform/database/database.ts';
import type { FindingName } from './finding-names.ts';
import {
  type ComparedPage,
  type ComparedState,
  endReconciliation,
  type LedgerDocument,
  type LedgerFinding,
  type Reconciliation,
  readLedgerPage,
  readMoved,
  storeComparedPage,
} from './reconciliation-store.ts';

export interface ReconcileDeps {
  readonly database: Database;
  readonly openFlow: OpenFlow;
  readonly clock: Clock;
  readonly abortGraceMs?: number;
  /** Called after each page. */
  readonly onPage?: (run: Reconciliation) => void;
}

/** So often in a row a page is tried, or the ERP's limit is waited for, before the run stops; it can be resumed. */
const triesMax = 5;
const retryMs = 1_000;
/** The longest wait that an ERP's limit may ask for; a longer one stops the run, to be resumed later. */
const waitMaxMs = 10 * 60_000;

/**
 * Goes on with the run until everything is compared, and returns it. Rejects when the ERP cannot be read, when `signal`
 * aborts, and with AppError `conflict` when another process goes on with the run: what was compared until then stays,
 * and the next call goes on after it.
 */
export async function reconcileFlow(
  deps: ReconcileDeps,
  begun: Reconciliation,
  signal: AbortSignal,
): Promise<Reconciliation> {
  const { database, clock } = deps;
  const { flow, connector, session, secrets } = deps.openFlow;
  const { batchMax, timeoutMs, readsBack = [] } = connector.capabilities;
  const calls = createConnectorCalls(session, { secrets, graceMs: deps.abortGraceMs });
  const kinds = connector.capabilities.kinds.filter((kind) => flow.documents.includes(kind));
  const limit = { timeoutMs, signal };
  let run = begun;
  for (;;) {
    signal.throwIfAborted();
    const page = await readLedgerPage(database, run, kinds, batchMax);
    const last = page.at(-1);
    if (!last) break;
    const compared = await comparePage(page);
    const moved = await readMoved(database, run.flow, page);
    run = await storeComparedPage(database, run, pageOf(page, compared, moved, last));
    deps.onPage?.(run);
  }
  return endReconciliation(database, run, timestampNow(clock));

  /** What the ERP holds, by key. */
  async function comparePage(page: readonly LedgerDocument[]): Promise<Map<string, Compared>> {
    const compared = new Map<string, Compared>();
    const toRead: TakenDocument[] = [];
    const toLookUp: LedgerDocument[] = [];
    for (const entry of page) {
      const { key, document, deliveredHash, reference, kind, isUncertain } = entry;
      if (isUncertain) compared.set(key, { finding: 'unclear', reason: underWay });
      else if (document === null || deliveredHash === unknownContent)
        compared.set(key, { finding: 'not compared', reason: 'the bridge has not kept what was delivered' });
      else if (deliveredHash !== null && readsBack.includes(kind))
        toRead.push({ document, reference: reference ?? undefined });
      else toLookUp.push(entry);
    }
    if (toRead.length > 0)
      for (const answer of await patiently(() => calls.readBack(toRead, limit))) compared.set(answer.key, answer);
    const documents = toLookUp.flatMap(({ document }) => document ?? []);
    if (documents.length === 0) return compared;
    const found = await patiently(() => calls.lookup(documents, limit));
    for (const { key, deliveredHash } of toLookUp) compared.set(key, ofLookup(found.get(key), deliveredHash));
    return compared;
  }

  /** Waits as long as the ERP asks for, and tries again after another failure; throws the last one. */
  async function patiently<T>(call: () => Promise<T>): Promise<T> {
    for (let tries = 1; ; tries += 1)
      try {
        return await call();
      } catch (error) {
        const waitMs = error instanceof RateLimited ? (error.retryAfterMs ?? retryMs * 10) : retryMs * 2 ** (tries - 1);
        if (signal.aborted || tries === triesMax || waitMs > waitMaxMs || calls.isStuck()) throw error;
        await clock.sleep(waitMs, signal);
      }
  }
}

const underWay = 'a call for it was under way; it is compared by the next run';

/** A finding that needs no read-back; `same`: the ERP holds nothing of a withdrawn document. */
type Compared =
  | ReadBack
  | { readonly finding: FindingName | 'same'; readonly reason?: string; readonly reference?: string };

/** The ERP says only whether it holds an object, and not what is in it. */
function ofLookup(found: object | undefined, deliveredHash: string | null): Compared {
  if (found && 'unclear' in found) return { finding: 'unclear', reason: String(found.unclear) };
  const reference = found && 'reference' in found ? { reference: String(found.reference) } : {};
  if (deliveredHash === null)
    return found
      ? { finding: 'orphaned', ...reference, reason: 'it was withdrawn, and the ERP holds it' }
      : { finding: 'same' };
  if (!found) return { finding: 'missing' };
  return {
    finding: 'not compared',
    ...reference,
    reason: 'the connector does not read it back; the ERP holds an object of it',
  };
}

function pageOf(
  page: readonly LedgerDocument[],
  compared: ReadonlyMap<string, Compared>,
  moved: ReadonlySet<string>,
  last: LedgerDocument,
): ComparedPage {
  const findings: LedgerFinding[] = [];
  const states: ComparedState[] = [];
  let asDelivered = 0;
  let comparedValues = 0;
  for (const entry of page) {
    const answer = moved.has(entry.key) ? { finding: 'unclear' as const, reason: underWay } : compared.get(entry.key);
    const found = findingsOf(entry, answer);
    if (answer && 'status' in answer && answer.status === 'held') comparedValues += comparedValuesOf(answer);
    const differing =
      found.find(({ finding }) => finding !== 'not compared') ?? (isHeldAsDelivered(answer) ? null : found[0]);
    if (!differing) asDelivered += 1;
    findings.push(...found);
    states.push({ kind: entry.kind, state: differing?.finding ?? 'as delivered', ...amountOf(entry) });
  }
  return { last, documents: page.length, asDelivered, comparedValues, findings, states };
}

/** Only an award says what it is worth; what was withdrawn is worth nothing. */
function amountOf({ document, deliveredHash }: LedgerDocument): Pick<ComparedState, 'currency' | 'amount'> {
  if (document?.kind !== 'award' || deliveredHash === null) return { currency: null, amount: null };
  return { currency: document.currency, amount: document.total_cost };
}

function isHeldAsDelivered(answer: Compared | undefined): boolean {
  return answer !== undefined && ('status' in answer ? answer.status === 'held' : answer.finding === 'same');
}

function findingsOf(entry: LedgerDocument, answer: Compared | undefined): LedgerFinding[] {
  const of = (finding: FindingName, more: Partial<LedgerFinding> = {}): LedgerFinding => ({
    kind: entry.kind,
    key: entry.key,
    finding,
    reference: entry.reference,
    field: null,
    expected: null,
    held: null,
    changedBy: null,
    changedAt: null,
    reason: null,
    ...more,
  });
  if (!answer) return [of('unclear', { reason: 'the connector has not answered for it' })];
  if ('finding' in answer)
    return answer.finding === 'same'
      ? []
      : [of(answer.finding, { reason: answer.reason ?? null, reference: answer.reference ?? entry.reference })];
  if (answer.status === 'unclear') return [of('unclear', { reason: answer.reason })];
  if (answer.status !== 'held') return [of(answer.status)];
  const { fields, notCompared = [], changed, reference } = answer;
  const who = { reference, changedBy: changed?.by ?? null, changedAt: changed?.at ?? null };
  return [
    ...fields
      .filter(isDifferent)
      .map(({ name, expected, held }) => of('changed', { ...who, field: name, ...shown(expected, held) })),
    ...notCompared.map((what) =>
      of('not compared', { reference, field: what, reason: 'the connector cannot compare it' }),
    ),
  ];
}

const shownMax = 500;

/** Long texts from shortly before the first character in which they differ. */
function shown(expected: string | undefined, held: string | undefined): Pick<LedgerFinding, 'expected' | 'held'> {
  const [a, b] = [expected ?? '', held ?? ''];
  let at = 0;
  while (at < a.length && at < b.length && a[at] === b[at]) at += 1;
  const from = Math.max(a.length, b.length) <= shownMax ? 0 : Math.max(0, at - 40);
  const part = (text: string | undefined) =>
    text === undefined ? null : `${from > 0 ? '…' : ''}${text.slice(from, from + shownMax).toWellFormed()}`;
  return { expected: part(expected), held: part(held) };
}
