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
import { batchAnswer, type Call, changesetOf, parseChangeset, refusalIn } from './batch.ts';
import { type Behaviour, usualBehaviour } from './behaviour.ts';
import { businessRules, type Entity, type Refusal } from './business-rules.ts';
import type { ServiceOperations } from './client-operations.ts';
import { functionImports } from './function-imports.ts';
import { orderServiceV4, v4Root } from './order-v4.ts';
import { asSapKeeps, asSapShows, plainNumbersIn } from './sap-values.ts';

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
  /** From now on the system behaves in this way, where the sources do not agree or are not sure. */
  behave(behaviour: Partial<Behaviour>): void;
  /** SAP finds this price for the material when an item is made. */
  priceMaterial(material: string, amount: string): void;
  /** From now on a change of these fields of the set is answered with 204, and changes nothing. */
  keep(set: string, names: readonly string[]): void;
  inject(fault: Fault): void;
  /** Takes back the faults that no request has met. */
  calm(): void;
  /** The bytes of an attachment, by its LogicalDocument. */
  contentOf(logicalDocument: string): Uint8Array | undefined;
  /** The requests since the last call of this: `GET API_PURCHASEORDER_PROCESS_SRV/A_PurchaseOrder`. */
  requests(): string[];
  /** What the next write answers with, in the header `sap-message`: a warning, and members that it has beside its text. */
  warnNext(text: string, more?: { readonly target?: string; readonly details?: readonly object[] }): void;
  close(): Promise<void>;
}

interface Target {
  readonly service: string;
  readonly set: string;
  readonly key: Readonly<Record<string, string>> | undefined;
  readonly navigation: string | undefined;
}

/** A request of the connector, alone or in a batch. */
interface Asked {
  readonly method: string;
  readonly url: string;
  readonly headers: IncomingMessage['headers'];
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
  let kept: { set: string; names: readonly string[] } = { set: '', names: [] };

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

  const behaviour: { -readonly [Name in keyof Behaviour]: Behaviour[Name] } = { ...usualBehaviour };
  const rules = businessRules(ask, behaviour);
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

  /** A proxy may hold a token for each service: it is another one then. */
  function tokenOf(session: string | undefined, path: string): string | undefined {
    const token = session === undefined ? undefined : sessions.get(session);
    if (token === undefined || !behaviour.tokensPerService) return token;
    const service = path.replace(serviceRoot, '').split('/')[0] ?? '';
    return Buffer.from(`${token}${service}`).toString('base64');
  }

  function openSession(request: IncomingMessage, path: string): Record<string, string | string[]> {
    const id = sessionOf(request) ?? randomUUID();
    if (!sessions.has(id)) sessions.set(id, Buffer.from(randomUUID()).toString('base64'));
    const token = tokenOf(id, path) ?? '';
    const cookies = [`SAP_SESSIONID_S4H_100=${id}; path=/; HttpOnly`, 'sap-usercontext=sap-client=100; path=/'];
    return { 'x-csrf-token': token, 'set-cookie': cookies };
  }

  const etag = (entity: string) => `W/"'${versions.get(versionOf(entity)) ?? 1}'"`;
  /** `API_…/A_PurchaseOrderItem(00010,4500000001)` → `4500000001`, where one stands for a document. */
  const versionOf = (entity: string) => (behaviour.sharesEtags ? (/\d{7,}/.exec(entity)?.[0] ?? entity) : entity);

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
    const extra: Record<string, string | string[]> = wantsToken ? openSession(request, path) : {};
    const isWrite = method !== 'GET' && method !== 'HEAD';
    const session = sessionOf(request);
    if (isWrite && (session === undefined || tokenOf(session, path) !== request.headers['x-csrf-token']))
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
    const query = new URL(url, 'http://sap').searchParams;
    if (method === 'POST' && query.has('$format'))
      return refuse(response, {
        status: 400,
        code: '/IWBEP/CM_MGW_RT/022',
        message: 'System query option $format is not allowed for this request',
      });
    if (path.endsWith('/$batch')) return answerBatch(request, response, { path, body, isLost: fault !== undefined });
    const target = targetOf(path);
    const called = target && (await callFunction(target.service, target.set, method, query));
    const result = called
      ? 'message' in called
        ? called
        : answerOf(called)
      : isWrite
        ? await write({ method, url, headers: request.headers }, body)
        : await send(method, plainNumbersIn(url));
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

