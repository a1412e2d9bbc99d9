/**
 * The way from a connector to Tryton, watched: a proxy that calls a test when a request passes that changes something, so
 * that it can kill either side at the worst instants: while Tryton works, and when it has committed and nobody knows yet.
 */
import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders, type IncomingMessage, request, type ServerResponse } from 'node:http';
import { buffer } from 'node:stream/consumers';
import { closeAfterFile } from '../harness/after-file.ts';

/** What a test does with the next change that passes; each is called once, and waited for. */
export interface Incident {
  /** As `model.purchase.purchase.create`. */
  readonly method: RegExp;
  /** Tryton has got the request, or is about to. */
  readonly during?: () => Promise<void>;
  /** Tryton has answered; the answer goes on afterwards, if there is still somebody who waits for it. */
  readonly answered?: () => Promise<void>;
  /** Nobody gets the answer. */
  readonly lost?: boolean;
}

export interface WatchedWay {
  readonly url: string;
  /** Resolves when a request of that method was passed on, and what was to be done with it is done. */
  next(incident: Incident): Promise<void>;
}

/** Starts the proxy to a server; it is closed after the file. */
export async function watchWay(target: string): Promise<WatchedWay> {
  let waiting: { incident: Incident; done: () => void; failed: (error: unknown) => void } | undefined;

  async function pass(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const body = await buffer(request);
    const taken = waiting?.incident.method.test(methodIn(body)) ? waiting : undefined;
    if (taken) waiting = undefined;
    try {
      // It has no answer when the server is killed meanwhile.
      const answering = ask(target, request, body).catch(() => undefined);
      await taken?.incident.during?.();
      const answer = await answering;
      await taken?.incident.answered?.();
      if (answer && !taken?.incident.lost) response.writeHead(answer.status, answer.headers).end(answer.body);
      else response.destroy();
      taken?.done();
    } catch (error) {
      response.destroy();
      taken?.failed(error);
    }
  }

  const server = createServer((request, response) => {
    // A connector that was killed in the middle of its request.
    pass(request, response).catch(() => response.destroy());
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  closeAfterFile(async () => {
    const closed = once(server, 'close');
    server.close();
    server.closeAllConnections();
    await closed;
  });
  const address = server.address();
  return {
    url: `http://127.0.0.1:${typeof address === 'object' ? address?.port : ''}`,
    next: (incident) =>
      new Promise((done, failed) => {
        waiting = { incident, done, failed };
      }),
  };
}

/** As model.party.party.create; a request that is no JSON-RPC has none. */
const methodIn = (body: Buffer) => /"method"\s*:\s*"([\w.]+)"/.exec(body.toString())?.[1] ?? '';

interface Answer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
}

async function ask(target: string, { method, url, headers }: IncomingMessage, body: Buffer): Promise<Answer> {
  const asked = request(new URL(url ?? '/', target), { method, headers, agent: false });
  asked.end(body);
  const [answer] = (await once(asked, 'response')) as [IncomingMessage];
  return { status: answer.statusCode ?? 502, headers: answer.headers, body: await buffer(answer) };
}
