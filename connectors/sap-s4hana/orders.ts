/**
 * The service of purchase orders: API_PURCHASEORDER_2 (OData V4) where the system has it, else the one of V2, which SAP has
 * deprecated. The connector's own names are those of V2; this file translates them where V4 has others. They are those of
 * SAP's description of the service (CE_PURCHASEORDER_0001, `$metadata`), in which also stands whether header texts can be
 * changed: in older releases they cannot, and an amend has to renew the record that stands in one, so V2 is used there.
 */
import { ConfigError, z } from 'sourcing-bridge/connector';
import type { Change, Key } from './batch.ts';
import { dayOfDate, namesOf, type OData } from './odata.ts';
import { isV4 } from './protocols.ts';
import type { Settings } from './settings.ts';

export const orderServices = {
  v2: 'API_PURCHASEORDER_PROCESS_SRV',
  v4: 'api_purchaseorder_2/srvd_a2x/sap/purchaseorder/0001',
} as const;

/** Sets, and the parts of an order and of an item. */
const v4Names: Readonly<Record<string, string>> = {
  A_PurchaseOrder: 'PurchaseOrder',
  A_PurchaseOrderItem: 'PurchaseOrderItem',
  A_PurchaseOrderNote: 'PurchaseOrderNote',
  A_PurchaseOrderItemNote: 'PurchaseOrderItemNote',
  A_PurchaseOrderScheduleLine: 'PurchaseOrderScheduleLine',
  A_PurOrdAccountAssignment: 'PurchaseOrderAccountAssignment',
  to_PurchaseOrderItem: '_PurchaseOrderItem',
  to_PurchaseOrderNote: '_PurchaseOrderNote',
  to_PurchaseOrderItemNote: '_PurchaseOrderItemNote',
  to_ScheduleLine: '_PurchaseOrderScheduleLineTP',
  to_AccountAssignment: '_PurOrdAccountAssignment',
};
/** The key of a schedule line. */
const v4Keys: Readonly<Record<string, string>> = {
  PurchasingDocument: 'PurchaseOrder',
  PurchasingDocumentItem: 'PurchaseOrderItem',
};

/** The name of a field in V4: the deletion code has one name in the header, another in items. */
export function fieldInV4(set: string, name: string): string {
  return set === 'A_PurchaseOrder' && name === 'PurchasingDocumentDeletionCode' ? 'PurchaseOrderDeletionCode' : name;
}

export function nameInV4(name: string): string {
  return v4Names[name] ?? name;
}

type Entity = Readonly<Record<string, unknown>>;
type Form = Parameters<typeof namesOf>[0];

/** What is read of an order and of its parts, by their sets. */
type OrderForms = Readonly<
  Record<
    | 'A_PurchaseOrder'
    | 'A_PurchaseOrderItem'
    | 'A_PurchaseOrderNote'
    | 'A_PurchaseOrderScheduleLine'
    | 'A_PurOrdAccountAssignment',
    Form
  >
>;

export interface Orders {
  /** The service that is used: it is found once, by the first call. */
  service(signal: AbortSignal): Promise<string>;
  /** The orders for which one of the filters holds, as `order` has them. */
  find<T>(order: z.ZodType<T>, forms: OrderForms, filters: readonly string[], signal: AbortSignal): Promise<T[]>;
  /** One change. Returns what a POST has made. */
  change(change: Change, signal: AbortSignal): Promise<unknown>;
  /** All changes as one save, or none of them. */
  changeAll(changes: readonly Change[], signal: AbortSignal): Promise<void>;
}

export function createOrders(odata: OData, { purchase_orders: wanted }: Settings): Orders {
  let found: Promise<string> | undefined;
  const service = (signal: AbortSignal) => {
    found ??= findService(odata, wanted, signal).catch((error: unknown) => {
      found = undefined;
      throw error;
    });
    return found;
  };
  return {
    service,
    async find(order, forms, filters, signal) {
      const own = await service(signal);
      if (!isV4(own)) return odata.listAny(own, 'A_PurchaseOrder', order, filters, queryOfV2(forms), signal);
      const form = z.preprocess((row) => fromV4(row as Entity), order);
      return odata.listAny(own, 'PurchaseOrder', form, filters, queryOfV4(forms), signal);
    },
    async change(change, signal) {
      const own = await service(signal);
      return odata.change(own, isV4(own) ? changeInV4(change) : change, signal);
    },
    async changeAll(changes, signal) {
      const own = await service(signal);
      return odata.changeAll(own, isV4(own) ? changes.map(changeInV4) : changes, signal);
    },
  };
}