  /** Refuses a write, does it by itself, or says which requests carry it out in SAP's OData server. */
  async function prepare(
    { method, url: asked, headers }: Asked,
    bytes: Buffer,
    isInBatch: boolean,
  ): Promise<Refusal | { done: Answer } | { calls: Call[]; name: string; after: () => Promise<void> }> {
    const url = plainNumbersIn(asked);
    const target = targetOf(decodeURIComponent(url.split('?')[0] ?? ''));
    if (!target) return { status: 404, message: 'Resource not found' };
    const isJson = /json/.test(headers['content-type'] ?? '');
    let entity: Entity = {};
    if (bytes.length > 0 && isJson) entity = asSapKeeps(JSON.parse(bytes.toString('utf8')) as Entity);
    if (method === 'PATCH' && target.set === kept.set) for (const field of kept.names) delete entity[field];
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
    const rule = { method, ...target, entity, bytes, headers, url, isInBatch };
    // What SAP's own client does not create, change or delete is not offered here either.
    const allowed = operations[target.service]?.sets[target.set];
    if (target.navigation === undefined && allowed && !allowed.includes(method === 'MERGE' ? 'PATCH' : method))
      return { status: 405, message: `Method ${method} is not allowed for ${target.set}` };
    const refusal = await rules.refusalOf(rule);
    if (refusal) return refusal;
    const special = await rules.perform(rule);
    const after = () => rules.afterwards(rule);
    if (special && 'message' in special) return special;
    if (special && 'calls' in special) return { calls: special.calls, name, after };
    if (special) return { done: answerOf(special) };
    const complete = await rules.complete(rule);
    const body = method === 'DELETE' ? '' : JSON.stringify(complete);
    return { calls: [{ method, path: url, headers: {}, body }], name, after };
  }

  async function write(asked: Asked, bytes: Buffer): Promise<Answer | Refusal> {
    const prepared = await prepare(asked, bytes, false);
    if ('message' in prepared) return prepared;
    if ('done' in prepared) return prepared.done;
    const [only, ...more] = prepared.calls;
    if (!only || more.length > 0) {
      const refusal = await carryOut(prepared.calls);
      if (refusal) return refusal;
    }
    const answer =
      only && more.length === 0
        ? await send(only.method, only.path, only.body === '' ? undefined : only.body)
        : answerOf({ status: 204 });
    if (answer.status < 300) await done(prepared);
    if (answer.status === 201 && behaviour.echoesPosts) return echoed(answer, bytes);
    return answer;
  }

  async function done({ name, after }: { name: string; after: () => Promise<void> }): Promise<void> {
    versions.set(versionOf(name), (versions.get(versionOf(name)) ?? 1) + 1);
    await after();
  }

  /** All calls of one service as one changeset, which SAP's OData server carries out as a whole. */
  async function carryOut(calls: readonly Call[]): Promise<Refusal | undefined> {
    const service = /^\/sap\/opu\/odata\/sap\/\w+/.exec(calls[0]?.path ?? '')?.[0] ?? '';
    const { body, type } = changesetOf(
      calls.map((call) => ({ ...call, path: call.path.replace(`${service}/`, '').split('?')[0] ?? '' })),
    );
    return refusalIn((await send('POST', `${service}/$batch`, body, type)).body.toString('utf8'));
  }

