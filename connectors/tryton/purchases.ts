/**
 * The purchase that an award becomes: one for each event and supplier, with a line for each lot.
 *
 * It is recognised by an attachment that is made with it, in one transaction: its hidden link field holds the marker, its
 * description what was written last, its data the bid sheet for the buyer. The purchase's reference holds the marker,
 * too, but users write there; and a copy that a user makes of a purchase keeps the reference, but not the attachment.
 *
 * A draft or quotation follows the award, lot by lot; what users edit in between stays (merge.ts). A purchase that was
 * confirmed, or that a user cancelled, is never changed: that is a conflict, told with the differences.
 */
import { z } from 'sourcing-bridge/connector';
import { markerOf } from './batch.ts';
import type { Tryton } from './rpc.ts';
import type { Settings } from './settings.ts';
import { date, decimal, fieldNames, id, text } from './values.ts';

const stamp = z.union([z.string(), z.number()]).nullable();
const nullableText = z
  .string()
  .nullable()
  .transform((given) => (given === '' ? null : given));

const lineRow = z.object({
  id,
  type: z.string(),
  product: id.nullable(),
  'product.': z.object({ code: text }).nullish(),
  unit: id.nullable(),
  'unit.': z.object({ symbol: text }).nullish(),
  quantity: z.number().nullable(),
  unit_price: decimal.nullable(),
  description: nullableText,
  note: text,
  delivery_date_store: date.nullable(),
  taxes: z.array(id),
  _timestamp: stamp,
});

const purchaseRows = z.array(
  z.object({
    id,
    number: z.string().nullable(),
    state: z.string(),
    reference: nullableText,
    description: nullableText,
    comment: nullableText,
    party: id,
    currency: id,
    warehouse: id.nullable(),
    purchase_date: date.nullable(),
    delivery_date: date.nullable(),
    create_uid: id.nullable(),
    _timestamp: stamp,
    'lines.': z.array(lineRow),
    'attachments.': z.array(z.object({ id, link: text, description: text, _timestamp: stamp })),
  }),
);

const purchaseFields = fieldNames(
  'number state reference description comment party currency warehouse purchase_date delivery_date create_uid _timestamp',
  {
    lines:
      'type product product.code unit unit.symbol quantity unit_price description note delivery_date_store taxes _timestamp',
    attachments: 'link description _timestamp',
  },
);

export type HeldRow = z.output<typeof purchaseRows>[number];
export type HeldLine = z.output<typeof lineRow>;

/** What was written last, as it stands in the attachment. */
const values = z.record(z.string(), z.union([z.string(), z.number(), z.boolean(), z.null()]));
const written = z.object({
  content_hash: z.string(),
  withdrawn: z.boolean().optional(),
  head: values,
  lines: z.record(z.string(), values),
});
export type Written = z.output<typeof written>;

export interface HeldPurchase {
  readonly row: HeldRow;
  /** Undefined: nobody knows. */
  readonly written: Written | undefined;
  readonly attachment: HeldRow['attachments.'][number] | undefined;
}

export const purchaseModel = 'purchase.purchase';
export const referenceOfPurchase = (purchase: number) => `${purchaseModel},${purchase}`;
export const openStates: ReadonlySet<string> = new Set(['draft', 'quotation']);

/** Fields that a flow's mapping may give an award, and each of its lots. */
export const awardFields = ['reference', 'description', 'comment', 'purchase_date', 'delivery_date', 'warehouse'];
export const awardLineFields = ['product', 'unit', 'description', 'delivery_date'];

/** What Tryton holds for these keys, by key. */
export async function findPurchases(
  tryton: Tryton,
  wanted: readonly { key: string; reference: string | undefined }[],
  signal: AbortSignal,
): Promise<ReadonlyMap<string, HeldPurchase[]>> {
  const { user } = await tryton.self(signal);
  const markers = new Map(wanted.map(({ key }) => [key, markerOf('award', key)]));
  const known = new Map(wanted.map(({ key, reference }) => [key, idOf(reference)]));
  const all = new Set(markers.values());
  const domain = [
    'OR',
    ['attachments.link', 'in', [...all]],
    ['reference', 'in', [...all]],
    ['id', 'in', [...known.values()].filter((one) => one !== undefined)],
  ];
  const params = [domain, 0, null, [['id', 'ASC']], purchaseFields];
  const rows = await tryton.ask('purchase.purchase.search_read', params, purchaseRows, signal);
  const byAttachment = new Map<string, HeldPurchase[]>();
  const byReference = new Map<string, HeldPurchase[]>();
  const byId = new Map<number, HeldPurchase>();
  for (const row of rows) {
    // Answers and files may be attached to it, too, with markers of their own.
    const own = row['attachments.'].filter((one) => all.has(one.link) || writtenIn(one) !== undefined);
    for (const attachment of own)
      add(byAttachment, attachment.link, { row, attachment, written: writtenIn(attachment) });
    if (own.length > 0) continue;
    // Its attachment is gone. A user's copy has none either, but was not made by this user.
    const bare = { row, attachment: undefined, written: undefined };
    byId.set(row.id, bare);
    if (row.create_uid === user && row.reference !== null) add(byReference, row.reference, bare);
  }
  return new Map(
    [...markers].map(([key, marker]) => {
      const own = known.get(key);
      const bare = own === undefined ? undefined : byId.get(own);
      return [key, byAttachment.get(marker) ?? (bare ? [bare] : undefined) ?? byReference.get(marker) ?? []];
    }),
  );
}

function add<K, V>(map: Map<K, V[]>, key: K, value: V): void {
  map.set(key, [...(map.get(key) ?? []), value]);
}

export function idOf(reference: string | undefined): number | undefined {
  const [model, number] = (reference ?? '').split(',');
  return model === purchaseModel && /^\d+$/u.test(number ?? '') ? Number(number) : undefined;
}

/** The last line of it; a user may have added to what stands before. */
function writtenIn({ description }: { description: string }): Written | undefined {
  const line = description.split('\n').findLast((one) => one.startsWith('{'));
  if (line === undefined) return undefined;
  try {
    return written.safeParse(JSON.parse(line)).data;
  } catch {
    return undefined;
  }
}

export function describe(record: Written): string {
  return `Kept by the sourcing bridge: leave this attachment in place, by it the purchase is found again.\n${JSON.stringify(record)}`;
}

export function isLive({ row }: HeldPurchase): boolean {
  return row.state !== 'cancelled';
}

/** Undefined: something of what was written last may be missing. */
export function contentHashOf({ row, written }: HeldPurchase, settings: Settings): string | undefined {
  if (!written || written.withdrawn) return undefined;
  return isUnfinished(row, settings) ? undefined : written.content_hash;
}

/** Whether it was never quoted, and should have been: a draft that a user took back has its number. */
export function isUnfinished({ state, number }: HeldRow, { purchase_state }: Settings): boolean {
  return purchase_state === 'quotation' && state === 'draft' && number === null;
}
