/**
 * Bids, as a supplier's quotation (`purchase.request.quotation`) with a line for each lot. Its reference holds the marker.
 * Tryton compares quotations by the request that they answer, so there is one request for each lot of an event, whoever
 * bids: the one that the flow's mapping names (`request`), else one that is made, and found again by its description,
 * which nobody can edit.
 */
import {
  ConflictError,
  ConnectorError,
  DataError,
  type Found,
  LockedError,
  type Operation,
  type QuotationDocument,
  z,
} from 'sourcing-bridge/connector';
import {
  type Kind,
  markerOf,
  nothingYet,
  outcomeOfPrepared,
  type Prepared,
  plannedOf,
  sendAll,
  together,
  withdrawnMark,
} from './batch.ts';
import {
  findQuotations,
  type HeldQuotation,
  idOf,
  quotationModel,
  referenceOfQuotation,
  timestampsOf,
} from './held-quotations.ts';
import { checkMissing, codeOf, findSuppliers, makeMissing, type Supplier } from './parties.ts';
import { checkFields, productCodeOf, quotationAmount, wantedLine } from './purchase-lines.ts';
import {
  changesOf,
  goneLines,
  type Line,
  lineChanges,
  newLine,
  type QuotationLines,
  type Request,
  requestDescription,
} from './quotation-lines.ts';
import type { ReadReferenceData, ReferenceData } from './reference-data.ts';
import type { Tryton } from './rpc.ts';
import type { Settings } from './settings.ts';
import { id, text } from './values.ts';

const requestRows = z.array(z.object({ id, description: text }));
const ids = z.array(id);
const stateRows = z.array(z.object({ id, state: z.string() }));

const knownFields = ['warehouse'];
const knownLineFields = ['product', 'unit', 'description', 'supply_date', 'request'];

interface Task extends QuotationLines {
  readonly operation: Operation<'quotation'>;
  readonly prepared: Prepared;
  readonly supplier: Supplier;
}

