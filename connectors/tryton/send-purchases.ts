/**
 * Carries out the purchase steps of the tasks: new purchases in one call, changes in one call, cancellations in two.
 */
import { DataError, type Operation, UnknownOutcome, z } from 'sourcing-bridge/connector';
import { awardSheet } from './award-sheet.ts';
import {
  attachmentText,
  findPurchases,
  isLive,
  type LastWritten,
  purchaseModel,
  recordsOfPurchase,
  referenceOfPurchase,
} from './held-purchases.ts';
import { markerOf } from './markers.ts';
import type { PurchaseTask } from './plan-purchase.ts';
import { encodedHead, headValues, lastWrittenOf, newPurchaseLine } from './purchase-values.ts';
import type { ReferenceData } from './reference-data.ts';
import type { Tryton } from './rpc.ts';
import { runWorkflowStep, sendTasks } from './send-batch.ts';
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
  await quotePurchases(tasks, deps, signal);
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
    { signal },
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
    ...(purchase.quote ? { quote_due: true } : {}),
  };
  return attachment === undefined
    ? ['create', [newAttachment(operation, lastWritten)]]
    : ['write', [attachment], attachmentValues(operation, lastWritten)];
}

async function quotePurchases(
  tasks: readonly PurchaseTask[],
  { tryton, settings }: Deps,
  signal: AbortSignal,
): Promise<void> {
  const created = settings.purchase_state === 'quotation' ? withStep(tasks, 'create') : [];
  const due = [...created, ...withStep(tasks, 'write').filter(({ purchase }) => purchase.quote)];
  await runWorkflowStep(tryton, due, { model: purchaseModel, method: 'quote', to: 'quotation' }, signal);
  for (const task of created)
    if (task.reference !== '' && task.error instanceof DataError) await deleteDraft(task, tryton, signal);
}

/**
 * Deletes a new draft that Tryton did not let become a quotation: nothing may stay of a refused document. If a user has
 * worked on the draft in the meantime, it stays, and the outcome is unknown, so that the bridge tries again.
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
    await tryton.change(`${purchaseModel}.delete`, [[held.row.id]], z.unknown(), signal, context);
    await tryton.change('ir.attachment.delete', [[held.attachment.id]], z.unknown(), signal);
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    task.error = new UnknownOutcome(
      `${task.error?.message ?? ''} The draft ${reference} still exists and could not be deleted: ${why}`,
    );
  }
}

/**
 * First records the withdrawal in the attachment, so that a cancellation by the bridge can be told from one by a user.
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
    { signal },
  );
  await runWorkflowStep(tryton, cancelled, { model: purchaseModel, method: 'cancel', to: 'cancelled' }, signal);
}

const nothingWritten: LastWritten = { content_hash: '', head: {}, lines: {} };
