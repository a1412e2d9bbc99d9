/**
 * Carries out the purchase steps of the tasks: new purchases in one call, changes in one call, confirmations in one call,
 * cancellations in three. Purchase requests are linked before a purchase is confirmed: linked later, Tryton would show
 * their requisition as open.
 */
import {
  asConnectorError,
  ConflictError,
  ConnectorError,
  DataError,
  type Operation,
  UnknownOutcome,
  z,
} from 'sourcing-bridge/connector';
import { awardSheet } from './award-sheet.ts';
import {
  attachmentText,
  findPurchases,
  isLive,
  type LastWritten,
  openPurchaseStates,
  type PurchaseLine,
  purchaseModel,
  recordsOfPurchase,
  referenceOfPurchase,
} from './held-purchases.ts';
import { markerOf } from './markers.ts';
import { linesByLot, type PurchaseTask } from './plan-purchase.ts';
import { encodedHead, headValues, lastWrittenOf, newPurchaseLine } from './purchase-values.ts';
import type { ReferenceData } from './reference-data.ts';
import { findBought, findRequisitions, markDone, openRequests, planLinks, sendLinks } from './requisition-requests.ts';
import type { Tryton } from './rpc.ts';
import { begun, runWorkflowStep, sendTasks } from './send-batch.ts';
import type { Settings } from './settings.ts';
import { bytesOf, ids, ifUnchanged, oneLine } from './values.ts';

interface Deps {
  readonly tryton: Tryton;
  readonly settings: Settings;
  readonly data: ReferenceData;
}

/** A task that Tryton refuses gets the error; the others go on. */
export async function sendPurchases(tasks: readonly PurchaseTask[], deps: Deps, signal: AbortSignal): Promise<void> {
  await createPurchases(tasks, deps, signal);
  await amendPurchases(tasks, deps, signal);
  await linkRequests(tasks, deps, signal);
  await runWorkflow(tasks, deps, signal);
  await finishRequisitions(tasks, deps, signal);
  await cancelPurchases(tasks, deps, signal);
}

type StepOf<Name> = Extract<NonNullable<PurchaseTask['purchase']>, { do: Name }>;

/** The tasks with this purchase step. */
function withStep<Name extends 'create' | 'write' | 'cancel'>(tasks: readonly PurchaseTask[], name: Name) {
  return tasks.filter((task): task is PurchaseTask & { purchase: StepOf<Name> } => task.purchase?.do === name);
}

async function createPurchases(
  tasks: readonly PurchaseTask[],
  { tryton, data }: Deps,
  signal: AbortSignal,
): Promise<void> {
  await sendTasks(
    withStep(tasks, 'create'),
    async (batch) =>
      tryton.change(`${purchaseModel}.create`, [batch.map((task) => newPurchase(task, data))], ids, signal),
    {
      signal,
      done: (task, created) => {
        task.reference = referenceOfPurchase(created);
      },
      findCreated: async (batch) => {
        const keys = batch.map(({ operation }) => operation.document.key);
        const wanted = keys.map((key) => ({ key, reference: undefined }));
        const found = await findPurchases(tryton, wanted, signal);
        return keys.map((key) => found.get(key)?.find(isLive)?.row.id);
      },
    },
  );
}

function newPurchase(task: PurchaseTask, data: ReferenceData): Record<string, unknown> {
  const { supplier, lines, operation } = task;
  const head = headValues(task, data);
  return {
    ...encodedHead(head),
    company: data.company,
    invoice_address: supplier.address ?? null,
    ...(supplier.paymentTerm === undefined ? {} : { payment_term: supplier.paymentTerm }),
    lines: [['create', lines.map((line) => newPurchaseLine(task, line))]],
    attachments: [['create', [newAttachment(operation, lastWrittenOf(task, head))]]],
  };
}

function newAttachment(operation: Operation<'award'>, lastWritten: LastWritten): Record<string, unknown> {
  return { type: 'data', link: markerOf('award', operation.document.key), ...attachmentValues(operation, lastWritten) };
}

