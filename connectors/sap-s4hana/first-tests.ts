/**
 * Ten first tests on a customer's sandbox: what the connector relies on, and what SAP's texts leave open. They make one
 * purchase order, look at it past the connector's own functions, change it and delete it: `connector verify sap-s4hana
 * --test-system` runs and reports them.
 */
import { createHash } from 'node:crypto';
import {
  type AwardDocument,
  ConnectorError,
  type FirstTest,
  type Operation,
  type Session,
} from 'sourcing-bridge/connector';
import { findOrders, type HeldOrder, isItemDeleted } from './held-orders.ts';
import type { Deps } from './kind.ts';
import { findSuppliers } from './partners.ts';
import { sapValue } from './sap-values.ts';

export function createFirstTests(
  deps: Deps,
  awards: Pick<Session<'award'>, 'write' | 'lookup'>,
  award: AwardDocument,
): FirstTest[] {
  const changed = withLines(award, (line) => ({ ...line, quantity: '7', unit_price: '4.25' }));
  const short: AwardDocument = { ...changed, lines: changed.lines.slice(0, 1) };

  const write = (action: Operation['action'], document: AwardDocument, expected: string, signal: AbortSignal) =>
    writeExpecting(awards, action, document, expected, signal);

  async function held(signal: AbortSignal): Promise<HeldOrder> {
    const [order] = (await findOrders(deps.orders, [award], deps.settings, signal)).get(award.key) ?? [];
    if (order) return order;
    throw new Error('SAP shows no order with the mark of the document (CorrespncExternalReference)');
  }

  return [
    {
      name: '1 an order is made, with the prices that were sent',
      run: (signal) => write('create', award, 'created', signal),
    },
    {
      name: '2 how SAP shows numbers',
      run: async (signal) => {
        const { Supplier, to_PurchaseOrderItem: items } = await held(signal);
        return `supplier ${Supplier}, items ${items.map(({ PurchaseOrderItem }) => PurchaseOrderItem).join(', ')}`;
      },
    },
    {
      name: '3 the order has the language of its supplier',
      run: async (signal) => languageOf(deps, award, await held(signal), signal),
    },
    { name: '4 written again, it is unchanged', run: (signal) => write('amend', award, 'unchanged', signal) },
    {
      name: '5 two items and the text change in one save',
      run: (signal) => write('amend', changed, 'updated', signal),
    },
    {
      name: '6 a batch with one refused change changes nothing',
      run: async (signal) => refusedBatch(deps, () => held(signal), signal),
    },
    { name: '7 an old ETag is refused', run: async (signal) => oldEtag(deps, await held(signal), signal) },
    {
      name: '8 a lot that is gone is deleted with the code L',
      run: async (signal) => {
        await write('amend', short, 'updated', signal);
        const codes = (await held(signal)).to_PurchaseOrderItem.filter(isItemDeleted);
        if (codes.length !== 1)
          throw new Error(`SAP shows ${codes.length} items with the deletion code L instead of 1`);
        return 'one item has the code L';
      },
    },
    {
      name: '9 lookup finds the order once, as it was written',
      run: async (signal) => {
        const found = await awards.lookup([award], signal);
        const [only] = found;
        if (found.length !== 1 || !only || !('contentHash' in only) || only.contentHash === undefined)
          throw new Error(`lookup finds ${JSON.stringify(found)}`);
        return only.reference;
      },
    },
    {
      name: '10 a withdrawn order is deleted',
      run: async (signal) => {
        const text = await write('cancel', { ...award, lines: [] }, 'cancelled', signal);
        const found = await awards.lookup([award], signal);
        if (found.length > 0) throw new Error(`LEFT BEHIND: lookup still finds ${JSON.stringify(found)}`);
        return text;
      },
    },
  ];
}

/** Throws for another outcome. */
async function writeExpecting(
  awards: Pick<Session<'award'>, 'write'>,
  action: Operation['action'],
  document: AwardDocument,
  expected: string,
  signal: AbortSignal,
): Promise<string> {
  const contentHash = createHash('sha256').update(JSON.stringify(document)).digest('hex');
  const idempotencyKey = `${action} ${contentHash}`;
  const [outcome] = await awards.write(
    [{ action, document, contentHash, idempotencyKey, reference: undefined }],
    signal,
  );
  if (outcome?.status === expected) return `${'reference' in outcome ? outcome.reference : ''} ${expected}`;
  throw new Error(`expected ${expected}, got ${JSON.stringify(outcome)}`);
}

function withLines(
  award: AwardDocument,
  change: (line: AwardDocument['lines'][number]) => AwardDocument['lines'][number],
) {
  return { ...award, lines: award.lines.map(change) };
}

async function languageOf({ odata }: Deps, { supplier }: AwardDocument, { Language }: HeldOrder, signal: AbortSignal) {
  const partnerOf = await findSuppliers(odata, [supplier], signal);
  const { language } = partnerOf(supplier);
  if (language !== undefined && language !== Language)
    throw new Error(`the order has ${Language}, its supplier ${language}`);
  return language === undefined ? `the supplier has none; the order has ${Language}` : Language;
}

/** The text of an item that exists, and one of an item that does not. */
async function refusedBatch({ orders }: Deps, held: () => Promise<HeldOrder>, signal: AbortSignal): Promise<string> {
  const before = await held();
  const { PurchaseOrder } = before;
  const [item] = before.to_PurchaseOrderItem;
  const change = (PurchaseOrderItem: string) => ({
    what: 'change a text',
    method: 'PATCH' as const,
    set: 'A_PurchaseOrderItem',
    key: { PurchaseOrder, PurchaseOrderItem },
    body: { PurchaseOrderItemText: 'Must not stay' },
  });
  let refusal: string | undefined;
  try {
    await orders.changeAll([change(item?.PurchaseOrderItem ?? ''), change('99990')], signal);
  } catch (error) {
    if (!(error instanceof ConnectorError)) throw error;
    refusal = `${error.type}: ${error.message}`;
  }
  const after = (await held()).to_PurchaseOrderItem[0]?.PurchaseOrderItemText;
  if (refusal === undefined) throw new Error('SAP takes a change of an item that does not exist');
  if (sapValue('Text', after) !== sapValue('Text', item?.PurchaseOrderItemText))
    throw new Error(`SAP refused the batch (${refusal}), and has changed the first item all the same`);
  return refusal;
}

async function oldEtag(
  { orders }: Deps,
  { PurchaseOrder, __metadata }: HeldOrder,
  signal: AbortSignal,
): Promise<string> {
  if (__metadata?.etag === undefined)
    return 'SAP sends no ETag: a person’s change in the moment of a write would be overwritten';
  const change = {
    what: 'change',
    method: 'PATCH',
    set: 'A_PurchaseOrder',
    key: PurchaseOrder,
    body: { CorrespncInternalReference: 'OLD' },
    etag: 'W/"\'0\'"',
  } as const;
  try {
    await orders.changeAll([change], signal);
  } catch (error) {
    if (error instanceof ConnectorError && error.type === 'locked') return error.message;
    throw error;
  }
  throw new Error('SAP has changed an order whose ETag was another one');
}
