/**
 * Requests to SAP's OData services. Reads follow the pages of the server; a change counts as done only when SAP
 * answers as its protocol says: 201 with the entity, or 204, or both in the answer to a batch.
 */
import {
  AuthError,
  type Clock,
  ConfigError,
  ConnectorError,
  type ConnectorLog,
  createHttp,
  DataError,
  type Http,
  type HttpRequest,
  type HttpResponse,
  TransientError,
  UnknownOutcome,
  z,
} from 'sourcing-bridge/connector';
import { batchAnswers, batchBody, batchType, type Change, literal, pathOf } from './batch.ts';
import { isLoginRefused, sapLogin } from './login.ts';
import { errorOfSap, warningsIn } from './messages.ts';
import { protocolOf, rootOf } from './protocols.ts';
import type { Settings } from './settings.ts';

export interface Query {
  readonly filter?: string;
  readonly select?: readonly string[];
  readonly expand?: readonly string[];
  readonly orderby?: string;
  readonly top?: number;
}

export interface OData {
  /** All entities of a set that the query names, page by page. `service` and `set` are SAP's names. */
  list<T>(service: string, set: string, entity: z.ZodType<T>, query: Query, signal: AbortSignal): Promise<T[]>;
  /** All entities for which one of the filters holds, each once; none without a filter. Asks for some filters at a time. */
  listAny<T>(
    service: string,
    set: string,
    entity: z.ZodType<T>,
    filters: readonly string[],
    query: Query,
    signal: AbortSignal,
  ): Promise<T[]>;
  /** One change. Returns the entity that a POST has made; undefined for the others. */
  change(service: string, change: Change, signal: AbortSignal): Promise<unknown>;
  /** All changes as one save, or none of them. */
  changeAll(service: string, changes: readonly Change[], signal: AbortSignal): Promise<void>;
  /** One after the other. An error says at which one of `object` it happened, and what was changed before. */
  changeEach(service: string, changes: readonly Change[], object: string, signal: AbortSignal): Promise<void>;
  /** A function import that changes nothing (GET): the list that it returns. */
  ask<T>(service: string, name: string, entity: z.ZodType<T>, given: Parameters, signal: AbortSignal): Promise<T[]>;
  /** A function import that changes something (POST): what it returns. Parameters are texts or `datetime'…'`. */
  call<T>(service: string, name: string, result: z.ZodType<T>, given: Parameters, signal: AbortSignal): Promise<T>;
  /** Creates an entity of bytes. */
  upload(service: string, set: string, content: Upload, signal: AbortSignal): Promise<unknown>;
  /** The service's own description (EDMX); undefined where SAP does not have it, or not for this user. */
  metadata(service: string, signal: AbortSignal): Promise<string | undefined>;
  close(): Promise<void>;
}

/** By name, written as OData has them: `'4711'`, `datetime'2030-12-31T00:00:00'`. */
type Parameters = Readonly<Record<string, string>>;

export interface Upload {
  readonly bytes: Uint8Array;
  readonly headers: Readonly<Record<string, string>>;
}

export interface Certificates {
  readonly caPem?: string | undefined;
  readonly client?: { readonly certPem: string; readonly keyPem: string } | undefined;
}

/** Of one question: its address stays shorter than what proxies take. */
const filtersMax = 40;
/** No read of the connector needs more: its filters name single documents, or its caller asks by pages. */
const pagesMax = 200;
/** What the functions of a session share. */
interface Connection {
  readonly http: Http;
  readonly urlOf: (service: string, path: string, query?: Readonly<Record<string, string | undefined>>) => string;
  /** SAP keeps no text with most documents, so the log keeps its warnings. */
  readonly logWarnings: (place: string, response: HttpResponse) => void;
}

interface ConnectionDeps {
  readonly clock: Clock;
  readonly log: ConnectorLog;
  readonly certificates: Certificates;
}

export function createOData(settings: Settings, deps: ConnectionDeps): OData {
  const connection = connect(settings, deps);
  return {
    ...readsOver(connection),
    ...changesOver(connection),
    ...callsOver(connection),
    close: () => connection.http.close(),
  };
}