function attachmentValues({ document }: Operation<'award'>, lastWritten: LastWritten): Record<string, unknown> {
  return {
    name: `Award ${oneLine(document.event.name)}.csv`,
    description: attachmentText(lastWritten),
    data: bytesOf(awardSheet(document)),
  };
}

async function amendPurchases(
  tasks: readonly PurchaseTask[],
  { tryton, data }: Deps,
  signal: AbortSignal,
): Promise<void> {
  await sendTasks(
    withStep(tasks, 'write'),
    async (batch) => {
      const pairs = batch.flatMap((task) => {
        const { row, attachment } = task.purchase.held;
        return [
          [row.id],
          {
            ...changedValues(task, data),
            attachments: [attachmentCommand(task, data, attachment?.id)],
          },
        ];
      });
      const context = ifUnchanged(batch.flatMap(({ purchase }) => recordsOfPurchase(purchase.held)));
      await tryton.change(`${purchaseModel}.write`, pairs, z.unknown(), signal, context);
      return batch;
    },
    { signal, done: begun },
  );
}

function changedValues(
  task: PurchaseTask & { purchase: StepOf<'write'> },
  data: ReferenceData,
): Record<string, unknown> {
  const { fields, lines, toDraft } = task.purchase;
  const head = headValues(task, data);
  return {
    ...encodedHead(Object.fromEntries(fields.map((field) => [field, head[field] ?? null]))),
    ...(fields.includes('party') ? { invoice_address: task.supplier.address ?? null } : {}),
    ...(lines.length === 0 ? {} : { lines }),
    // In the same call as the lines, so that Tryton does both or neither.
    ...(toDraft ? { state: 'draft' } : {}),
  };
}

function attachmentCommand(
  task: PurchaseTask & { purchase: StepOf<'write'> },
  data: ReferenceData,
  attachment: number | undefined,
): unknown[] {
  const { operation, purchase } = task;
  const lastWritten = {
    ...lastWrittenOf(task, headValues(task, data)),
    ...(purchase.workflow.includes('quote') ? { quote_due: true } : {}),
  };
  return attachment === undefined
    ? ['create', [newAttachment(operation, lastWritten)]]
    : ['write', [attachment], attachmentValues(operation, lastWritten)];
}

/** One call a purchase: the next one sees what is left of the requests. */
async function linkRequests(tasks: readonly PurchaseTask[], { tryton }: Deps, signal: AbortSignal): Promise<void> {
  // Also of purchases that are confirmed: their award may have been made before its requisitions were known.
  const due = [...withStep(tasks, 'create'), ...withStep(tasks, 'write')].filter(
    ({ needs, error }) => needs.length > 0 && !error,
  );
  if (due.length === 0) return;
  const wanted = due.map(({ operation: { document }, reference }) => ({ key: document.key, reference }));
  const found = await findPurchases(tryton, wanted, signal).catch(asConnectorError);
  for (const task of due)
    await sendTasks(
      [task],
      async () => {
        if (found instanceof ConnectorError) throw found;
        const held = found.get(task.operation.document.key)?.find(isLive);
        const requisitions = await findRequisitions(tryton, task.needs, signal);
        const lines = held ? linesByLot(held.row, held.lastWritten, task.lines) : new Map<string, PurchaseLine>();
        const links = planLinks(task.needs, requisitions, (lot) => lines.get(lot)?.id);
        await sendLinks(tryton, links, signal);
        return [task];
      },
      { signal },
    );
  await deleteRefused(tasks, tryton, signal);
}

async function runWorkflow(
  tasks: readonly PurchaseTask[],
  { tryton, settings }: Deps,
  signal: AbortSignal,
): Promise<void> {
  const created = withStep(tasks, 'create');
  const written = withStep(tasks, 'write');
  const quoted = [
    ...(settings.purchase_state === 'draft' ? [] : created),
    ...written.filter(({ purchase }) => purchase.workflow.includes('quote')),
  ];
  await runWorkflowStep(tryton, quoted, { model: purchaseModel, method: 'quote', to: 'quotation' }, signal);
  const confirmed = [
    ...(settings.purchase_state === 'confirmed' ? created : []),
    ...written.filter(({ purchase }) => purchase.workflow.includes('confirm')),
  ];
  await runWorkflowStep(
    tryton,
    confirmed,
    { model: purchaseModel, method: 'confirm', to: ['confirmed', 'processing', 'done'] },
    signal,
  );
  await deleteRefused(tasks, tryton, signal);
}

