/** A service on node:http whose answers the test writes: for answers that a correct service would not send. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { type HttpServer, listen } from '#platform/http/server.ts';

export type ScriptedAnswer = (response: ServerResponse, request: IncomingMessage) => void;

export interface ScriptedService {
  readonly url: string;
  /** The requests in the order they came; the body as text. */
  readonly requests: { method: string; url: string; headers: IncomingMessage['headers']; body: string }[];
  /** The answers, one for each request; the last one answers all further requests. */
  answers: ScriptedAnswer[];
  close(): Promise<void>;
}

export async function startScriptedService(): Promise<ScriptedService> {
  const service: ScriptedService & { url: string } = {
    url: '',
    requests: [],
    answers: [],
    close: () => server.close(0),
  };
  const server: HttpServer = await listen(
    (request, response) => {
      const chunks: Buffer[] = [];
      request.on('data', (chunk: Buffer) => chunks.push(chunk));
      request.on('end', () => {
        const { method = '', url = '', headers } = request;
        service.requests.push({ method, url, headers, body: Buffer.concat(chunks).toString('utf8') });
        const { answers } = service;
        (answers.length > 1 ? answers.shift() : answers[0])?.(response, request);
      });
    },
    { host: '127.0.0.1', port: 0 },
  );
  service.url = server.url;
  return service;
}

/** An answer whose body is the given JSON text, or the JSON of any other value. */
export function json(body: unknown, headers: Record<string, string> = {}, status = 200): ScriptedAnswer {
  return (response) => {
    response.writeHead(status, { 'content-type': 'application/json', ...headers });
    response.end(typeof body === 'string' ? body : JSON.stringify(body));
  };
}

export function status(code: number, headers: Record<string, string> = {}): ScriptedAnswer {
  return (response) => {
    response.writeHead(code, headers).end();
  };
}
