/** A proxy before an ERP that is reached over HTTP. */
import http, { type ClientRequest, type IncomingMessage, type ServerResponse } from 'node:http';
import https from 'node:https';
import { buffer } from 'node:stream/consumers';
import { createProxyState, type FaultProxy, listenAsProxy } from './fault-proxy.ts';

interface Answer {
  readonly status: number;
  readonly headers: Record<string, string | string[] | undefined>;
  readonly body: Buffer;
}

const ofOneConnection = ['connection', 'keep-alive', 'transfer-encoding', 'content-length', 'upgrade', 'expect'];

/** Listens on a free port until it is closed. `erp` is the ERP's origin, as `https://test.erp.example`. */
export async function startHttpFaultProxy(erp: string): Promise<FaultProxy> {
  const { protocol, hostname, port: erpPort, host } = new URL(erp);
  const { Agent, request } = protocol === 'https:' ? https : http;
  const state = createProxyState();
  // Kept connections end before a server's time for idle ones is over, where it says how long that is.
  const agent = new Agent({ keepAlive: true });
  const forwarded = new Set<ClientRequest>();
  const lines: string[] = [];

  const server = http.createServer((incoming, answer) => {
    handle(incoming, answer).catch(() => incoming.socket.destroy());
  });
  server.on('connection', (socket) => {
    if (state.isDead) return void socket.destroy();
    state.sockets.add(socket);
    socket.on('close', () => state.sockets.delete(socket));
  });

  async function handle(incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
    const { socket, method = '', url = '' } = incoming;
    if (state.isDead) return void socket.destroy();
    const { end } = state.begin();
    outgoing.on('close', end);
    lines.push(`${method} ${url}`);
    const body = await buffer(incoming);
    const action = await state.decide(`${method} ${url}`);
    if (action === 'hold') await state.hold();
    // Whoever has gone away while it was held has not sent it.
    if (state.isDead || socket.destroyed) return void socket.destroy();
    if (action === 'die-before') return state.die();
    if (action === 'lose-before') return void socket.destroy();
    const isAnsweredHere = typeof action === 'object';
    const passed = isAnsweredHere && action.forward !== true ? undefined : await state.working(forward(incoming, body));
    if (action === 'die-after') return state.die();
    if (state.isDead || action === 'lose-after') return void socket.destroy();
    const given = isAnsweredHere
      ? { status: action.status, headers: action.headers ?? {}, body: Buffer.from(action.body ?? '') }
      : (passed as Answer);
    outgoing.writeHead(given.status, { ...given.headers, 'content-length': given.body.length });
    outgoing.end(given.body);
  }

  async function forward({ method, url, headers }: IncomingMessage, body: Buffer): Promise<Answer> {
    const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>();
    // One machine may be several servers, which are told apart by the name that they are asked under.
    const kept = { ...without(headers), host, ...(body.length > 0 ? { 'content-length': body.length } : {}) };
    const one = request({ hostname, port: erpPort, method, path: url, headers: kept, agent }, resolve);
    forwarded.add(one);
    one.on('error', reject).on('close', () => forwarded.delete(one));
    one.end(body);
    const response = await promise;
    return { status: response.statusCode ?? 502, headers: without(response.headers), body: await buffer(response) };
  }

  const endErp = () => {
    for (const one of forwarded) one.destroy();
    agent.destroy();
  };
  return listenAsProxy(state, server, { prefix: 'http://', lines, endErp });
}

function without(headers: IncomingMessage['headers']): Answer['headers'] {
  return Object.fromEntries(Object.entries(headers).filter(([name]) => !ofOneConnection.includes(name)));
}
