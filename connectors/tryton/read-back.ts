/**
 * What Tryton holds of awards, bids and suppliers, field by field, beside what a write makes of the document. Values that
 * only users set are not compared: other contacts, comment lines, the state of the workflow.
 */
import {
  type AwardDocument,
  awardAmount,
  ConnectorError,
  type DocumentKind,
  fieldsOf,
  hasDifference,
  type Operation,
  type QuotationDocument,
  type ReadBack,
  type ReadField,
  type TakenDocument,
  z,
} from 'sourcing-bridge/connector';
import type { HeldPurchase, PurchaseLine } from './held-purchases.ts';
import { isLive, purchaseModel, referenceOfPurchase } from './held-purchases.ts';
import { type HeldQuotation, quotationModel, referenceOfQuotation } from './held-quotations.ts';
import { quotationAmount, type WantedLine, wantedLines } from './lots.ts';
import { linesByLot } from './plan-purchase.ts';
import type { Requests } from './purchase-requests.ts';
import { bidsOf } from './purchase-requests.ts';
import { headValues, noteOf, ownNote } from './purchase-values.ts';
import type { ReferenceData } from './reference-data.ts';
import type { Tryton } from './rpc.ts';
import type { Settings } from './settings.ts';
import { datetime, type FieldValue, id, idIn, text } from './values.ts';

const forms = { names: ['lot'] };

/** Runs `read` for each delivered document; a record that Tryton or the mapping refuses makes it unclear. */
export function answerEach<Kind extends DocumentKind>(
  deliveries: readonly TakenDocument<Kind>[],
  read: (delivery: TakenDocument<Kind>) => ReadBack,
): ReadBack[] {
  return deliveries.map((delivery) => {
    try {
      return read(delivery);
    } catch (error) {
      if (!(error instanceof ConnectorError)) throw error;
      return { key: delivery.document.key, status: 'unclear', reason: error.message };
    }
  });
}

/** Chooses the object that the bridge knows, else the only one that is live. */
function chooseOne<Held>(
  held: readonly Held[],
  {
    reference,
    isLiveOne,
    referenceOf,
  }: {
    reference: string | undefined;
    isLiveOne: (held: Held) => boolean;
    referenceOf: (held: Held) => string;
  },
): { live: Held } | { cancelled: string } | { several: number } | undefined {
  const live = held.filter(isLiveOne);
  const own = live.find((one) => referenceOf(one) === reference);
  if (own) return { live: own };
  if (live.length > 1) return { several: live.length };
  const [only] = live;
  if (only) return { live: only };
  const cancelled = held.find((one) => referenceOf(one) === reference) ?? held[0];
  return cancelled && { cancelled: referenceOf(cancelled) };
}

/** What Tryton holds of an award that became a purchase. */
export function readPurchase(
  { document, reference }: TakenDocument<'award'>,
  held: readonly HeldPurchase[],
  { data, settings }: { data: ReferenceData; settings: Settings },
): ReadBack {
  const { key } = document;
  const referenceOf = ({ row }: HeldPurchase) => referenceOfPurchase(row.id);
  const chosen = chooseOne(held, { reference, isLiveOne: isLive, referenceOf });
  if (!chosen) return { key, status: 'missing' };
  if ('cancelled' in chosen) return { key, status: 'cancelled', reference: chosen.cancelled };
  if ('several' in chosen)
    return { key, status: 'unclear', reason: `Tryton holds ${chosen.several} purchases for this award` };
  const { live } = chosen;
  const fields = [...headFields(document, live, data), ...purchaseLines(document, live, { data, settings })];
  // The bid sheet is the bridge's own copy, and taxes depend on rules in Tryton.
  const notCompared = ['the attached bid sheet', 'the taxes of the lines'];
  return { key, status: 'held', reference: referenceOf(live), fields, notCompared };
}

