/**
 * Awards as purchase orders. A new order is one request, which SAP carries out as a whole. A change is several: first the
 * record (see `order-record.ts`) with each state that a kill may leave, then the items, then the record with the hash.
 * A kill in between leaves an order without a hash, which `lookup` reports and the next amend completes.
 */
import {
  ConflictError,
  ConnectorError,
  DataError,
  type Found,
  type Operation,
  type Outcome,
  outcomeOf,
  type ReadBack,
  UnknownOutcome,
  writeEach,
} from 'sourcing-bridge/connector';
import {
  changesIn,
  findDelivered,
  findOrders,
  type HeldOrder,
  isDeleted,
  itemNumber,
  numberInAnswer,
  onlyOrder,
  orderInAnswer,
  readOrder,
} from './held-orders.ts';
import { type Deps, type Kind, referenceOf } from './kind.ts';
import { ChangedSinceRead } from './messages.ts';
import { entityPath, orderService, type Written } from './odata.ts';
import { type OrderRecord, recordText } from './order-record.ts';
import { itemBody, itemNumbers, noteBody, type Order, orderBody, orderOf } from './order-values.ts';
import { expectChangeable, type ItemChange, type OrderPlan, planChange } from './plan-order.ts';
import { readPurchaseOrder } from './read-back.ts';

type AwardOperation = Operation<'award'>;

const objectName = 'PurchaseOrder';

/** What is to be done for one operation. */
type Task =
  | { readonly do: 'nothing'; readonly reference: string; readonly status: 'unchanged' }
  | { readonly do: 'create'; readonly order: Order; readonly steps: readonly string[] }
  | { readonly do: 'change'; readonly order: Order; readonly held: HeldOrder; readonly plan: OrderPlan }
  | { readonly do: 'replace'; readonly order: Order; readonly held: HeldOrder; readonly steps: readonly string[] }
  | { readonly do: 'delete'; readonly held: HeldOrder; readonly steps: readonly string[] };

