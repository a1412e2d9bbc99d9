/** Documents of the kind `award`: what one supplier won in one event becomes a purchase, supplier prices, or both. */
import type { AwardLine, Found, Operation } from 'sourcing-bridge/connector';
import { contentHashOf, findPurchases, type HeldPurchase, isLive, referenceOfPurchase } from './held-purchases.ts';
import { awardAmount, type WantedLine, wantedLines } from './lots.ts';
import { createMissingSuppliers, planMissingSupplier } from './parties.ts';
import { type PurchaseTask, planPurchase } from './plan-purchase.ts';
import type { ReadReferenceData, ReferenceData } from './reference-data.ts';
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
import { decide, type Kind, newTask } from './task.ts';

interface AwardTask extends PurchaseTask, PriceTask {
  lines: readonly WantedLine<AwardLine>[];
}

/** What Tryton holds for the documents of a batch, by document key. */
interface Held {
  readonly purchases: ReadonlyMap<string, HeldPurchase[]>;
  readonly prices: ReadonlyMap<string, HeldPrice[]>;
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

  function planOne(operation: Operation<'award'>, held: Held, data: ReferenceData): AwardTask {
    const { document, action } = operation;
    const supplier = data.supplier(document);
    const newAwardTask: AwardTask = {
      ...newTask(operation),
      supplier,
      lines: [],
      purchase: undefined,
      prices: undefined,
    };
    return decide(newAwardTask, (task) => {
      if (action !== 'cancel') {
        planMissingSupplier(supplier, settings, task.steps);
        task.lines = wantedLines(document, 'awards', awardAmount, { data, settings, dateField: 'delivery_date' });
      }
      if (withPurchases) planPurchase(task, held.purchases.get(document.key) ?? [], { settings, data });
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

  return {
    async plan(operations, signal) {
      const documents = operations.map(({ document }) => document);
      const data = await readReferenceData(documents, signal);
      const held = await find(
        operations.map(({ document: { key }, reference }) => ({ key, reference })),
        signal,
      );
      const tasks = operations.map((operation) => planOne(operation, held, data));
      return {
        tasks,
        send: async (signal) => {
          const kept = tasks.filter(({ operation }) => operation.action !== 'cancel');
          await createMissingSuppliers(tryton, kept, signal);
          // Prices first: the purchase records what was written last, so the prices must be there before it says so.
          await sendPrices(tasks, { tryton, data }, signal);
          await sendPurchases(tasks, { tryton, settings, data }, signal);
        },
      };
    },
    async lookup(documents, signal) {
      const keys = documents.map(({ key }) => key);
      const held = await find(
        keys.map((key) => ({ key, reference: undefined })),
        signal,
      );
      return keys.flatMap((key): Found[] => {
        const live = (held.purchases.get(key) ?? []).filter(isLive);
        if (live.length > 0)
          return live.map((purchase) => ({
            key,
            reference: referenceOfPurchase(purchase.row.id),
            contentHash: contentHashOf(purchase, settings),
          }));
        const hasPrices = held.prices.get(key)?.some(({ active }) => active) === true;
        return hasPrices ? [{ key, reference: referenceOfPrices(key), contentHash: undefined }] : [];
      });
    },
  };
}
