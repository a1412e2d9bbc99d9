/**
 * The purchase requests that bids answer. Tryton compares quotations by them, so there is one for each lot of an event,
 * whoever bids: the one that the flow's mapping names (`request`), else one that is made, and found again by its
 * description, which nobody can edit.
 */
import { ConflictError, DataError, type QuotationDocument, type QuotationLine, z } from 'sourcing-bridge/connector';
import type { HeldQuotation } from './held-quotations.ts';
import { lotName, type WantedLine } from './lots.ts';
import { markerOf } from './markers.ts';
import type { ReferenceData } from './reference-data.ts';
import type { Tryton } from './rpc.ts';
import { sendBatch } from './send-batch.ts';
import type { Progress } from './task.ts';
import { id, ids, text } from './values.ts';

export interface PurchaseRequest {
  /** Undefined until it is made. */
  id: number | undefined;
  /** Empty for one that the mapping names. */
  readonly description: string;
  readonly wanted: WantedLine;
}

/** A lot that somebody bids for. */
export interface Bid {
  readonly wanted: WantedLine<QuotationLine>;
  readonly request: PurchaseRequest;
}

/** By description, those that Tryton has, the oldest first, and those that are to be made, once for a batch. */
export interface Requests {
  readonly held: ReadonlyMap<string, readonly RequestRow[]>;
  readonly missing: Map<string, PurchaseRequest>;
}

const requestRows = z.array(z.object({ id, description: text, state: z.string() }));
type RequestRow = z.output<typeof requestRows>[number];

/** In these Tryton takes further bids. */
const openStates: ReadonlySet<string> = new Set(['draft', 'quotation', 'received']);

export async function findRequests(
  tryton: Tryton,
  documents: readonly QuotationDocument[],
  signal: AbortSignal,
): Promise<Requests> {
  const descriptions = documents.flatMap(({ event, lines }) => lines.map(({ lot }) => describe(event.id, lot)));
  return { held: await findByDescription(tryton, [...new Set(descriptions)], signal), missing: new Map() };
}

async function findByDescription(
  tryton: Tryton,
  descriptions: readonly string[],
  signal: AbortSignal,
): Promise<ReadonlyMap<string, readonly RequestRow[]>> {
  if (descriptions.length === 0) return new Map();
  const params = [[['description', 'in', descriptions]], 0, null, [['id', 'ASC']], ['description', 'state']];
  const rows = await tryton.ask('purchase.request.search_read', params, requestRows, signal);
  return Map.groupBy(rows, ({ description }) => description);
}

/** The lot's name in the first line, what it is found by in the second. */
function describe(event: string, lot: string): string {
  return `${lotName(lot)}\n${markerOf('quotation', event, lot)}`;
}

/**
 * The request of each lot: the one that the quotation answers already, else the oldest that nobody has cancelled, else a
 * new one. Throws DataError for what the mapping gives wrongly, ConflictError where the lot was bought already.
 */
export function bidsOf(
  lines: readonly WantedLine<QuotationLine>[],
  { event }: QuotationDocument,
  held: HeldQuotation | undefined,
  requests: Requests,
): Bid[] {
  const answered = new Set(held?.row['lines.'].map(({ request }) => request));
  const bids = lines.map((wanted): Bid => {
    const named = wanted.line.fields?.['request'];
    if (named !== undefined) return { wanted, request: { id: idNamed(named, wanted), description: '', wanted } };
    const description = describe(event.id, wanted.line.lot);
    const rows = requests.held.get(description) ?? [];
    const row = rows.find((one) => answered.has(one.id)) ?? rows.find(({ state }) => state !== 'cancelled');
    if (row) {
      if (!held && !openStates.has(row.state))
        throw new ConflictError(
          `Lot "${wanted.lot}": its purchase request ${row.id} is ${row.state} in Tryton, which takes no more bids for it.`,
        );
      return { wanted, request: { id: row.id, description, wanted } };
    }
    const request = requests.missing.get(description) ?? { id: undefined, description, wanted };
    // One that is made for this document is the next one's, too.
    requests.missing.set(description, request);
    return { wanted, request };
  });
  const named = bids.filter(({ request }) => request.description === '');
  for (const { wanted, request } of named)
    if (named.some((other) => other.request.id === request.id && other.wanted !== wanted))
      throw new DataError(
        `Lot "${wanted.lot}" and another one name the purchase request ${request.id}: by it Tryton tells bids apart, so that each lot needs its own.`,
      );
  return bids;
}

function idNamed(name: string, { lot }: WantedLine): number {
  if (/^\d+$/u.test(name)) return Number(name);
  throw new DataError(`Lot "${lot}": the field request is "${name}" and not the id of a purchase request.`);
}

/** Makes, in one call, the requests that Tryton does not have. Tasks whose request it refuses fail. */
export async function makeMissingRequests(
  tryton: Tryton,
  tasks: readonly (Pick<Progress, 'error'> & { readonly bids: readonly Bid[] })[],
  data: ReferenceData,
  signal: AbortSignal,
): Promise<void> {
  const going = tasks.filter(({ error }) => error === undefined);
  const requests = going.flatMap(({ bids }) => bids.map(({ request }) => request));
  const missing = [...new Set(requests.filter((request) => request.id === undefined))];
  const made = await sendBatch(
    missing,
    async (some) => tryton.change('purchase.request.create', [some.map((one) => newRequest(one, data))], ids, signal),
    {
      signal,
      findMade: async (some) => {
        const found = await findByDescription(
          tryton,
          some.map(({ description }) => description),
          signal,
        );
        return some.map(({ description }) => found.get(description)?.find(({ state }) => state === 'draft')?.id);
      },
    },
  );
  const errors = new Map(missing.map((request, index) => [request, made[index]]));
  for (const [request, result] of errors) if (typeof result === 'number') request.id = result;
  for (const task of going)
    for (const { request } of task.bids) {
      const result = errors.get(request);
      if (result !== undefined && typeof result !== 'number') task.error = result;
    }
}

function newRequest({ description, wanted }: PurchaseRequest, data: ReferenceData): Record<string, unknown> {
  return {
    product: wanted.product?.id ?? null,
    description,
    quantity: wanted.quantity,
    uom: wanted.unit?.id ?? null,
    company: data.company,
    warehouse: data.warehouse({}),
  };
}
