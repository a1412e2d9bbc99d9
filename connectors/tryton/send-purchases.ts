/** Sends what was decided about purchases: what is new in one call, changes in one, cancellations in two. */
import { DataError, type Operation, UnknownOutcome, z } from 'sourcing-bridge/connector';
import { awardSheet } from './award-sheet.ts';
import {
  describe,
  findPurchases,
  isLive,
  purchaseModel,
  readOf,
  referenceOfPurchase,
  type Written,
} from './held-purchases.ts';
import { markerOf } from './markers.ts';
import type { PurchaseTask } from './plan-purchase.ts';
import { encodedHead, headValues, newLine, writtenOf } from './purchase-values.ts';
import type { ReferenceData } from './reference-data.ts';
import type { Tryton } from './rpc.ts';
import { sendTasks, takeStep } from './send-batch.ts';
import type { Settings } from './settings.ts';
import { bytesOf, ids, ifUnchanged, oneLine } from './values.ts';

interface Deps {
  readonly tryton: Tryton;
  readonly settings: Settings;
  readonly data: ReferenceData;
}

export async function sendPurchases(tasks: readonly PurchaseTask[], deps: Deps, signal: AbortSignal): Promise<void> {
  await createPurchases(tasks, deps, signal);
  await amendPurchases(tasks, deps, signal);
  await quotePurchases(tasks, deps, signal);
  await cancelPurchases(tasks, deps, signal);
}

type StepOf<Name> = Extract<NonNullable<PurchaseTask['purchase']>, { do: Name }>;

/** Those for which this was decided, with it. */
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
    async (some) =>
      tryton.change(`${purchaseModel}.create`, [some.map((task) => newPurchase(task, data))], ids, signal),
    {
      signal,
      done: (task, made) => {
        task.reference = referenceOfPurchase(made);
      },
      findMade: async (some) => {
        const keys = some.map(({ operation }) => operation.document.key);
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
    lines: [['create', lines.map((line) => newLine(task, line))]],
    attachments: [['create', [newAttachment(operation, writtenOf(task, head))]]],
  };
}

function newAttachment(operation: Operation<'award'>, written: Written): Record<string, unknown> {
  return { type: 'data', link: markerOf('award', operation.document.key), ...attachmentValues(operation, written) };
}

function attachmentValues({ document }: Operation<'award'>, written: Written): Record<string, unknown> {
  return {
    name: `Award ${oneLine(document.event.name)}.csv`,
    description: describe(written),
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
    async (some) => {
      const pairs = some.flatMap((task) => {
        const { row, attachment } = task.purchase.held;
        return [
          [row.id],
          {
            ...changedValues(task, data),
            attachments: [attachmentCommand(task, data, attachment?.id)],
          },
        ];
      });
      const context = ifUnchanged(some.flatMap(({ purchase }) => readOf(purchase.held)));
      await tryton.change(`${purchaseModel}.write`, pairs, z.unknown(), signal, context);
      return some;
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
    // With the lines, so that it is done as a whole.
    ...(toDraft ? { state: 'draft' } : {}),
  };
}

function attachmentCommand(
  task: PurchaseTask & { purchase: StepOf<'write'> },
  data: ReferenceData,
  attachment: number | undefined,
): unknown[] {
  const { operation, purchase } = task;
  const written = { ...writtenOf(task, headValues(task, data)), ...(purchase.quote ? { quote_due: true } : {}) };
  return attachment === undefined
    ? ['create', [newAttachment(operation, written)]]
    : ['write', [attachment], attachmentValues(operation, written)];
}

async function quotePurchases(
  tasks: readonly PurchaseTask[],
  { tryton, settings }: Deps,
  signal: AbortSignal,
): Promise<void> {
  const made = settings.purchase_state === 'quotation' ? withStep(tasks, 'create') : [];
  const due = [...made, ...withStep(tasks, 'write').filter(({ purchase }) => purchase.quote)];
  await takeStep(tryton, due, { model: purchaseModel, method: 'quote', to: 'quotation' }, signal);
  for (const task of made)
    if (task.reference !== '' && task.error instanceof DataError) await takeBack(task, tryton, signal);
}

/**
 * What Tryton does not let become a quotation was not done: none of a record that is refused may stay. Unless somebody has
 * worked on the draft meanwhile: then it stays, and is tried again.
 */
async function takeBack(task: PurchaseTask, tryton: Tryton, signal: AbortSignal): Promise<void> {
  const { reference, operation } = task;
  const { key } = operation.document;
  try {
    const found = await findPurchases(tryton, [{ key, reference }], signal);
    const held = found.get(key)?.find(({ row }) => referenceOfPurchase(row.id) === reference);
    if (!held?.attachment || !held.isUntouched || held.row['attachments.'].length > 1)
      throw new Error('somebody works on it');
    const context = ifUnchanged(readOf(held));
    await tryton.change(`${purchaseModel}.delete`, [[held.row.id]], z.unknown(), signal, context);
    await tryton.change('ir.attachment.delete', [[held.attachment.id]], z.unknown(), signal);
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    task.error = new UnknownOutcome(
      `${task.error?.message ?? ''} The draft ${reference} is there, and could not be deleted: ${why}`,
    );
  }
}

/** Noted before, so that a cancellation by the bridge and one by a user are told apart ever after. */
async function cancelPurchases(tasks: readonly PurchaseTask[], { tryton }: Deps, signal: AbortSignal): Promise<void> {
  const cancelled = withStep(tasks, 'cancel');
  const unnoted = cancelled.filter(({ purchase: { held } }) => held.attachment && !held.written?.withdrawn);
  await sendTasks(
    unnoted,
    async (some) => {
      const pairs = some.flatMap(({ purchase: { held } }) => [
        [held.attachment?.id],
        { description: describe({ ...(held.written ?? nothingWritten), withdrawn: true }) },
      ]);
      await tryton.change('ir.attachment.write', pairs, z.unknown(), signal);
      return some;
    },
    { signal },
  );
  await takeStep(tryton, cancelled, { model: purchaseModel, method: 'cancel', to: 'cancelled' }, signal);
}

const nothingWritten: Written = { content_hash: '', head: {}, lines: {} };
