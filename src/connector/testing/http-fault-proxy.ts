/** A fault proxy for an ERP that is reached over HTTP. */
import http, { type ClientRequest, type IncomingMessage, type ServerResponse } from 'node:http';
import https from 'node:https';
import { buffer } from 'node:stream/consumers';
import { FaultProxy } from './fault-proxy.ts';

interface Answer {
  readonly status: number;
  readonly headers: Record<string, string | string[] | undefined>;
  readonly body: Buffer;
}

/** Headers that belong to one connection and are not forwarded. */
const hopByHopHeaders = ['connection', 'keep-alive', 'transfer-encoding', 'content-length', 'upgrade', 'expect'];

/** Listens on a free port until it is closed. `erp` is the ERP's origin, for example `https://test.erp.example`. */
export async function startHttpFaultProxy(erp: string): Promise<FaultProxy> {
  const { protocol, hostname, port: erpPort, host } = new URL(erp);
  const { Agent, request } = protocol === 'https:' ? https : http;
  const proxy = new FaultProxy();
  // Where the server announces its idle time-out, the agent closes idle connections before it.
  const agent = new Agent({ keepAlive: true });
  const forwarded = new Set<ClientRequest>();

  const server = http.createServer((incoming, answer) => {
    handle(incoming, answer).catch(() => incoming.socket.destroy());
  });
  server.on('connection', (socket) => {
    if (proxy.isCutOff) return void socket.destroy();
    proxy.sockets.add(socket);
    socket.on('close', () => proxy.sockets.delete(socket));
  });

  async function handle(incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
    const { socket, method = '', url = '' } = incoming;
    if (proxy.isCutOff) return void socket.destroy();
    const end = proxy.begin();
    outgoing.on('close', end);
    proxy.lines.push(`${method} ${url}`);
    const body = await buffer(incoming);
    const action = await proxy.decide(`${method} ${url}`);
    if (action === 'hold') await proxy.hold();
    // A client that has closed its connection while the request was held counts as not having sent it.
    if (proxy.isCutOff || socket.destroyed) return void socket.destroy();
    if (action === 'kill-before') return proxy.cutOff();
    if (action === 'drop-before') return void socket.destroy();
    const isAnsweredHere = typeof action === 'object';
    const passed = isAnsweredHere && action.forward !== true ? undefined : await proxy.working(forward(incoming, body));
    if (action === 'kill-after') return proxy.cutOff();
    if (proxy.isCutOff || action === 'drop-after') return void socket.destroy();
    const reply = isAnsweredHere
      ? { status: action.status, headers: action.headers ?? {}, body: Buffer.from(action.body ?? '') }
      : (passed as Answer);
    outgoing.writeHead(reply.status, { ...reply.headers, 'content-length': reply.body.length });
    outgoing.end(reply.body);
  }

  async function forward({ method, url, headers }: IncomingMessage, body: Buffer): Promise<Answer> {
    const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>();
    // The `host` header is the ERP's own: one machine may serve several names.
    const forwardedHeaders = {
      ...withoutHopByHop(headers),
      host,
      ...(body.length > 0 ? { 'content-length': body.length } : {}),
    };
    const toErp = request({ hostname, port: erpPort, method, path: url, headers: forwardedHeaders, agent }, resolve);
    forwarded.add(toErp);
    toErp.on('error', reject).on('close', () => forwarded.delete(toErp));
    toErp.end(body);
    const response = await promise;
    return {
      status: response.statusCode ?? 502,
      headers: withoutHopByHop(response.headers),
      body: await buffer(response),
    };
  }

  const endErp = () => {
    for (const request of forwarded) request.destroy();
    agent.destroy();
  };
  return proxy.listen(server, 'http://', endErp);
}

function withoutHopByHop(headers: IncomingMessage['headers']): Answer['headers'] {
  return Object.fromEntries(Object.entries(headers).filter(([name]) => !hopByHopHeaders.includes(name)));
}
