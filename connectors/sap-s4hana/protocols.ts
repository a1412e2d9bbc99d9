/**
 * What differs between versions 2 and 4 of OData, as SAP's services speak them. Decimals are texts in both: a service of
 * V4 sends and takes numbers otherwise (OData 4.0, IEEE754Compatible), which lose digits.
 */
import { z } from 'sourcing-bridge/connector';
import type { Change } from './batch.ts';
import type { Settings } from './settings.ts';

export interface Protocol {
  /** Where its services are. */
  readonly root: (settings: Settings) => string;
  /** The type of its JSON. */
  readonly json: string;
  /** In the query of each read. */
  readonly format: string | undefined;
  readonly page: z.ZodType<{ rows: unknown[]; next: string | undefined }>;
  readonly entity: z.ZodType<Record<string, unknown>>;
  readonly isDone: (status: number, method: Change['method']) => boolean;
}

const v2: Protocol = {
  root: ({ service_path }) => service_path,
  json: 'application/json',
  format: 'json',
  page: z
    .object({
      d: z.union([z.array(z.unknown()), z.object({ results: z.array(z.unknown()), __next: z.string().optional() })]),
    })
    .transform(({ d }) => (Array.isArray(d) ? { rows: d, next: undefined } : { rows: d.results, next: d.__next })),
  entity: z.object({ d: z.record(z.string(), z.unknown()) }).transform(({ d }) => d),
  isDone: (status, method) => status === (method === 'POST' ? 201 : 204),
};

const v4: Protocol = {
  root: ({ service_path }) => service_path.replace(/\/odata\/sap$/u, '/odata4/sap'),
  json: 'application/json;IEEE754Compatible=true',
  format: undefined,
  page: z
    .object({ value: z.array(z.unknown()), '@odata.nextLink': z.string().optional() })
    .transform(({ value, '@odata.nextLink': next }) => ({ rows: value, next })),
  entity: z.record(z.string(), z.unknown()),
  // A change may answer with the entity.
  isDone: (status, method) => (method === 'POST' ? status === 201 : status === 200 || status === 204),
};

/** Services of V4 have several parts: `api_purchaseorder_2/srvd_a2x/sap/purchaseorder/0001`. */
export function isV4(service: string): boolean {
  return service.includes('/');
}

export function protocolOf(service: string): Protocol {
  return isV4(service) ? v4 : v2;
}

/** The path of the service, without a slash at its end. */
export function rootOf(service: string, settings: Settings): string {
  return `${protocolOf(service).root(settings)}/${service}`;
}

/** The service of a request by its path. */
export function serviceIn(path: string, settings: Settings): string {
  const root = `${v4.root(settings)}/`;
  const isOfV4 = root !== `${v2.root(settings)}/` && path.startsWith(root);
  const parts = path.slice(isOfV4 ? root.length : v2.root(settings).length + 1).split('/');
  return parts.slice(0, isOfV4 ? partsOfV4 : 1).join('/');
}

/** Of the name of a service of V4. */
const partsOfV4 = 5;
