/**
 * API_PURCHASEORDER_2 (OData V4) over the stub's own V2 service of purchase orders: one store, one set of rules, two
 * protocols. Each request is held against the published names and the rules of V4, is sent to the stub as V2, and its answer
 * comes back as V4.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { buffer } from 'node:stream/consumers';
import { batchAnswer, type Call, parseChangeset } from './batch.ts';
import type { Behaviour } from './behaviour.ts';
import type { Entity } from './business-rules.ts';
import { describeV4, v4Sets } from './order-v4-names.ts';

export const v4Root = '/sap/opu/odata4/sap/api_purchaseorder_2/srvd_a2x/sap/purchaseorder/0001/';
const v2Root = '/sap/opu/odata/sap/API_PURCHASEORDER_PROCESS_SRV/';

class Refused extends Error {
  readonly status: number;
  constructor(message: string, status = 400) {
    super(message);
    this.status = status;
  }
}

interface Passed {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
}

interface Stub {
  /** The stub's own address. */
  readonly url: () => string;
  readonly behaviour: Behaviour;
}

/** Answers requests of V4. */
export function orderServiceV4(stub: Stub) {
  return async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const { method = 'GET', url: asked = '/' } = request;
    const { pathname, searchParams, search } = new URL(asked, 'http://sap');
    const path = decodeURIComponent(pathname).slice(v4Root.length);
    const body = (await buffer(request)).toString('utf8');
    const headers = plainHeaders(request);
    try {
      if (path === '$metadata') return await describe(stub, response, headers);
      let answer: Passed;
      if (path === '') answer = await pass(stub, 'GET', v2Root, headers);
      else if (path === '$batch') answer = await batch(stub, body, headers);
      else if (method === 'GET') answer = await read(stub, path, searchParams, headers);
      else answer = await change(stub, { method, path, headers, body }, search);
      reply(response, answer);
    } catch (error) {
      if (error instanceof Refused) return refuse(response, error, path === '$batch');
      // The answer of V2 is lost, so this one is.
      request.socket.destroy();
    }
  };
}

type Fields = Record<string, string>;

/** Rejects where SAP's answer is lost. */
async function pass({ url }: Stub, method: string, path: string, headers: Fields, body?: string): Promise<Passed> {
  const answer = await fetch(url() + path, { method, headers, ...(body === undefined ? {} : { body }) });
  return { status: answer.status, headers: answer.headers, text: await answer.text() };
}

async function describe(stub: Stub, response: ServerResponse, headers: Fields): Promise<void> {
  // With the stub's own login.
  const { status } = await pass(stub, 'GET', `${v2Root}$metadata`, { ...headers, accept: 'application/xml' });
  if (stub.behaviour.v4 === 'none' || status !== 200)
    return void response.writeHead(status === 200 ? 404 : status, { 'content-type': 'text/html' }).end();
  response.writeHead(200, { 'content-type': 'application/xml' });
  response.end(describeV4(stub.behaviour.v4 === 'without changes of notes'));
}

async function read(stub: Stub, path: string, query: URLSearchParams, headers: Fields): Promise<Passed> {
  const { set, key, navigation } = targetIn(path);
  if (navigation !== undefined || key !== undefined) throw new Refused('The stub reads sets', 501);
  const { select, expand } = askedIn(set, query.get('$select'), query.get('$expand'));
  const v2 = new URLSearchParams({ $format: 'json' });
  for (const name of ['$filter', '$orderby', '$top', '$skip', 'sap-client', 'sap-language']) {
    const value = query.get(name);
    if (value !== null) v2.set(name, value);
  }
  if (expand.length > 0) v2.set('$expand', pathsOf(set, expand).join(','));
  const url = `${v2Root}${v4Sets[set]?.v2}?${v2.toString()}`;
  const answer = await pass(stub, 'GET', url, { ...headers, accept: 'application/json' });
  if (answer.status >= 300) return answer;
  const rows = (JSON.parse(answer.text) as { d: { results: Entity[] } }).d.results;
  const value = rows.map((row) => shown(set, row, { select, expand }, isExact(headers['accept'])));
  return { ...answer, text: JSON.stringify({ '@odata.context': `$metadata#${set}`, value }) };
}

