/** Sends what was decided about purchases, in as few calls as Tryton allows. */
import { type AwardLine, DataError, LockedError, type Operation, UnknownOutcome, z } from 'sourcing-bridge/connector';
import { awardSheet } from './award-sheet.ts';
import { markerOf, sendAll } from './batch.ts';
import type { Values } from './merge.ts';
import { newLine, noteOf } from './order-lines.ts';
import { encoded, type PurchaseStep, type PurchaseTask, recordOf, type Tools } from './prepare-purchase.ts';
import {
  describe,
  findPurchases,
  type HeldPurchase,
  idOf,
  isLive,
  referenceOfPurchase,
  type Written,
} from './purchases.ts';
import type { ReferenceData } from './reference-data.ts';
import { bytesOf, id, oneLine } from './values.ts';

/** Sends what was prepared: what is new in one call, changes in one, cancellations in two. */
export async function writePurchases(tasks: readonly PurchaseTask[], tools: Tools, signal: AbortSignal): Promise<void> {
  await createPurchases(
    tasks.filter(({ purchase }) => purchase?.do === 'create'),
    tools,
    signal,
  );
  await amendPurchases(
    tasks.filter(({ purchase }) => purchase?.do === 'write'),
    tools,
    signal,
  );
  await quotePurchases(tasks, tools, signal);
  await cancelPurchases(
    tasks.filter(({ purchase }) => purchase?.do === 'cancel'),
    tools,
    signal,
  );
}

const ids = z.array(id);

async function createPurchases(
  tasks: readonly PurchaseTask[],
  { tryton, data }: Tools,
  signal: AbortSignal,
): Promise<void> {
  await sendAll(
    tasks,
    async (some) => {
      const all = some.map((task) => newPurchase(task, data));
      return tryton.change('purchase.purchase.create', [all], ids, signal);
    },
    signal,
    ({ prepared }, made) => {
      prepared.reference = referenceOfPurchase(made);
    },
    async (some) => {
      const keys = some.map(({ operation }) => operation.document.key);
      const wanted = keys.map((key) => ({ key, reference: undefined }));
      const found = await findPurchases(tryton, wanted, signal);
      return keys.map((key) => found.get(key)?.find(isLive)?.row.id);
    },
  );
}

function newPurchase(task: PurchaseTask, data: ReferenceData): Record<string, unknown> {
  const { operation, supplier, lines } = task;
  const { document } = operation;
  const { head } = task.purchase as Extract<PurchaseStep, { do: 'create' }>;
  // The supplier may have been made since.
  const values: Values = { ...head, party: supplier.id ?? -1 };
  const created = lines.map((line, index) =>
    newLine(line, noteOf(document.lines[index] as AwardLine, document), supplier),
  );
  return {
    ...Object.fromEntries(Object.entries(values).map(([field, value]) => [field, encoded(field, value)])),
    company: data.company,
    invoice_address: supplier.address ?? null,
    ...(supplier.paymentTerm === undefined ? {} : { payment_term: supplier.paymentTerm }),
    lines: [['create', created]],
    attachments: [
      [
        'create',
        [{ type: 'data', link: markerOf('award', document.key), ...attachmentOf(operation, recordOf(task, values)) }],
      ],
    ],
  };
}

function attachmentOf({ document }: Operation<'award'>, record: Written): Record<string, unknown> {
  return {
    name: `Award ${oneLine(document.event.name)}.csv`,
    description: describe(record),
    data: bytesOf(awardSheet(document)),
  };
}

async function amendPurchases(tasks: readonly PurchaseTask[], { tryton }: Tools, signal: AbortSignal): Promise<void> {
  await sendAll(
    tasks,
    async (some) => {
      const timestamps: Record<string, string> = {};
      const pairs = some.flatMap(({ operation, purchase }) => {
        const step = purchase as Extract<PurchaseStep, { do: 'write' }>;
        const { row, attachment } = step.held;
        note(timestamps, step.held);
        const kept = attachmentOf(operation, step.record);
        const attachments = attachment
          ? [['write', [attachment.id], kept]]
          : [['create', [{ type: 'data', link: markerOf('award', operation.document.key), ...kept }]]];
        return [[row.id], { ...step.changes, attachments }];
      });
      await tryton.change('purchase.purchase.write', pairs, z.unknown(), signal, { _timestamp: timestamps });
      return some;
    },
    signal,
  );
}

