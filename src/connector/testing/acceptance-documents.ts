/** Plain documents for an acceptance on a customer's test system: few digits, one currency, names that say what they are. */
import { randomUUID } from 'node:crypto';
import { z } from 'zod';
import type { AwardLine, Document, DocumentKind } from '#connector/documents.ts';
import { type Sample, sampleOf } from './sample-documents.ts';

const fields = z.record(z.string(), z.string());

/** What the customer's system has to have for the documents: all optional. */
export const acceptanceSample = z.strictObject({
  supplier: z
    .strictObject({ external_id: z.string().min(1), name: z.string().min(1) })
    .default({ external_id: 'SOURCING-BRIDGE-TEST', name: 'Acceptance of sourcing-bridge' })
    .describe('A supplier that the system has'),
  currency: z
    .string()
    .regex(/^[A-Z]{3}$/)
    .default('EUR'),
  quantity: z.string().default('2'),
  unit_price: z.string().default('3.5'),
  fields: fields.default({}).describe("As the flow's mapping makes them for the document"),
  line_fields: fields.default({}).describe("As the flow's mapping makes them for each line"),
});

export type AcceptanceSample = z.output<typeof acceptanceSample>;

/** A document of this kind, a changed one, and the withdrawn one, under a new key. */
export function acceptanceDocuments(kind: DocumentKind, given: AcceptanceSample): Sample {
  const sample = sampleOf(kind);
  const event = { id: randomUUID(), name: 'Acceptance of sourcing-bridge', type: 'RFQ', is_test: true, tags: [] };
  const supplier = { id: randomUUID(), ...given.supplier };
  const key = `${event.id}/${supplier.id}`;
  if (kind === 'award' || kind === 'quotation') {
    const version = (lots: readonly string[]) => pricedDocument(kind, { key, event, supplier }, lots, given);
    return {
      ...sample,
      key,
      versions: [version(['Lot A', 'Lot B']), version(['Lot A', 'Lot C']), version(['Lot A'])],
      withdrawn: version([]),
    };
  }
  if (kind === 'supplier') {
    const version = (name: string, archived: boolean): Document => ({
      kind,
      key: sample.key,
      external_id: sample.key,
      name,
      archived,
      attributes: [],
      contacts: [],
      fields: given.fields,
    });
    const { name } = given.supplier;
    return { ...sample, versions: [version(name, false), version(`${name} (2)`, false), version(name, true)] };
  }
  return sample;
}

function pricedDocument(
  kind: 'award' | 'quotation',
  head: Pick<Extract<Document, { kind: 'award' }>, 'key' | 'event' | 'supplier'>,
  lots: readonly string[],
  { currency, quantity, unit_price, fields, line_fields }: AcceptanceSample,
): Document {
  const lines = lots.map(
    (lot): AwardLine => ({ lot, share: '1', quantity, unit_price, cost: '7', values: [], fields: line_fields }),
  );
  const common = { ...head, currency, exchange_rates: [], fields };
  if (kind === 'award') return { kind, ...common, total_cost: String(7 * lots.length), lines };
  return {
    kind,
    ...common,
    lines: lines.map(({ share: _share, cost, ...line }) => ({ ...line, bids: [{ value: cost }] })),
  };
}
