/** Sessions of the Tryton connector in a database of the test's own, and short documents. */
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

/** A signal that never aborts. */
export const never = new AbortController().signal;

export function settingsOf(database: TrytonDatabase, more: Record<string, unknown> = {}): unknown {
  const { login, password } = trytonUsers.connector;
  const url = new URL(database.url).origin;
  return tryton.settings.parse({ url, database: database.name, user: login, password, product: 'LOT', ...more });
}

export async function openSession(database: TrytonDatabase, more: Record<string, unknown> = {}): Promise<Session> {
  return tryton.open(settingsOf(database, more), testContext().context);
}

/** A new database, its administrator, and a session of the connector, which the caller closes. */
export async function openTestTryton() {
  const server = await startTestTryton();
  const database = await server.newDatabase();
  return { server, database, admin: await database.logIn('admin'), session: await openSession(database) };
}

/**
 * A proxy to Tryton that answers with a fault of Tryton's own: once for each of these methods, instead of Tryton's
 * answer. And instead of any call for which `replaces` returns true: that call does not reach Tryton.
 */
export async function startTrytonProxy(
  target: string,
  methods: readonly string[],
  replaces: (method: string) => Promise<boolean> | boolean = () => false,
) {
  const faults = new Set(methods);
  const server = createServer((request, response) => {
    void (async () => {
      const body = await buffer(request);
      const { method } = JSON.parse(body.toString('utf8')) as { method: string };
      const sendFault = () => response.writeHead(200, { 'content-type': 'application/json' }).end(fault);
      if (await replaces(method)) return void sendFault();
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
    /** The methods whose fault was not sent yet. */
    pendingFaults: () => [...faults],
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

/** The reference in a successful outcome or in a lookup's result. Throws for any other. */
export function referenceOf(outcome: Outcome | Found | Unclear | undefined): string {
  if (outcome && 'reference' in outcome) return outcome.reference;
  throw new Error(`There is no reference in ${JSON.stringify(outcome)}`);
}

export function idOf(outcome: Outcome): number {
  return Number(referenceOf(outcome).split(',')[1]);
}

export function messageOf(outcome: Outcome): string {
  if ('error' in outcome) return outcome.error.message;
  throw new Error(`There is no error in ${JSON.stringify(outcome)}`);
}

type Lot = Pick<AwardLine, 'lot' | 'quantity' | 'unit_price'> & Partial<AwardLine>;

/** An award to a supplier that Tryton has, unless `more` names another one. The cost of a lot is its unit price. */
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
