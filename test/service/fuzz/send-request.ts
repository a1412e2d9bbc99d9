/**
 * Sends requests exactly as a test writes them, path and headers included, and checks what must hold for every answer.
 */
import { Agent, request as httpRequest, type OutgoingHttpHeaders } from 'node:http';
import { brotliDecompressSync, gunzipSync, inflateSync } from 'node:zlib';
import { answerCheckOfService } from '../../harness/documented-answers.ts';
import type { HttpAnswer } from '../../harness/request.ts';
import type { FuzzFixture } from './fuzz-fixture.ts';
import { type Seed, secretOfSeeds, type TestedEndpoint } from './seeds.ts';

export interface RawRequest {
  readonly method: string;
  /** With the query, as it is sent. */
  readonly path: string;
  readonly headers: OutgoingHttpHeaders;
  readonly body?: string | Uint8Array;
}

/** A request without an answer for this long fails. */
const patienceMs = 20_000;

const agent = new Agent({ keepAlive: true });

/** Closes the kept connections; a test file calls it when it ends. */
export function closeConnections(): void {
  agent.destroy();
}

/** Sends a request and reads the whole answer. Rejects when the connection breaks or there is no answer in time. */
export function send(fixture: FuzzFixture, request: RawRequest): Promise<HttpAnswer> {
  return new Promise((resolve, reject) => {
    const { method, path, body } = request;
    // Node does not set Content-Length for every method.
    const headers =
      body === undefined ? request.headers : { 'content-length': Buffer.byteLength(body), ...request.headers };
    const sent = httpRequest(
      { agent, host: '127.0.0.1', port: new URL(fixture.service.url).port, method, path, headers },
      (response) => {
        const chunks: Buffer[] = [];
        response.on('data', (chunk: Buffer) => chunks.push(chunk));
        response.on('error', reject);
        response.on('end', () => {
          const text = decompressed(Buffer.concat(chunks), response.headers['content-encoding']).toString();
          const answerHeaders = new Headers();
          for (const [name, values] of Object.entries(response.headersDistinct))
            for (const value of values ?? []) answerHeaders.append(name, value);
          const isJson = /json/.test(answerHeaders.get('content-type') ?? '');
          resolve({
            status: response.statusCode ?? 0,
            headers: answerHeaders,
            body: isJson && text !== '' ? JSON.parse(text) : text,
          });
        });
      },
    );
    sent.setTimeout(patienceMs, () => sent.destroy(new Error(`no answer in ${patienceMs} ms`)));
    sent.on('error', reject);
    sent.end(body);
  });
}

/** A mutated Accept-Encoding may ask for any of them. */
function decompressed(bytes: Buffer, encoding: string | undefined): Buffer {
  if (bytes.length === 0) return bytes;
  if (encoding === 'gzip') return gunzipSync(bytes);
  if (encoding === 'br') return brotliDecompressSync(bytes);
  return encoding === 'deflate' ? inflateSync(bytes) : bytes;
}

/** The valid request of a seed. */
export function requestOfSeed(fixture: FuzzFixture, endpoint: TestedEndpoint, seed: Seed): RawRequest {
  const key = endpoint.by === 'operator' ? fixture.service.adminToken : fixture.organisation.key;
  const params = (seed.params ?? []).map(encodeURIComponent);
  const path = endpoint.path.replace(/:\w+/g, () => params.shift() ?? '');
  const query = new URLSearchParams(seed.query).toString();
  const body = seed.bytes ?? (seed.body === undefined ? undefined : JSON.stringify(seed.body));
  return {
    method: endpoint.method,
    path: query === '' ? path : `${path}?${query}`,
    headers: {
      authorization: `Bearer ${key}`,
      ...(seed.body === undefined ? {} : { 'content-type': 'application/json' }),
      ...seed.headers,
    },
    ...(body === undefined ? {} : { body }),
  };
}

/** Internals of the service: a stack, a file, an SQL statement, a message of PostgreSQL or of a library. */
const internals =
  /\bat .*\.(ts|js):\d|node_modules|\/(src|work|home)\/|\bservice\.[a-z_]+\b|\b(select|insert into|update|delete from)\b.* (from|values|set|where)\b|violates|duplicate key|invalid input|syntax error|relation "|SQLSTATE|Maximum call stack|is not a function|undefined \(reading|Cannot read|ZodError/i;

/** Throws for an answer that no request may get. */
export function checkAnswer(fixture: FuzzFixture, request: RawRequest, answer: HttpAnswer): void {
  const { status, headers, body } = answer;
  const text = typeof body === 'string' ? body : JSON.stringify(body);
  if (status >= 500) throw new Error(`an answer of ${status}`);
  if (text.includes(secretOfSeeds)) throw new Error('the answer repeats a secret');
  for (const key of [fixture.organisation.key, fixture.operated.key, fixture.service.adminToken])
    if (text.includes(key)) throw new Error('the answer repeats a key');
  if (status >= 400 && request.method !== 'HEAD') {
    if (!headers.get('content-type')?.startsWith('application/problem+json'))
      throw new Error(`a refusal of the type ${headers.get('content-type')}`);
    for (const member of ['type', 'title', 'detail'])
      if (typeof body[member] !== 'string' || body[member] === '') throw new Error(`a problem without ${member}`);
    if (body.status !== status) throw new Error(`a problem that says ${body.status}`);
    const shown = internals.exec(body.detail) ?? internals.exec(JSON.stringify(body.errors ?? []));
    if (shown) throw new Error(`the answer shows internals: ${shown[0]}`);
    if (text.length > 200_000) throw new Error(`a refusal of ${text.length} characters`);
  }
  // Paths that a client of the OpenAPI document could call are checked against the document.
  if (status >= 400 && request.method === 'HEAD') return;
  if (!/[%\\]|\/\/|\/\.|^[^/]/.test(request.path.split('?')[0] ?? ''))
    answerCheckOfService().check(request.method, new URL(request.path, fixture.service.url).href, answer);
}

/** The request as text, for the message of a failure. */
export function requestText({ method, path, headers, body }: RawRequest): string {
  const { authorization: _key, ...rest } = headers;
  const text = body === undefined ? '' : typeof body === 'string' ? body : Buffer.from(body).toString('latin1');
  const shown =
    text.length > 2_000 ? `${text.slice(0, 1_500)} … (${text.length} characters) … ${text.slice(-200)}` : text;
  const shownPath = path.length > 500 ? `${path.slice(0, 500)}… (${path.length})` : path;
  return `${method} ${shownPath}\n${JSON.stringify(rest)}\n${shown}`;
}
