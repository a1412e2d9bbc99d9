/**
 * The quotations that Tryton holds. One is found again by an attachment that is made right after it and whose hidden link
 * field holds the marker: the reference is the supplier's own number, and users write it there. Until then, and should the
 * attachment be gone, by the marker that the reference was made with, or by the id that the bridge has written down.
 */
import { z } from 'sourcing-bridge/connector';
import { markerOf } from './markers.ts';
import type { Tryton } from './rpc.ts';
import { date, decimal, fieldNames, id, idIn, type Read, referenceTo, stamp, text } from './values.ts';

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
    _timestamp: stamp,
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
        _timestamp: stamp,
      }),
    ),
  }),
);
const rowFields = fieldNames('number state reference supplier supplier.name warehouse create_uid _timestamp', {
  lines: 'request quantity unit unit_price currency description supply_date _timestamp',
});
const attachmentRows = z.array(z.object({ id, link: text, resource: text }));

export type HeldRow = z.output<typeof rows>[number];
export type HeldLine = HeldRow['lines.'][number];

export interface HeldQuotation {
  readonly row: HeldRow;
  /** The id of what it is found by; undefined: it has none, or none any more. */
  readonly attachment: number | undefined;
}

export const quotationModel = 'purchase.request.quotation';

export const referenceOfQuotation = (quotation: number) => referenceTo(quotationModel, quotation);

/** What the reference of one that was withdrawn ends with: it is found no more. */
export const withdrawnMark = ' withdrawn';

/** What Tryton holds for these keys, by key; none that was withdrawn or cancelled. */
export async function findQuotations(
  tryton: Tryton,
  wanted: readonly { key: string; reference: string | undefined }[],
  signal: AbortSignal,
): Promise<ReadonlyMap<string, HeldQuotation[]>> {
  const { user } = await tryton.self(signal);
  const markers = wanted.map(({ key }) => markerOf('quotation', key));
  const attachments = await findAttachments(tryton, markers, signal);
  const known = wanted.flatMap(({ reference }) => idIn(reference, quotationModel) ?? []);
  const domain = [
    ['state', '!=', 'cancelled'],
    ['OR', ['reference', 'in', markers], ['id', 'in', [...known, ...attachments.map(({ quotation }) => quotation)]]],
  ];
  const params = [domain, 0, null, [['id', 'ASC']], rowFields];
  const all = await tryton.ask(`${quotationModel}.search_read`, params, rows, signal);
  const live = all.filter(({ reference }) => !reference.endsWith(withdrawnMark));
  const attachmentOf = new Map(attachments.map(({ quotation, id: one }) => [quotation, one]));
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
      // A user's copy has the reference, too, but was not made by this user.
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
  return found.flatMap(({ id: one, link, resource }) => {
    const quotation = idIn(resource, quotationModel);
    return quotation === undefined ? [] : [{ id: one, link, quotation }];
  });
}

/** All that makes it up, for a change that nobody else's change may come before. */
export function readOf({ row }: HeldQuotation): Read[] {
  return [[quotationModel, row], ...row['lines.'].map((line): Read => [`${quotationModel}.line`, line])];
}