async function findService(odata: OData, wanted: 'v2' | 'v4' | undefined, signal: AbortSignal): Promise<string> {
  if (wanted === 'v2') return orderServices.v2;
  const description = await odata.metadata(orderServices.v4, signal);
  if (description !== undefined && canChangeNotes(description)) return orderServices.v4;
  if (wanted === undefined) return orderServices.v2;
  throw new ConfigError(
    `settings.purchase_orders is v4, and ${
      description === undefined
        ? `SAP has no service ${orderServices.v4}, or not for this user`
        : 'in this release its texts of an order (PurchaseOrderNote) cannot be changed, which an amend has to do'
    }: set it to v2`,
  );
}

/** Whether the description restricts no changes of header texts. */
function canChangeNotes(edmx: string): boolean {
  const [, annotations = ''] =
    /<Annotations Target="[^"]*\/PurchaseOrderNote"[^>]*>(.*?)<\/Annotations>/su.exec(edmx) ?? [];
  const tags = annotations.match(/<PropertyValue [^<>]*>/gu) ?? [];
  return !tags.some((tag) => tag.includes('Property="Updatable"') && tag.includes('Bool="false"'));
}

function queryOfV2(forms: OrderForms) {
  const under = (path: string, form: Form) => namesOf(form).map((name) => `${path}/${name}`);
  return {
    select: [
      ...namesOf(forms.A_PurchaseOrder),
      ...under('to_PurchaseOrderItem', forms.A_PurchaseOrderItem),
      ...under('to_PurchaseOrderItem/to_ScheduleLine', forms.A_PurchaseOrderScheduleLine),
      ...under('to_PurchaseOrderItem/to_AccountAssignment', forms.A_PurOrdAccountAssignment),
      ...under('to_PurchaseOrderNote', forms.A_PurchaseOrderNote),
    ],
    expand: [
      'to_PurchaseOrderItem/to_ScheduleLine',
      'to_PurchaseOrderItem/to_AccountAssignment',
      'to_PurchaseOrderNote',
    ],
  };
}

function queryOfV4(forms: OrderForms) {
  const part = (name: string, form: Form, more = '') => `${nameInV4(name)}($select=${namesOf(form).join(',')}${more})`;
  const ofItem = [
    part('to_ScheduleLine', forms.A_PurchaseOrderScheduleLine),
    part('to_AccountAssignment', forms.A_PurOrdAccountAssignment),
  ].join(',');
  return {
    select: namesOf(forms.A_PurchaseOrder).map((name) => fieldInV4('A_PurchaseOrder', name)),
    expand: [
      part('to_PurchaseOrderItem', forms.A_PurchaseOrderItem, `;$expand=${ofItem}`),
      part('to_PurchaseOrderNote', forms.A_PurchaseOrderNote),
    ],
  };
}

function changeInV4({ set, key, navigation, body, units, ...change }: Change): Change {
  return {
    ...change,
    set: nameInV4(set),
    ...(key === undefined ? {} : { key: keyInV4(key) }),
    ...(navigation === undefined ? {} : { navigation: nameInV4(navigation) }),
    ...(body === undefined ? {} : { body: toV4({ ...units, ...(body as Entity) }) }),
  };
}

function keyInV4(key: Key): Key {
  if (typeof key === 'string') return key;
  return Object.fromEntries(Object.entries(key).map(([name, value]) => [v4Keys[name] ?? name, value]));
}

/** A body with the names and days of V4, which wants the currency in each item and the unit in each schedule line. */
function toV4(entity: Entity): Entity {
  const { DocumentCurrency, PurchaseOrderQuantityUnit } = entity;
  const given: Readonly<Record<string, Entity>> = {
    to_PurchaseOrderItem: { DocumentCurrency },
    to_ScheduleLine: { PurchaseOrderQuantityUnit },
  };
  return Object.fromEntries(
    Object.entries(entity).map(([name, value]) => {
      if (Array.isArray(value)) return [nameInV4(name), value.map((part: Entity) => toV4({ ...given[name], ...part }))];
      return [name, name.endsWith('Date') ? dayOfDate(value as string) : value];
    }),
  );
}

const v2Names = new Map(Object.entries(v4Names).map(([v2, v4]) => [v4, v2]));

/** An order as V2 has it. */
function fromV4(entity: Entity): Entity {
  return Object.fromEntries(
    Object.entries(entity).map(([name, value]) => {
      if (Array.isArray(value)) return [v2Names.get(name) ?? name, value.map((part: Entity) => fromV4(part))];
      if (name === '@odata.etag') return ['__metadata', { etag: value }];
      return [name === 'PurchaseOrderDeletionCode' ? 'PurchasingDocumentDeletionCode' : name, value];
    }),
  );
}
