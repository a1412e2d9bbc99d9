/**
 * Makes one model, which SAP's OData server can serve, of SAP's descriptions of its services. The descriptions lack what
 * a server needs: many associations have no condition, and no child is marked as a part of its parent, which a deep
 * insert requires. Fields, types, lengths and keys stay as SAP describes them.
 */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';

/** The packages of the services that the connector uses: `@sap/cloud-sdk-vdm-<name>-service`. */
export const descriptions = [
  'purchase-order',
  'purchase-contract',
  'purchasing-info-record',
  'purchasing-pricing-condition-record',
  'request-for-quotation',
  'supplier-quotation',
  'attachment',
  'business-partner',
  'purchase-requisition',
];

export interface Element {
  type?: string;
  key?: boolean;
  length?: number;
  precision?: number;
  scale?: number;
  target?: string;
  cardinality?: { max?: string };
  on?: ({ ref?: string[] } | string)[];
  keys?: unknown;
}

interface Definition {
  kind: string;
  elements?: Record<string, Element>;
  [annotation: string]: unknown;
}

export interface Model {
  definitions: Record<string, Definition>;
}

/** Reads the descriptions from the packages in `folder`. */
export async function buildModel(folder: string): Promise<Model> {
  const definitions: Model['definitions'] = {};
  for (const name of descriptions) {
    const file = join(folder, `node_modules/@sap/cloud-sdk-vdm-${name}-service/${name}-service-csn.json`);
    const service = JSON.parse(await readFile(file, 'utf8')) as Model;
    for (const [id, definition] of Object.entries(service.definitions)) {
      if (definition.kind === 'service')
        Object.assign(definition, { '@protocol': 'odata', '@path': `/odata/v4/${id}`, '@requires': 'any' });
      if (definition.kind === 'entity') complete(definition, service.definitions);
      definitions[id] = definition;
    }
  }
  return { definitions };
}

function complete(entity: Definition, all: Model['definitions']): void {
  delete entity['@cds.persistence.skip'];
  const elements = entity.elements ?? {};
  const own = keysOf(entity);
  for (const [name, element] of Object.entries(elements)) {
    if (element.type !== 'cds.Association') continue;
    const target = all[element.target ?? ''];
    const theirs = target ? keysOf(target) : [];
    const joined = target && (element.on ? conditionKeys(element, name) : sharedKeys(element, entity, target));
    if (!target || !joined || joined.length === 0) {
      delete elements[name];
      continue;
    }
    if (!element.on) {
      element.on = joined.flatMap((key, n) => [...(n > 0 ? ['and'] : []), { ref: [name, key] }, '=', { ref: [key] }]);
      delete element.keys;
    }
    // The key of a child begins with that of its parent.
    const isChild = theirs.length > own.length && joined.every((key) => theirs.includes(key));
    // A business partner is created together with its data as a supplier, which SAP keeps under the same number.
    const isSupplierData = name === 'to_Supplier' && own.includes('BusinessPartner');
    // The number of an address is enough to find its e-mail addresses.
    const isEmail = name === 'to_EmailAddress' && own.includes('BusinessPartner');
    if (isSupplierData || isEmail || (isChild && joined.length >= own.length)) element.type = 'cds.Composition';
  }
}

function keysOf({ elements = {} }: Definition): string[] {
  return Object.entries(elements).flatMap(([name, { key }]) => (key ? [name] : []));
}

/** The names of the target's keys in the condition that SAP has given. */
function conditionKeys({ on = [] }: Element, name: string): string[] {
  return on.flatMap((part) =>
    typeof part === 'object' && part.ref?.length === 2 && part.ref[0] === name ? [part.ref[1] as string] : [],
  );
}

function sharedKeys({ cardinality }: Element, entity: Definition, target: Definition): string[] {
  const has = (key: string) => entity.elements?.[key] !== undefined && target.elements?.[key] !== undefined;
  const shared = (cardinality?.max === '*' ? keysOf(entity) : keysOf(target)).filter(has);
  return shared.length > 0 ? shared : keysOf(entity).filter((key) => target.elements?.[key] !== undefined);
}
