/**
 * Links lines of purchases to the purchase requests of requisitions, so that Tryton shows what of a requisition is bought
 * and what is open. A request has one line of a purchase: so it is cut to what was awarded, and another one with the same
 * origin holds the rest. All changes for a purchase are one call, made as a write of the requisition's lines: Tryton does
 * all of them or none.
 *
 * Example: the requisition 7 asks for 10 kg in its line 12, and Tryton has made the request 31 of it.
 *
 *     awarded                        requests of the line 12 afterwards
 *     4 kg to A                      31: 4 kg, bought from A     32: 6 kg, open
 *     6 kg to B, too                 31: 4 kg, bought from A     32: 6 kg, bought from B
 *     A's award is withdrawn         31: 4 kg, open              32: 6 kg, bought from B
 *     A gets 1 kg after all          31: 1 kg, bought from A     32: 6 kg, bought from B     33: 3 kg, open
 */
import { type AwardDocument, ConflictError, LockedError, z } from 'sourcing-bridge/connector';
import { requisitionModel } from './acknowledge.ts';
import { lotName } from './lots.ts';
import { MissingModel, type Tryton } from './rpc.ts';
import type { Settings } from './settings.ts';
import { fieldNames, id, ifUnchanged, type ReadRecord, text, timestamp } from './values.ts';

const lineModel = 'purchase.requisition.line';
const requestModel = 'purchase.request';

const requestRow = z.object({
  id,
  state: z.string(),
  quantity: z.number(),
  uom: id.nullable(),
  'uom.': z.object({ digits: z.int(), symbol: text }).nullish(),
  purchase_line: id.nullable(),
  'purchase_line.': z
    .object({
      'purchase.': z.object({ id, number: z.string().nullable(), state: z.string(), create_uid: id.nullable() }),
    })
    .nullish(),
  _timestamp: timestamp,
  // As Tryton sends them: a request for the rest gets the same.
  product: z.unknown(),
  description: z.unknown(),
  party: z.unknown(),
  computed_quantity: z.unknown(),
  computed_uom: z.unknown(),
  purchase_date: z.unknown(),
  supply_date: z.unknown(),
  company: z.unknown(),
  warehouse: z.unknown(),
});
type RequestRow = z.output<typeof requestRow>;

const lineRows = z.array(
  z.object({
    id,
    'requisition.': z.object({ id, number: text, state: z.string() }),
    'purchase_requests.': z.array(requestRow),
  }),
);
type LineRow = z.output<typeof lineRows>[number];

const requestFields =
  'state quantity uom uom.digits uom.symbol purchase_line purchase_line.purchase.number purchase_line.purchase.state ' +
  'purchase_line.purchase.create_uid _timestamp product description party computed_quantity computed_uom purchase_date ' +
  'supply_date company warehouse';
const lineFields = fieldNames('requisition.number requisition.state', { purchase_requests: requestFields });

/** A lot of an award that was made of a line of a requisition. */
export interface RequisitionNeed {
  readonly lot: string;
  /** The requisition's number, and the id of its line. */
  readonly requisition: string;
  readonly line: number;
  /** What was awarded, and in which unit. */
  readonly quantity: number;
  readonly unit: number | null;
  /** Of the lot. */
  readonly share: number;
}

/**
 * The lots of the award that were made of requisitions, as the settings have them. `amountOf` returns what was awarded of
 * a lot; undefined for one that the purchase does not have.
 */
export function requisitionNeeds(
  { lines }: AwardDocument,
  { requisition_intakes }: Settings,
  amountOf: (lot: string) => { quantity: number; unit: number | null } | undefined,
): RequisitionNeed[] {
  return lines.flatMap(({ lot, requisition, share }) => {
    const amount = amountOf(lotName(lot));
    if (!requisition || !amount || !/^\d{1,15}$/u.test(requisition.line ?? '')) return [];
    if (requisition_intakes && !requisition_intakes.includes(requisition.intake)) return [];
    const { reference_id, line } = requisition;
    return [{ lot: lotName(lot), requisition: reference_id, line: Number(line), share: Number(share), ...amount }];
  });
}

/** A purchase request as it is, or as it is to be: for `quantity`, and for this line of a purchase. */
interface Part {
  readonly row: RequestRow;
  readonly isNew: boolean;
  quantity: number;
  purchaseLine: number | null;
}