export function createPurchaseOrders(deps: Deps): Kind<'award'> {
  const { odata, settings, partners, log } = deps;

  /** What SAP holds for all operations, and the numbers of their suppliers. */
  async function readAll(
    operations: readonly AwardOperation[],
    signal: AbortSignal,
  ): Promise<Map<string, HeldOrder[]>> {
    const documents = operations.map(({ document }) => document);
    const held = await findOrders(odata, documents, settings, signal);
    const suppliers = operations.filter(({ action }) => action !== 'cancel').map(({ document }) => document.supplier);
    await partners.find(suppliers, signal);
    return held;
  }

  function taskOf({ action, document, contentHash, reference }: AwardOperation, orders: readonly HeldOrder[]): Task {
    const held = onlyOrder(document.key, orders);
    if (action === 'cancel' || document.lines.length === 0) {
      if (!held) return { do: 'nothing', reference: reference ?? '', status: 'unchanged' };
      expectChangeable(held, settings, held.to_PurchaseOrderItem);
      return { do: 'delete', held, steps: [`delete purchase order ${held.PurchaseOrder}`] };
    }
    if (action === 'amend' && !held && reference !== undefined)
      throw new ConflictError(
        `${reference} is no longer in SAP: a person has deleted it, or has changed its "Your reference" (CorrespncExternalReference)`,
      );
    const order = orderOf(document, contentHash, partners.numberOf(document.supplier), settings);
    if (!held) {
      const items = order.items.map(
        ({ lot, quantity, unit, price }) => `${lot}: ${quantity} ${unit} at ${price.amount}/${price.per}`,
      );
      return { do: 'create', order, steps: [`create a purchase order with supplier ${order.supplier}`, ...items] };
    }
    if (held.DocumentCurrency !== order.currency || held.Supplier !== order.supplier) {
      expectChangeable(held, settings, held.to_PurchaseOrderItem);
      return {
        do: 'replace',
        order,
        held,
        steps: [
          `delete purchase order ${held.PurchaseOrder}, and create another: supplier ${order.supplier}, ${order.currency}`,
        ],
      };
    }
    const plan = planChange(order, held, settings);
    if (plan.steps.length === 0 && held.record?.hash === contentHash)
      return { do: 'nothing', reference: numberOf(held), status: 'unchanged' };
    return { do: 'change', order, held, plan };
  }

  async function perform(task: Task, signal: AbortSignal): Promise<Outcome> {
    switch (task.do) {
      case 'nothing':
        return { status: task.status, reference: task.reference };
      case 'create':
        return { status: 'created', reference: await create(task.order, signal) };
      case 'change':
        await change(task, signal);
        return { status: 'updated', reference: numberOf(task.held) };
      case 'replace':
        return { status: 'updated', reference: await replace(task, signal) };
      case 'delete':
        await remove(task.held, signal);
        return { status: 'cancelled', reference: numberOf(task.held) };
    }
  }

  async function create(order: Order, signal: AbortSignal): Promise<string> {
    const numbers = itemNumbers(order.items.length);
    const { entity, warnings } = await odata.post(
      orderService,
      'A_PurchaseOrder',
      orderBody(order, numbers, settings),
      signal,
    );
    const number = numberInAnswer(entity);
    if (number === undefined)
      throw new UnknownOutcome('SAP made a purchase order and did not return its number', { answered: true });
    const held = orderInAnswer(entity, settings) ?? (await confirmed(number, signal));
    expectWritten(held, []);
    await keepWarnings(order, held, warnings, signal);
    return referenceOf(objectName, number);
  }

  async function change({ order, held, plan }: Extract<Task, { do: 'change' }>, signal: AbortSignal): Promise<void> {
    const known = changesIn(held);
    const done: string[] = [];
    const warnings: string[] = [];
    const number = held.PurchaseOrder;
    const orderPath = entityPath('A_PurchaseOrder', number);
    /** As it was read last: `etagIn` finds the ETag of what the step changes. */
    let read = held;
    const step = async (
      what: string,
      send: (etag: string | undefined) => Promise<Written>,
      etagIn: (order: HeldOrder) => string | undefined = () => undefined,
    ) => {
      try {
        let written: Written;
        try {
          written = await send(etagIn(read));
        } catch (error) {
          // Some systems have one ETag for the whole order, which the step before has changed. A person's change shows.
          if (done.length === 0 || !(error instanceof ChangedSinceRead)) throw error;
          read = await confirmed(number, signal);
          if (changesIn({ ...read, record: plan.before }).some((change) => !known.includes(change))) throw error;
          written = await send(etagIn(read));
        }
        warnings.push(...written.warnings);
        done.push(what);
      } catch (error) {
        throw withPlace(error, { what, done, number });
      }
    };
    if (plan.steps.length > 0) await step('its record', () => writeRecord(order, held, plan.before, [], signal));
    if (Object.keys(plan.header).length > 0)
      await step(
        'the header',
        (etag) => odata.patch(orderService, orderPath, plan.header, etag, signal),
        ({ __metadata }) => __metadata?.etag,
      );
    for (const { number: item, item: values } of plan.add)
      await step(`item ${item} (lot "${values.lot}")`, () =>
        odata.post(orderService, `${orderPath}/to_PurchaseOrderItem`, itemBody(values, item, settings), signal),
      );
    for (const changed of plan.change)
      for (const { what, path, body, etagIn } of changesOfItem(number, changed))
        await step(what, (etag) => odata.patch(orderService, path, body, etag, signal), etagIn);
    for (const { PurchaseOrderItem } of plan.remove)
      await step(
        `the deletion of item ${itemNumber({ PurchaseOrderItem })}`,
        (etag) => odata.delete(orderService, itemPath(number, PurchaseOrderItem), etag, signal),
        (order) => itemIn(order, PurchaseOrderItem)?.__metadata?.etag,
      );
    const now = plan.steps.length > 0 ? await confirmed(number, signal) : held;
    expectWritten(now, known, plan.after);
    await step('its record', () => writeRecord(order, now, plan.after, warnings, signal));
  }

  /** The order as SAP holds it after a write. The write itself is done: a failure here leaves only that unknown. */
  async function confirmed(number: string, signal: AbortSignal): Promise<HeldOrder> {
    let held: HeldOrder | undefined;
    try {
      held = await readOrder(odata, number, settings, signal);
    } catch (error) {
      throw new UnknownOutcome(
        `purchase order ${number} was written, but could not be read back: ${messageOf(error)}`,
        { answered: true, cause: error },
      );
    }
    if (!held)
      throw new UnknownOutcome(`purchase order ${number} was written, but SAP does not show it`, { answered: true });
    return held;
  }

  async function replace({ order, held }: Extract<Task, { do: 'replace' }>, signal: AbortSignal): Promise<string> {
    await remove(held, signal);
    try {
      return await create(order, signal);
    } catch (error) {
      // The old order is gone: only a lookup finds the way on.
      throw new UnknownOutcome(
        `purchase order ${held.PurchaseOrder} was deleted, and the one in its place: ${messageOf(error)}`,
        { answered: true, cause: error },
      );
    }
  }

  async function remove({ PurchaseOrder: number, __metadata }: HeldOrder, signal: AbortSignal): Promise<void> {
    await odata.delete(orderService, entityPath('A_PurchaseOrder', number), __metadata?.etag, signal);
    let now: HeldOrder | undefined;
    try {
      now = await readOrder(odata, number, settings, signal);
    } catch (error) {
      throw new UnknownOutcome(`the deletion of purchase order ${number} could not be read back: ${messageOf(error)}`, {
        answered: true,
        cause: error,
      });
    }
    if (now && !isDeleted(now))
      throw new DataError(`SAP answered that purchase order ${number} is deleted, but it still has items that are not`);
  }

  async function writeRecord(
    { remarks }: Order,
    { PurchaseOrder: number, note }: HeldOrder,
    record: OrderRecord,
    warnings: readonly string[],
    signal: AbortSignal,
  ): Promise<Written> {
    const text = recordText(record, [...remarks, ...warnings.map((warning) => `SAP warned: ${warning}`)]);
    const { note_type } = settings;
    if (!note) {
      const path = `${entityPath('A_PurchaseOrder', number)}/to_PurchaseOrderNote`;
      return odata.post(orderService, path, noteBody(text, note_type, settings), signal);
    }
    const key = { PurchaseOrder: number, TextObjectType: note.TextObjectType, Language: note.Language };
    // Whatever the text is: its own ETag has changed with the record that was written before.
    return odata.patch(
      orderService,
      entityPath('A_PurchaseOrderNote', key),
      { PlainLongText: text },
      undefined,
      signal,
    );
  }

  /** The order is made and right; without this, only SAP's warnings are missing in its text. */
  async function keepWarnings(
    order: Order,
    held: HeldOrder,
    warnings: readonly string[],
    signal: AbortSignal,
  ): Promise<void> {
    if (warnings.length === 0 || !held.record) return;
    try {
      await writeRecord(order, held, held.record, warnings, signal);
    } catch (error) {
      log.warn('SAP warned about an order, and the warning could not be kept with it', {
        order: held.PurchaseOrder,
        warnings,
        reason: messageOf(error),
      });
    }
  }

  return {
    async write(operations, signal) {
      let held: Map<string, HeldOrder[]>;
      try {
        held = await readAll(operations, signal);
      } catch (error) {
        // Nothing was sent but questions.
        return operations.map(() => outcomeOf(error));
      }
      const write = async (operation: AwardOperation) => {
        try {
          return await perform(taskOf(operation, held.get(operation.document.key) ?? []), signal);
        } catch (error) {
          if (error instanceof DataError) partners.forget(operation.document.supplier);
          throw error;
        }
      };
      return writeEach(operations, write, { signal, atOnce: settings.connections });
    },
    async plan(operations, signal) {
      const held = await readAll(operations, signal);
      return operations.map((operation) => {
        const { key } = operation.document;
        try {
          return { key, ...plannedOf(taskOf(operation, held.get(key) ?? [])) };
        } catch (error) {
          if (!(error instanceof ConnectorError)) throw error;
          return { key, action: operation.action, steps: [`cannot be written: ${error.message}`] };
        }
      });
    },
    async readBack(deliveries, signal) {
      const held = await findDelivered(odata, deliveries, settings, signal);
      await partners.find(
        deliveries.map(({ document }) => document.supplier),
        signal,
      );
      return deliveries.map((delivery): ReadBack => {
        const { document } = delivery;
        const { key } = document;
        try {
          const order = orderOf(document, '', partners.numberOf(document.supplier), settings);
          return readPurchaseOrder(delivery, order, held.get(key) ?? []);
        } catch (error) {
          if (!(error instanceof ConnectorError)) throw error;
          return { key, status: 'unclear', reason: error.message };
        }
      });
    },
    async lookup(documents, signal) {
      const held = await findOrders(odata, documents, settings, signal);
      return [...held].flatMap(([key, orders]) => orders.map((order) => foundOf(key, order)));
    },
  };
}

