/** Sends what was decided about quotations, in as few calls as Tryton allows. */
import { z } from 'sourcing-bridge/connector';
import {
  findAttachments,
  findQuotations,
  type HeldQuotation,
  quotationModel,
  readOf,
  referenceOfQuotation,
  withdrawnMark,
} from './held-quotations.ts';
import { markerOf } from './markers.ts';
import { newQuotation, type QuotationTask, quotationChanges, stepsToState } from './plan-quotation.ts';
import type { ReferenceData } from './reference-data.ts';
import type { Tryton } from './rpc.ts';
import { sendTasks, takeStep } from './send-batch.ts';
import type { Settings } from './settings.ts';
import { ids, ifUnchanged, oneLine } from './values.ts';

interface Deps {
  readonly tryton: Tryton;
  readonly settings: Settings;
  readonly data: ReferenceData;
}

type HeldTask = QuotationTask & { readonly held: HeldQuotation };

export async function sendQuotations(tasks: readonly QuotationTask[], deps: Deps, signal: AbortSignal): Promise<void> {
  const held = tasks.filter((task): task is HeldTask => task.held !== undefined);
  const created = tasks.filter(({ action }) => action === 'create');
  const amended = held.filter(({ action }) => action === 'amend');
  await createQuotations(created, deps, signal);
  const unattached = amended.filter(({ held: { attachment } }) => attachment === undefined);
  await attachMarkers([...created, ...unattached], deps, signal);
  await amendQuotations(amended, deps, signal);
  const inState = new Map<QuotationTask, readonly string[]>([
    ...created.map((task) => [task, stepsToState({ state: 'draft', number: null }, deps.settings)] as const),
    ...amended.map((task) => [task, stepsToState(task.held.row, deps.settings)] as const),
  ]);
  for (const [method, to] of [
    ['send', 'sent'],
    ['receive', 'received'],
  ] as const) {
    const due = [...inState].filter(([, steps]) => steps.includes(method)).map(([task]) => task);
    await takeStep(deps.tryton, due, { model: quotationModel, method, to }, signal);
  }
  await withdraw(
    held.filter(({ action }) => action === 'cancel'),
    deps,
    signal,
  );
}

async function createQuotations(
  tasks: readonly QuotationTask[],
  { tryton, data }: Deps,
  signal: AbortSignal,
): Promise<void> {
  await sendTasks(
    tasks,
    async (some) => {
      const values = some.map((task) => ({ ...newQuotation(task, data), reference: markerFor(task) }));
      return tryton.change(`${quotationModel}.create`, [values], ids, signal);
    },
    {
      signal,
      done: (task, made) => {
        task.reference = referenceOfQuotation(made);
      },
      findMade: async (some) => {
        const keys = some.map(({ operation }) => operation.document.key);
        const wanted = keys.map((key) => ({ key, reference: undefined }));
        const found = await findQuotations(tryton, wanted, signal);
        return keys.map((key) => found.get(key)?.[0]?.row.id);
      },
    },
  );
}

const markerFor = ({ operation }: QuotationTask) => markerOf('quotation', operation.document.key);

/** A call of its own, as Tryton makes no attachment with a quotation: until it is done, the reference is the marker. */
async function attachMarkers(tasks: readonly QuotationTask[], { tryton }: Deps, signal: AbortSignal): Promise<void> {
  await sendTasks(
    tasks,
    async (some) => {
      const values = some.map((task) => ({
        name: `Bids ${oneLine(task.operation.document.event.name)}`,
        type: 'data',
        link: markerFor(task),
        resource: task.reference,
        description: 'Kept by the sourcing bridge: leave this attachment in place, by it the quotation is found again.',
      }));
      return tryton.change('ir.attachment.create', [values], ids, signal);
    },
    {
      signal,
      findMade: async (some) => {
        const found = await findAttachments(tryton, some.map(markerFor), signal);
        return some.map(
          (task) => found.find(({ quotation }) => referenceOfQuotation(quotation) === task.reference)?.id,
        );
      },
    },
  );
}

async function amendQuotations(tasks: readonly HeldTask[], { tryton, data }: Deps, signal: AbortSignal): Promise<void> {
  const changed = tasks.filter((task) => Object.keys(quotationChanges(task, task.held.row, data)).length > 0);
  await sendTasks(
    changed,
    async (some) => {
      const pairs = some.flatMap((task) => [[task.held.row.id], quotationChanges(task, task.held.row, data)]);
      const context = ifUnchanged(some.flatMap(({ held }) => readOf(held)));
      await tryton.change(`${quotationModel}.write`, pairs, z.unknown(), signal, context);
      return some;
    },
    { signal },
  );
}

/**
 * Cancelled where Tryton allows it, else rejected; then the reference says so: one that a user has rejected is still the
 * supplier's, and bids that come again make another.
 */
async function withdraw(tasks: readonly HeldTask[], { tryton }: Deps, signal: AbortSignal): Promise<void> {
  const inState = (state: string) => tasks.filter(({ held }) => held.row.state === state);
  const model = quotationModel;
  await takeStep(tryton, inState('sent'), { model, method: 'draft', to: 'draft' }, signal);
  const cancelled = [...inState('sent'), ...inState('draft')];
  await takeStep(tryton, cancelled, { model, method: 'cancel', to: 'cancelled' }, signal);
  await takeStep(tryton, inState('received'), { model, method: 'reject', to: 'rejected' }, signal);
  await sendTasks(
    tasks,
    async (some) => {
      const pairs = some.flatMap((task) => {
        const { id, reference } = task.held.row;
        return [[id], { reference: `${reference || markerFor(task)}${withdrawnMark}` }];
      });
      await tryton.change(`${model}.write`, pairs, z.unknown(), signal);
      return some;
    },
    { signal },
  );
  await sendTasks(
    tasks.filter(({ held }) => held.attachment !== undefined),
    async (some) => {
      const attachments = some.map(({ held }) => held.attachment);
      await tryton.change('ir.attachment.delete', [attachments], z.unknown(), signal);
      return some;
    },
    { signal },
  );
}
