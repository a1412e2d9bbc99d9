/**
 * The purchases that Tryton holds for awards: one purchase per event and supplier, with one line per lot.
 *
 * The connector recognises a purchase by an attachment that it creates together with it, in one transaction. The
 * attachment's hidden link field holds the marker, its description records what was written last, and its data is the
 * bid sheet for the buyer. The purchase's reference holds the marker, too, but users write into that field. And if a
 * user copies a purchase, the copy keeps the reference, but not the attachment.
 *
 * A draft or quotation follows the award, lot by lot; users' edits stay (plan-purchase.ts). A purchase that was
 * confirmed, or that a user cancelled, is never changed: the operation ends as a conflict that lists the differences.
 */
import { z } from 'sourcing-bridge/connector';
import { markerOf } from './markers.ts';
import type { Tryton } from './rpc.ts';
import type { Settings } from './settings.ts';
import { date, decimal, fieldNames, id, idIn, type ReadRecord, referenceTo, text, timestamp } from './values.ts';

const nullableText = z
  .string()
  .nullable()
  .transform((value) => (value === '' ? null : value));

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
  _timestamp: timestamp,
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
    _timestamp: timestamp,
    'lines.': z.array(lineRow),
    'attachments.': z.array(z.object({ id, link: text, description: text, _timestamp: timestamp })),
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

export type PurchaseRow = z.output<typeof purchaseRows>[number];
export type PurchaseLine = z.output<typeof lineRow>;

/** What the bridge wrote last, as the attachment's description records it in JSON. */
const fieldValues = z.record(z.string(), z.union([z.string(), z.number(), z.boolean(), z.null()]));
const lastWrittenRecord = z.object({
  content_hash: z.string(),
  withdrawn: z.boolean().optional(),
  /** The bridge made it a draft for the time of a change, and it is to become a quotation again. */
  quote_due: z.boolean().optional(),
  head: fieldValues,
  /** By lot. */
  lines: z.record(z.string(), fieldValues),
});
export type LastWritten = z.output<typeof lastWrittenRecord>;

export interface HeldPurchase {
  readonly row: PurchaseRow;
  /** Undefined if it is not known: the attachment is gone, or users have changed its description. */
  readonly lastWritten: LastWritten | undefined;
  readonly attachment: PurchaseRow['attachments.'][number] | undefined;
  /** Whether only the bridge's user has written to the purchase and its lines. */
  readonly isUntouched: boolean;
  /** Whether the bridge's user was the last to write to the purchase itself. */
  readonly isLastWriter: boolean;
}

export const purchaseModel = 'purchase.purchase';
export const referenceOfPurchase = (purchase: number) => referenceTo(purchaseModel, purchase);
export const openPurchaseStates: ReadonlySet<string> = new Set(['draft', 'quotation']);

