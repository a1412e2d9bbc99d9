/**
 * Requests to SAP's OData V2 services. Reads follow the pages of the server; a change counts as done only when SAP
 * answers as its protocol says: 201 with the entity, or 204.
 */
import {
  type Clock,
  ConfigError,
  type ConnectorLog,
  createHttp,
  DataError,
  type HttpResponse,
  TransientError,
  UnknownOutcome,
  z,
} from 'sourcing-bridge/connector';
import { isLoginRefused, sapLogin } from './login.ts';
import { errorOfSap, warningsIn } from './messages.ts';
import type { Settings } from './settings.ts';

export interface Query {
  readonly filter?: string;
  readonly select?: readonly string[];
  readonly expand?: readonly string[];
  readonly orderby?: string;
  readonly top?: number;
}

/** What SAP has changed, and what it warned of. */
export interface Written {
  /** The entity of a POST. */
  readonly entity: unknown;
  readonly warnings: readonly string[];
}

export interface OData {
  /** All entities of a set that the query names, page by page. `service` and `set` are SAP's names. */
  list<T>(service: string, set: string, entity: z.ZodType<T>, query: Query, signal: AbortSignal): Promise<T[]>;
  /** One entity; undefined where SAP has none. */
  get<T>(
    service: string,
    path: string,
    entity: z.ZodType<T>,
    query: Query,
    signal: AbortSignal,
  ): Promise<T | undefined>;
  post(service: string, path: string, entity: object, signal: AbortSignal): Promise<Written>;
  /** Changes these members only. Without an ETag of SAP's, whatever SAP holds is changed. */
  patch(service: string, path: string, change: object, etag: string | undefined, signal: AbortSignal): Promise<Written>;
  delete(service: string, path: string, etag: string | undefined, signal: AbortSignal): Promise<Written>;
  /** A function import that changes nothing (GET): the list that it returns. */
  ask<T>(service: string, name: string, entity: z.ZodType<T>, given: Parameters, signal: AbortSignal): Promise<T[]>;
  /** A function import that changes something (POST): what it returns. Parameters are texts or `datetime'…'`. */
  call<T>(service: string, name: string, result: z.ZodType<T>, given: Parameters, signal: AbortSignal): Promise<T>;
  /** Creates an entity of bytes. */
  upload(service: string, set: string, content: Upload, signal: AbortSignal): Promise<Written>;
  /** The service's own description (EDMX). */
  metadata(service: string, signal: AbortSignal): Promise<string>;
  close(): Promise<void>;
}

/** By name, written as OData has them: `'4711'`, `datetime'2030-12-31T00:00:00'`. */
type Parameters = Readonly<Record<string, string>>;

export interface Upload {
  readonly bytes: Uint8Array;
  readonly headers: Readonly<Record<string, string>>;
}

export const orderService = 'API_PURCHASEORDER_PROCESS_SRV';

export interface Certificates {
  readonly caPem?: string | undefined;
  readonly client?: { readonly certPem: string; readonly keyPem: string } | undefined;
}

/** No read of the connector needs more: its filters name single documents, or its caller asks by pages. */
const pagesMax = 200;
const page = z.object({
  d: z.union([z.array(z.unknown()), z.object({ results: z.array(z.unknown()), __next: z.string().optional() })]),
});
const single = z.object({ d: z.record(z.string(), z.unknown()) });

