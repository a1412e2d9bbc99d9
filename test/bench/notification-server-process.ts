/**
 * A server of notifications over HTTPS in a process of its own, as somebody writes it by hand. It reads the body, verifies
 * the HMAC and answers; `verify` does no more, `group` stores what arrives together in one INSERT before it answers, and
 * `insert` is Express with one INSERT a request.
 */
import { createHmac, timingSafeEqual } from 'node:crypto';
import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http';
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import express from 'express';
import { Pool } from 'pg';

export type ServerKind = 'verify' | 'group' | 'insert';

export interface ServerOrder {
  kind: ServerKind;
  signingKey: string;
  databaseUrl: string;
  certPem: string;
  keyPem: string;
}

/** A question and its answer: where it listens, and what it has used until now. */
export type ServerReport = { port: number } | { cpuMs: number; rss: number };

const insert = 'insert into public.notifications (received, body)';

process.on('message', (order: ServerOrder | 'usage') => {
  if (order === 'usage') {
    const { user, system } = process.cpuUsage();
    process.send?.({ cpuMs: (user + system) / 1000, rss: process.memoryUsage.rss() } satisfies ServerReport);
  } else void start(order).then((port) => process.send?.({ port } satisfies ServerReport));
});

process.on('disconnect', () => process.exit());

async function start(order: ServerOrder): Promise<number> {
  const pool = new Pool({ connectionString: order.databaseUrl });
  await pool.query(
    `create table if not exists public.notifications (
       id bigint generated always as identity primary key, received timestamptz not null, body text not null)`,
  );
  const server = createServer({ cert: order.certPem, key: order.keyPem }, listenerOf(order, pool));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return (server.address() as AddressInfo).port;
}

function listenerOf({ kind, signingKey }: ServerOrder, pool: Pool): RequestListener {
  const isGood = (request: IncomingMessage, body: Buffer) => {
    const expected = createHmac('sha256', signingKey).update(body).digest();
    const given = Buffer.from(String(request.headers['x-signature']).slice('hmac-sha256='.length), 'hex');
    return given.length === expected.length && timingSafeEqual(given, expected);
  };
  if (kind === 'insert') {
    const app = express();
    app.use(express.raw({ type: () => true }));
    app.post('/webhooks/main', async (request, response) => {
      const body = request.body as Buffer;
      if (!isGood(request, body)) {
        response.status(401).json({ status: 'refused' });
        return;
      }
      await pool.query(`${insert} values ($1, $2)`, [new Date(), body.toString()]);
      response.json({ status: 'accepted' });
    });
    return app;
  }
  const store = kind === 'group' ? groupCommit(pool) : undefined;
  return (request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const body = Buffer.concat(chunks);
      if (!isGood(request, body)) answer(response, 401, '{"status":"refused"}');
      else if (store) store(body, () => answer(response, 200, '{"status":"accepted"}'));
      else answer(response, 200, '{"status":"accepted"}');
    });
  };
}

function answer(response: ServerResponse, status: number, text: string): void {
  response.writeHead(status, { 'Content-Type': 'application/json', 'Content-Length': text.length }).end(text);
}

/** What arrives during a write shares the next one. */
function groupCommit(pool: Pool) {
  let waiting: { body: Buffer; stored: () => void }[] = [];
  let isWriting = false;
  const writeAll = async () => {
    while (waiting.length > 0) {
      const batch = waiting;
      waiting = [];
      await pool.query({
        name: 'store',
        text: `${insert} select $1, * from unnest($2::text[])`,
        values: [new Date(), batch.map(({ body }) => body.toString())],
      });
      for (const { stored } of batch) stored();
    }
    isWriting = false;
  };
  return (body: Buffer, stored: () => void) => {
    waiting.push({ body, stored });
    if (isWriting) return;
    isWriting = true;
    setImmediate(() => void writeAll());
  };
}
