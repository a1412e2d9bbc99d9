/** A stand-in with a session of the connector on it, and short documents. */
import { createHash, randomUUID } from 'node:crypto';
import type { Operation, Outcome, Session } from '#connector/connector.ts';
import type { AwardDocument, AwardLine, Document } from '#connector/documents.ts';
import { testContext } from '#connector/testing/test-context.ts';
import odoo from '../../../connectors/odoo/index.ts';
import { closeAtEnd } from '../../harness/close-at-end.ts';
import { users } from './stand-in/seed.ts';
import { databaseName, type OdooStandIn, type StandInOptions, startStandIn } from './stand-in/server.ts';

/** A signal that never aborts. */
export const never = new AbortController().signal;

export async function startErp(options: StandInOptions = {}): Promise<OdooStandIn> {
  const erp = await startStandIn(options);
  closeAtEnd(() => erp.close());
  erp.installed.product(10, 'A lot of an event', 'LOT', 1);
  erp.installed.create('res.partner', { name: 'Müller & Söhne KG', ref: 'V-1001', supplier_rank: 1 });
  return erp;
}

/** Settings for the stand-in, with a key of its connector's user. */
export function settingsOf(erp: OdooStandIn, more: Readonly<Record<string, unknown>> = {}): Record<string, unknown> {
  const api_key = erp.newKey(users.connector);
  return { url: erp.url, database: databaseName, api_key, product: 'LOT', ...more };
}

/** Closed after the test file. */
export async function openSession(erp: OdooStandIn, more: Readonly<Record<string, unknown>> = {}): Promise<Session> {
  const session = await odoo.open(odoo.settings.parse(settingsOf(erp, more)), testContext().context);
  closeAtEnd(() => session.close());
  return session;
}

export function operation(action: Operation['action'], document: Document, reference?: string): Operation {
  const contentHash = createHash('sha256').update(JSON.stringify(document)).digest('hex');
  return { action, document, contentHash, idempotencyKey: randomUUID(), reference };
}

/** Writes one operation. */
export async function write(
  session: Session,
  action: Operation['action'],
  document: Document,
  reference?: string,
): Promise<Outcome> {
  const [outcome] = await session.write([operation(action, document, reference)], never);
  return outcome as Outcome;
}

export function referenceOf(outcome: Outcome): string {
  if ('reference' in outcome) return outcome.reference;
  throw new Error(`There is no reference in ${JSON.stringify(outcome)}`);
}

export const idOf = (outcome: Outcome) => Number(referenceOf(outcome).split(',')[1]);

type Lot = Pick<AwardLine, 'lot' | 'quantity' | 'unit_price'> & Partial<AwardLine>;

/** An award to a vendor that the stand-in has, unless `more` names another one. */
export function awardOf(lots: readonly Lot[], more: Partial<AwardDocument> = {}): AwardDocument {
  const event = { id: randomUUID(), name: 'Office chairs', type: 'RFQ', is_test: false, tags: [] };
  const supplier = { id: randomUUID(), external_id: 'V-1001', name: 'Müller & Söhne KG' };
  return {
    kind: 'award',
    key: `${event.id}/${supplier.id}`,
    event,
    supplier,
    currency: 'EUR',
    exchange_rates: [],
    total_cost: '1',
    lines: lots.map((lot) => ({ share: '1', cost: lot.unit_price ?? '1', values: [], ...lot })),
    ...more,
  };
}

/** The same award with other lots. */
export function withLots(award: AwardDocument, lots: readonly Lot[]): AwardDocument {
  return { ...award, lines: awardOf(lots).lines };
}