/** The same change for V2. Throws for one that V4 does not take. */
function changeForV2({ behaviour }: Stub, { method, path: asked, body, headers }: Call): Call {
  const path = decodeURIComponent(asked);
  const { set, key, navigation } = targetIn(path);
  const names = v4Sets[set];
  const part = navigation === undefined ? undefined : names?.parts[navigation];
  if (!names || (navigation !== undefined && !part)) throw new Refused(`Resource not found for segment ${path}`, 404);
  const target = part?.set ?? set;
  // Only an order is made as such; parts are added to what they belong to.
  if (method === 'POST' && !part && set !== 'PurchaseOrder') throw new Refused(`${set} is not insertable`, 405);
  if (method === 'PATCH' && set.endsWith('Note') && behaviour.v4 === 'without changes of notes')
    throw new Refused(`${set} is not updatable`, 405);
  if (method === 'DELETE' && !['PurchaseOrder', 'PurchaseOrderItem'].includes(set))
    throw new Refused(`${set} is not deletable`, 405);
  if (body !== '' && !isExact(headers['content-type']))
    throw new Refused('Decimals are sent as texts only with IEEE754Compatible=true');
  const entity = body === '' ? '' : JSON.stringify(forV2(target, JSON.parse(body) as Entity, method === 'POST'));
  const where = key === undefined ? '' : `(${keyForV2(set, key)})`;
  return {
    method,
    path: `${names.v2}${where}${part ? `/${part.v2}` : ''}`,
    headers: { ...headers, accept: 'application/json', 'content-type': 'application/json' },
    body: entity,
  };
}

async function change(stub: Stub, call: Call, search: string): Promise<Passed> {
  const { method, path, headers, body } = changeForV2(stub, call);
  const answer = await pass(stub, method, `${v2Root}${path}${search}`, headers, body === '' ? undefined : body);
  if (answer.status !== 201) return answer;
  const { d } = JSON.parse(answer.text) as { d: Entity };
  return { ...answer, text: JSON.stringify(shown('PurchaseOrder', d, undefined, isExact(call.headers['accept']))) };
}

async function batch(stub: Stub, body: string, headers: Fields): Promise<Passed> {
  const calls = parseChangeset(headers['content-type'] ?? '', body).map((call) => changeForV2(stub, call));
  const parts = calls.map(({ method, path, headers: own, body: json }, index) => {
    const match = own['if-match'] === undefined ? '' : `If-Match: ${own['if-match']}\r\n`;
    return `--set\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\nContent-ID: ${index}\r\n\r\n${method} ${path} HTTP/1.1\r\nAccept: application/json\r\nContent-Type: application/json\r\n${match}\r\n${json}\r\n`;
  });
  const text = `--all\r\nContent-Type: multipart/mixed; boundary=set\r\n\r\n${parts.join('')}--set--\r\n--all--\r\n`;
  const type = 'multipart/mixed; boundary=all';
  return pass(stub, 'POST', `${v2Root}$batch`, { ...headers, accept: 'multipart/mixed', 'content-type': type }, text);
}

function targetIn(path: string): { set: string; key: string | undefined; navigation: string | undefined } {
  const [, set = '', key, navigation] = /^(\w+)(?:\((.*?)\))?(?:\/(\w+))?$/s.exec(path) ?? [];
  if (!v4Sets[set]) throw new Refused(`Resource not found for segment ${path}`, 404);
  return { set, key, navigation };
}

function keyForV2(set: string, key: string): string {
  if (set !== 'PurchaseOrderScheduleLine') return key;
  return key.replace('PurchaseOrder=', 'PurchasingDocument=').replace('PurchaseOrderItem=', 'PurchasingDocumentItem=');
}