  async function answerBatch(
    request: IncomingMessage,
    response: ServerResponse,
    { path, body, isLost }: { path: string; body: Buffer; isLost: boolean },
  ): Promise<void> {
    const given = parseChangeset(request.headers['content-type'] ?? '', body.toString('utf8'));
    const root = path.replace('$batch', '');
    const prepared: { calls: Call[]; name: string; after: () => Promise<void>; method: string }[] = [];
    let refusal: Refusal | undefined;
    let isAnswerLost = isLost;
    for (const call of given) {
      const url = `${root}${call.path}`;
      const shown = decodeURIComponent(url.split('?')[0] ?? '');
      requests.push(`$batch ${call.method} ${shown.replace(serviceRoot, '')}`);
      const fault = takeFault(call.method, shown);
      // oxlint-disable-next-line no-await-in-loop -- SAP takes them in their order
      await fault?.before?.();
      if (fault?.isAnswerLost === true) isAnswerLost = true;
      else if (fault) refusal ??= { ...fault, message: fault.message ?? 'Refused' };
      // oxlint-disable-next-line no-await-in-loop -- SAP takes them in their order
      const one = await prepare({ method: call.method, url, headers: call.headers }, Buffer.from(call.body), true);
      if ('message' in one) refusal ??= one;
      else if ('calls' in one) prepared.push({ ...one, method: call.method });
    }
    refusal ??= await carryOut(prepared.flatMap(({ calls }) => calls));
    if (!refusal) for (const one of prepared) await done(one);
    if (isAnswerLost) return void request.socket.destroy();
    const message = JSON.stringify({ code: '06/017', message: 'Saved', severity: 'success', details: [], ...warning });
    if (!refusal) warning = undefined;
    const { body: text, type } = refusal
      ? batchAnswer(
          [{ status: refusal.status, headers: { 'content-type': 'application/json' }, body: errorOf(refusal) }],
          false,
        )
      : batchAnswer(
          prepared.map(({ method }) => ({
            status: method === 'POST' ? 201 : 204,
            headers: { 'sap-message': message, 'content-type': 'application/json' },
            body: method === 'POST' ? '{"d":{}}' : '',
          })),
          true,
        );
    response.writeHead(202, { 'content-type': type, dataserviceversion: '2.0' }).end(text);
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
    asSapShows(json, behaviour);
    if (method !== 'GET') out['location'] = url;
    response.writeHead(status, out).end(JSON.stringify(json));
  }

  const address = () => `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const answerV4 = orderServiceV4({ url: address, behaviour });
  const server = createServer((request, response) => {
    const isV4 = request.url?.startsWith(v4Root) === true;
    (isV4 ? answerV4(request, response) : answer(request, response)).catch((error: unknown) =>
      refuse(response, { status: 500, message: String(error) }),
    );
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: address(),
    ask,
    lock: (number) => void locks.add(number),
    unlock: (number) => void locks.delete(number),
    expireSessions: () => sessions.clear(),
    behave: (changed) => void Object.assign(behaviour, changed),
    priceMaterial: rules.priceMaterial,
    keep: (set, names) => {
      kept = { set, names };
    },
    contentOf: rules.contentOf,
    inject: (fault) => void faults.push(fault),
    calm: () => void faults.splice(0),
    requests: () => {
      const seen = requests;
      requests = [];
      return seen;
    },
    warnNext: (message, more) => {
      warning = { message, severity: 'warning', ...more };
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

/** The entity that was made, with the values that were sent: SAP may answer so before it has found its own. */
function echoed(answer: Answer, sent: Buffer): Answer {
  const { d } = JSON.parse(answer.body.toString('utf8')) as { d: Entity };
  const values = Object.entries(JSON.parse(sent.toString('utf8') || '{}') as Entity).map(([name, value]) => [
    name,
    Array.isArray(value) ? { results: value as Entity[] } : value,
  ]);
  return { ...answer, body: Buffer.from(JSON.stringify({ d: { ...d, ...Object.fromEntries(values) } })) };
}

/** SAP's form of an error. */
function errorOf({ message = '', code = '06/000', details }: Refusal | (Fault & { code?: string })): string {
  const own = { code, message, severity: 'error', transition: false, target: '' };
  const innererror = { transactionid: randomUUID(), errordetails: details ?? [own] };
  return JSON.stringify({ error: { code, message: { lang: 'en', value: message }, innererror } });
}

function refuse(response: ServerResponse, refusal: Refusal | (Fault & { code?: string })): void {
  response.writeHead(refusal.status, { 'content-type': 'application/json' }).end(errorOf(refusal));
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
