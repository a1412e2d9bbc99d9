/** Sessions of the Tryton connector on a test's own database, and documents that are short enough to be read. */
import { createHash, randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { buffer } from 'node:stream/consumers';
import type { Found, Operation, Outcome, Session, Unclear } from '#connector/connector.ts';
import type { AwardDocument, AwardLine, Document } from '#connector/documents.ts';
import { testContext } from '#connector/testing/test-context.ts';
import tryton from '../../../connectors/tryton/index.ts';
import { startTestTryton } from '../../tryton/tryton-in-tests.ts';
import { type TrytonDatabase, trytonUsers } from '../../tryton/tryton-server.ts';

export const never = new AbortController().signal;

export function settingsOf(database: TrytonDatabase, more: Record<string, unknown> = {}): unknown {
  const { login, password } = trytonUsers.connector;
  const url = new URL(database.url).origin;
  return tryton.settings.parse({ url, database: database.name, user: login, password, product: 'LOT', ...more });
}

export async function openSession(database: TrytonDatabase, more: Record<string, unknown> = {}): Promise<Session> {
  return tryton.open(settingsOf(database, more), testContext().context);
}

/** A database of its own, who may do everything there, and a session of the connector, which is the caller's to close. */
export async function openTestTryton() {
  const server = await startTestTryton();
  const database = await server.newDatabase();
  return { server, database, admin: await database.logIn('admin'), session: await openSession(database) };
}

/**
 * A way to Tryton on which the first answer to each method of these is lost, and a fault of Tryton's own comes instead.
 * `before` is run before a call gets to Tryton; where it gives true, the fault comes instead of the call.
 */
export async function openFaultyWay(
  target: string,
  methods: readonly string[],
  before: (method: string) => Promise<boolean> | boolean = () => false,
) {
  const faults = new Set(methods);
  const server = createServer((request, response) => {
    void (async () => {
      const body = await buffer(request);
      const { method } = JSON.parse(body.toString('utf8')) as { method: string };
      const sendFault = () => response.writeHead(200, { 'content-type': 'application/json' }).end(fault);
      if (await before(method)) return void sendFault();
      const { authorization = '' } = request.headers;
      const headers = { 'content-type': 'application/json', ...(authorization === '' ? {} : { authorization }) };
      const answer = await fetch(new URL(request.url ?? '/', target), { method: 'POST', headers, body });
      const text = await answer.text();
      if (faults.delete(method)) return void sendFault();
      response.writeHead(answer.status, { 'content-type': 'application/json' }).end(text);
    })().catch(() => response.destroy());
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    /** Methods whose fault has not come yet. */
    left: () => [...faults],
    close: async () => {
      const closed = once(server, 'close');
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
}

const fault = JSON.stringify({ id: 0, error: ['no such queue', ''] });

export function operation(action: Operation['action'], document: Document, reference?: string): Operation {
  const contentHash = createHash('sha256').update(JSON.stringify(document)).digest('hex');
  return { action, document, contentHash, idempotencyKey: randomUUID(), reference };
}

/** One operation, alone. */
export async function write(
  session: Session,
  action: Operation['action'],
  document: Document,
  reference?: string,
): Promise<Outcome> {
  const [outcome] = await session.write([operation(action, document, reference)], never);
  return outcome as Outcome;
}

/** Of one that was done, or found. */
export function referenceOf(outcome: Outcome | Found | Unclear | undefined): string {
  if (outcome && 'reference' in outcome) return outcome.reference;
  throw new Error(`It was not done, or not found: ${JSON.stringify(outcome)}`);
}

export function idOf(outcome: Outcome): number {
  return Number(referenceOf(outcome).split(',')[1]);
}

export function messageOf(outcome: Outcome): string {
  if ('error' in outcome) return outcome.error.message;
  throw new Error(`It was no error: ${JSON.stringify(outcome)}`);
}

type Lot = Pick<AwardLine, 'lot' | 'quantity' | 'unit_price'> & Partial<AwardLine>;

/** An award to a supplier that Tryton has, unless `more` names another; the cost is that of a unit. */
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
