/** A bare HTTP server for tests of requests: answers as each test says, and keeps what it was asked. */
import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { text } from 'node:stream/consumers';
import { onTestFinished } from 'vitest';

export interface Asked {
  readonly method: string;
  readonly url: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

export interface PlainServer {
  readonly url: string;
  readonly asked: Asked[];
  /** How many connections there were so far. */
  readonly connections: () => number;
  /** Resolves when so many requests have come. */
  until(count: number): Promise<void>;
}

type Answer = (response: ServerResponse, asked: Asked, number: number) => unknown;

/** Closed with the test. `answer` gets the request's number, from 1 on. */
export async function startPlainServer(answer: Answer): Promise<PlainServer> {
  const asked: Asked[] = [];
  const changed = new EventTarget();
  const sockets = new Set<Socket>();
  let connections = 0;
  const receive = async (request: IncomingMessage, response: ServerResponse) => {
    const body = await text(request).catch(() => '');
    const one = { method: request.method ?? '', url: request.url ?? '', headers: request.headers, body };
    asked.push(one);
    changed.dispatchEvent(new Event('asked'));
    await answer(response, one, asked.length);
  };
  const server = createServer((request, response) => void receive(request, response));
  server.on('connection', (socket) => {
    connections += 1;
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(async () => {
    for (const socket of sockets) socket.destroy();
    server.close();
    await once(server, 'close');
  });
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    asked,
    connections: () => connections,
    until: async (count) => {
      while (asked.length < count) await once(changed, 'asked');
    },
  };
}

export function giveJson(response: ServerResponse, status: number, body: unknown, headers: object = {}): void {
  response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(body));
}