export function createOData(
  settings: Settings,
  { clock, log, certificates }: { clock: Clock; log: ConnectorLog; certificates: Certificates },
): OData {
  const { client, language, service_path, timeout_seconds, connections } = settings;
  const common = { ...(client === undefined ? {} : { 'sap-client': client }), 'sap-language': language };
  const http = createHttp({
    baseUrl: settings.url.replace(/(?<!\/)\/+$/u, ''),
    auth: [sapLogin(settings, `${service_path}/${orderService}/?${queryText({ ...common, $format: 'json' })}`, clock)],
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
    `${service_path}/${service}/${path}?${queryText({ ...common, ...query })}`;

  async function read(path: string, signal: AbortSignal): Promise<HttpResponse> {
    return http.request({ method: 'GET', path, signal });
  }

  async function change(
    method: string,
    path: string,
    body: object | undefined,
    etag: string | undefined,
    signal: AbortSignal,
  ) {
    const isCreate = method === 'POST';
    const response = await http.request({
      method,
      path,
      headers: isCreate ? {} : { 'if-match': etag ?? '*' },
      ...(body === undefined ? {} : { json: body }),
      signal,
    });
    if (response.status === (isCreate ? 201 : 204)) return response;
    throw new UnknownOutcome(
      `SAP answered ${response.status} to ${method} ${path.split('?')[0]}, where it answers ${isCreate ? 201 : 204} when it is done`,
    );
  }

  /** The caller keeps those of orders in their texts; the other services have no text, so the log keeps theirs. */
  function warned(service: string, path: string, response: HttpResponse): string[] {
    const warnings = warningsIn(response);
    if (warnings.length > 0 && service !== orderService) log.warn('SAP warned', { of: `${service}/${path}`, warnings });
    return warnings;
  }

  return {
    async list(service, set, entity, query, signal) {
      const found: unknown[] = [];
      let path = urlOf(service, set, odataQuery(query));
      for (let pages = 0; pages < pagesMax; pages += 1) {
        const answer = parsed(page, await read(path, signal), path);
        const { results, __next: next } = Array.isArray(answer.d) ? { results: answer.d, __next: undefined } : answer.d;
        found.push(...results);
        if (next === undefined) return found.map((row) => entityOf(entity, row, set));
        // Only the token of the link is used: a proxy may have another address than SAP writes into it.
        const token = /[?&]\$skip(?:token)?=[^&]*/u.exec(next)?.[0];
        if (token === undefined) throw new TransientError(`SAP's link to the next page of ${set} has no $skiptoken`);
        path = `${urlOf(service, set, odataQuery(query))}&${token.slice(1)}`;
      }
      throw new ConfigError(`SAP has more than ${pagesMax} pages of ${set} for one question`);
    },
    async get(service, path, entity, query, signal) {
      const url = urlOf(service, path, odataQuery(query));
      const response = await http.request({ method: 'GET', path: url, accept: [404], signal });
      if (response.status === 404) {
        // A gateway's own 404 says nothing about the entity.
        if (response.jsonIfAny() !== undefined) return undefined;
        throw new ConfigError(
          `there is no OData service at ${service_path}/${service} (404): check settings.service_path`,
        );
      }
      return entityOf(entity, parsed(single, response, url).d, path);
    },
    async post(service, path, entity, signal) {
      const response = await change('POST', urlOf(service, path), entity, undefined, signal);
      const { data } = single.safeParse(response.jsonIfAny());
      if (!data)
        throw new UnknownOutcome(`SAP answered 201 to POST ${service}/${path} without the entity that it has made`);
      return { entity: data.d, warnings: warned(service, path, response) };
    },
    async patch(service, path, body, etag, signal) {
      const response = await change('PATCH', urlOf(service, path), body, etag, signal);
      return { entity: undefined, warnings: warned(service, path, response) };
    },
    async delete(service, path, etag, signal) {
      const response = await change('DELETE', urlOf(service, path), undefined, etag, signal);
      return { entity: undefined, warnings: warned(service, path, response) };
    },
    async ask(service, name, entity, given, signal) {
      const path = urlOf(service, name, { ...given, $format: 'json' });
      const { d } = parsed(page, await read(path, signal), path);
      return (Array.isArray(d) ? d : d.results).map((row) => entityOf(entity, row, name));
    },
    async call(service, name, result, given, signal) {
      const path = urlOf(service, name, { ...given, $format: 'json' });
      const response = await http.request({ method: 'POST', path, signal });
      warned(service, name, response);
      const { data } = single.safeParse(response.jsonIfAny());
      // A complex type stands under the function's name.
      const parsedResult = result.safeParse(data?.d[name] ?? data?.d);
      if (parsedResult.success) return parsedResult.data;
      throw new UnknownOutcome(
        `SAP answered ${response.status} to POST ${service}/${name}, without what the function returns`,
      );
    },
    async upload(service, set, { bytes, headers }, signal) {
      const path = urlOf(service, set);
      const response = await http.request({ method: 'POST', path, headers, body: bytes, signal });
      const { data } = single.safeParse(response.jsonIfAny());
      if (response.status !== 201 || !data)
        throw new UnknownOutcome(`SAP answered ${response.status} to POST ${service}/${set} without an entity`);
      return { entity: data.d, warnings: warned(service, set, response) };
    },
    async metadata(service, signal) {
      const path = urlOf(service, '$metadata');
      const response = await http.request({ method: 'GET', path, headers: { accept: 'application/xml' }, signal });
      return response.text();
    },
    close: () => http.close(),
  };
}

/** A text in a filter or a key. */
export function literal(text: string): string {
  return `'${text.replaceAll("'", "''")}'`;
}

/** `A_PurchaseOrder('4500000001')`, `A_PurchaseOrderItem(PurchaseOrder='4500000001',PurchaseOrderItem='10')`. */
export function entityPath(set: string, key: string | Readonly<Record<string, string>>): string {
  const text =
    typeof key === 'string'
      ? literal(key)
      : Object.entries(key)
          .map(([name, value]) => `${name}=${literal(value)}`)
          .join(',');
  return `${set}(${encodeURIComponent(text.toWellFormed())})`;
}

/** `a eq 'x' or a eq 'y'`. */
export function anyOf(property: string, values: readonly string[]): string {
  return values.map((value) => `${property} eq ${literal(value)}`).join(' or ');
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

/** The day of such a date: `2030-12-31`; undefined for anything else. */
export function dayOfDate(value: string | null | undefined): string | undefined {
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

/** As `expanded`; empty also where SAP's answer to a change has a link instead of the list. */
export function expandedOrLink<T>(entity: z.ZodType<T>) {
  const link = z.object({ __deferred: z.unknown() }).transform((): T[] => []);
  return z.union([expanded(entity), link]);
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
    $format: 'json',
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
