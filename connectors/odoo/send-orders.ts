/**
 * Carries out the steps of order tasks. New and changed orders go in one `load`; what `load` cannot do (remove lines,
 * change confirmed orders, confirm, cancel) follows. Odoo answers actions without saying what they did, so the state is
 * read after each.
 */
import { type ConnectorError, DataError, UnknownOutcome, z } from 'sourcing-bridge/connector';
import { type HeldOrder, readLines, withdrawnMark } from './held-orders.ts';
import { loadRecords } from './load.ts';
import { asConnectorError, type Odoo } from './odoo.ts';
import { isAsWanted, linesRecord, type OrderContext, type OrderTask, orderRecord } from './plan-order.ts';
import { due } from './task.ts';
import { id, idIn, referenceTo, text } from './values.ts';

type StepOf<Name> = Extract<NonNullable<OrderTask['step']>, { do: Name }>;
type TaskWith<Name> = OrderTask & { readonly step: StepOf<Name> };

const stateRows = z.array(z.object({ id, name: text, state: z.string() }));

/** A task that Odoo refuses gets the error; the others go on. */
export async function sendOrders(
  tasks: readonly OrderTask[],
  odoo: Odoo,
  context: OrderContext,
  signal: AbortSignal,
): Promise<void> {
  const { shape } = context;
  const { model, methods } = shape;
  const withStep = <Name extends 'create' | 'cancel' | 'write'>(name: Name) =>
    due(tasks).filter((task): task is TaskWith<Name> => task.step?.do === name);

  await runAction(
    withStep('write').filter(({ step }) => step.isRevived),
    methods.draft,
    isOpen,
  );
  await loadAll();
  await writeCommands();
  await confirmAll();
  await cancelAll();

  function isOpen(state: string): boolean {
    return shape.openStates.has(state);
  }

  async function loadAll(): Promise<void> {
    const created = withStep('create').map((task) => ({ task, record: orderRecord(task, task.lines, context) }));
    const written = withStep('write').flatMap((task) => {
      const { headChanged, load } = task.step;
      if (headChanged) return [{ task, record: orderRecord(task, load, context) }];
      return load.length === 0 ? [] : [{ task, record: linesRecord(task, load, context) }];
    });
    const all = [...created, ...written];
    const records = all.map(({ record }) => record);
    const results = await loadRecords(odoo, model, records, signal);
    for (const [index, { task }] of all.entries()) {
      const result = results[index];
      if (typeof result !== 'number') task.error = result;
      else task.reference = referenceTo(model, result);
    }
  }

  async function writeCommands(): Promise<void> {
    for (const task of withStep('write')) {
      const { commands, isConfirmed, held } = task.step;
      if (commands.length === 0) continue;
      try {
        stopIfAborted();
        const args = { ids: [held.id], vals: { [shape.linesField]: commands } };
        await odoo.change(model, 'write', args, z.literal(true), signal);
      } catch (error) {
        task.error = partlyDone(asConnectorError(error), 'its lines');
        continue;
      }
      if (isConfirmed) await readEffect(task);
    }
  }

  /** A change of a confirmed order passes through receipts and rules of other modules, so it is read again. */
  async function readEffect(task: TaskWith<'write'>): Promise<void> {
    const { held } = task.step;
    try {
      // The new lines are not among those that were read with the order.
      const order: HeldOrder = { ...held, lines: [] };
      const lines = await readLines(odoo, shape, [order], signal);
      const now = { ...context, linesOf: () => lines.get(held.id) ?? [] };
      if (!isAsWanted(task, held, now))
        task.error = new UnknownOutcome(`Odoo took the change of ${held.name}, but its lines are not as written.`, {
          answered: true,
        });
    } catch (error) {
      task.error = partlyDone(asConnectorError(error), 'its lines');
    }
  }

  async function confirmAll(): Promise<void> {
    if (!context.confirms) return;
    const confirmed = [...withStep('create'), ...withStep('write').filter(({ step }) => step.confirm)];
    await runAction(confirmed, methods.confirm, (state) => shape.confirmedStates.has(state));
    for (const task of confirmed)
      if (task.step.do === 'create' && task.error instanceof DataError) await deleteDraft(task, task.error);
  }

  /** Nothing may stay of a new document that was refused. */
  async function deleteDraft(task: OrderTask, refusal: DataError): Promise<void> {
    const args = { ids: [idIn(task.reference, model)] };
    try {
      await odoo.change(model, methods.cancel, args, z.unknown(), signal);
      await odoo.change(model, 'unlink', args, z.literal(true), signal);
    } catch (error) {
      task.error = new UnknownOutcome(
        `${refusal.message} The draft ${task.reference} still exists and could not be deleted: ${asConnectorError(error).message}`,
      );
    }
  }

  /** Marks the orders first: so a cancellation by the bridge can be told from one by a user. */
  async function cancelAll(): Promise<void> {
    const cancelled = withStep('cancel');
    for (const task of cancelled) {
      const { held } = task.step;
      if (held.source.endsWith(withdrawnMark)) continue;
      try {
        stopIfAborted();
        const args = { ids: [held.id], vals: { [shape.sourceField]: `${held.source}${withdrawnMark}` } };
        await odoo.change(model, 'write', args, z.literal(true), signal);
      } catch (error) {
        task.error = partlyDone(asConnectorError(error), 'the cancellation');
      }
    }
    await runAction(cancelled, methods.cancel, (state) => state === 'cancel');
  }

  /** One call for all; if Odoo refuses it because of one order, one call for each. */
  async function runAction(
    all: readonly OrderTask[],
    method: string,
    isDone: (state: string) => boolean,
  ): Promise<void> {
    const own = due(all);
    if (own.length === 0) return;
    const ids = own.map(({ reference }) => idIn(reference, model));
    try {
      stopIfAborted();
      await odoo.change(model, method, { ids }, z.unknown(), signal);
      const rows = await odoo.ask(model, 'read', { ids, fields: ['name', 'state'] }, stateRows, signal);
      for (const task of own) {
        const row = rows.find((candidate) => referenceTo(model, candidate.id) === task.reference);
        if (!row || !isDone(row.state))
          task.error = new UnknownOutcome(
            `${task.reference} is ${row?.state ?? 'not shown'} in Odoo after ${method}, which did not do what it says.`,
            { answered: true },
          );
      }
    } catch (thrown) {
      const error = asConnectorError(thrown);
      if (error.type === 'data' && own.length > 1) for (const task of own) await runAction([task], method, isDone);
      else for (const task of own) task.error = partlyDone(error, method);
    }
  }

  function stopIfAborted(): void {
    if (signal.aborted) throw new UnknownOutcome('The write was stopped before its last step.', { answered: true });
  }
}

/**
 * The error of a later step. What came before it is done already, so the operation counts as unknown: the bridge reads
 * what Odoo holds, and the next attempt does what is missing. A refusal stays one: it would come again.
 */
function partlyDone(error: ConnectorError, what: string): ConnectorError {
  if (['data', 'auth', 'config', 'rate-limited', 'unknown'].includes(error.type)) return error;
  return new UnknownOutcome(`${error.message} (${what})`, { cause: error, answered: true });
}
