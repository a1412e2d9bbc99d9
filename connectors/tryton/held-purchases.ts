/**
 * The purchase that an award becomes: one for each event and supplier, with a line for each lot.
 *
 * It is recognised by an attachment that is made with it, in one transaction: its hidden link field holds the marker, its
 * description what was written last, its data the bid sheet for the buyer. The purchase's reference holds the marker,
 * too, but users write there; and a copy that a user makes of a purchase keeps the reference, but not the attachment.
 *
 * A draft or quotation follows the award, lot by lot; what users edit in between stays (plan-purchase.ts). A purchase that was
 * confirmed, or that a user cancelled, is never changed: that is a conflict, told with the differences.
 */
import { z } from 'sourcing-bridge/connector';
import { markerOf } from './markers.ts';
import type { Tryton } from './rpc.ts';
import type { Settings } from './settings.ts';
import { date, decimal, fieldNames, id, idIn, type Read, referenceTo, stamp, text } from './values.ts';

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
  create_uid: id.nullable(),
  write_uid: id.nullable(),
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
    'party.': z.object({ name: text }),
    currency: id,
    'currency.': z.object({ code: text }),
    warehouse: id.nullable(),
    'warehouse.': z.object({ name: text }).nullish(),
    purchase_date: date.nullable(),
    delivery_date: date.nullable(),
    create_uid: id.nullable(),
    write_uid: id.nullable(),
    _timestamp: stamp,
    'lines.': z.array(lineRow),
    'attachments.': z.array(z.object({ id, link: text, description: text, _timestamp: stamp })),
  }),
);

const purchaseFields = fieldNames(
  'number state reference description comment party party.name currency currency.code warehouse warehouse.name purchase_date delivery_date create_uid write_uid _timestamp',
  {
    lines:
      'type product product.code unit unit.symbol quantity unit_price description note delivery_date_store taxes create_uid write_uid _timestamp',
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
  /** It was made a draft for the time of a change, and is to become a quotation again. */
  quote_due: z.boolean().optional(),
  head: values,
  lines: z.record(z.string(), values),
});
export type Written = z.output<typeof written>;

export interface HeldPurchase {
  readonly row: HeldRow;
  /** Undefined: nobody knows. */
  readonly written: Written | undefined;
  readonly attachment: HeldRow['attachments.'][number] | undefined;
  /** Whether nobody but the bridge's user has written to the purchase or its lines. */
  readonly isUntouched: boolean;
  /** Whether the bridge's user was the last to write to the purchase itself. */
  readonly isLastWriter: boolean;
}

export const purchaseModel = 'purchase.purchase';
export const referenceOfPurchase = (purchase: number) => referenceTo(purchaseModel, purchase);
export const openStates: ReadonlySet<string> = new Set(['draft', 'quotation']);

/** What Tryton holds for these keys, by key. */
export async function findPurchases(
  tryton: Tryton,
  wanted: readonly { key: string; reference: string | undefined }[],
  signal: AbortSignal,
): Promise<ReadonlyMap<string, HeldPurchase[]>> {
  const { user } = await tryton.self(signal);
  const markers = new Map(wanted.map(({ key }) => [key, markerOf('award', key)]));
  const known = new Map(wanted.map(({ key, reference }) => [key, idIn(reference, purchaseModel)]));
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
    const of = { row, isUntouched: isUntouched(row, user), isLastWriter: (row.write_uid ?? row.create_uid) === user };
    // Answers and files may be attached to it, too, with markers of their own.
    const own = row['attachments.'].filter((one) => all.has(one.link) || writtenIn(one) !== undefined);
    for (const [link, [attachment]] of Map.groupBy(own, (one) => one.link))
      if (attachment) add(byAttachment, link, { ...of, attachment, written: writtenIn(attachment) });
    if (own.length > 0) continue;
    // Its attachment is gone. A user's copy has none either, but was not made by this user.
    const bare = { ...of, attachment: undefined, written: undefined };
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

function isUntouched({ write_uid, 'lines.': lines }: HeldRow, user: number): boolean {
  const own = [null, user];
  return own.includes(write_uid) && lines.every((one) => one.create_uid === user && own.includes(one.write_uid));
}

/** All that makes it up, for a change that nobody else's change may come before. */
export function readOf({ row, attachment }: HeldPurchase): Read[] {
  return [
    [purchaseModel, row],
    ...row['lines.'].map((line): Read => ['purchase.line', line]),
    ...(attachment ? [['ir.attachment', attachment] as const] : []),
  ];
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
export function contentHashOf(held: HeldPurchase, settings: Settings): string | undefined {
  const { written } = held;
  if (!written || written.withdrawn) return undefined;
  return isUnfinished(held, settings) ? undefined : written.content_hash;
}

/** Whether it is a draft that should be a quotation, and not one that a user took back. */
export function isUnfinished({ row, written, isLastWriter }: HeldPurchase, { purchase_state }: Settings): boolean {
  if (row.state !== 'draft') return false;
  if (written?.quote_due && isLastWriter) return true;
  // What was ever quoted has a number.
  return purchase_state === 'quotation' && row.number === null;
}
