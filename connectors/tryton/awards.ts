/** Documents of the kind `award`: what one supplier won in one event becomes a purchase, supplier prices, or both. */
import {
  type AwardDocument,
  type AwardLine,
  awardAmount,
  ConnectorError,
  decide,
  type Found,
  type Kind,
  newTask,
  type Operation,
} from 'sourcing-bridge/connector';
import {
  contentHashOf,
  findPurchases,
  type HeldPurchase,
  isLive,
  openPurchaseStates,
  purchaseModel,
  referenceOfPurchase,
} from './held-purchases.ts';
import { type WantedLine, wantedLines } from './lots.ts';
import { createMissingSuppliers, planMissingSupplier } from './parties.ts';
import { linesByLot, type PurchaseTask, planPurchase } from './plan-purchase.ts';
import { addChanges, answerEach, readPurchase } from './read-back.ts';
import type { ReadReferenceData, ReferenceData } from './reference-data.ts';
import {
  findBought,
  findRequisitions,
  type HeldRequisitions,
  planLinks,
  requisitionNeeds,
} from './requisition-requests.ts';
import type { Tryton } from './rpc.ts';
import { sendPurchases } from './send-purchases.ts';
import type { Settings } from './settings.ts';
import {
  findPrices,
  type HeldPrice,
  type PriceTask,
  planPrices,
  referenceOfPrices,
  sendPrices,
} from './supplier-prices.ts';

interface AwardTask extends PurchaseTask, PriceTask {
  lines: readonly WantedLine<AwardLine>[];
}

/** What Tryton holds for the documents of a batch, by document key. */
interface Held {
  readonly purchases: ReadonlyMap<string, HeldPurchase[]>;
  readonly prices: ReadonlyMap<string, HeldPrice[]>;
}

/** What Tryton holds of the requisitions that a batch names. */
interface Requisitions {
  readonly held: HeldRequisitions;
  /** The numbers of those that are bought as a whole, and that Tryton shows as open. */
  readonly bought: ReadonlySet<string>;
}

