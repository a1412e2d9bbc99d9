/** A plain HTTP server for tests of requests: the test answers each request, and the server records them. */
import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { text } from 'node:stream/consumers';
import { onTestFinished } from 'vitest';

export interface ReceivedRequest {
  readonly method: string;
  readonly url: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

export interface PlainServer {
  readonly url: string;
  readonly requests: ReceivedRequest[];
  /** The number of connections that were opened so far. */
  readonly connections: () => number;
  /** Resolves when `count` requests have arrived. */
  until(count: number): Promise<void>;
}

type Answer = (response: ServerResponse, request: ReceivedRequest, number: number) => unknown;

/** Starts a server that is closed at the end of the test. `answer` gets the number of the request, counted from 1. */
export async function startPlainServer(answer: Answer): Promise<PlainServer> {
  const requests: ReceivedRequest[] = [];
  const changed = new EventTarget();
  const sockets = new Set<Socket>();
  let connections = 0;
  const receive = async (request: IncomingMessage, response: ServerResponse) => {
    const body = await text(request).catch(() => '');
    const received = { method: request.method ?? '', url: request.url ?? '', headers: request.headers, body };
    requests.push(received);
    changed.dispatchEvent(new Event('request'));
    await answer(response, received, requests.length);
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
    requests,
    connections: () => connections,
    until: async (count) => {
      while (requests.length < count) await once(changed, 'request');
    },
  };
}

export function answerJson(response: ServerResponse, status: number, body: unknown, headers: object = {}): void {
  response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(body));
}
