/** Documents with lines that become an order in Odoo: awards, blanket orders of awards, and bids. */
import {
  asConnectorError,
  decide,
  dueOf,
  type Found,
  type Kind,
  newTask,
  type Operation,
  type ReadBack,
  z,
} from 'sourcing-bridge/connector';
import { orderInstead, planAlternatives, planInstead } from './alternatives.ts';
import { eventMarkerOf } from './external-ids.ts';
import { findOrders, type HeldOrder, readCallOffs, readLines } from './held-orders.ts';
import { wantedLines } from './lots.ts';
import type { Odoo } from './odoo.ts';
import { awardOrder, bidOrder, blanketOrder, type OrderShape } from './order-shapes.ts';
import type { OrderContext, OrderDocument, OrderTask } from './order-task.ts';
import { currentOrder, liveOrders, ownOrders, planOrder } from './plan-order.ts';
import { addLastChanges, readOrder } from './read-back.ts';
import { type OrderDeps, readNamed } from './read-named.ts';
import type { ReferenceData } from './reference-data.ts';
import { sendOrders } from './send-orders.ts';
import { id, referenceTo, relation } from './values.ts';
import { noVendor } from './vendors.ts';

type OrderKind = OrderDocument['kind'];

/** What the orders of the shape have beside the fields that all have; some come with modules. */
function fieldsOf(shape: OrderShape, data: Pick<ReferenceData, 'hasField'>): string[] {
  if (!shape.hasOrderLines) return ['date_start', 'date_end'];
  const always = ['partner_ref', 'date_order', 'date_planned'];
  const some = ['picking_type_id', 'locked', 'receipt_status', 'purchase_group_id', 'requisition_id'];
  return [...always, ...some.filter((name) => data.hasField(name))];
}