export function createAwards({
  tryton,
  settings,
  readReferenceData,
}: {
  tryton: Tryton;
  settings: Settings;
  readReferenceData: ReadReferenceData;
}): Kind<'award'> {
  const withPurchases = settings.awards !== 'supplier-prices';
  const withPrices = settings.awards !== 'purchases';

  async function find(
    wanted: readonly { key: string; reference: string | undefined }[],
    signal: AbortSignal,
  ): Promise<Held> {
    const keys = wanted.map(({ key }) => key);
    return {
      purchases: withPurchases ? await findPurchases(tryton, wanted, signal) : new Map(),
      prices: withPrices ? await findPrices(tryton, keys, signal) : new Map(),
    };
  }

  /** What the documents name of requisitions, and what of it their purchases have bought already. */
  async function readRequisitions(
    documents: readonly AwardDocument[],
    { purchases }: Held,
    signal: AbortSignal,
  ): Promise<Requisitions> {
    const named = documents.map((document) =>
      requisitionNeeds(document, settings, () => ({ quantity: 0, unit: null })),
    );
    const confirmed = documents.flatMap(({ key }, index) => {
      const isConfirmed = (purchases.get(key) ?? []).some(
        (held) => isLive(held) && !openPurchaseStates.has(held.row.state),
      );
      return isConfirmed ? (named[index] ?? []) : [];
    });
    const bought = await findBought(tryton, confirmed, signal);
    return {
      held: await findRequisitions(tryton, withPurchases ? named.flat() : [], signal),
      bought: new Set(bought.map(({ number }) => number)),
    };
  }

  function planOne(
    operation: Operation<'award'>,
    held: Held,
    { data, requisitions }: { data: ReferenceData; requisitions: Requisitions },
  ): AwardTask {
    const { document, action } = operation;
    const supplier = data.supplier(document);
    const newAwardTask: AwardTask = {
      ...newTask(operation),
      supplier,
      lines: [],
      needs: [],
      purchase: undefined,
      prices: undefined,
    };
    return decide(newAwardTask, (task) => {
      if (action !== 'cancel') {
        planMissingSupplier(supplier, settings, task.steps);
        task.lines = wantedLines(document, 'awards', awardAmount, { data, settings, dateField: 'delivery_date' });
        task.needs = requisitionNeeds(document, settings, (lot) => {
          const line = task.lines.find((wanted) => wanted.lot === lot);
          return line && { quantity: line.quantity, unit: line.unit?.id ?? null };
        });
      }
      const context = { settings, data, requisitions: requisitions.held, bought: requisitions.bought };
      if (withPurchases) planPurchase(task, held.purchases.get(document.key) ?? [], context);
      else task.reference = referenceOfPrices(document.key);
      if (!withPrices) return;
      const prices = held.prices.get(document.key) ?? [];
      planPrices(task, prices, data);
      if (!task.prices) return;
      const isHeld = withPurchases || prices.some(({ active }) => active);
      if (action === 'cancel') task.action = 'cancel';
      else if (task.action === 'none') task.action = isHeld ? 'amend' : 'create';
    });
  }

  /** Whether the purchase requests of a purchase are linked as the award that was written last asks for. */
  function isLinked(document: AwardDocument, purchase: HeldPurchase, { held, bought }: Requisitions): boolean {
    const { row, lastWritten } = purchase;
    const needs = requisitionNeeds(document, settings, (lot) => {
      const { quantity, unit = null } = lastWritten?.lines[lot] ?? {};
      return typeof quantity === 'number' ? { quantity, unit: typeof unit === 'number' ? unit : null } : undefined;
    });
    if (!openPurchaseStates.has(row.state) && needs.some(({ requisition }) => bought.has(requisition))) return false;
    const lines = linesByLot(row, lastWritten, needs);
    try {
      return planLinks(needs, held, (lot) => lines.get(lot)?.id).pairs.length === 0;
    } catch (error) {
      // The next write finds the same, and says why.
      if (error instanceof ConnectorError) return false;
      throw error;
    }
  }

  return {
    async plan(operations, signal) {
      const documents = operations.map(({ document }) => document);
      const data = await readReferenceData(documents, signal);
      const held = await find(
        operations.map(({ document: { key }, reference }) => ({ key, reference })),
        signal,
      );
      const kept = operations.flatMap(({ action, document }) => (action === 'cancel' ? [] : [document]));
      const requisitions = await readRequisitions(kept, held, signal);
      const tasks = operations.map((operation) => planOne(operation, held, { data, requisitions }));
      return {
        tasks,
        send: async (signal) => {
          const needParty = tasks.filter(({ operation }) => operation.action !== 'cancel');
          await createMissingSuppliers(tryton, needParty, signal);
          // Prices first: the purchase records what was written last, so the prices must be there before it says so.
          await sendPrices(tasks, { tryton, data }, signal);
          await sendPurchases(tasks, { tryton, settings, data }, signal);
        },
      };
    },
    async readBack(deliveries, signal) {
      const data = await readReferenceData(
        deliveries.map(({ document }) => document),
        signal,
      );
      const wanted = deliveries.map(({ document: { key }, reference }) => ({ key, reference }));
      const held = await findPurchases(tryton, wanted, signal);
      const answers = answerEach(deliveries, (delivery) =>
        readPurchase(delivery, held.get(delivery.document.key) ?? [], { data, settings }),
      );
      return addChanges(tryton, answers, purchaseModel, signal);
    },
    async lookup(documents, signal) {
      const keys = documents.map(({ key }) => key);
      const held = await find(
        keys.map((key) => ({ key, reference: undefined })),
        signal,
      );
      const requisitions = await readRequisitions(documents, held, signal);
      return documents.flatMap((document): Found[] => {
        const { key } = document;
        const live = (held.purchases.get(key) ?? []).filter(isLive);
        if (live.length > 0)
          return live.map((purchase) => ({
            key,
            reference: referenceOfPurchase(purchase.row.id),
            contentHash: isLinked(document, purchase, requisitions) ? contentHashOf(purchase, settings) : undefined,
          }));
        const hasPrices = held.prices.get(key)?.some(({ active }) => active) === true;
        return hasPrices ? [{ key, reference: referenceOfPrices(key), contentHash: undefined }] : [];
      });
    },
  };
}