/** An entity of a request as V2 has it. Throws for what V4 refuses. */
function forV2(set: string, entity: Entity, isNew: boolean): Entity {
  const names = v4Sets[set];
  if (!names) throw new Refused(`Unknown set ${set}`);
  for (const name of isNew ? names.mandatory : []) if (!entity[name]) throw new Refused(`Enter ${name}`);
  const out: Entity = {};
  for (const [name, value] of Object.entries(entity)) {
    const part = names.parts[name];
    if (part) {
      out[part.v2] = (value as Entity[]).map((child) => forV2(part.set, child, true));
      continue;
    }
    const type = names.fields[name];
    if (type === undefined) throw new Refused(`Property ${name} is unknown in ${set}`);
    if (names.computed.includes(name)) throw new Refused(`Property ${name} is read-only`);
    checkValue(name, type, value);
    const unit = names.units[name];
    if (unit !== undefined && !entity[unit]) throw new Refused(`${name} needs ${unit}`);
    // In V2 a schedule line has no unit of its own, and an item no field for its currency in a change.
    if (set === 'PurchaseOrderScheduleLine' && name === 'PurchaseOrderQuantityUnit') continue;
    out[name] = type === 'date' ? `/Date(${Date.parse(`${String(value)}T00:00:00Z`)})/` : value;
  }
  return out;
}

function checkValue(name: string, type: unknown, value: unknown): void {
  if (type === 'boolean' ? typeof value !== 'boolean' : typeof value !== 'string')
    throw new Refused(`Invalid value of property ${name}`);
  const text = String(value);
  if (typeof type === 'number' && text.length > type) throw new Refused(`${name} has more than ${type} characters`);
  if (type === 'date' && !/^\d{4}-\d{2}-\d{2}$/.test(text)) throw new Refused(`${name} is no Edm.Date`);
  if (type === 'decimal' && !/^-?\d+(\.\d+)?$/.test(text)) throw new Refused(`${name} is no Edm.Decimal`);
}

interface Asked {
  readonly select: readonly string[] | undefined;
  readonly expand: readonly { readonly name: string; readonly asked: Asked }[];
}

/** `$select` and `$expand`, with those in brackets. Throws for unknown names. */
function askedIn(set: string, select: string | null, expand: string | null): Asked {
  const names = v4Sets[set];
  const fields = select?.split(',');
  const unknown = fields?.find((name) => names?.fields[name] === undefined);
  if (unknown !== undefined) throw new Refused(`Property ${unknown} is unknown in ${set}`);
  const parts = expand === null ? [] : divided(expand, ',');
  return {
    select: fields,
    expand: parts.map((text) => {
      const [, name = '', inside = ''] = /^(\w+)(?:\((.*)\))?$/s.exec(text) ?? [];
      const part = names?.parts[name];
      if (!part) throw new Refused(`Navigation ${name} is unknown in ${set}`);
      const options = new Map(divided(inside, ';').map((one) => one.split(/=(.*)/s, 2) as [string, string]));
      return { name, asked: askedIn(part.set, options.get('$select') ?? null, options.get('$expand') ?? null) };
    }),
  };
}

/** At the separators that stand in no brackets. */
function divided(text: string, separator: string): string[] {
  const parts = [''];
  let depth = 0;
  for (const character of text) {
    if (character === '(') depth += 1;
    if (character === ')') depth -= 1;
    if (character === separator && depth === 0) parts.push('');
    else parts[parts.length - 1] += character;
  }
  return parts.filter((part) => part !== '');
}

/** The paths of V2's `$expand`. */
function pathsOf(set: string, expand: Asked['expand']): string[] {
  return expand.flatMap(({ name, asked }) => {
    const part = v4Sets[set]?.parts[name];
    if (!part) return [];
    return [part.v2, ...pathsOf(part.set, asked.expand).map((path) => `${part.v2}/${path}`)];
  });
}

/** An entity of V2 as V4 shows it: only what was asked for. `isExact`: decimals as texts. */
function shown(set: string, entity: Entity, asked: Asked | undefined, isExact: boolean): Entity {
  const names = v4Sets[set];
  const out: Entity = {};
  const { etag } = (entity['__metadata'] ?? {}) as { etag?: string };
  if (etag !== undefined) out['@odata.etag'] = etag;
  for (const [name, type] of Object.entries(names?.fields ?? {})) {
    if (asked?.select && !asked.select.includes(name)) continue;
    out[name] = shownValue(type, entity[nameInV2(set, name)], isExact);
  }
  for (const { name, asked: inside } of asked?.expand ?? []) {
    const part = names?.parts[name];
    const children: Entity[] = (part && entity[part.v2]?.results) ?? [];
    out[name] = children.map((child) => shown(part?.set ?? '', child, inside, isExact));
  }
  return out;
}