interface HeldLine {
  readonly row: LineRow;
  readonly parts: Part[];
}

/** What Tryton holds of requisitions' lines. Each plan that is made of it takes its part, so the next one has the rest. */
export interface HeldRequisitions {
  readonly user: number;
  /** Lines of purchases that are not made yet get a negative number below this one. */
  newLine: number;
  readonly lines: ReadonlyMap<number, HeldLine>;
}

/** Reads the lines that the needs name. One that Tryton does not have is of another system: it is left out. */
export async function findRequisitions(
  tryton: Tryton,
  needs: readonly RequisitionNeed[],
  signal: AbortSignal,
): Promise<HeldRequisitions> {
  const { user, company } = await tryton.session(signal);
  if (needs.length === 0) return { user, newLine: 0, lines: new Map() };
  const domain = [
    ['id', 'in', [...new Set(needs.map(({ line }) => line))]],
    ['requisition.company', '=', company],
  ];
  const rows = await search(tryton, { model: lineModel, domain, fields: lineFields, rows: lineRows }, signal);
  const lines = rows
    .filter((row) =>
      needs.some(({ requisition, line }) => line === row.id && requisition === row['requisition.'].number),
    )
    .map((row): [number, HeldLine] => {
      const requests = row['purchase_requests.'].toSorted((one, other) => one.id - other.id);
      const parts = requests.map(
        (request): Part => ({
          row: request,
          isNew: false,
          quantity: request.quantity,
          purchaseLine: request.purchase_line,
        }),
      );
      return [row.id, { row, parts }];
    });
  return { user, newLine: 0, lines: new Map(lines) };
}

/** The records by id; none if the model's module is not activated. */
async function search<Row>(
  tryton: Tryton,
  {
    model,
    domain,
    fields,
    rows,
  }: { model: string; domain: readonly unknown[]; fields: readonly string[]; rows: z.ZodType<Row[]> },
  signal: AbortSignal,
): Promise<Row[]> {
  try {
    return await tryton.ask(`${model}.search_read`, [domain, 0, null, [['id', 'ASC']], fields], rows, signal);
  } catch (error) {
    if (error instanceof MissingModel) return [];
    throw error;
  }
}

/** The states of a request that is not purchased. The latter two: suppliers were asked for quotations. */
const openStates: ReadonlySet<string> = new Set(['draft', 'quotation', 'received']);

const isOpen = ({ row, isNew, purchaseLine }: Part) =>
  purchaseLine === null && (isNew || openStates.has(row.state) || row.purchase_line !== null);

export interface LinkPlan {
  /** Sentences for an operator. */
  readonly steps: readonly string[];
  /** What `purchase.requisition.line.write` takes: ids and values, in turn. */
  readonly pairs: readonly unknown[];
  /** The requests that change, as they were read. */
  readonly records: readonly ReadRecord[];
}

/**
 * How to link the lots to their requests. `lineOf` returns the id of a lot's line in the purchase; undefined for a lot
 * that has none. Throws ConflictError if a request was withdrawn or bought by a user: it would be bought twice.
 */
export function planLinks(
  needs: readonly RequisitionNeed[],
  held: HeldRequisitions,
  lineOf: (lot: string) => number | 'new' | undefined,
): LinkPlan {
  const steps: string[] = [];
  const touched = new Set<HeldLine>();
  for (const need of needs) {
    const line = held.lines.get(need.line);
    const lineId = lineOf(need.lot);
    if (!line || lineId === undefined) continue;
    if (lineId === 'new') held.newLine -= 1;
    const purchaseLine = lineId === 'new' ? held.newLine : lineId;
    refuseUnbuyable(line, need, { purchaseLine, user: held.user });
    const before = boughtBy(line, purchaseLine);
    allot(line, purchaseLine, amountOf(line, need));
    touched.add(line);
    const after = boughtBy(line, purchaseLine);
    if (after === before) continue;
    const open = sumOf(line.parts.filter(isOpen));
    const unit = line.row['purchase_requests.'][0]?.['uom.']?.symbol;
    const amount = [String(after), ...(unit === undefined ? [] : [unit])].join(' ');
    steps.push(
      `Lot "${need.lot}": mark ${amount} of the requisition ${need.requisition} as bought${open > 0 ? `, ${open} stay open` : ''}.`,
    );
  }
  const changes = [...touched].map(changesOf);
  return {
    steps,
    pairs: changes.flatMap(({ pairs }) => pairs),
    records: changes.flatMap(({ records }) => records),
  };
}