function headFields(document: AwardDocument, { row }: HeldPurchase, data: ReferenceData): ReadField[] {
  const supplier = data.supplier(document);
  const operation = { document } as Operation<'award'>;
  const wanted = headValues({ operation, supplier, lines: [] }, data);
  const warehouse = wanted['warehouse'] ?? null;
  const names: Readonly<Record<string, readonly [wanted: FieldValue | undefined, held: FieldValue | undefined]>> = {
    party: [supplier.name, row['party.'].name],
    currency: [document.currency, row['currency.'].code],
    warehouse: [warehouse === null ? null : data.warehouseName(Number(warehouse)), row['warehouse.']?.name],
  };
  const heldValues: Readonly<Record<string, FieldValue>> = { ...row } as never;
  return Object.entries(wanted).flatMap(([name, value]): ReadField[] => {
    // A warehouse that nothing names is left to users.
    if (name === 'warehouse' && document.fields?.['warehouse'] === undefined) return [];
    const [wantedName = value, heldName = heldValues[name]] = names[name] ?? [];
    return [recordField(name, { id: value, name: wantedName }, { id: heldValues[name] ?? null, name: heldName })];
  });
}

interface Named {
  readonly id: FieldValue | undefined;
  readonly name: FieldValue | undefined;
}

/** Records are compared by their ids, and shown by their names. */
function recordField(name: string, wanted: Named, held: Named): ReadField {
  const expected = textOf(wanted.name);
  const seen = textOf(held.name);
  if (wanted.id === held.id) return { name, expected, held: expected };
  return { name, expected, held: seen !== undefined && seen === expected ? `${seen} (${held.id})` : seen };
}

function textOf(value: FieldValue | undefined): string | undefined {
  return value === null || value === undefined || value === '' ? undefined : String(value);
}

function purchaseLines(
  document: AwardDocument,
  { row, lastWritten }: HeldPurchase,
  context: { data: ReferenceData; settings: Settings },
): ReadField[] {
  const wanted = wantedLines(document, 'awards', awardAmount, { ...context, dateField: 'delivery_date' });
  const byLot = linesByLot(row, lastWritten, wanted);
  const own = wanted.map((line) => ({ line, held: byLot.get(line.lot) }));
  const taken = new Set(own.map(({ held }) => held?.id));
  const added = row['lines.'].filter((line) => line.type === 'line' && !taken.has(line.id));
  return lineFields(
    own.map(({ line, held }) => ({
      lot: line.lot,
      wanted: { ...lineTexts(line, 'delivery_date'), note: noteOf(document, line) },
      held: held && {
        ...heldLineTexts(held, held.delivery_date_store, line),
        note: ownNote(held.note),
      },
    })),
    added.map((line) => ({ lot: line.description ?? 'a line', ...heldLineTexts(line, line.delivery_date_store) })),
  );
}

interface LineTexts {
  readonly [name: string]: FieldValue | undefined;
}

function lineFields(
  lines: readonly { readonly lot: string; readonly wanted: LineTexts; readonly held: LineTexts | undefined }[],
  added: readonly LineTexts[],
): ReadField[] {
  const expected = lines.map(({ lot, wanted }) => ({ lot, ...wanted }));
  const seen = [...lines.flatMap(({ lot, held }) => (held ? [{ lot, ...held }] : [])), ...added];
  return fieldsOf({ lines: expected }, { lines: seen }, forms);
}

function lineTexts(
  { product, unit, quantity, unitPrice, description, date }: WantedLine,
  dateField: string,
): LineTexts {
  return {
    product: product?.code ?? null,
    unit: unit?.symbol ?? null,
    quantity,
    unit_price: unitPrice,
    description,
    ...(date === undefined ? {} : { [dateField]: date }),
  };
}

/** With the wanted line, a product or unit of the same name that is another record is told apart. */
function heldLineTexts(line: PurchaseLine, date: string | null, wanted?: WantedLine): LineTexts {
  const { product, unit, quantity, unit_price, description } = line;
  const shown = (name: string | undefined, record: number | null, own: { id: number; name: string } | undefined) =>
    own !== undefined && own.id !== record && own.name === name ? `${name} (${record})` : (name ?? null);
  const ownProduct = wanted?.product && { id: wanted.product.id, name: wanted.product.code };
  const ownUnit = wanted?.unit && { id: wanted.unit.id, name: wanted.unit.symbol };
  return {
    product: shown(line['product.']?.code, product, ownProduct),
    unit: shown(line['unit.']?.symbol, unit, ownUnit),
    quantity,
    unit_price,
    description,
    ...(wanted && wanted.date === undefined ? {} : { delivery_date: date }),
  };
}