function connect(settings: Settings, { clock, log, certificates }: ConnectionDeps): Connection {
  const { client, language, timeout_seconds, connections } = settings;
  const common = { ...(client === undefined ? {} : { 'sap-client': client }), 'sap-language': language };
  const http = createHttp({
    baseUrl: settings.url.replace(/(?<!\/)\/+$/u, ''),
    auth: [
      sapLogin(
        settings,
        (service) => `${rootOf(service, settings)}/?${queryText({ ...common, $format: protocolOf(service).format })}`,
        clock,
      ),
    ],
    headers: { accept: 'application/json' },
    connections,
    timeoutMs: timeout_seconds * 1_000,
    responseBytesMax: 64 * 2 ** 20,
    ...(certificates.caPem === undefined ? {} : { caPem: certificates.caPem }),
    ...(certificates.client === undefined ? {} : { clientCertificate: certificates.client }),
    errorOf: errorOfSap,
    isLoginRefused,
    clock,
  });

  const urlOf = (service: string, path: string, query: Readonly<Record<string, string | undefined>> = {}) =>
    `${rootOf(service, settings)}/${path}?${queryText({ ...common, ...query })}`;
  return {
    http,
    urlOf,
    logWarnings: (place, response) => {
      const warnings = warningsIn(response);
      if (warnings.length > 0) log.warn('SAP warned', { of: place, warnings });
    },
  };
}

function readsOver({ http, urlOf }: Connection): Pick<OData, 'list' | 'listAny' | 'ask' | 'metadata'> {
  const read = (service: string, path: string, signal: AbortSignal) =>
    http.request({ method: 'GET', path, headers: { accept: protocolOf(service).json }, signal });

  async function rowsOf(service: string, set: string, query: Query, signal: AbortSignal): Promise<unknown[]> {
    const { page, format } = protocolOf(service);
    const found: unknown[] = [];
    const first = urlOf(service, set, { ...odataQuery(query), $format: format });
    let path = first;
    for (let pages = 0; pages < pagesMax; pages += 1) {
      const { rows, next } = parsed(page, await read(service, path, signal), path);
      found.push(...rows);
      if (next === undefined) return found;
      // Only the token of the link is used: a proxy may have another address than SAP writes into it.
      const token = /[?&]\$skip(?:token)?=[^&]*/u.exec(next)?.[0];
      if (token === undefined) throw new TransientError(`SAP's link to the next page of ${set} has no $skiptoken`);
      path = `${first}&${token.slice(1)}`;
    }
    throw new ConfigError(`SAP has more than ${pagesMax} pages of ${set} for one question`);
  }

  return {
    async list(service, set, entity, query, signal) {
      return (await rowsOf(service, set, query, signal)).map((row) => entityOf(entity, row, set));
    },
    async listAny(service, set, entity, filters, query, signal) {
      // An entity may fit filters of two questions.
      const rows = new Map<string, unknown>();
      for (let begin = 0; begin < filters.length; begin += filtersMax) {
        const some = filters.slice(begin, begin + filtersMax).join(' or ');
        const filter = query.filter === undefined ? some : `${query.filter} and (${some})`;
        for (const row of await rowsOf(service, set, { ...query, filter }, signal)) rows.set(JSON.stringify(row), row);
      }
      return [...rows.values()].map((row) => entityOf(entity, row, set));
    },
    async ask(service, name, entity, given, signal) {
      const { page, format } = protocolOf(service);
      const path = urlOf(service, name, { ...given, $format: format });
      const { rows } = parsed(page, await read(service, path, signal), path);
      return rows.map((row) => entityOf(entity, row, name));
    },
    async metadata(service, signal) {
      const path = urlOf(service, '$metadata');
      const headers = { accept: 'application/xml' };
      const response = await http.request({ method: 'GET', path, headers, accept: [403, 404], signal });
      return response.status < 300 ? response.text() : undefined;
    },
  };
}

