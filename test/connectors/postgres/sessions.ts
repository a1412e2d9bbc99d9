/** Sessions of the postgres connector on a test's own database, and operations to write through them. */
import { createHash, randomUUID } from 'node:crypto';
import type { FileContent, Operation, Outcome, Session } from '#connector/connector.ts';
import type { AwardDocument, Document } from '#connector/documents.ts';
import { testContext } from '#connector/testing/test-context.ts';
import connector from '../../../connectors/postgres/index.ts';
import { closeAtEnd } from '../../harness/close-at-end.ts';

export const never = new AbortController().signal;

/** Opens a session that is closed after the test file. */
export async function openSession(url: string, more: Record<string, unknown> = {}): Promise<Session> {
  const session = await connector.open(connector.settings.parse({ url, ...more }), testContext().context);
  let closed: Promise<void> | undefined;
  const close = () => {
    closed ??= session.close();
    return closed;
  };
  closeAtEnd(close);
  return { ...session, close };
}

export function operationOf(
  document: Document,
  {
    action = 'create',
    idempotencyKey = randomUUID(),
    file,
  }: Partial<Pick<Operation, 'action' | 'idempotencyKey'>> & { file?: FileContent } = {},
): Operation {
  return {
    action,
    document,
    contentHash: hashOf(document),
    idempotencyKey,
    reference: undefined,
    ...(file ? { file } : {}),
  };
}

export function hashOf(document: Document): string {
  return createHash('sha256').update(JSON.stringify(document)).digest('hex');
}

/** An award with one line per cost. */
export function award(
  number: number,
  costs: readonly string[] = ['12.50'],
  more: Partial<AwardDocument> = {},
): AwardDocument {
  return {
    kind: 'award',
    key: `event/${String(number).padStart(4, '0')}`,
    event: { id: 'event', name: 'Krzesła "biurowe"', type: 'RFQ', is_test: false, tags: [] },
    supplier: { id: `supplier-${number}`, name: '株式会社' },
    currency: 'EUR',
    exchange_rates: [],
    total_cost: costs[0] ?? '0',
    lines: costs.map((cost, index) => ({
      lot: `Lot ${index}`,
      share: '1',
      cost,
      values: [{ column: 'Price', value: cost }],
    })),
    ...more,
  };
}

/** The status of each outcome, or the type of its error. */
export function statuses(outcomes: readonly Outcome[]): string[] {
  return outcomes.map((outcome) => ('error' in outcome ? outcome.error.type : outcome.status));
}

export function messageOf(outcome: Outcome | undefined): string {
  return outcome && 'error' in outcome ? outcome.error.message : outcome && 'message' in outcome ? outcome.message : '';
}
