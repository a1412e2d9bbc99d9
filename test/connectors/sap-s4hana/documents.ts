/** Documents and operations for the tests of the SAP connector. */
import { createHash, randomUUID } from 'node:crypto';
import type { Operation } from '#connector/connector.ts';
import type { AwardDocument, AwardLine, Document } from '#connector/documents.ts';
import { suppliers } from '../../sap/seed-suppliers.ts';

/** A signal that never aborts. */
export const never = new AbortController().signal;

export function lineOf(lot: string, more: Partial<AwardLine> = {}): AwardLine {
  return { lot, share: '1', quantity: '4', unit_price: '2.5', cost: '10', values: [], ...more };
}

export function awardOf(more: Partial<AwardDocument> = {}): AwardDocument {
  const event = randomUUID();
  const [{ external, name }] = suppliers;
  return {
    kind: 'award',
    key: `${event}/${randomUUID()}`,
    event: { id: event, name: 'Steel', type: 'RFQ', is_test: false, tags: [] },
    supplier: { id: randomUUID(), external_id: external, name },
    currency: 'EUR',
    exchange_rates: [],
    total_cost: '10',
    lines: [lineOf('Sheets')],
    ...more,
  };
}

export function operationOf(action: Operation['action'], document: Document, reference?: string): Operation {
  const contentHash = createHash('sha256').update(JSON.stringify(document)).digest('hex');
  return { action, document, contentHash, idempotencyKey: randomUUID(), reference };
}