/** What Tryton holds of a supplier's bids. */
export function readQuotation(
  { document, reference }: TakenDocument<'quotation'>,
  held: readonly HeldQuotation[],
  { data, settings, requests }: { data: ReferenceData; settings: Settings; requests: Requests },
): ReadBack {
  const { key } = document;
  const referenceOf = ({ row }: HeldQuotation) => referenceOfQuotation(row.id);
  const isLiveOne = ({ row }: HeldQuotation) => row.state !== 'cancelled';
  const chosen = chooseOne(held, { reference, isLiveOne, referenceOf });
  if (!chosen) return { key, status: 'missing' };
  if ('cancelled' in chosen) return { key, status: 'cancelled', reference: chosen.cancelled };
  if ('several' in chosen)
    return { key, status: 'unclear', reason: `Tryton holds ${chosen.several} quotations for these bids` };
  const { live } = chosen;
  return {
    key,
    status: 'held',
    reference: referenceOf(live),
    fields: quotationFields(document, live, { data, settings, requests }),
  };
}

function quotationFields(
  document: QuotationDocument,
  live: HeldQuotation,
  { data, settings, requests }: { data: ReferenceData; settings: Settings; requests: Requests },
): ReadField[] {
  const { row } = live;
  const supplier = data.supplier(document);
  const lines = wantedLines(document, 'quotations', quotationAmount, { data, settings, dateField: 'supply_date' });
  const bids = bidsOf(lines, document, live, requests);
  const heldOf = (request: number | undefined) => row['lines.'].find((line) => line.request === request);
  const answered = new Set(bids.map(({ request }) => request.id));
  const currency = data.currency(document.currency);
  const heldTexts = (line: (typeof row)['lines.'][number], wanted?: WantedLine): LineTexts => ({
    quantity: line.quantity,
    unit: line.unit === (wanted?.unit?.id ?? null) ? (wanted?.unit?.symbol ?? null) : `unit ${line.unit}`,
    unit_price: line.unit_price,
    currency: line.currency === currency ? document.currency : `currency ${line.currency}`,
    description: line.description,
    ...(wanted && wanted.date === undefined ? {} : { supply_date: line.supply_date }),
  });
  return [
    recordField(
      'supplier',
      { id: supplier.id, name: supplier.name },
      { id: row.supplier, name: row['supplier.'].name },
    ),
    ...lineFields(
      bids.map(({ wanted, request }) => {
        const { product: _product, ...texts } = lineTexts(wanted, 'supply_date');
        const own = heldOf(request.id);
        return {
          lot: wanted.lot,
          wanted: { ...texts, currency: document.currency },
          held: own && heldTexts(own, wanted),
        };
      }),
      row['lines.']
        .filter(({ request }) => !answered.has(request))
        .map((line) => ({ lot: line.description === '' ? 'a line' : line.description, ...heldTexts(line) })),
    ),
  ];
}

const changeRows = z.array(
  z.object({
    id,
    write_date: datetime.nullable(),
    'write_uid.': z.object({ rec_name: text }).nullish(),
    'lines.': z
      .array(z.object({ write_date: datetime.nullable(), 'write_uid.': z.object({ rec_name: text }).nullish() }))
      .optional(),
  }),
);

/** Adds who has changed the objects last, and when, to those that differ. */
export async function addChanges(
  tryton: Tryton,
  answers: readonly ReadBack[],
  model: string,
  signal: AbortSignal,
): Promise<ReadBack[]> {
  const differing = answers.filter(hasDifference).flatMap(({ reference }) => idIn(reference, model) ?? []);
  if (differing.length === 0) return [...answers];
  const ofLines =
    model === purchaseModel || model === quotationModel ? ['lines.write_date', 'lines.write_uid.rec_name'] : [];
  const fields = ['write_date', 'write_uid.rec_name', ...ofLines];
  const rows = await tryton.ask(
    `${model}.search_read`,
    [[['id', 'in', differing]], 0, null, null, fields],
    changeRows,
    signal,
    {
      active_test: false,
    },
  );
  const changes = new Map(
    rows.map((row) => {
      const [last] = [row, ...(row['lines.'] ?? [])]
        .filter(({ write_date }) => write_date !== null)
        .toSorted((a, b) => ((a.write_date ?? '') < (b.write_date ?? '') ? 1 : -1));
      return [row.id, { by: last?.['write_uid.']?.rec_name, at: last?.write_date ?? undefined }];
    }),
  );
  return answers.map((answer) => {
    const changed = answer.status === 'held' ? changes.get(idIn(answer.reference, model) ?? -1) : undefined;
    return changed ? { ...answer, changed } : answer;
  });
}