function refuseUnbuyable(
  { row, parts }: HeldLine,
  { lot, requisition }: RequisitionNeed,
  { purchaseLine, user }: { purchaseLine: number; user: number },
): void {
  if (parts.some((part) => part.purchaseLine === purchaseLine || isOpen(part))) return;
  // Another purchase of the same write buys it.
  if (parts.some((part) => part.purchaseLine !== part.row.purchase_line)) return;
  if (row['requisition.'].state === 'approved')
    throw new LockedError(
      `Tryton has not made the purchase requests of the requisition ${requisition} yet. If that stays so, process it there.`,
    );
  const bought = parts.flatMap(({ row: request }) => {
    const purchase = request['purchase_line.']?.['purchase.'];
    return purchase && request.state !== 'cancelled' ? [{ purchase, state: request.state }] : [];
  });
  if (bought.length === 0)
    throw new ConflictError(
      `Lot "${lot}": it was withdrawn from the requisition ${requisition} in Tryton, as it has no purchase request there any more. Process the requisition there to buy it all the same, and replay.`,
    );
  const nameOf = ({ purchase }: (typeof bought)[number]) => purchase.number ?? `with the id ${purchase.id}`;
  const exception = bought.find(({ state }) => state === 'exception');
  if (exception)
    throw new ConflictError(
      `Lot "${lot}": its purchase request waits in Tryton for a decision, as the purchase ${nameOf(exception)} was cancelled. Reset the request there to buy it again, and replay.`,
    );
  // Where more was awarded than requested, the bridge's own purchases have bought all of it.
  const other = bought.find(({ purchase }) => purchase.create_uid !== user);
  if (other)
    throw new ConflictError(
      `Lot "${lot}": the requisition ${requisition} was bought already in Tryton, by the purchase ${nameOf(other)}. Cancel that purchase and reset its request, and replay.`,
    );
}

/** What of the line is bought: the quantity where its unit is that of the requests, else the share of all of it. */
function amountOf({ parts }: HeldLine, { quantity, unit, share }: RequisitionNeed): number {
  const counted = parts.filter(({ row }) => row.state !== 'cancelled');
  if (counted.every(({ row }) => row.uom === unit)) return quantity;
  return share * sumOf(counted);
}

/** Takes `quantity` for the line of the purchase: from what it has, then from what is open, the oldest request first. */
function allot({ parts }: HeldLine, purchaseLine: number, quantity: number): void {
  let left = quantity;
  const own = parts.filter((part) => part.purchaseLine === purchaseLine);
  for (const part of [...own, ...parts.filter((each) => isOpen(each) && !own.includes(each))]) {
    const digits = part.row['uom.']?.digits ?? 2;
    left = rounded(left, digits);
    if (left > 0 && left < part.quantity) {
      const rest = rounded(part.quantity - left, digits);
      parts.push({ row: part.row, isNew: true, quantity: rest, purchaseLine: null });
      part.quantity = left;
    }
    part.purchaseLine = left > 0 ? purchaseLine : null;
    left -= Math.min(left, part.quantity);
  }
}

function boughtBy({ parts }: HeldLine, purchaseLine: number): number {
  return sumOf(parts.filter((part) => part.purchaseLine === purchaseLine));
}

function sumOf(parts: readonly Part[]): number {
  return rounded(
    parts.reduce((sum, { quantity }) => sum + quantity, 0),
    9,
  );
}

/** Quantities are floating-point numbers in Tryton, too: a difference such as 0.30000000000000004 is 0.3. */
function rounded(value: number, digits: number): number {
  return Number(value.toFixed(Math.min(Math.max(digits, 0), 9)));
}

