/**
 * Sends requests that its parent made beforehand over a number of kept connections, one at a time on each, and measures.
 * A process of its own: what it costs does not run on the measured server's event loop. Sockets rather than an HTTP
 * client, so that the client is not what is measured.
 */
import { connect, type Socket } from 'node:net';
import { connect as connectSecurely, createSecureContext, type SecureContext } from 'node:tls';

export interface LoadJob {
  port: number;
  /** The authority of the server's certificate; undefined: plain HTTP. */
  caPem?: string;
  connections: number;
  /** Whole requests, head and body. */
  requests: string[];
}

export interface LoadResult {
  elapsedMs: number;
  /** Of each request, in order of completion. */
  latenciesMs: number[];
  statuses: Record<number, number>;
}

process.on('message', (job: LoadJob) => {
  carryOut(job).then(
    (result) => process.send?.({ result }),
    (error: unknown) => process.send?.({ error: String(error) }),
  );
});

async function carryOut(job: LoadJob): Promise<LoadResult> {
  const requests = job.requests.map((text) => Buffer.from(text));
  const result: LoadResult = { elapsedMs: 0, latenciesMs: [], statuses: {} };
  const tls = job.caPem === undefined ? undefined : createSecureContext({ ca: job.caPem });
  const sockets = await Promise.all(Array.from({ length: job.connections }, () => open(job.port, tls)));
  let next = 0;
  const began = performance.now();
  await Promise.all(
    sockets.map(async (socket) => {
      for (let request = requests[next++]; request; request = requests[next++]) {
        const sent = performance.now();
        const status = await exchange(socket, request);
        result.latenciesMs.push(performance.now() - sent);
        result.statuses[status] = (result.statuses[status] ?? 0) + 1;
      }
    }),
  );
  result.elapsedMs = performance.now() - began;
  for (const socket of sockets) socket.destroy();
  return result;
}

function open(port: number, secureContext: SecureContext | undefined): Promise<Socket> {
  const to = { port, host: '127.0.0.1', noDelay: true };
  return new Promise((resolve, reject) => {
    const socket: Socket = secureContext
      ? connectSecurely({ ...to, secureContext, servername: 'localhost' }, () => resolve(socket))
      : connect(to, () => resolve(socket));
    socket.once('error', reject);
  });
}

/** Resolves with the status when the answer has come whole; every server here gives a Content-Length. */
function exchange(socket: Socket, request: Buffer): Promise<number> {
  return new Promise((resolve, reject) => {
    let head: { status: number; missing: number } | undefined;
    let early = '';
    const onData = (chunk: Buffer) => {
      if (head) head.missing -= chunk.length;
      else {
        early += chunk.toString('latin1');
        const end = early.indexOf('\r\n\r\n');
        if (end < 0) return;
        const length = /\r\ncontent-length: (\d+)/i.exec(early.slice(0, end))?.[1];
        if (length === undefined) return done(() => reject(new Error(`An answer without length: ${early}`)));
        head = { status: Number(early.slice(9, 12)), missing: Number(length) - (early.length - end - 4) };
      }
      const { status, missing } = head;
      if (missing <= 0) done(() => resolve(status));
    };
    const onClose = () => done(() => reject(new Error('The server closed the connection.')));
    const done = (settle: () => void) => {
      socket.off('data', onData);
      socket.off('close', onClose);
      settle();
    };
    socket.on('data', onData);
    socket.on('close', onClose);
    socket.write(request);
  });
}
