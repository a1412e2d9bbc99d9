/**
 * The quotations that Tryton holds, found again by the marker in their reference, or by the id that was written down when
 * they were made: users write the supplier's own number there.
 */
import { z } from 'sourcing-bridge/connector';
import { markerOf, withdrawnMark } from './batch.ts';
import type { Tryton } from './rpc.ts';
import { date, decimal, fieldNames, id, text } from './values.ts';

const stamp = z.union([z.string(), z.number()]).nullable();
const rows = z.array(
  z.object({
    id,
    number: z.string().nullable(),
    state: z.string(),
    reference: text,
    supplier: id,
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
const rowFields = fieldNames('number state reference supplier _timestamp', {
  lines: 'request quantity unit unit_price currency description supply_date _timestamp',
});
export type HeldQuotation = z.output<typeof rows>[number];

export const quotationModel = 'purchase.request.quotation';

export const referenceOfQuotation = (quotation: number) => `${quotationModel},${quotation}`;

/** What Tryton holds for these keys, by key; none that was withdrawn or cancelled. */
export async function findQuotations(
  tryton: Tryton,
  wanted: readonly { key: string; reference: string | undefined }[],
  signal: AbortSignal,
): Promise<ReadonlyMap<string, HeldQuotation[]>> {
  const markers = new Map(wanted.map(({ key }) => [key, markerOf('quotation', key)]));
  const known = new Map(wanted.map(({ key, reference }) => [key, idOf(reference)]));
  const domain = [
    ['state', '!=', 'cancelled'],
    [
      'OR',
      ['reference', 'in', [...markers.values()]],
      ['id', 'in', [...known.values()].filter((one) => one !== undefined)],
    ],
  ];
  const found = await tryton.ask(
    `${quotationModel}.search_read`,
    [domain, 0, null, [['id', 'ASC']], rowFields],
    rows,
    signal,
  );
  return new Map(
    [...markers].map(([key, marker]) => {
      const marked = found.filter(({ reference }) => reference === marker);
      // Users write the supplier's own number there.
      const own = found.filter((row) => row.id === known.get(key) && !row.reference.endsWith(withdrawnMark));
      return [key, marked.length > 0 ? marked : own];
    }),
  );
}

export function idOf(reference: string | undefined): number | undefined {
  const [name, number] = (reference ?? '').split(',');
  return name === quotationModel && /^\d+$/u.test(number ?? '') ? Number(number) : undefined;
}

/** With these a write is refused when somebody has changed one of them since it was read. */
export function timestampsOf(tasks: readonly { held: HeldQuotation | undefined }[]): Record<string, string> {
  return Object.fromEntries(
    tasks.flatMap(({ held }) =>
      held
        ? [
            [`${quotationModel},${held.id}`, String(held._timestamp)],
            ...held['lines.'].map((line) => [`${quotationModel}.line,${line.id}`, String(line._timestamp)]),
          ]
        : [],
    ),
  );
}