function plannedOf(task: Task): { action: 'create' | 'amend' | 'cancel' | 'none'; steps: readonly string[] } {
  switch (task.do) {
    case 'nothing':
      return { action: 'none', steps: [] };
    case 'create':
      return { action: 'create', steps: task.steps };
    case 'change':
      return {
        action: 'amend',
        steps: task.plan.steps.length > 0 ? task.plan.steps : ['renew the record of the order'],
      };
    case 'replace':
      return { action: 'amend', steps: task.steps };
    case 'delete':
      return { action: 'cancel', steps: task.steps };
  }
}

function foundOf(key: string, order: HeldOrder): Found {
  // An order that is not as it was written has no hash: the bridge amends it, or reports what a person has changed.
  const isAsWritten = changesIn(order).length === 0;
  return { key, reference: numberOf(order), contentHash: isAsWritten ? order.record?.hash : undefined };
}

function numberOf({ PurchaseOrder }: HeldOrder): string {
  return referenceOf(objectName, PurchaseOrder);
}

/** `known`: changes that were there before the write, and that the settings allow. */
function expectWritten(held: HeldOrder, known: readonly string[], record = held.record): void {
  const differences = changesIn({ ...held, record }).filter((change) => !known.includes(change));
  if (differences.length > 0)
    throw new DataError(
      `SAP took purchase order ${held.PurchaseOrder}, and holds other values than were sent (a price from its contract, info record or requisition?): ${differences.slice(0, 10).join('; ')}. Correct the order in SAP, then replay the document.`,
    );
}