export function createOrders(deps: OrderDeps, shape: OrderShape): Kind<OrderKind> {
  const { odoo, settings, vendors } = deps;
  const confirms = shape !== bidOrder && settings.order_state === 'confirmed';

  /** With `decides: false` nothing is planned: the tasks only say what is wanted. */
  async function planAll(
    operations: readonly Operation<OrderKind>[],
    signal: AbortSignal,
    { decides = true }: { decides?: boolean } = {},
  ) {
    const { needed, vendorOf, data } = await readNamed(deps, operations, signal);
    const searched = operations.map(({ document: { key, event }, action, reference }) => ({
      key,
      event: event.id,
      reference,
      isExpected: action !== 'create' || reference !== undefined,
    }));
    const fields = fieldsOf(shape, data);
    const orders = await findOrders(odoo, shape, searched, fields, signal);
    const held = [...new Set(operations.flatMap(({ document }) => orders.of(document.key)))];
    const lines = await readLines(odoo, shape, held, signal);
    const linesOf = (order: HeldOrder) => lines.get(order.id) ?? [];
    const callOffs = await readCallOffs(odoo, shape === blanketOrder ? held : [], signal);
    const callOffsOf = (order: HeldOrder) => callOffs.get(order.id) ?? [];
    const insteadOf = ({ kind, key, event }: OrderDocument) =>
      kind === 'quotation'
        ? (orders.awardOf(key) ?? orderInstead(orders.of(key), orders.inEvent(event.id), settings))
        : undefined;
    const context: OrderContext = { shape, settings, data, confirms, fields, linesOf, callOffsOf };
    const tasks = operations.map((operation) => {
      const { document, agreement } = needed(operation.document);
      const { action } = operation;
      const found = orders.of(document.key);
      const own: OrderTask = {
        ...newTask({ ...operation, document }),
        vendor: noVendor,
        names: currentOrder(found, shape)?.isRequest ? bidOrder : shape,
        lines: [],
        agreement,
        form: {},
        step: undefined,
        alternatives: [],
      };
      return decide(own, (task) => {
        const instead = insteadOf(document);
        if (decides && instead) return planInstead(task, instead, found, shape);
        if (action !== 'cancel') {
          task.vendor = vendorOf(document.supplier);
          if (decides) vendors.planMissing(task.vendor, task.steps);
          task.lines = wantedLines(document, { data, settings });
        }
        if (decides) planOrder(task, found, context);
        if (task.action === 'none') task.steps.length = 0;
      });
    });
    if (decides && shape === awardOrder) await planAlternatives(odoo, tasks, orders, context, signal);
    return { tasks, orders, insteadOf, context };
  }

  return {
    async plan(operations, signal) {
      const { tasks, context } = await planAll(operations, signal);
      return {
        tasks,
        send: async (signal) => {
          const written = tasks.filter(({ step }) => step && step.do !== 'cancel');
          await vendors.createMissing(written, signal);
          await sendOrders(tasks, odoo, context, signal);
          if (shape === bidOrder && context.data.hasField('purchase_group_id')) await groupBids(written, odoo, signal);
        },
      };
    },
    async readBack(deliveries, signal) {
      const operations = deliveries.map(
        ({ document, reference }): Operation<OrderKind> => ({
          action: 'amend',
          document,
          contentHash: '',
          idempotencyKey: '',
          reference,
        }),
      );
      const { tasks, orders, insteadOf, context } = await planAll(operations, signal, { decides: false });
      const answers = deliveries.map((delivery, index): ReadBack => {
        const { document } = delivery;
        const found = orders.of(document.key);
        const instead = insteadOf(document);
        if (!instead) return readOrder(delivery, tasks[index] as OrderTask, ownOrders(found, shape), context);
        const reference = referenceTo(shape.model, instead.id);
        const notCompared = ['the bid, as its event was awarded'];
        return { key: document.key, status: 'held', reference, fields: [], notCompared };
      });
      const held = deliveries.flatMap(({ document }) => orders.of(document.key));
      return addLastChanges(odoo, shape.model, answers, signal, (order) =>
        held.filter(({ id: own }) => own === order).flatMap((own) => context.linesOf(own)),
      );
    },
    async lookup(documents, signal) {
      const searched = documents.map(({ key, event }) => ({ key, event: event.id, isExpected: true }));
      const found = await findOrders(odoo, shape, searched, [], signal);
      return documents.flatMap(({ key }) =>
        liveOrders(ownOrders(found.of(key), shape)).map(
          (order): Found => ({
            key,
            reference: referenceTo(shape.model, order.id),
            // An order does not record what was written last; an amendment compares the values instead.
            contentHash: undefined,
          }),
        ),
      );
    },
  };
}

const groupRows = z.array(z.object({ id, purchase_group_id: relation }));

/** Makes the requests for quotation of an event alternatives of each other, so that Odoo compares them. */
async function groupBids(tasks: readonly OrderTask[], odoo: Odoo, signal: AbortSignal): Promise<void> {
  const byEvent = Map.groupBy(dueOf(tasks), ({ operation }) => operation.document.event.id);
  for (const [event, own] of byEvent) {
    if (signal.aborted) return;
    try {
      const domain = [
        ['origin', '=like', `%${eventMarkerOf(event)}%`],
        ['state', '!=', 'cancel'],
      ];
      const args = { domain, fields: ['purchase_group_id'], order: 'id asc' };
      const rows = await odoo.ask(bidOrder.model, 'search_read', args, groupRows, signal);
      const [first, ...others] = rows;
      const group = first?.purchase_group_id?.id;
      if (!first || (group !== undefined && others.every((row) => row.purchase_group_id?.id === group))) continue;
      const vals = { alternative_po_ids: others.map((row) => [4, row.id]) };
      await odoo.change(bidOrder.model, 'write', { ids: [first.id], vals }, z.literal(true), signal);
    } catch (error) {
      // The bids are written, and the next write of one of them groups them.
      const known = asConnectorError(error);
      for (const task of dueOf(own)) if (known.type !== 'data' && known.type !== 'locked') task.error = known;
    }
  }
}
