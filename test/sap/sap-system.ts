/**
 * Stands before SAP's OData server and adds what the descriptions of the services cannot give: logins, CSRF tokens,
 * ETags, locks, numbers, mandatory and read-only fields, number formats, messages, deletion flags, and the fields that
 * SAP computes. Codes and texts are stand-ins for SAP's: a test may rest on statuses and shapes only.
 */
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { businessRules, type Entity, type Refusal } from './business-rules.ts';
import type { ServiceOperations } from './client-operations.ts';
import { functionImports } from './function-imports.ts';

export const serviceRoot = '/sap/opu/odata/sap/';
export const login = {
  user: 'BRIDGE',
  password: 'Secret123',
  client: 'bridge-client',
  clientSecret: 'Client-Secret-9',
};

/** Answers the next request that fits, instead of SAP or after it. */
export interface Fault {
  /** A text is the method; an expression fits several. */
  readonly method: string | RegExp;
  /** A part of the path, or an expression that it fits. */
  readonly path: string | RegExp;
  readonly status: number;
  readonly message?: string;
  readonly details?: readonly object[];
  /** SAP carries the request out, and the answer is lost. */
  readonly isAnswerLost?: boolean;
  /** What happens in SAP just before. */
  readonly before?: () => Promise<unknown>;
}

export interface SapSystem {
  /** `http://127.0.0.1:4711`. */
  readonly url: string;
  /** A request directly to SAP's OData server, with its answer's `d`: what SAP holds, and changes of a user of SAP. */
  ask(method: string, path: string, body?: object): Promise<Entity>;
  /** As a user of SAP who opens a document: it cannot be changed until it is unlocked. */
  lock(number: string): void;
  unlock(number: string): void;
  expireSessions(): void;
  /** From now on one ETag stands for a whole document, as in some releases: each change of a part changes it. */
  shareEtags(): void;
  inject(fault: Fault): void;
  /** The bytes of an attachment, by its LogicalDocument. */
  contentOf(logicalDocument: string): Uint8Array | undefined;
  /** The requests since the last call of this: `GET API_PURCHASEORDER_PROCESS_SRV/A_PurchaseOrder`. */
  requests(): string[];
  /** What the next write answers with, in the header `sap-message`: a warning, and members that it has beside its text. */
  warnNext(text: string, more?: { readonly target?: string; readonly details?: readonly object[] }): void;
  /** Changes what the next POST of that set makes, as SAP does with a price of its own. */
  alterNext(set: string, alter: (entity: Entity) => void): void;
  close(): Promise<void>;
}

interface Target {
  readonly service: string;
  readonly set: string;
  readonly key: Readonly<Record<string, string>> | undefined;
  readonly navigation: string | undefined;
}

/** The answer of the OData server. */
interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly body: Buffer;
}