function changesOver({ http, urlOf, logWarnings }: Connection): Pick<OData, 'change' | 'changeEach' | 'changeAll'> {
  async function change(service: string, given: Change, signal: AbortSignal): Promise<unknown> {
    const { method, set, body, etag } = given;
    const protocol = protocolOf(service);
    const response = await http.request({
      method,
      path: urlOf(service, pathOf(given)),
      headers: {
        accept: protocol.json,
        ...(body === undefined ? {} : { 'content-type': protocol.json }),
        ...(method === 'POST' ? {} : { 'if-match': etag ?? '*' }),
      },
      body: body && JSON.stringify(body),
      signal,
    });
    const entity = protocol.entity.safeParse(response.jsonIfAny()).data;
    if (!protocol.isDone(response.status, method) || (method === 'POST' && !entity))
      throw new UnknownOutcome(
        `SAP answered ${response.status} to ${method} ${service}/${set}, where it answers 201 with the entity, or 204, when it is done`,
      );
    logWarnings(`${service}/${set}`, response);
    return entity;
  }

  return {
    change,
    async changeEach(service, changes, object, signal) {
      const done: string[] = [];
      for (const one of changes)
        try {
          await change(service, one, signal);
          done.push(one.what);
        } catch (error) {
          const before = done.length > 0 ? ` (changed before that: ${done.join(', ')})` : '';
          if (!(error instanceof ConnectorError)) throw error;
          error.message = `${object}, ${one.what}: ${error.message}${before}`;
          error.partial = done.length > 0;
          throw error;
        }
    },
    async changeAll(service, changes, signal) {
      const protocol = protocolOf(service);
      const request = {
        method: 'POST',
        path: urlOf(service, '$batch'),
        headers: { accept: 'multipart/mixed', 'content-type': batchType },
        body: batchBody(changes, protocol.json),
        signal,
      };
      const answers = batchAnswers(await http.request(request));
      const refused = answers.find(({ status }) => status >= 400);
      if (refused) throw errorOfChange(refused, { ...request, path: `${service}/$batch` });
      const isDone = ({ status }: HttpResponse, n: number) => protocol.isDone(status, changes[n]?.method ?? 'PATCH');
      if (answers.length !== changes.length || !answers.every(isDone))
        throw new UnknownOutcome(
          `SAP answered ${answers.map(({ status }) => status).join(', ')} to ${changes.length} changes in one batch of ${service}`,
          { answered: true },
        );
      for (const answer of answers) logWarnings(service, answer);
    },
  };
}

function callsOver({ http, urlOf, logWarnings }: Connection): Pick<OData, 'call' | 'upload'> {
  return {
    async call(service, name, result, given, signal) {
      // Without $format, which SAP refuses where something is made (/IWBEP/CM_MGW_RT/022).
      const response = await http.request({ method: 'POST', path: urlOf(service, name, given), signal });
      logWarnings(`${service}/${name}`, response);
      const { data } = protocolOf(service).entity.safeParse(response.jsonIfAny());
      // A complex type stands under the function's name.
      const parsedResult = result.safeParse(data?.[name] ?? data);
      if (parsedResult.success) return parsedResult.data;
      throw new UnknownOutcome(
        `SAP answered ${response.status} to POST ${service}/${name}, without what the function returns`,
      );
    },
    async upload(service, set, { bytes, headers }, signal) {
      const path = urlOf(service, set);
      const response = await http.request({ method: 'POST', path, headers, body: bytes, signal });
      const { data } = protocolOf(service).entity.safeParse(response.jsonIfAny());
      if (response.status !== 201 || !data)
        throw new UnknownOutcome(`SAP answered ${response.status} to POST ${service}/${set} without an entity`);
      logWarnings(`${service}/${set}`, response);
      return data;
    },
  };
}

/** An error of SAP to one of several changes, none of which is carried out then. */
function errorOfChange(response: HttpResponse, request: HttpRequest): Error {
  const known = errorOfSap(response, request);
  if (known) return known;
  const { status } = response;
  const message = `SAP answered ${status} to a change in ${request.path}`;
  if (status === 401 || status === 403) return new AuthError(message);
  return status < 500 ? new DataError(message) : new UnknownOutcome(message, { answered: true });
}

