/**
 * Orderbook, the imaginary ERP of docs/writing-a-connector.md. Calls are POSTs with form fields. Answers are JSON,
 * always with status 200; errors are `ok: false` with an error code. It assigns its own ids, does not recognise
 * idempotency keys, and keeps amounts in minor units (cents) per order line. Sessions expire.
 */
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';

export interface Order {
  id: string;
  external_ref: string;
  vendor_name: string;
  currency: string;
  note: string;
  status: 'open' | 'void';
  lines: { text: string; amount_minor: string }[];
}

export interface Vendor {
  code: string;
  name: string;
  blocked: boolean;
  version: number;
}

export async function startOrderbook() {
  const orders = new Map<string, Order>();
  const vendors = new Map<string, Vendor>();
  let sessions = new Set<string>();
  let version = 0;
  const credentials = { user: 'bridge', password: 'orderbook-password' };

  const server = createServer((request, response) => {
    void answer(request).then((body) => {
      response.setHeader('content-type', 'application/json');
      response.end(JSON.stringify(body));
    });
  });

  async function answer(request: IncomingMessage): Promise<unknown> {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const form = new URLSearchParams(Buffer.concat(chunks).toString('utf8'));
    const call = (request.url ?? '').replace(/^\/api\//, '');
    if (call === 'session.open') {
      if (form.get('user') !== credentials.user || form.get('password') !== credentials.password)
        return { ok: false, error: { code: 'bad_credentials', text: 'user or password is wrong' } };
      const session = randomBytes(12).toString('hex');
      sessions.add(session);
      return { ok: true, session, expires_in: 600 };
    }
    if (!sessions.has(String(request.headers['x-session'])))
      return { ok: false, error: { code: 'session_expired', text: 'open a session first' } };
    switch (call) {
      case 'order.find': {
        const refs = new Set(form.getAll('external_ref'));
        return { ok: true, orders: [...orders.values()].filter((order) => refs.has(order.external_ref)) };
      }
      case 'order.create':
      case 'order.replace': {
        const lines = form.getAll('line_text').map((text, index) => ({
          text,
          amount_minor: form.getAll('line_amount_minor')[index] ?? '',
        }));
        const invalid = lines.find(({ amount_minor }) => !/^-?\d+$/.test(amount_minor));
        if (invalid)
          return { ok: false, error: { code: 'invalid', text: `amount of "${invalid.text}" is not an integer` } };
        if (form.get('note')?.includes('POISON'))
          return { ok: false, error: { code: 'invalid', text: 'note contains a forbidden word' } };
        const id = call === 'order.create' ? `ord_${orders.size + 1}` : String(form.get('id'));
        const old = orders.get(id);
        if (call === 'order.replace' && !old)
          return { ok: false, error: { code: 'not_found', text: `no order ${id}` } };
        orders.set(id, {
          id,
          external_ref: form.get('external_ref') ?? '',
          vendor_name: form.get('vendor_name') ?? '',
          currency: form.get('currency') ?? '',
          note: form.get('note') ?? '',
          status: 'open',
          lines,
        });
        return { ok: true, id };
      }
      case 'order.void': {
        const old = orders.get(String(form.get('id')));
        if (!old) return { ok: false, error: { code: 'not_found', text: 'no such order' } };
        old.status = 'void';
        return { ok: true, id: old.id };
      }
      case 'vendor.changes': {
        const since = Number(form.get('since') ?? 0);
        const found = [...vendors.values()]
          .filter((vendor) => vendor.version > since)
          .sort((a, b) => a.version - b.version);
        return { ok: true, vendors: found.slice(0, 50) };
      }
      default:
        return { ok: false, error: { code: 'unknown_call', text: call } };
    }
  }

  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    address: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    credentials,
    /** The orders with this reference that a user sees on the screens, without void ones. */
    openOrders: (reference: string) =>
      [...orders.values()].filter((order) => order.external_ref === reference && order.status === 'open'),
    changeVendor(name: string, blocked: boolean): Vendor {
      version += 1;
      const vendor = { code: `V-${version}`, name, blocked, version };
      vendors.set(vendor.code, vendor);
      return vendor;
    },
    expireSessions(): void {
      sessions = new Set();
    },
    async close(): Promise<void> {
      server.close();
      server.closeAllConnections();
      await once(server, 'close');
    },
  };
}