function changesOf({ row, parts }: HeldLine): { pairs: readonly unknown[]; records: readonly ReadRecord[] } {
  const commands: unknown[] = [];
  const records: ReadRecord[] = [];
  for (const { row: request, isNew, quantity, purchaseLine } of parts) {
    const values = { quantity, purchase_line: purchaseLine, state: purchaseLine === null ? 'draft' : 'purchased' };
    if (isNew) commands.push(['create', [{ ...copyOf(request), ...values }]]);
    else if (quantity !== request.quantity || purchaseLine !== request.purchase_line) {
      commands.push(['write', [request.id], values]);
      records.push([requestModel, request]);
    }
  }
  return commands.length === 0
    ? { pairs: [], records }
    : { pairs: [[row.id], { purchase_requests: commands }], records };
}

/** The values for the request of a rest. */
function copyOf(request: RequestRow): Record<string, unknown> {
  const { product, description, party, uom, company, warehouse } = request;
  const { computed_quantity, computed_uom, purchase_date, supply_date } = request;
  const dates = { purchase_date, supply_date };
  return { product, description, party, uom, company, warehouse, computed_quantity, computed_uom, ...dates };
}

/** Links as planned, in one call. Rejects with LockedError if one of the requests was changed since it was read. */
export async function sendLinks(tryton: Tryton, { pairs, records }: LinkPlan, signal: AbortSignal): Promise<void> {
  if (pairs.length > 0)
    await tryton.change(`${lineModel}.write`, [...pairs], z.unknown(), signal, ifUnchanged(records));
}

const idRows = z.array(z.object({ id }));

/** Makes the requests of these purchases open again. Only then may a purchase be cancelled or deleted. */
export async function openRequests(tryton: Tryton, purchases: readonly number[], signal: AbortSignal): Promise<void> {
  if (purchases.length === 0) return;
  const domain = [
    ['purchase_line.purchase', 'in', purchases],
    ['origin', 'like', `${lineModel},%`],
  ];
  const rows = await search(tryton, { model: requestModel, domain, fields: ['id'], rows: idRows }, signal);
  const requests = rows.map((row) => row.id);
  if (requests.length > 0)
    await tryton.change(
      `${requestModel}.write`,
      [requests, { purchase_line: null, state: 'draft' }],
      z.unknown(),
      signal,
    );
}

const boughtStates: ReadonlySet<string> = new Set(['confirmed', 'processing', 'done']);

const requisitionRows = z.array(
  z.object({
    id,
    number: text,
    'lines.': z.array(
      z.object({
        'purchase_requests.': z.array(
          z.object({
            state: z.string(),
            'purchase_line.': z.object({ 'purchase.': z.object({ state: z.string() }) }).nullish(),
          }),
        ),
      }),
    ),
  }),
);

/**
 * The requisitions of the needs that are bought as a whole, and that Tryton shows as open: Tryton 6.0 counts a confirmed
 * purchase only until it is processed, so of two purchases that are confirmed one after the other, it counts the second.
 */
export async function findBought(
  tryton: Tryton,
  needs: readonly RequisitionNeed[],
  signal: AbortSignal,
): Promise<{ id: number; number: string }[]> {
  if (needs.length === 0) return [];
  const { company } = await tryton.session(signal);
  const domain = [
    ['lines', 'in', [...new Set(needs.map(({ line }) => line))]],
    ['number', 'in', [...new Set(needs.map(({ requisition }) => requisition))]],
    ['company', '=', company],
    ['state', '=', 'processing'],
  ];
  const fields = [
    'number',
    ...['state', 'purchase_line.purchase.state'].map((name) => `lines.purchase_requests.${name}`),
  ];
  const rows = await search(tryton, { model: requisitionModel, domain, fields, rows: requisitionRows }, signal);
  return rows.filter(({ 'lines.': lines }) => {
    const requests = lines.flatMap((line) => line['purchase_requests.']).filter(({ state }) => state !== 'cancelled');
    const isBought = requests.every(
      (request) =>
        request.state !== 'exception' && boughtStates.has(request['purchase_line.']?.['purchase.'].state ?? ''),
    );
    return requests.length > 0 && isBought;
  });
}

/** Makes Tryton show these requisitions as done. */
export async function markDone(tryton: Tryton, requisitions: readonly number[], signal: AbortSignal): Promise<void> {
  if (requisitions.length > 0)
    await tryton.change(`${requisitionModel}.write`, [requisitions, { state: 'done' }], z.unknown(), signal);
}
