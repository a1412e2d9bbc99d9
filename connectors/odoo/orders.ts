/** Documents with lines that become an order in Odoo: awards, blanket orders of awards, and bids. */
import { type AwardLine, type Found, type Operation, type QuotationLine, z } from 'sourcing-bridge/connector';
import { findOrders, type HeldOrder, readCallOffs, readLines } from './held-orders.ts';
import { type Amount, awardAmount, bidAmount, productNameOf, wantedLines } from './lots.ts';
import { asConnectorError, type Odoo } from './odoo.ts';
import { bidOrder, blanketOrder, type OrderShape } from './order-shapes.ts';
import {
  eventMarkerOf,
  liveOrders,
  type OrderContext,
  type OrderDocument,
  type OrderTask,
  planOrder,
} from './plan-order.ts';
import { addLastChanges, readOrder } from './read-back.ts';
import type { ReadReferenceData, ReferenceData } from './reference-data.ts';
import { sendOrders } from './send-orders.ts';
import type { Settings } from './settings.ts';
import { decide, due, type Kind, newTask } from './task.ts';
import { id, idIn, referenceTo, relation } from './values.ts';
import { codeOf, type Vendors } from './vendors.ts';

export interface OrderDeps {
  readonly odoo: Odoo;
  readonly settings: Settings;
  readonly vendors: Vendors;
  readonly readReferenceData: ReadReferenceData;
}

type OrderKind = OrderDocument['kind'];

/** What the orders of the shape have beside the fields that all have; some come with modules. */
function fieldsOf(shape: OrderShape, data: Pick<ReferenceData, 'hasField'>): string[] {
  if (!shape.hasOrderLines) return ['date_start', 'date_end'];
  const always = ['partner_ref', 'date_order', 'date_planned'];
  const some = ['picking_type_id', 'locked', 'invoice_status', 'invoice_count', 'receipt_status', 'purchase_group_id'];
  return [...always, ...some.filter((name) => data.hasField(name))];
}

export function createOrders(deps: OrderDeps, shape: OrderShape): Kind<'award'> & Kind<'quotation'> {
  return createOrderKind(deps, shape) as unknown as Kind<'award'> & Kind<'quotation'>;
}

function createOrderKind(
  { odoo, settings, vendors, readReferenceData }: OrderDeps,
  shape: OrderShape,
): Kind<OrderKind> {
  const confirms = shape !== bidOrder && settings.order_state === 'confirmed';

  async function readData(documents: readonly OrderDocument[], signal: AbortSignal) {
    return readReferenceData(
      {
        currencies: documents.map(({ currency }) => currency),
        products: documents.flatMap(({ lines }) => lines.flatMap((line) => productNameOf(line, settings) ?? [])),
        warehouses: [
          ...documents.flatMap(({ fields }) => fields?.['warehouse'] ?? []),
          ...(settings.warehouse === undefined ? [] : [settings.warehouse]),
        ],
      },
      signal,
    );
  }

  /** With `decides: false` nothing is planned: the tasks only say what is wanted. */
  async function planAll(
    operations: readonly Operation<OrderKind>[],
    signal: AbortSignal,
    { decides = true }: { decides?: boolean } = {},
  ) {
    const kept = operations.filter(({ action }) => action !== 'cancel').map(({ document }) => document);
    const found = await vendors.find(
      kept.map(({ supplier }) => supplier),
      signal,
    );
    const data = await readData(kept, signal);
    const searched = operations.map(({ document: { key }, action, reference }) => ({
      key,
      reference,
      isExpected: action !== 'create' || reference !== undefined,
    }));
    const fields = fieldsOf(shape, data);
    const orders = await findOrders(odoo, shape, searched, fields, signal);
    const held = [...new Set([...orders.values()].flat())];
    const lines = await readLines(odoo, shape, held, signal);
    const linesOf = (order: HeldOrder) => lines.get(order.id) ?? [];
    const callOffs = await readCallOffs(odoo, shape === blanketOrder ? held : [], signal);
    const callOffsOf = (order: HeldOrder) => callOffs.get(order.id) ?? [];
    const context: OrderContext = { shape, settings, data, confirms, fields, linesOf, callOffsOf };
    const tasks = operations.map((operation) => {
      const { document, action } = operation;
      const code = codeOf(document.supplier);
      const own: OrderTask = {
        ...newTask(operation),
        vendor: { id: undefined, code, name: document.supplier.name },
        lines: [],
        form: {},
        step: undefined,
      };
      return decide(own, (task) => {
        if (action !== 'cancel') {
          const vendor = found.get(code);
          if (vendor instanceof Error) throw vendor;
          if (vendor) task.vendor = vendor;
          if (decides) vendors.planMissing(task.vendor, task.steps);
          const amountOf = (document.kind === 'award' ? awardAmount : bidAmount) as (
            line: AwardLine | QuotationLine,
          ) => Amount;
          task.lines = wantedLines(document, amountOf, { data, settings });
        }
        if (decides) planOrder(task, orders.get(document.key) ?? [], context);
        if (task.action === 'none') task.steps.length = 0;
      });
    });
    return { tasks, orders, context };
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
      const { tasks, orders, context } = await planAll(operations, signal, { decides: false });
      const answers = deliveries.map((delivery, index) =>
        readOrder(delivery, tasks[index] as OrderTask, orders.get(delivery.document.key) ?? [], context),
      );
      const held = [...orders.values()].flat();
      return addLastChanges(odoo, shape.model, answers, signal, (order) =>
        held.filter(({ id: own }) => own === order).flatMap((own) => context.linesOf(own)),
      );
    },
    async lookup(documents, signal) {
      const searched = documents.map(({ key }) => ({ key, reference: undefined, isExpected: true }));
      const found = await findOrders(odoo, shape, searched, [], signal);
      return documents.flatMap(({ key }) =>
        liveOrders(found.get(key)).map(
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
  const byEvent = Map.groupBy(due(tasks), ({ operation }) => operation.document.event.id);
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
      for (const task of own)
        if (idIn(task.reference, bidOrder.model) !== undefined && task.error === undefined)
          if (['auth', 'config', 'rate-limited', 'unknown', 'transient'].includes(known.type)) task.error = known;
    }
  }
}