/** The purchases that Tryton holds, cancelled ones included, by document key. */
export async function findPurchases(
  tryton: Tryton,
  wanted: readonly { key: string; reference: string | undefined }[],
  signal: AbortSignal,
): Promise<ReadonlyMap<string, HeldPurchase[]>> {
  const { user } = await tryton.session(signal);
  const markers = new Map(wanted.map(({ key }) => [key, markerOf('award', key)]));
  const known = new Map(wanted.map(({ key, reference }) => [key, idIn(reference, purchaseModel)]));
  const allMarkers = new Set(markers.values());
  const domain = [
    'OR',
    ['attachments.link', 'in', [...allMarkers]],
    ['reference', 'in', [...allMarkers]],
    ['id', 'in', [...known.values()].filter((purchase) => purchase !== undefined)],
  ];
  const params = [domain, 0, null, [['id', 'ASC']], purchaseFields];
  const rows = await tryton.ask('purchase.purchase.search_read', params, purchaseRows, signal);
  const byAttachment = new Map<string, HeldPurchase[]>();
  const byReference = new Map<string, HeldPurchase[]>();
  const byId = new Map<number, HeldPurchase>();
  for (const row of rows) {
    const common = {
      row,
      isUntouched: isUntouched(row, user),
      isLastWriter: (row.write_uid ?? row.create_uid) === user,
    };
    // Answers and files may be attached to the purchase, too, with markers of their own.
    const own = row['attachments.'].filter(
      (attachment) => allMarkers.has(attachment.link) || lastWrittenIn(attachment) !== undefined,
    );
    for (const [link, [attachment]] of Map.groupBy(own, (candidate) => candidate.link))
      if (attachment) add(byAttachment, link, { ...common, attachment, lastWritten: lastWrittenIn(attachment) });
    if (own.length > 0) continue;
    // The attachment is gone. A user's copy has none either, but the bridge's user did not create it.
    const bare = { ...common, attachment: undefined, lastWritten: undefined };
    byId.set(row.id, bare);
    if (row.create_uid === user && row.reference !== null) add(byReference, row.reference, bare);
  }
  return new Map(
    [...markers].map(([key, marker]) => {
      const purchase = known.get(key);
      const bare = purchase === undefined ? undefined : byId.get(purchase);
      return [key, byAttachment.get(marker) ?? (bare ? [bare] : undefined) ?? byReference.get(marker) ?? []];
    }),
  );
}

function add<K, V>(map: Map<K, V[]>, key: K, value: V): void {
  map.set(key, [...(map.get(key) ?? []), value]);
}

function isUntouched({ write_uid, 'lines.': lines }: PurchaseRow, user: number): boolean {
  const allowed = [null, user];
  return (
    allowed.includes(write_uid) && lines.every((line) => line.create_uid === user && allowed.includes(line.write_uid))
  );
}

/** All records of the purchase, so that a change is refused if a user has changed one of them after it was read. */
export function recordsOfPurchase({ row, attachment }: HeldPurchase): ReadRecord[] {
  return [
    [purchaseModel, row],
    ...row['lines.'].map((line): ReadRecord => ['purchase.line', line]),
    ...(attachment ? [['ir.attachment', attachment] as const] : []),
  ];
}

/** Reads the last line that starts with `{`: users may have added text to the description. */
function lastWrittenIn({ description }: { description: string }): LastWritten | undefined {
  const line = description.split('\n').findLast((candidate) => candidate.startsWith('{'));
  if (line === undefined) return undefined;
  try {
    return lastWrittenRecord.safeParse(JSON.parse(line)).data;
  } catch {
    return undefined;
  }
}

/** The description of the attachment: a sentence for users, then the record in one line of JSON. */
export function attachmentText(record: LastWritten): string {
  return `Kept by the sourcing bridge, which finds the purchase by this attachment: leave it in place.\n${JSON.stringify(record)}`;
}

/** Whether the purchase counts: it is not cancelled. */
export function isLive({ row }: HeldPurchase): boolean {
  return row.state !== 'cancelled';
}

/** The hash of the content written last; undefined if part of that content may be missing in Tryton. */
export function contentHashOf(held: HeldPurchase, settings: Settings): string | undefined {
  const { lastWritten } = held;
  if (!lastWritten || lastWritten.withdrawn) return undefined;
  return dueSteps(held, settings).length > 0 ? undefined : lastWritten.content_hash;
}

/** The steps of Tryton's workflow that the purchase still has to take, and that no user has undone. */
export function dueSteps(
  { row, lastWritten, isLastWriter }: HeldPurchase,
  { purchase_state }: Settings,
): ('quote' | 'confirm')[] {
  const confirm = purchase_state === 'confirmed' ? (['confirm'] as const) : [];
  if (row.state === 'quotation') return isLastWriter ? [...confirm] : [];
  if (row.state !== 'draft') return [];
  // A purchase gets its number when it becomes a quotation for the first time.
  const isQuoteDue = (lastWritten?.quote_due && isLastWriter) || (purchase_state !== 'draft' && row.number === null);
  return isQuoteDue ? ['quote', ...confirm] : [];
}
