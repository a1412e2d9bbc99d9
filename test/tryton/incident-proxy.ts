/**
 * A proxy between a connector and Tryton, or another ERP, that calls the test when a chosen request passes. The test can
 * then kill either side at the worst moments: while the ERP works, and after it has committed but before the connector
 * has the answer.
 */
import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders, type IncomingMessage, request, type ServerResponse } from 'node:http';
import { buffer } from 'node:stream/consumers';
import { closeAtEnd } from '../harness/close-at-end.ts';

/** What to do with the next matching request. Each function is called once, and the proxy waits for it. */
export interface Incident {
  /** Matches the method, such as `model.purchase.purchase.create`; without one, the path, such as `/json/2/…/load`. */
  readonly method: RegExp;
  /** Called when the request is on its way to Tryton. */
  readonly during?: () => Promise<void>;
  /** Called when Tryton has answered, before the answer is passed on. */
  readonly answered?: () => Promise<void>;
  /** If true, the proxy drops the answer. */
  readonly lost?: boolean;
}

export interface IncidentProxy {
  readonly url: string;
  /**
   * Resolves when a matching request has passed and the incident's functions have ended. Rejects if one of them does.
   */
  next(incident: Incident): Promise<void>;
}

/** Starts a proxy to the server at `target`; it is closed after the test file. */
export async function startIncidentProxy(target: string): Promise<IncidentProxy> {
  let waiting: { incident: Incident; done: () => void; failed: (error: unknown) => void } | undefined;

  async function pass(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const body = await buffer(request);
    const matched = waiting?.incident.method.test(methodIn(body) || (request.url ?? '')) ? waiting : undefined;
    if (matched) waiting = undefined;
    try {
      // There is no answer if the server is killed in the meantime.
      const answering = forward(target, request, body).catch(() => undefined);
      await matched?.incident.during?.();
      const answer = await answering;
      await matched?.incident.answered?.();
      if (answer && !matched?.incident.lost) response.writeHead(answer.status, answer.headers).end(answer.body);
      else response.destroy();
      matched?.done();
    } catch (error) {
      response.destroy();
      matched?.failed(error);
    }
  }

  const server = createServer((request, response) => {
    // Fails if the connector was killed in the middle of its request.
    pass(request, response).catch(() => response.destroy());
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  closeAtEnd(async () => {
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

/** The method, such as model.party.party.create; empty for a request that is not JSON-RPC. */
const methodIn = (body: Buffer) => /"method"\s*:\s*"([\w.]+)"/.exec(body.toString())?.[1] ?? '';

interface Answer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
}

async function forward(target: string, { method, url, headers }: IncomingMessage, body: Buffer): Promise<Answer> {
  const forwarded = request(new URL(url ?? '/', target), { method, headers, agent: false });
  forwarded.end(body);
  const [answer] = (await once(forwarded, 'response')) as [IncomingMessage];
  return { status: answer.statusCode ?? 502, headers: answer.headers, body: await buffer(answer) };
}