/** Of requisitions that are bought as a whole now, and that Tryton does not show as done by itself. */
async function finishRequisitions(
  tasks: readonly PurchaseTask[],
  { tryton, settings }: Deps,
  signal: AbortSignal,
): Promise<void> {
  const confirmed = withStep(tasks, 'write').filter(
    ({ purchase: { held } }) => !openPurchaseStates.has(held.row.state),
  );
  const due = (
    settings.purchase_state === 'confirmed' ? [...withStep(tasks, 'create'), ...withStep(tasks, 'write')] : confirmed
  ).filter(({ needs }) => needs.length > 0);
  if (due.length === 0) return;
  await sendTasks(
    due,
    async (batch) => {
      const bought = await findBought(
        tryton,
        batch.flatMap(({ needs }) => needs),
        signal,
      );
      await markDone(
        tryton,
        bought.map((requisition) => requisition.id),
        signal,
      );
      return batch;
    },
    { signal },
  );
}

/** Nothing may stay of a purchase that Tryton has refused. */
async function deleteRefused(tasks: readonly PurchaseTask[], tryton: Tryton, signal: AbortSignal): Promise<void> {
  for (const task of withStep(tasks, 'create'))
    if (task.reference !== '' && (task.error instanceof DataError || task.error instanceof ConflictError))
      await deleteDraft(task, tryton, signal);
}

/**
 * Deletes a new purchase of which Tryton has refused a later step. If a user has worked on it in the meantime, it stays, and the outcome is unknown, so that the bridge tries again.
 */
async function deleteDraft(task: PurchaseTask, tryton: Tryton, signal: AbortSignal): Promise<void> {
  const { reference, operation } = task;
  const { key } = operation.document;
  try {
    const found = await findPurchases(tryton, [{ key, reference }], signal);
    const held = found.get(key)?.find(({ row }) => referenceOfPurchase(row.id) === reference);
    if (!held?.attachment || !held.isUntouched || held.row['attachments.'].length > 1)
      throw new Error('a user has changed it');
    const context = ifUnchanged(recordsOfPurchase(held));
    await openRequests(tryton, [held.row.id], signal);
    await tryton.change(`${purchaseModel}.delete`, [[held.row.id]], z.unknown(), signal, context);
    await tryton.change('ir.attachment.delete', [[held.attachment.id]], z.unknown(), signal);
    task.reference = '';
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    task.error = new UnknownOutcome(
      `${task.error?.message ?? ''} The draft ${reference} still exists and could not be deleted: ${why}`,
    );
  }
}

/**
 * First records the withdrawal in the attachment, so that a cancellation by the bridge can be told from one by a user.
 * Then makes the purchase requests open again, which Tryton would hold for a decision otherwise.
 */
async function cancelPurchases(tasks: readonly PurchaseTask[], { tryton }: Deps, signal: AbortSignal): Promise<void> {
  const cancelled = withStep(tasks, 'cancel');
  const unrecorded = cancelled.filter(({ purchase: { held } }) => held.attachment && !held.lastWritten?.withdrawn);
  await sendTasks(
    unrecorded,
    async (batch) => {
      const pairs = batch.flatMap(({ purchase: { held } }) => [
        [held.attachment?.id],
        { description: attachmentText({ ...(held.lastWritten ?? nothingWritten), withdrawn: true }) },
      ]);
      await tryton.change('ir.attachment.write', pairs, z.unknown(), signal);
      return batch;
    },
    { signal, done: begun },
  );
  await sendTasks(
    cancelled,
    async (batch) => {
      await openRequests(
        tryton,
        batch.map(({ purchase: { held } }) => held.row.id),
        signal,
      );
      return batch;
    },
    { signal, done: begun },
  );
  await runWorkflowStep(tryton, cancelled, { model: purchaseModel, method: 'cancel', to: 'cancelled' }, signal);
}

const nothingWritten: LastWritten = { content_hash: '', head: {}, lines: {} };