/** A filter for each value: `a eq 'x'`. */
export function equals(property: string, values: readonly string[]): string[] {
  return values.map((value) => `${property} eq ${literal(value)}`);
}

/** The day `2030-12-31` as OData V2 has it in JSON. Throws DataError for a text that is no day. */
export function odataDate(day: string, what: string): string {
  const ms = /^\d{4}-\d{2}-\d{2}$/u.test(day) ? Date.parse(`${day}T00:00:00Z`) : Number.NaN;
  const isDay = !Number.isNaN(ms) && new Date(ms).toISOString().startsWith(day);
  if (!isDay) throw new DataError(`${what} is "${day.slice(0, 40)}", which is not a day like 2030-12-31`);
  return `/Date(${ms})/`;
}

/** A day in a filter or in a parameter of a function. */
export function dateLiteral(day: string): string {
  return `datetime'${day}T00:00:00'`;
}

/** Milliseconds since 1970 of `/Date(1893456000000)/` or `/Date(1893456000000+0000)/`; undefined for anything else. */
export function msOfDate(value: string | null | undefined): number | undefined {
  const text = /^\/Date\((-?\d+)(?:[+-]\d+)?\)\/$/u.exec(value ?? '')?.[1];
  return text === undefined ? undefined : Number(text);
}

/** The day of such a date, or a day as OData V4 has it: `2030-12-31`; undefined for anything else. */
export function dayOfDate(value: string | null | undefined): string | undefined {
  if (/^\d{4}-\d{2}-\d{2}$/u.test(value ?? '')) return value ?? undefined;
  const ms = msOfDate(value);
  return ms === undefined ? undefined : new Date(ms).toISOString().slice(0, 10);
}

/** The list of a navigation that was expanded, whichever of its two forms SAP uses. */
export function expanded<T>(entity: z.ZodType<T>) {
  return z
    .union([z.array(entity), z.object({ results: z.array(entity) }).transform(({ results }) => results)])
    .nullish()
    .transform((list) => list ?? []);
}

/** The fields of an entity, without those of its parts. */
export function namesOf({ shape }: z.ZodObject): string[] {
  return Object.keys(shape).filter((name) => name !== '__metadata' && !name.startsWith('to_'));
}

/** A text that SAP leaves empty or null where it has none. */
export const textOrEmpty = z
  .string()
  .nullish()
  .transform((text) => text ?? '');
/** SAP sends decimals as text; null where it has none. */
export const decimalOrZero = z
  .string()
  .nullish()
  .transform((text) => text ?? '0');
export const flagOrFalse = z
  .boolean()
  .nullish()
  .transform((value) => value === true);
export const metadataForm = z.object({ etag: z.string().optional() }).optional();

function odataQuery({ filter, select, expand, orderby, top }: Query): Record<string, string | undefined> {
  return {
    $filter: filter,
    $select: select?.join(','),
    $expand: expand?.join(','),
    $orderby: orderby,
    $top: top === undefined ? undefined : String(top),
  };
}

/** With `%20` for a blank: not every proxy reads `+` as one. */
function queryText(query: Readonly<Record<string, string | undefined>>): string {
  return Object.entries(query)
    .flatMap(([name, value]) => (value === undefined ? [] : [`${name}=${encodeURIComponent(value.toWellFormed())}`]))
    .join('&');
}

function parsed<T>(form: z.ZodType<T>, response: HttpResponse, path: string): T {
  const result = form.safeParse(response.json());
  if (result.success) return result.data;
  throw new TransientError(
    `what answered GET ${path.split('?')[0]} is not OData of SAP: ${z.prettifyError(result.error).slice(0, 300)}`,
  );
}

function entityOf<T>(form: z.ZodType<T>, row: unknown, place: string): T {
  const result = form.safeParse(row);
  if (result.success) return result.data;
  throw new ConfigError(
    `SAP's ${place} is not as the service describes it; compare its release with README.md: ${z.prettifyError(result.error).slice(0, 300)}`,
  );
}