/** `descriptions` is the folder with the `$metadata` of each service. */
export async function startSapSystem(upstream: string, descriptions: string): Promise<SapSystem> {
  const sessions = new Map<string, string>();
  const tokens = new Set<string>();
  const locks = new Set<string>();
  const versions = new Map<string, number>();
  const faults: Fault[] = [];
  let requests: string[] = [];
  let warning: object | undefined;
  let alteration: { set: string; alter: (entity: Entity) => void } | undefined;

  async function send(
    method: string,
    path: string,
    body?: Buffer | string,
    type = 'application/json',
  ): Promise<Answer> {
    const answer = await fetch(`${upstream}${path}`, {
      method,
      headers: {
        accept: path.includes('$metadata') ? 'application/xml' : 'application/json',
        ...(body === undefined ? {} : { 'content-type': type }),
      },
      ...(body === undefined ? {} : { body: typeof body === 'string' ? body : new Uint8Array(body) }),
    });
    return { status: answer.status, headers: answer.headers, body: Buffer.from(await answer.arrayBuffer()) };
  }

  async function ask(method: string, path: string, body?: object): Promise<Entity> {
    const { status, body: bytes } = await send(method, `${serviceRoot}${path}`, body && JSON.stringify(body));
    if (status >= 300) throw new Error(`${method} ${path}: ${status} ${bytes.toString('utf8').slice(0, 500)}`);
    return bytes.length === 0 ? {} : ((JSON.parse(bytes.toString('utf8')) as { d: Entity }).d ?? {});
  }

  const rules = businessRules(ask);
  const operations = JSON.parse(await readFile(join(descriptions, 'operations.json'), 'utf8')) as ServiceOperations;
  const callFunction = functionImports(operations, ask, rules.nextQuotation);

  function isLoggedIn({ headers }: IncomingMessage): boolean {
    const { authorization = '' } = headers;
    const basic = `Basic ${Buffer.from(`${login.user}:${login.password}`).toString('base64')}`;
    return authorization === basic || tokens.has(authorization);
  }

  function sessionOf({ headers }: IncomingMessage): string | undefined {
    const id = /SAP_SESSIONID_S4H_100=([^;]+)/.exec(headers.cookie ?? '')?.[1];
    return id !== undefined && sessions.has(id) ? id : undefined;
  }

  function openSession(request: IncomingMessage): Record<string, string | string[]> {
    const id = sessionOf(request) ?? randomUUID();
    const token = sessions.get(id) ?? Buffer.from(randomUUID()).toString('base64');
    sessions.set(id, token);
    const cookies = [`SAP_SESSIONID_S4H_100=${id}; path=/; HttpOnly`, 'sap-usercontext=sap-client=100; path=/'];
    return { 'x-csrf-token': token, 'set-cookie': cookies };
  }

  let areEtagsShared = false;
  const etag = (entity: string) => `W/"'${versions.get(versionOf(entity)) ?? 1}'"`;
  /** `API_…/A_PurchaseOrderItem(00010,4500000001)` → `4500000001`, where ETags are shared. */
  const versionOf = (entity: string) => (areEtagsShared ? (/\d{7,}/.exec(entity)?.[0] ?? entity) : entity);

  /** Adds the ETags to each entity of an answer, also to those inside of others. */
  function tag(value: unknown): void {
    if (Array.isArray(value)) for (const entry of value) tag(entry);
    if (typeof value !== 'object' || value === null) return;
    const entity = value as Record<string, unknown> & { __metadata?: { uri: string; etag?: string } };
    if (entity.__metadata) entity.__metadata.etag = etag(nameOf(entity.__metadata.uri));
    for (const member of Object.values(entity)) tag(member);
  }

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { method = 'GET', url = '/' } = request;
    const body = await buffer(request);
    const path = decodeURIComponent(url.split('?')[0] ?? '');
    if (path === '/oauth/token') return issueToken(request, response, body);
    requests.push(`${method} ${path.replace(serviceRoot, '')}`);
    if (!isLoggedIn(request))
      return void response.writeHead(401, { 'content-type': 'text/html' }).end('<html>Logon failed</html>');
    const wantsToken = /^fetch$/i.test(String(request.headers['x-csrf-token'] ?? '')) && method === 'GET';
    const extra: Record<string, string | string[]> = wantsToken ? openSession(request) : {};
    const isWrite = method !== 'GET' && method !== 'HEAD';
    const session = sessionOf(request);
    if (isWrite && (session === undefined || sessions.get(session) !== request.headers['x-csrf-token']))
      return void response
        .writeHead(403, { 'x-csrf-token': 'Required', 'content-type': 'text/plain' })
        .end('CSRF token validation failed');
    // As SAP's web server does for a path without a service.
    if (!path.startsWith(serviceRoot))
      return void response.writeHead(404, { 'content-type': 'text/html' }).end('<html>Not found</html>');
    const fault = takeFault(method, path);
    await fault?.before?.();
    if (fault && !fault.isAnswerLost) return refuse(response, fault);
    const [, described] = /^\/sap\/opu\/odata\/sap\/(\w+)\/\$metadata$/.exec(path) ?? [];
    if (described !== undefined) {
      response.setHeader('content-type', 'application/xml');
      return void response.end(await readFile(join(descriptions, `${described}.xml`)));
    }
    const target = targetOf(path);
    const query = new URL(url, 'http://sap').searchParams;
    const called = target && (await callFunction(target.service, target.set, method, query));
    const result = called
      ? 'message' in called
        ? called
        : answerOf(called)
      : isWrite
        ? await write(request, target, body)
        : await send(method, url);
    if (fault) return void request.socket.destroy();
    if ('message' in result) return refuse(response, result);
    reply(response, { method, url, extra, result, host: request.headers.host ?? '' });
  }

  function takeFault(method: string, path: string): Fault | undefined {
    const index = faults.findIndex(
      (fault) =>
        (typeof fault.method === 'string' ? fault.method === method : fault.method.test(method)) &&
        (typeof fault.path === 'string' ? path.includes(fault.path) : fault.path.test(path)),
    );
    return index < 0 ? undefined : faults.splice(index, 1)[0];
  }

  function issueToken(request: IncomingMessage, response: ServerResponse, body: Buffer): void {
    const { authorization = '' } = request.headers;
    const expected = `Basic ${Buffer.from(`${login.client}:${login.clientSecret}`).toString('base64')}`;
    requests.push('POST /oauth/token');
    if (authorization !== expected || !body.toString('utf8').includes('client_credentials'))
      return void response.writeHead(401, { 'content-type': 'application/json' }).end('{"error":"invalid_client"}');
    const token = randomUUID();
    tokens.add(`Bearer ${token}`);
    response
      .writeHead(200, { 'content-type': 'application/json' })
      .end(JSON.stringify({ access_token: token, token_type: 'Bearer', expires_in: 600 }));
  }

  async function write(request: IncomingMessage, target: Target | undefined, bytes: Buffer): Promise<Answer | Refusal> {
    const { method = '', url = '', headers } = request;
    if (!target) return { status: 404, message: 'Resource not found' };
    const isJson = /json/.test(headers['content-type'] ?? '');
    let entity: Entity = {};
    if (bytes.length > 0 && isJson) entity = JSON.parse(bytes.toString('utf8')) as Entity;
    const number = Object.values(target.key ?? {})[0] ?? '';
    if (target.key && locks.has(number))
      return { status: 400, message: `Document ${number} is locked by user MILLER`, code: 'ME/006' };
    const name = nameOf(url);
    if (target.key && target.navigation === undefined && rules.hasEtag(target.set)) {
      const exists = await send('GET', `${url.split('?')[0]}?$format=json`);
      if (exists.status !== 404) {
        const match = headers['if-match'];
        if (match === undefined) return { status: 428, message: 'Precondition required' };
        if (match !== '*' && match !== etag(name)) return { status: 412, message: 'Precondition failed' };
      }
    }
    const rule = { method, ...target, entity, bytes, headers, url };
    // What SAP's own client does not create, change or delete is not offered here either.
    const allowed = operations[target.service]?.sets[target.set];
    if (target.navigation === undefined && allowed && !allowed.includes(method === 'MERGE' ? 'PATCH' : method))
      return { status: 405, message: `Method ${method} is not allowed for ${target.set}` };
    const refusal = await rules.refusalOf(rule);
    if (refusal) return refusal;
    const special = await rules.perform(rule);
    if (special && 'message' in special) return special;
    versions.set(versionOf(name), (versions.get(versionOf(name)) ?? 1) + 1);
    if (special) return answerOf(special);
    const complete = await rules.complete(rule);
    if (method === 'POST' && alteration?.set === target.set) {
      alteration.alter(complete);
      alteration = undefined;
    }
    return send(method, url, method === 'DELETE' ? undefined : JSON.stringify(complete));
  }

  function reply(
    response: ServerResponse,
    {
      method,
      url,
      extra,
      result,
      host,
    }: { method: string; url: string; extra: Record<string, string | string[]>; result: Answer; host: string },
  ): void {
    const { status, headers, body } = result;
    const type = headers.get('content-type') ?? 'application/json';
    const out: Record<string, string | string[]> = { 'content-type': type, dataserviceversion: '2.0', ...extra };
    if (status >= 400) {
      const { error } =
        (JSON.parse(body.toString('utf8') || '{}') as { error?: { message?: { value?: string } } }) ?? {};
      return refuse(response, { status, message: error?.message?.value ?? 'Refused' });
    }
    const isWrite = method !== 'GET' && method !== 'HEAD';
    if (isWrite) {
      const usual = { code: '06/017', message: 'Saved', severity: 'success', target: '', details: [] };
      out['sap-message'] = JSON.stringify({ ...usual, ...warning });
      warning = undefined;
    }
    // SAP answers a change without content.
    if (method === 'PATCH' || method === 'MERGE' || method === 'DELETE') return void response.writeHead(204, out).end();
    if (!type.includes('json') || body.length === 0) return void response.writeHead(status, out).end(body);
    const json = JSON.parse(body.toString('utf8').replaceAll(upstream, `http://${host}`)) as { d?: unknown };
    tag(json);
    if (method !== 'GET') out['location'] = url;
    response.writeHead(status, out).end(JSON.stringify(json));
  }

  const server = createServer((request, response) => {
    answer(request, response).catch((error: unknown) => refuse(response, { status: 500, message: String(error) }));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    ask,
    lock: (number) => void locks.add(number),
    unlock: (number) => void locks.delete(number),
    expireSessions: () => sessions.clear(),
    shareEtags: () => {
      areEtagsShared = true;
    },
    contentOf: rules.contentOf,
    inject: (fault) => void faults.push(fault),
    requests: () => {
      const seen = requests;
      requests = [];
      return seen;
    },
    warnNext: (message, more) => {
      warning = { message, severity: 'warning', ...more };
    },
    alterNext: (set, alter) => {
      alteration = { set, alter };
    },
    close: async () => {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}

function answerOf({ status, entity }: { status: number; entity?: Entity }): Answer {
  const body = Buffer.from(entity ? JSON.stringify({ d: entity }) : '');
  return { status, headers: new Headers({ 'content-type': 'application/json' }), body };
}

/** SAP's form of an error. */
function refuse(
  response: ServerResponse,
  { status, message = '', code = '06/000', details }: Refusal | (Fault & { code?: string }),
): void {
  const own = { code, message, severity: 'error', transition: false, target: '' };
  const innererror = { transactionid: randomUUID(), errordetails: details ?? [own] };
  const error = { code, message: { lang: 'en', value: message }, innererror };
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify({ error }));
}

function targetOf(path: string): Target | undefined {
  const [, service, set, given, navigation] =
    /^\/sap\/opu\/odata\/sap\/(\w+)\/(\w+)(?:\((.*?)\))?(?:\/(\w+))?$/s.exec(path) ?? [];
  if (service === undefined || set === undefined) return undefined;
  return { service, set, key: given === undefined ? undefined : keyOf(given), navigation };
}

/** `'4711'`, or `PurchaseOrder='4711',PurchaseOrderItem='10'`. */
function keyOf(text: string): Record<string, string> {
  const parts = [...text.matchAll(/(?:(\w+)=)?'((?:[^']|'')*)'/g)];
  return Object.fromEntries(parts.map(([, name = '', value = '']) => [name, value.replaceAll("''", "'")]));
}

/** The entity of a URL, however its key is written. */
function nameOf(url: string): string {
  const path = decodeURIComponent(url.split('?')[0] ?? '');
  const target = targetOf(path.slice(path.indexOf(serviceRoot)));
  if (!target) return path;
  return `${target.service}/${target.set}(${Object.values(target.key ?? {})
    .sort()
    .join(',')})`;
}