function nameInV2(set: string, name: string): string {
  if (set === 'PurchaseOrder' && name === 'PurchaseOrderDeletionCode') return 'PurchasingDocumentDeletionCode';
  if (set !== 'PurchaseOrderScheduleLine') return name;
  return { PurchaseOrder: 'PurchasingDocument', PurchaseOrderItem: 'PurchasingDocumentItem' }[name] ?? name;
}

function shownValue(type: unknown, value: string | boolean | null | undefined, isExact: boolean): unknown {
  if (type === 'boolean') return value === true;
  if (type === 'decimal') return isExact ? String(value ?? '0') : Number(value ?? 0);
  if (type !== 'date') return value ?? '';
  const ms = /-?\d+/.exec(String(value ?? ''))?.[0];
  return ms === undefined ? null : new Date(Number(ms)).toISOString().slice(0, 10);
}

function isExact(type: string | undefined): boolean {
  return /IEEE754Compatible=true/.test(type ?? '');
}

function plainHeaders({ headers }: IncomingMessage): Record<string, string> {
  const names = ['authorization', 'cookie', 'x-csrf-token', 'if-match', 'accept', 'content-type'];
  return Object.fromEntries(
    names.flatMap((name) => (typeof headers[name] === 'string' ? [[name, headers[name]]] : [])),
  );
}

/** An answer of V2 in the form of V4: its errors and messages have other forms. */
function reply(response: ServerResponse, { status, headers, text }: Passed): void {
  const out: Record<string, string | string[]> = { 'odata-version': '4.0' };
  for (const name of ['content-type', 'x-csrf-token']) {
    const value = headers.get(name);
    if (value !== null) out[name] = value;
  }
  if (headers.getSetCookie().length > 0) out['set-cookie'] = headers.getSetCookie();
  const message = headers.get('sap-message');
  if (message !== null) out['sap-messages'] = messagesOf(message);
  const type = headers.get('content-type') ?? '';
  const isError = status >= 400 && type.includes('json');
  if (type.startsWith('multipart/')) response.writeHead(200, out).end(batchOfV4(text));
  else response.writeHead(status, out).end(isError ? errorOfV4(text) : text);
}

const severities: Readonly<Record<string, number>> = { success: 1, info: 2, warning: 3, error: 4 };

function messagesOf(header: string): string {
  const { details = [], ...own } = JSON.parse(header) as Entity;
  return JSON.stringify(
    [own, ...(details as Entity[])].map(({ severity, ...message }) => ({
      ...message,
      numericSeverity: severities[severity as string] ?? 1,
    })),
  );
}

function errorOfV4(text: string): string {
  const { error } = JSON.parse(text) as { error: Entity };
  const details = ((error['innererror']?.errordetails ?? []) as Entity[]).map(
    ({ code, message, target, severity }) => ({
      code,
      message,
      target: String(target ?? '').replace('to_PurchaseOrderItem', '_PurchaseOrderItem'),
      '@SAP__common.numericSeverity': severities[severity as string] ?? 4,
    }),
  );
  return JSON.stringify({ error: { code: error['code'], message: error['message'].value, details } });
}

/** Only its headers and errors differ. */
function batchOfV4(text: string): string {
  return text
    .replaceAll(/^sap-message: (.*?)\r?$/gm, (_line, header: string) => `sap-messages: ${messagesOf(header)}\r`)
    .replaceAll(/^\{"error":.*$/gm, (line) => errorOfV4(line.trimEnd()));
}

function refuse(response: ServerResponse, { status, message }: Refused, isInBatch: boolean): void {
  const body = JSON.stringify({ error: { code: 'V4', message } });
  if (!isInBatch) return void response.writeHead(status, { 'content-type': 'application/json' }).end(body);
  const answer = batchAnswer([{ status, headers: { 'content-type': 'application/json' }, body }], false);
  response.writeHead(200, { 'content-type': answer.type }).end(answer.body);
}
