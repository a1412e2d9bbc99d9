/**
 * Carries out the steps of order tasks. New and changed orders go in one `load`; what `load` cannot do (remove lines,
 * confirm, cancel) follows. Odoo answers without saying what it did, so the state is read after each action, and what
 * decides what is paid after each write.
 */
import { asConnectorError, DataError, dueOf, UnknownOutcome, z } from 'sourcing-bridge/connector';
import { wrongMoney } from './compare-order.ts';
import { type HeldOrder, readLines, readOrders } from './held-orders.ts';
import { loadRecords } from './load.ts';
import { type Odoo, partlyDone } from './odoo.ts';
import { headCells, orderRecord } from './order-cells.ts';
import { orderForm } from './order-form.ts';
import type { OrderContext, OrderTask } from './order-task.ts';
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
    dueOf(tasks).filter((task): task is TaskWith<Name> => task.step?.do === name);

  await runAction(
    withStep('write').filter(({ step }) => step.isRevived),
    methods.draft,
    isOpen,
  );
  await removeLines();
  await fillForms();
  await loadAll();
  await readEffect([...withStep('create'), ...withStep('write')]);
  await confirmAll();
  await cancelAll();

  function isOpen(state: string): boolean {
    return shape.openStates.has(state);
  }

  /** Only new orders, and those whose vendor changes: what a buyer has set since then stays. */
  async function fillForms(): Promise<void> {
    if (!shape.hasOrderLines) return;
    for (const task of [...withStep('create'), ...withStep('write').filter(({ step }) => step.isVendorNew)]) {
      try {
        stopIfAborted();
        const company = headCells(task, context)['company_id/.id'];
        task.form = await orderForm(odoo, task.vendor.id ?? 0, company, signal);
      } catch (error) {
        task.error = asConnectorError(error);
      }
    }
  }

  async function loadAll(): Promise<void> {
    const written = [...withStep('create'), ...withStep('write')];
    const records = written.map((task) => orderRecord(task, context));
    const results = await loadRecords(odoo, model, records, signal);
    for (const [index, task] of written.entries()) {
      const result = results[index];
      if (typeof result !== 'number') task.error = result;
      else {
        task.reference = referenceTo(model, result);
        task.isBegun = true;
      }
    }
  }

  async function removeLines(): Promise<void> {
    for (const task of withStep('write')) {
      const { remove, held } = task.step;
      if (remove.length === 0) continue;
      try {
        stopIfAborted();
        const vals = { [shape.linesField]: remove.map((line) => [2, line.id, 0]) };
        await odoo.change(model, 'write', { ids: [held.id], vals }, z.literal(true), signal);
        task.isBegun = true;
      } catch (error) {
        task.error = partlyDone(asConnectorError(error), 'its lines');
      }
    }
  }

  /**
   * Reads what Odoo has made of a write: price lists, the vendor's defaults and rules of other modules change orders
   * without a word. A task whose order would cost something else than was awarded fails, and is not confirmed.
   */
  async function readEffect(written: readonly OrderTask[]): Promise<void> {
    const own = dueOf(written);
    const ids = own.flatMap(({ reference }) => idIn(reference, model) ?? []);
    if (ids.length === 0) return;
    try {
      stopIfAborted();
      const orders = await readOrders(odoo, shape, [['id', 'in', ids]], context.fields, signal);
      const lines = await readLines(odoo, shape, orders, signal);
      const now = { ...context, linesOf: (order: HeldOrder) => lines.get(order.id) ?? [] };
      for (const task of own) {
        const held = orders.find((order) => referenceTo(model, order.id) === task.reference);
        task.error = held
          ? wrongEffect(held, wrongMoney(task, held, now))
          : new UnknownOutcome(`Odoo does not show ${task.reference}, which it has written.`, { answered: true });
      }
    } catch (error) {
      for (const task of own) task.error = partlyDone(asConnectorError(error), 'reading the order back');
    }
  }

  function wrongEffect({ name, state }: HeldOrder, wrong: readonly string[]): DataError | undefined {
    if (wrong.length === 0) return undefined;
    return new DataError(
      `Odoo took the ${shape.name} ${name} (${state}) and changed it. To be as awarded: ${wrong.join(' ')} Look for an automation or a module that sets these values, or for a person who is at work on it, and replay.`,
    );
  }

  async function confirmAll(): Promise<void> {
    if (!context.confirms) return;
    const confirmed = [...withStep('create'), ...withStep('write').filter(({ step }) => step.confirm)];
    await runAction(confirmed, methods.confirm, (state) => shape.confirmedStates.has(state));
    for (const task of confirmed)
      if (task.step.do === 'create' && task.error instanceof DataError) await deleteDraft(task, task.error);
    await readEffect(confirmed);
  }

  /** Nothing may stay of a new document that was refused. */
  async function deleteDraft(task: OrderTask, refusal: DataError): Promise<void> {
    const args = { ids: [idIn(task.reference, model)] };
    try {
      await odoo.change(model, methods.cancel, args, z.unknown(), signal);
      await odoo.change(model, 'unlink', args, z.literal(true), signal);
      task.reference = '';
      task.isBegun = false;
    } catch (error) {
      task.error = new UnknownOutcome(
        `${refusal.message} The draft ${task.reference} still exists and could not be deleted: ${asConnectorError(error).message}`,
      );
    }
  }

  /**
   * Alternatives of awards come last, as Odoo may refuse what is before. Marks the orders first: so a cancellation by the
   * bridge can be told from one by a user.
   */
  async function cancelAll(): Promise<void> {
    const alternatives = new Set(dueOf(tasks).flatMap((task) => task.alternatives));
    const cancelled = [...withStep('cancel'), ...alternatives];
    for (const task of cancelled) {
      const { held, mark } = task.step;
      if (held.source.endsWith(mark)) continue;
      try {
        stopIfAborted();
        const args = { ids: [held.id], vals: { [shape.sourceField]: `${held.source}${mark}` } };
        await odoo.change(model, 'write', args, z.literal(true), signal);
        task.isBegun = true;
      } catch (error) {
        task.error = partlyDone(asConnectorError(error), 'the cancellation');
      }
    }
    await runAction(cancelled, methods.cancel, (state) => state === 'cancel');
    for (const task of dueOf(tasks)) task.error = task.alternatives.find(({ error }) => error)?.error;
  }

  /**
   * One call for all; if Odoo refuses it because of one order, one call for each. Odoo would not confirm an order with
   * open alternatives, and ask about them.
   */
  async function runAction(
    all: readonly Pick<OrderTask, 'reference' | 'error' | 'isBegun'>[],
    method: string,
    isDone: (state: string) => boolean,
  ): Promise<void> {
    const own = dueOf(all);
    if (own.length === 0) return;
    const ids = own.map(({ reference }) => idIn(reference, model));
    try {
      stopIfAborted();
      await odoo.change(model, method, { ids, context: { skip_alternative_check: true } }, z.unknown(), signal);
      const rows = await odoo.ask(model, 'read', { ids, fields: ['name', 'state'] }, stateRows, signal);
      for (const task of own) {
        const row = rows.find((candidate) => referenceTo(model, candidate.id) === task.reference);
        if (row && isDone(row.state)) task.isBegun = true;
        else
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