function itemPath(order: string, item: string): string {
  return entityPath('A_PurchaseOrderItem', { PurchaseOrder: order, PurchaseOrderItem: item });
}

interface Change {
  readonly what: string;
  readonly path: string;
  readonly body: object;
  readonly etagIn: (order: HeldOrder) => string | undefined;
}

/** One request for the item, one for its schedule line, one for its account assignment: each only if it differs. */
function changesOfItem(order: string, { held, change, due, account, item }: ItemChange): Change[] {
  const what = `item ${itemNumber(held)} (lot "${item.lot}")`;
  const { PurchaseOrderItem } = held;
  const changes: Change[] = [];
  if (Object.keys(change).length > 0)
    changes.push({
      what,
      path: itemPath(order, PurchaseOrderItem),
      body: change,
      etagIn: (read) => itemIn(read, PurchaseOrderItem)?.__metadata?.etag,
    });
  if (due) {
    const { ScheduleLine } = due.held;
    const key = { PurchasingDocument: order, PurchasingDocumentItem: PurchaseOrderItem, ScheduleLine };
    changes.push({
      what: `the delivery date of ${what}`,
      path: entityPath('A_PurchaseOrderScheduleLine', key),
      body: due.change,
      etagIn: (read) => itemIn(read, PurchaseOrderItem)?.to_ScheduleLine[0]?.__metadata?.etag,
    });
  }
  if (account) {
    const { AccountAssignmentNumber } = account.held;
    const key = { PurchaseOrder: order, PurchaseOrderItem, AccountAssignmentNumber };
    changes.push({
      what: `the account assignment of ${what}`,
      path: entityPath('A_PurOrdAccountAssignment', key),
      body: account.change,
      etagIn: (read) => itemIn(read, PurchaseOrderItem)?.to_AccountAssignment[0]?.__metadata?.etag,
    });
  }
  return changes;
}

function itemIn(
  { to_PurchaseOrderItem: items }: HeldOrder,
  number: string,
): HeldOrder['to_PurchaseOrderItem'][number] | undefined {
  return items.find(({ PurchaseOrderItem }) => PurchaseOrderItem === number);
}

/** The same kind of error, with where SAP refused and what was done before. */
function withPlace(
  error: unknown,
  { what, done, number }: { what: string; done: readonly string[]; number: string },
): unknown {
  if (error instanceof ConnectorError) {
    const before = done.filter((step) => step !== 'its record');
    error.message = `purchase order ${number}, ${what}: ${error.message}${before.length > 0 ? ` (changed before that: ${before.join(', ')})` : ''}`;
  }
  return error;
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
