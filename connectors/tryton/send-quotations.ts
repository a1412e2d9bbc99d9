/** Carries out what was planned for quotations, in as few calls as Tryton allows. */
import { z } from 'sourcing-bridge/connector';
import {
  findAttachments,
  findQuotations,
  type HeldQuotation,
  quotationModel,
  recordsOfQuotation,
  referenceOfQuotation,
  withdrawnMark,
} from './held-quotations.ts';
import { markerOf } from './markers.ts';
import { newQuotation, type QuotationTask, quotationChanges, stepsToState } from './plan-quotation.ts';
import type { ReferenceData } from './reference-data.ts';
import type { Tryton } from './rpc.ts';
import { begun, runWorkflowStep, sendTasks } from './send-batch.ts';
import type { Settings } from './settings.ts';
import { ids, ifUnchanged, oneLine } from './values.ts';

interface Deps {
  readonly tryton: Tryton;
  readonly settings: Settings;
  readonly data: ReferenceData;
}

type HeldTask = QuotationTask & { readonly held: HeldQuotation };

/** A task that Tryton refuses gets the error; the others go on. */
export async function sendQuotations(tasks: readonly QuotationTask[], deps: Deps, signal: AbortSignal): Promise<void> {
  const held = tasks.filter((task): task is HeldTask => task.held !== undefined);
  const created = tasks.filter(({ action }) => action === 'create');
  const amended = held.filter(({ action }) => action === 'amend');
  await createQuotations(created, deps, signal);
  const unattached = amended.filter(({ held: { attachment } }) => attachment === undefined);
  await attachMarkers([...created, ...unattached], deps, signal);
  await amendQuotations(amended, deps, signal);
  const stepsOf = new Map<QuotationTask, readonly string[]>([
    ...created.map((task) => [task, stepsToState({ state: 'draft', number: null }, deps.settings)] as const),
    ...amended.map((task) => [task, stepsToState(task.held.row, deps.settings)] as const),
  ]);
  for (const [method, to] of [
    ['send', 'sent'],
    ['receive', 'received'],
  ] as const) {
    const due = [...stepsOf].filter(([, steps]) => steps.includes(method)).map(([task]) => task);
    await runWorkflowStep(deps.tryton, due, { model: quotationModel, method, to }, signal);
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
    async (batch) => {
      const values = batch.map((task) => ({ ...newQuotation(task, data), reference: markerFor(task) }));
      return tryton.change(`${quotationModel}.create`, [values], ids, signal);
    },
    {
      signal,
      done: (task, created) => {
        task.reference = referenceOfQuotation(created);
      },
      findCreated: async (batch) => {
        const keys = batch.map(({ operation }) => operation.document.key);
        const wanted = keys.map((key) => ({ key, reference: undefined }));
        const found = await findQuotations(tryton, wanted, signal);
        return keys.map((key) => found.get(key)?.[0]?.row.id);
      },
    },
  );
}

const markerFor = ({ operation }: QuotationTask) => markerOf('quotation', operation.document.key);

/**
 * Attaches the markers. This is a separate call, because Tryton creates no attachment together with a quotation. Until
 * it is done, the connector finds the quotation by its reference.
 */
async function attachMarkers(tasks: readonly QuotationTask[], { tryton }: Deps, signal: AbortSignal): Promise<void> {
  await sendTasks(
    tasks,
    async (batch) => {
      const values = batch.map((task) => ({
        name: `Bids ${oneLine(task.operation.document.event.name)}`,
        type: 'data',
        link: markerFor(task),
        resource: task.reference,
        description: 'Kept by the sourcing bridge, which finds the quotation by this attachment: leave it in place.',
      }));
      return tryton.change('ir.attachment.create', [values], ids, signal);
    },
    {
      signal,
      findCreated: async (batch) => {
        const found = await findAttachments(tryton, batch.map(markerFor), signal);
        return batch.map(
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
    async (batch) => {
      const pairs = batch.flatMap((task) => [[task.held.row.id], quotationChanges(task, task.held.row, data)]);
      const context = ifUnchanged(batch.flatMap(({ held }) => recordsOfQuotation(held)));
      await tryton.change(`${quotationModel}.write`, pairs, z.unknown(), signal, context);
      return batch;
    },
    { signal, done: begun },
  );
}

/**
 * Cancels the quotations where Tryton allows it, and rejects the others. Then it marks them as withdrawn in their
 * reference: so they differ from a quotation that a user has rejected, which stays the supplier's, and bids that come
 * back get a new quotation.
 */
async function withdraw(tasks: readonly HeldTask[], { tryton }: Deps, signal: AbortSignal): Promise<void> {
  const inState = (state: string) => tasks.filter(({ held }) => held.row.state === state);
  const model = quotationModel;
  await runWorkflowStep(tryton, inState('sent'), { model, method: 'draft', to: 'draft' }, signal);
  const cancelled = [...inState('sent'), ...inState('draft')];
  await runWorkflowStep(tryton, cancelled, { model, method: 'cancel', to: 'cancelled' }, signal);
  await runWorkflowStep(tryton, inState('received'), { model, method: 'reject', to: 'rejected' }, signal);
  await sendTasks(
    tasks,
    async (batch) => {
      const pairs = batch.flatMap((task) => {
        const { id, reference } = task.held.row;
        return [[id], { reference: `${reference || markerFor(task)}${withdrawnMark}` }];
      });
      await tryton.change(`${model}.write`, pairs, z.unknown(), signal);
      return batch;
    },
    { signal },
  );
  await sendTasks(
    tasks.filter(({ held }) => held.attachment !== undefined),
    async (batch) => {
      const attachments = batch.map(({ held }) => held.attachment);
      await tryton.change('ir.attachment.delete', [attachments], z.unknown(), signal);
      return batch;
    },
    { signal },
  );
}
