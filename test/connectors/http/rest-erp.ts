/**
 * An ERP for the tests, with a REST API in two styles: a URL for each document, and purchase orders that the ERP
 * numbers, that are found by a search, and that are still shown when they are cancelled. Logins are OAuth tokens.
 */
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { buffer } from 'node:stream/consumers';

export interface RestErp {
  readonly address: string;
  /** The object under a document's own URL. */
  stored(kind: string, key: string): StoredDocument | undefined;
  orders(externalKey: string): Order[];
  /** Changes what is stored under a document's own URL, or deletes it, as a user of the ERP does. */
  editStored(kind: string, key: string, document: StoredDocument['document'] | undefined): void;
  editOrder(number: string, changed: Partial<Order>): void;
  expireLogins(): void;
  /** Creates or changes a vendor, as a user of the ERP does. */
  saveVendor(vendor: Vendor): void;
  saveNeed(need: Need): void;
  deleteNeed(number: string): void;
  /** What it shows of the sourcing of a requisition. */
  sourcingOf(number: string): Sourcing | undefined;
  close(): Promise<void>;
}

export interface StoredDocument {
  readonly document: Readonly<Record<string, unknown>>;
  readonly bytes?: Uint8Array;
}

export interface Vendor {
  number: string;
  label: string;
  state: 'active' | 'blocked';
  town: string;
  people: { name: string; email: string }[];
}

/** A requisition. */
export interface Need {
  number: string;
  label: string;
  state: 'draft' | 'released';
  plant: { code: string };
  positions: { no: number; article: { text: string }; amount: number; unit: string }[];
}

/** What became of a requisition, in this ERP's own words. */
export interface Sourcing {
  progress: string;
  project?: { no: string; title: string; link?: string };
  problem?: string;
  remark: string;
}

export interface Order {
  number: string;
  status: 'open' | 'cancelled';
  externalKey: string;
  hash: string;
  title: string;
  vendor: { id: string; name: string };
  currency: string;
  /** Numbers keep each digit that was sent. */
  items: { lot: string; quantity?: string; price?: string }[];
  notes: string;
}

/** This ERP refuses longer titles. */
export const titleMax = 200;

