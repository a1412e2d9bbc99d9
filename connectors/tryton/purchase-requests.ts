/**
 * The purchase requests that bids answer. Tryton compares quotations by purchase request, so all suppliers' bids for a
 * lot of an event answer the same one: the request that the flow's mapping names (field `request`), else one that the
 * connector creates. It finds that one again by its description, which users cannot edit.
 */
import {
  ConflictError,
  DataError,
  type Progress,
  type QuotationDocument,
  type QuotationLine,
  z,
} from 'sourcing-bridge/connector';
import type { HeldQuotation } from './held-quotations.ts';
import { lotName, type WantedLine } from './lots.ts';
import { markerOf } from './markers.ts';
import type { ReferenceData } from './reference-data.ts';
import type { Tryton } from './rpc.ts';
import { sendBatch } from './send-batch.ts';
import { id, ids, text } from './values.ts';

export interface PurchaseRequest {
  /** Undefined until the request is created. */
  id: number | undefined;
  /** Empty if the mapping names the request. */
  readonly description: string;
  readonly wanted: WantedLine;
}

/** A supplier's bid for a lot, and the purchase request that it answers. */
export interface Bid {
  readonly wanted: WantedLine<QuotationLine>;
  readonly request: PurchaseRequest;
}

/** The purchase requests for the lots of a batch, by description. */
export interface Requests {
  /** Those that Tryton has, the oldest first. */
  readonly held: ReadonlyMap<string, readonly RequestRow[]>;
  /** Those to create. `bidsOf` adds to it, so that each is created once per batch. */
  readonly missing: Map<string, PurchaseRequest>;
}

const requestRows = z.array(z.object({ id, description: text, state: z.string() }));
type RequestRow = z.output<typeof requestRows>[number];

/** The states in which Tryton takes further bids for a request. */
const openRequestStates: ReadonlySet<string> = new Set(['draft', 'quotation', 'received']);

/** Reads the purchase requests that the connector created for the lots of these documents. */
export async function findRequests(
  tryton: Tryton,
  documents: readonly QuotationDocument[],
  signal: AbortSignal,
): Promise<Requests> {
  const descriptions = documents.flatMap(({ event, lines }) =>
    lines.map(({ lot }) => requestDescription(event.id, lot)),
  );
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

/** The lot's name in the first line; in the second, the marker that keeps the text unique. */
function requestDescription(event: string, lot: string): string {
  return `${lotName(lot)}\n${markerOf('quotation', event, lot)}`;
}

/**
 * The bid for each lot, with its purchase request: the request that the quotation already answers, else the oldest one
 * that is not cancelled, else a new one. Throws DataError if the field `request` of the mapping is wrong, ConflictError
 * if the lot was already purchased.
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
    const description = requestDescription(event.id, wanted.line.lot);
    const rows = requests.held.get(description) ?? [];
    const row =
      rows.find(({ id: request }) => answered.has(request)) ?? rows.find(({ state }) => state !== 'cancelled');
    if (row) {
      if (!held && !openRequestStates.has(row.state))
        throw new ConflictError(
          `Lot "${wanted.lot}": its purchase request ${row.id} is ${row.state} in Tryton, which takes no more bids for it.`,
        );
      return { wanted, request: { id: row.id, description, wanted } };
    }
    const request = requests.missing.get(description) ?? { id: undefined, description, wanted };
    // A later document of the batch with the same lot uses the same new request.
    requests.missing.set(description, request);
    return { wanted, request };
  });
  const named = bids.filter(({ request }) => request.description === '');
  for (const { wanted, request } of named)
    if (named.some((other) => other.request.id === request.id && other.wanted !== wanted))
      throw new DataError(
        `Lot "${wanted.lot}" and another one name the purchase request ${request.id}. Tryton tells bids apart by their request: name a different one for each lot.`,
      );
  return bids;
}

function idNamed(name: string, { lot }: WantedLine): number {
  if (/^\d+$/u.test(name)) return Number(name);
  throw new DataError(`Lot "${lot}": the field request is "${name}" and not the id of a purchase request.`);
}

/** Creates, in one call, the requests that Tryton does not have. If Tryton refuses one, the tasks that need it fail. */
export async function createMissingRequests(
  tryton: Tryton,
  tasks: readonly (Pick<Progress, 'error'> & { readonly bids: readonly Bid[] })[],
  data: ReferenceData,
  signal: AbortSignal,
): Promise<void> {
  const due = tasks.filter(({ error }) => error === undefined);
  const requests = due.flatMap(({ bids }) => bids.map(({ request }) => request));
  const missing = [...new Set(requests.filter((request) => request.id === undefined))];
  const results = await sendBatch(
    missing,
    async (batch) =>
      tryton.change('purchase.request.create', [batch.map((request) => newRequest(request, data))], ids, signal),
    {
      signal,
      findCreated: async (batch) => {
        const found = await findByDescription(
          tryton,
          batch.map(({ description }) => description),
          signal,
        );
        return batch.map(({ description }) => found.get(description)?.find(({ state }) => state === 'draft')?.id);
      },
    },
  );
  const resultOf = new Map(missing.map((request, index) => [request, results[index]]));
  for (const [request, result] of resultOf) if (typeof result === 'number') request.id = result;
  for (const task of due)
    for (const { request } of task.bids) {
      const result = resultOf.get(request);
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