/** Tryton refuses the write when somebody has changed one of these since it was read. */
function note(timestamps: Record<string, string>, { row, attachment }: HeldPurchase): void {
  const add = (model: string, { id: one, _timestamp }: { id: number; _timestamp: string | number | null }) => {
    if (_timestamp !== null) timestamps[`${model},${one}`] = String(_timestamp);
  };
  add('purchase.purchase', row);
  for (const line of row['lines.']) add('purchase.line', line);
  if (attachment) add('ir.attachment', attachment);
}

const stateRows = z.array(z.object({ id, state: z.string() }));

/** Tryton does not say when a step was not possible: the state is read again. */
async function step(
  tasks: readonly PurchaseTask[],
  { method, to }: { method: string; to: string },
  { tryton }: Tools,
  signal: AbortSignal,
): Promise<void> {
  await sendAll(
    tasks,
    async (some) => {
      const all = some.map(({ prepared }) => idOf(prepared.reference) ?? 0);
      await tryton.change(`purchase.purchase.${method}`, [all], z.unknown(), signal);
      const rows = await tryton.ask('purchase.purchase.read', [all, ['state']], stateRows, signal);
      return all.map((one) => rows.find((row) => row.id === one)?.state ?? 'gone');
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

async function quotePurchases(tasks: readonly PurchaseTask[], tools: Tools, signal: AbortSignal): Promise<void> {
  if (tools.settings.purchase_state !== 'quotation') return;
  const due = tasks.filter(({ purchase }) => purchase?.do === 'create' || (purchase?.do === 'write' && purchase.quote));
  await step(due, { method: 'quote', to: 'quotation' }, tools, signal);
  const refused = due.filter(
    ({ purchase, prepared }) => purchase?.do === 'create' && prepared.error instanceof DataError,
  );
  for (const task of refused) if (task.prepared.reference !== '') await takeBack(task, tools, signal);
}

/** What Tryton does not let become a quotation was not done: none of a record that is refused may stay. */
async function takeBack({ prepared, operation }: PurchaseTask, { tryton }: Tools, signal: AbortSignal): Promise<void> {
  const reference = prepared.reference;
  try {
    const domain = [
      ['resource', '=', reference],
      ['link', '=', markerOf('award', operation.document.key)],
    ];
    const attachments = await tryton.ask('ir.attachment.search', [domain, 0, null, null], ids, signal);
    await tryton.change('purchase.purchase.delete', [[idOf(reference)]], z.unknown(), signal);
    await tryton.change('ir.attachment.delete', [attachments], z.unknown(), signal);
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    prepared.error = new UnknownOutcome(
      `${prepared.error?.message ?? ''} The draft ${reference} is there, and could not be deleted: ${why}`,
    );
  }
}

/** Noted before, so that a cancellation by the bridge and one by a user are told apart ever after. */
async function cancelPurchases(tasks: readonly PurchaseTask[], tools: Tools, signal: AbortSignal): Promise<void> {
  const heldOf = ({ purchase }: PurchaseTask) => (purchase as Extract<PurchaseStep, { do: 'cancel' }>).held;
  const noted = tasks.filter((task) => {
    const { attachment, written } = heldOf(task);
    return attachment !== undefined && written?.withdrawn !== true;
  });
  await sendAll(
    noted,
    async (some) => {
      const pairs = some.flatMap((task) => {
        const { attachment, written } = heldOf(task);
        const record = { ...(written ?? { content_hash: '', head: {}, lines: {} }), withdrawn: true };
        return [[attachment?.id], { description: describe(record) }];
      });
      await tools.tryton.change('ir.attachment.write', pairs, z.unknown(), signal);
      return some;
    },
    signal,
  );
  await step(tasks, { method: 'cancel', to: 'cancelled' }, tools, signal);
}
