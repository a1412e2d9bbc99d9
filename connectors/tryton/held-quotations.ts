/**
 * The quotations that Tryton holds for bids. The connector recognises a quotation by an attachment that it creates
 * right after it, whose hidden link field holds the marker. The quotation's reference is created with the marker, too,
 * but users replace it by the supplier's own number. As long as there is no attachment, the quotation is found by that
 * reference, or by the id that the bridge has stored.
 */
import { z } from 'sourcing-bridge/connector';
import { markerOf } from './markers.ts';
import type { Tryton } from './rpc.ts';
import { date, decimal, fieldNames, id, idIn, type ReadRecord, referenceTo, text, timestamp } from './values.ts';

const rows = z.array(
  z.object({
    id,
    number: z.string().nullable(),
    state: z.string(),
    reference: text,
    supplier: id,
    'supplier.': z.object({ name: text }),
    warehouse: id.nullable(),
    create_uid: id.nullable(),
    _timestamp: timestamp,
    'lines.': z.array(
      z.object({
        id,
        request: id,
        quantity: z.number(),
        unit: id.nullable(),
        unit_price: decimal.nullable(),
        currency: id.nullable(),
        description: text,
        supply_date: date.nullable(),
        _timestamp: timestamp,
      }),
    ),
  }),
);
const rowFields = fieldNames('number state reference supplier supplier.name warehouse create_uid _timestamp', {
  lines: 'request quantity unit unit_price currency description supply_date _timestamp',
});
const attachmentRows = z.array(z.object({ id, link: text, resource: text }));

export type QuotationRow = z.output<typeof rows>[number];
export type QuotationLineRow = QuotationRow['lines.'][number];

export interface HeldQuotation {
  readonly row: QuotationRow;
  /** The id of the attachment; undefined if it was not created yet, or is gone. */
  readonly attachment: number | undefined;
}

export const quotationModel = 'purchase.request.quotation';

export const referenceOfQuotation = (quotation: number) => referenceTo(quotationModel, quotation);

/** The end of a withdrawn quotation's reference. A quotation with this ending is not found any more. */
export const withdrawnMark = ' withdrawn';

/**
 * The quotations that Tryton holds, by document key, without those that were withdrawn; also without cancelled ones,
 * unless they are wanted.
 */
export async function findQuotations(
  tryton: Tryton,
  wanted: readonly { key: string; reference: string | undefined }[],
  signal: AbortSignal,
  { withCancelled = false }: { withCancelled?: boolean } = {},
): Promise<ReadonlyMap<string, HeldQuotation[]>> {
  const { user } = await tryton.session(signal);
  const markers = wanted.map(({ key }) => markerOf('quotation', key));
  const attachments = await findAttachments(tryton, markers, signal);
  const known = wanted.flatMap(({ reference }) => idIn(reference, quotationModel) ?? []);
  const domain = [
    ...(withCancelled ? [] : [['state', '!=', 'cancelled']]),
    ['OR', ['reference', 'in', markers], ['id', 'in', [...known, ...attachments.map(({ quotation }) => quotation)]]],
  ];
  const params = [domain, 0, null, [['id', 'ASC']], rowFields];
  const all = await tryton.ask(`${quotationModel}.search_read`, params, rows, signal);
  const live = all.filter(({ reference }) => !reference.endsWith(withdrawnMark));
  const attachmentOf = new Map(attachments.map(({ quotation, id: attachment }) => [quotation, attachment]));
  const held = live.map((row): HeldQuotation => ({ row, attachment: attachmentOf.get(row.id) }));
  return new Map(
    wanted.map(({ key, reference }, index) => {
      const marker = markers[index];
      const own = new Set(attachments.filter(({ link }) => link === marker).map(({ quotation }) => quotation));
      const attached = held.filter(({ row }) => own.has(row.id));
      if (attached.length > 0) return [key, attached];
      const bare = held.filter(({ attachment }) => attachment === undefined);
      const byId = bare.filter(({ row }) => row.id === idIn(reference, quotationModel));
      if (byId.length > 0) return [key, byId];
      // A user's copy has the reference, too, but the bridge's user did not create it.
      return [key, bare.filter(({ row }) => row.reference === marker && row.create_uid === user)];
    }),
  );
}

/** The attachments with these markers, with the id of their quotation. */
export async function findAttachments(
  tryton: Tryton,
  markers: readonly string[],
  signal: AbortSignal,
): Promise<{ id: number; link: string; quotation: number }[]> {
  const params = [[['link', 'in', markers]], 0, null, [['id', 'ASC']], ['link', 'resource']];
  const found = await tryton.ask('ir.attachment.search_read', params, attachmentRows, signal);
  return found.flatMap(({ id: attachment, link, resource }) => {
    const quotation = idIn(resource, quotationModel);
    return quotation === undefined ? [] : [{ id: attachment, link, quotation }];
  });
}

/** All records of the quotation, so that a change is refused if a user has changed one of them after it was read. */
export function recordsOfQuotation({ row }: HeldQuotation): ReadRecord[] {
  return [[quotationModel, row], ...row['lines.'].map((line): ReadRecord => [`${quotationModel}.line`, line])];
}