/** Starts the ERP on a free port; it accepts logins of this client only. */
export async function startRestErp(client: { id: string; secret: string }): Promise<RestErp> {
  const documents = new Map<string, StoredDocument>();
  const orders = new Map<string, Order>();
  const vendors = new Map<string, Vendor & { changedMs: number }>();
  const needs = new Map<string, Need & { changedMs: number }>();
  const sourcing = new Map<string, Sourcing>();
  let tokens = new Set<string>();

  function send(response: ServerResponse, status: number, json?: unknown, headers: Record<string, string> = {}): void {
    if (json === undefined) response.writeHead(status, headers).end();
    else response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(json));
  }

  function login(request: IncomingMessage, response: ServerResponse): void {
    const [id, secret] = Buffer.from(request.headers.authorization?.slice('Basic '.length) ?? '', 'base64')
      .toString()
      .split(':')
      .map(decodeURIComponent);
    if (id !== client.id || secret !== client.secret) return send(response, 401, { error: 'invalid_client' });
    const token = randomUUID();
    tokens.add(token);
    return send(response, 200, { access_token: token, token_type: 'Bearer', expires_in: 3_600 });
  }

  async function byKey(path: string, request: IncomingMessage, body: Buffer<ArrayBuffer>, response: ServerResponse) {
    const held = documents.get(path);
    if (request.method === 'DELETE') return send(response, documents.delete(path) ? 204 : 404);
    if (request.method === 'GET') return held ? send(response, 200, held.document) : send(response, 404);
    const sent = await contentOf(request, body);
    if (titleOf(sent.document).length > titleMax) return refuse(response);
    documents.set(path, sent);
    return send(response, held ? 200 : 201, { done: true });
  }

  function refuse(response: ServerResponse): void {
    send(response, 422, { error: { text: `the title has more than ${titleMax} characters` } });
  }

  function order(url: URL, method: string, body: Buffer, response: ServerResponse): void {
    const [, , number = '', action] = url.pathname.split('/').map(decodeURIComponent);
    const held = orders.get(number);
    if (method === 'GET') {
      const found = [...orders.values()].filter(
        ({ externalKey }) => externalKey === url.searchParams.get('externalKey'),
      );
      return send(response, 200, { items: found });
    }
    if (number !== '' && !held) return send(response, 404, { error: { text: 'no such order' } });
    if (action === 'cancel' && held) {
      held.status = 'cancelled';
      return send(response, 200, { success: true });
    }
    const given = JSON.parse(body.toString('utf8').replaceAll(/"(quantity|price)":(-?[\d.]+)/g, '"$1":"$2"')) as Order;
    // Purchase orders answer errors with status 200.
    if (given.title.length > titleMax)
      return send(response, 200, { success: false, error: { text: `the title has more than ${titleMax} characters` } });
    if (held) {
      Object.assign(held, given, { status: 'open' });
      return send(response, 200, { success: true });
    }
    const created = { ...given, number: `PO-${orders.size + 1}`, status: 'open' as const };
    orders.set(created.number, created);
    return send(response, 201, { success: true }, { location: `/purchase-orders/${created.number}` });
  }

  /** Pages of two, by a cursor; those that have changed since a time. */
  function list(held: ReadonlyMap<string, { changedMs: number }>, url: URL, response: ServerResponse): void {
    const since = Date.parse(url.searchParams.get('changed_since') ?? '');
    const found = [...held.values()].filter(({ changedMs }) => changedMs >= since);
    return page(
      found.map(({ changedMs: _changed, ...entry }) => entry),
      url,
      response,
    );
  }

  function page(found: readonly object[], url: URL, response: ServerResponse): void {
    const from = Number(url.searchParams.get('cursor') ?? 0);
    const next = from + 2 < found.length ? { cursor: String(from + 2) } : {};
    return send(response, 200, { success: true, data: found.slice(from, from + 2), next });
  }

  /** `/needs/open`, and `/needs/{number}/sourcing`. */
  function ofNeeds(url: URL, body: Buffer, response: ServerResponse): void {
    const [, , number = '', part] = url.pathname.split('/').map(decodeURIComponent);
    if (number === 'open') {
      const open = [...needs].filter(([, { state }]) => state === 'released');
      return page(
        open.map(([no]) => ({ no })),
        url,
        response,
      );
    }
    if (part !== 'sourcing' || !needs.has(number)) return send(response, 404, { error: { text: 'no such need' } });
    sourcing.set(number, JSON.parse(body.toString('utf8')) as Sourcing);
    return send(response, 200, { success: true });
  }

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const body = await buffer(request);
    const url = new URL(request.url ?? '/', 'http://erp.example');
    const token = request.headers.authorization?.replace(/^Bearer /, '') ?? '';
    if (url.pathname === '/token') login(request, response);
    else if (!tokens.has(token)) send(response, 401, { error: { text: 'log in' } });
    else if (url.pathname.startsWith('/purchase-orders')) order(url, request.method ?? '', body, response);
    else if (url.pathname === '/vendors') list(vendors, url, response);
    else if (url.pathname === '/needs') list(needs, url, response);
    else if (url.pathname.startsWith('/needs/')) ofNeeds(url, body, response);
    else if (url.pathname === '/') send(response, 200, { success: true, name: 'REST ERP' });
    else await byKey(url.pathname, request, body, response);
  }

  const server = createServer((request, response) => {
    answer(request, response).catch((error: unknown) => send(response, 400, { error: { text: String(error) } }));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    address: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    stored: (kind, key) => documents.get(`/${kind}/${encodeURIComponent(key)}`),
    orders: (externalKey) =>
      [...orders.values()].filter((order) => order.externalKey === externalKey && order.status === 'open'),
    editStored: (kind, key, document) => {
      const path = `/${kind}/${encodeURIComponent(key)}`;
      if (document) documents.set(path, { ...documents.get(path), document });
      else documents.delete(path);
    },
    editOrder: (number, changed) => {
      Object.assign(orders.get(number) ?? {}, changed);
    },
    expireLogins: () => {
      tokens = new Set();
    },
    saveVendor: (vendor) => {
      // The list is in the order of the changes.
      vendors.delete(vendor.number);
      vendors.set(vendor.number, { ...vendor, changedMs: Date.now() });
    },
    saveNeed: (need) => {
      needs.delete(need.number);
      needs.set(need.number, { ...need, changedMs: Date.now() });
    },
    deleteNeed: (number) => {
      needs.delete(number);
    },
    sourcingOf: (number) => sourcing.get(number),
    close: async () => {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}

async function contentOf(request: IncomingMessage, body: Buffer<ArrayBuffer>): Promise<StoredDocument> {
  const type = request.headers['content-type'] ?? '';
  if (!type.startsWith('multipart/form-data')) return { document: JSON.parse(body.toString('utf8')) as never };
  const form = await new Response(body, { headers: { 'content-type': type } }).formData();
  const [document, file] = [form.get('document'), form.get('file')];
  if (!(document instanceof Blob) || !(file instanceof Blob)) throw new Error('a part is missing');
  return { document: JSON.parse(await document.text()) as never, bytes: new Uint8Array(await file.arrayBuffer()) };
}

function titleOf(document: Readonly<Record<string, unknown>>): string {
  const { event, name, question, type } = document as {
    event?: { name: string };
    name?: string;
    question?: { text?: string };
    type?: string;
  };
  return question?.text ?? event?.name ?? name ?? type ?? '';
}