export function createQuotations({
  tryton,
  settings,
  readReferenceData,
}: {
  tryton: Tryton;
  settings: Settings;
  readReferenceData: ReadReferenceData;
}): Kind<'quotation'> {
  async function prepare(
    operations: readonly Operation<'quotation'>[],
    signal: AbortSignal,
  ): Promise<{ tasks: Task[]; data: ReferenceData }> {
    const documents = operations.map(({ document }) => document);
    const data = await readReferenceData(
      {
        currencies: documents.map(({ currency }) => currency),
        products: documents.flatMap(({ lines }) => lines.flatMap((line) => productCodeOf(line, settings) ?? [])),
      },
      signal,
    );
    const suppliers = await findSuppliers(
      tryton,
      documents.map(({ supplier }) => supplier),
      signal,
    );
    const found = await findQuotations(
      tryton,
      operations.map(({ document: { key }, reference }) => ({ key, reference })),
      signal,
    );
    const requests = await findRequests(documents, signal);
    const tasks = operations.map((operation): Task => {
      const { document, action } = operation;
      const supplier = suppliers.get(codeOf(document.supplier)) as Supplier;
      const prepared = nothingYet();
      const all = found.get(document.key) ?? [];
      let task: Task = { operation, prepared, supplier, lines: [], held: all[0] };
      try {
        if (all.length > 1)
          throw new ConflictError(
            `Tryton holds ${all.length} quotations for these bids (ids ${all.map((one) => one.id).join(', ')}): cancel those that are not right.`,
          );
        if (task.held) prepared.reference = referenceOfQuotation(task.held.id);
        if (action === 'cancel') prepareWithdrawal(task);
        else {
          checkMissing(supplier, settings, prepared.steps);
          task = { ...task, lines: linesOf(document, data, requests) };
          prepareChanges(task, data);
        }
      } catch (error) {
        if (!(error instanceof ConnectorError)) throw error;
        prepared.error = error;
      }
      return task;
    });
    return { tasks, data };
  }

  /** By description, the oldest of each: two that are made at once are one from then on. */
  async function findRequests(
    documents: readonly QuotationDocument[],
    signal: AbortSignal,
  ): Promise<Map<string, Request>> {
    const descriptions = documents.flatMap(({ event, lines }) =>
      lines.map(({ lot }) => requestDescription(event.id, lot)),
    );
    const params = [[['description', 'in', [...new Set(descriptions)]]], 0, null, [['id', 'DESC']], ['description']];
    const held =
      descriptions.length === 0 ? [] : await tryton.ask('purchase.request.search_read', params, requestRows, signal);
    return new Map(held.map((row) => [row.description, { id: row.id, description: row.description, line: undefined }]));
  }

  function linesOf(document: QuotationDocument, data: ReferenceData, requests: Map<string, Request>): Line[] {
    checkFields(document.fields, knownFields, 'quotations');
    const all = document.lines.map((line): Line => {
      checkFields(line.fields, knownLineFields, 'lines of quotations');
      const wanted = wantedLine(line, quotationAmount(line), { data, settings, dateField: 'supply_date' });
      const named = line.fields?.['request'];
      if (named !== undefined && !/^\d+$/u.test(named))
        throw new DataError(
          `Lot "${wanted.lot}": the field request is "${named}" and not the id of a purchase request.`,
        );
      const description = requestDescription(document.event.id, line.lot);
      return {
        wanted,
        request:
          named === undefined
            ? (requests.get(description) ?? { id: undefined, description, line: wanted })
            : { id: Number(named), description: '', line: wanted },
      };
    });
    const named = all.filter(({ request }) => request.description === '');
    for (const { wanted, request } of named)
      if (named.some((other) => other.request.id === request.id && other.wanted !== wanted))
        throw new DataError(
          `Lot "${wanted.lot}" and another one name the purchase request ${request.id}: by it Tryton tells bids apart, so that each lot needs its own.`,
        );
    // One that is made here is the next document's, too.
    for (const { request } of all)
      if (request.description !== '' && !requests.has(request.description)) requests.set(request.description, request);
    return all;
  }

  function prepareWithdrawal({ prepared, held }: Task): void {
    if (!held) return;
    prepared.action = 'cancel';
    prepared.steps.push(
      `${held.state === 'received' || held.state === 'rejected' ? 'Reject' : 'Cancel'} the quotation ${held.number ?? held.id}, which is ${held.state}.`,
    );
  }

  function prepareChanges(task: Task, data: ReferenceData): void {
    const { prepared, held, supplier, operation } = task;
    const { steps } = prepared;
    const { currency } = operation.document;
    // What Tryton does not have is told before anything is sent.
    const currencyId = data.currency(currency);
    warehouseOf(operation.document, data);
    for (const { request, wanted } of task.lines)
      if (request.id === undefined) steps.push(`Make a purchase request for the lot "${wanted.lot}".`);
    if (!held) {
      prepared.action = 'create';
      steps.push(`Make a quotation (${settings.quotation_state}) of ${supplier.code} "${supplier.name}".`);
      for (const { wanted } of task.lines)
        steps.push(
          `Add a line: lot "${wanted.lot}", ${wanted.quantity} ${wanted.unit?.symbol ?? ''} at ${wanted.unitPrice} ${currency}.`,
        );
      return;
    }
    const before = steps.length;
    for (const line of task.lines) {
      const own = held['lines.'].find(({ request }) => request === line.request.id);
      if (!own) steps.push(`Add a line: lot "${line.wanted.lot}" at ${line.wanted.unitPrice} ${currency}.`);
      else if (Object.keys(lineChanges(own, line.wanted, currencyId)).length > 0)
        steps.push(
          `Change the line of the lot "${line.wanted.lot}": ${line.wanted.quantity} ${line.wanted.unit?.symbol ?? ''} at ${line.wanted.unitPrice} ${currency}.`,
        );
    }
    for (const gone of goneLines(task))
      steps.push(`Remove the line of a lot without a bid, at ${gone.unit_price ?? 'no price'}.`);
    if (stepsToState(held).length > 0) steps.push(`Make it ${settings.quotation_state}.`);
    if (steps.length > before) prepared.action = 'amend';
  }

  /** What leads to the state that is set, unless a user has taken it elsewhere. */
  function stepsToState({ state, number }: Pick<HeldQuotation, 'state' | 'number'>): ('send' | 'receive')[] {
    const { quotation_state: wanted } = settings;
    if (state === 'draft' && number === null)
      return wanted === 'received' ? ['send', 'receive'] : wanted === 'sent' ? ['send'] : [];
    return state === 'sent' && wanted === 'received' ? ['receive'] : [];
  }

  async function makeRequests(tasks: readonly Task[], data: ReferenceData, signal: AbortSignal): Promise<void> {
    const missing = new Map<Request, Task[]>();
    for (const task of tasks)
      for (const { request } of task.lines)
        if (request.id === undefined && !task.prepared.error)
          missing.set(request, [...(missing.get(request) ?? []), task]);
    const made = await together(
      [...missing.keys()],
      async (some) => {
        const values = some.map(({ description, line }) => ({
          product: line?.product?.id ?? null,
          description,
          quantity: line?.quantity,
          uom: line?.unit?.id ?? null,
          company: data.company,
          warehouse: data.defaultWarehouse ?? null,
        }));
        return tryton.change('purchase.request.create', [values], ids, signal);
      },
      signal,
    );
    for (const [index, [request, needing]] of [...missing].entries()) {
      const result = made[index];
      if (typeof result === 'number') request.id = result;
      else for (const task of needing) if (result) task.prepared.error = result;
    }
  }

  async function send(tasks: readonly Task[], data: ReferenceData, signal: AbortSignal): Promise<void> {
    await sendAll(
      tasks.filter(({ prepared }) => prepared.action === 'create'),
      async (some) => {
        const values = some.map((task) => ({
          supplier: task.supplier.id,
          supplier_address: task.supplier.address ?? null,
          company: data.company,
          warehouse: warehouseOf(task.operation.document, data),
          reference: markerOf('quotation', task.operation.document.key),
          lines: [['create', task.lines.map((line) => newLine(line, data.currency(task.operation.document.currency)))]],
        }));
        return tryton.change(`${quotationModel}.create`, [values], ids, signal);
      },
      signal,
      ({ prepared }, made) => {
        prepared.reference = referenceOfQuotation(made);
      },
      async (some) => {
        const keys = some.map(({ operation }) => operation.document.key);
        const wanted = keys.map((key) => ({ key, reference: undefined }));
        const found = await findQuotations(tryton, wanted, signal);
        return keys.map((key) => found.get(key)?.[0]?.id);
      },
    );
    const amended = tasks
      .filter(({ prepared }) => prepared.action === 'amend')
      .map((task) => ({ ...task, values: changesOf(task, data.currency(task.operation.document.currency)) }));
    await sendAll(
      amended.filter(({ values }) => values.length > 0),
      async (some) => {
        const pairs = some.flatMap(({ held, values }) => [[held?.id], { lines: values }]);
        await tryton.change(`${quotationModel}.write`, pairs, z.unknown(), signal, { _timestamp: timestampsOf(some) });
        return some;
      },
      signal,
    );
    const states = (task: Task) =>
      task.prepared.action === 'create'
        ? stepsToState({ state: 'draft', number: null })
        : task.held && task.prepared.action === 'amend'
          ? stepsToState(task.held)
          : [];
    await step(
      tasks.filter((task) => states(task).includes('send')),
      { method: 'send', to: 'sent' },
      signal,
    );
    await step(
      tasks.filter((task) => states(task).includes('receive')),
      { method: 'receive', to: 'received' },
      signal,
    );
  }

  /** Tryton does not say when a step was not possible: the state is read again. */
  async function step(
    tasks: readonly Task[],
    { method, to }: { method: string; to: string },
    signal: AbortSignal,
  ): Promise<void> {
    await sendAll(
      tasks,
      async (some) => {
        const all = some.map(({ prepared }) => idOf(prepared.reference) ?? 0);
        await tryton.change(`${quotationModel}.${method}`, [all], z.unknown(), signal);
        const now = await tryton.ask(`${quotationModel}.read`, [all, ['state']], stateRows, signal);
        return all.map((one) => now.find((row) => row.id === one)?.state ?? 'gone');
      },
      signal,
      ({ prepared }, state) => {
        if (state !== to)
          prepared.error = new LockedError(
            `${prepared.reference} is ${state} in Tryton and could not become ${to}: somebody works on it.`,
          );
      },
    );
  }

  /**
   * Cancelled where Tryton allows it, else rejected; then the reference says so: one that a user has rejected is still the
   * supplier's, and bids that come again make another.
   */
  async function withdraw(tasks: readonly Task[], signal: AbortSignal): Promise<void> {
    const inState = (state: string) => tasks.filter(({ held }) => held?.state === state);
    await step(inState('sent'), { method: 'draft', to: 'draft' }, signal);
    await step([...inState('sent'), ...inState('draft')], { method: 'cancel', to: 'cancelled' }, signal);
    await step(inState('received'), { method: 'reject', to: 'rejected' }, signal);
    await sendAll(
      tasks,
      async (some) => {
        const pairs = some.flatMap(({ held, operation }) => [
          [held?.id],
          { reference: `${markerOf('quotation', operation.document.key)}${withdrawnMark}` },
        ]);
        await tryton.change(`${quotationModel}.write`, pairs, z.unknown(), signal);
        return some;
      },
      signal,
    );
  }

  return {
    async write(operations, signal) {
      const { tasks, data } = await prepare(operations, signal);
      const kept = tasks.filter(({ operation }) => operation.action !== 'cancel');
      await makeMissing(tryton, kept, signal);
      await makeRequests(kept, data, signal);
      await send(kept, data, signal);
      await withdraw(
        tasks.filter(({ operation, held }) => operation.action === 'cancel' && held !== undefined),
        signal,
      );
      return tasks.map(({ prepared, operation }) => outcomeOfPrepared(prepared, operation));
    },
    async plan(operations, signal) {
      const { tasks } = await prepare(operations, signal);
      return tasks.map(({ prepared, operation }) => plannedOf(prepared, operation));
    },
    async lookup(documents, signal) {
      const found = await findQuotations(
        tryton,
        documents.map(({ key }) => ({ key, reference: undefined })),
        signal,
      );
      return documents.flatMap(({ key }) =>
        (found.get(key) ?? []).map(
          (row): Found => ({ key, reference: referenceOfQuotation(row.id), contentHash: undefined }),
        ),
      );
    },
  };
}

function warehouseOf({ fields }: QuotationDocument, data: ReferenceData): number | null {
  const name = fields?.['warehouse'];
  return (name === undefined ? data.defaultWarehouse : data.warehouse(name)) ?? null;
}
