/** Awards: what one supplier won in one event, as a purchase, as prices, or both. */
import { type AwardDocument, ConnectorError, type Found, type Operation } from 'sourcing-bridge/connector';
import { type Kind, nothingYet, outcomeOfPrepared, type Prepared, plannedOf } from './batch.ts';
import { checkMissing, codeOf, findSuppliers, makeMissing, type Supplier } from './parties.ts';
import { type PurchaseTask, preparePurchase } from './prepare-purchase.ts';
import { awardAmount, checkFields, productCodeOf, type WantedLine, wantedLine } from './purchase-lines.ts';
import {
  awardFields,
  awardLineFields,
  contentHashOf,
  findPurchases,
  isLive,
  referenceOfPurchase,
} from './purchases.ts';
import type { ReadReferenceData, ReferenceData } from './reference-data.ts';
import type { Tryton } from './rpc.ts';
import type { Settings } from './settings.ts';
import { findPrices, type PriceTask, preparePrices, referenceOfPrices, writePrices } from './supplier-prices.ts';
import { writePurchases } from './write-purchases.ts';

type Task = PurchaseTask & PriceTask;

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

  async function prepare(
    operations: readonly Operation<'award'>[],
    signal: AbortSignal,
  ): Promise<{ tasks: Task[]; data: ReferenceData }> {
    const documents = operations.map(({ document }) => document);
    const data = await readReferenceData(
      {
        currencies: documents.map(({ currency }) => currency),
        products: documents.flatMap(({ lines }) => lines.flatMap((line) => productCodeOf(line, settings) ?? [])),
      },
      signal,
    );
    const suppliers = await findSuppliers(
      tryton,
      documents.map(({ supplier }) => supplier),
      signal,
    );
    const wanted = operations.map(({ document: { key }, reference }) => ({ key, reference }));
    const purchases = withPurchases ? await findPurchases(tryton, wanted, signal) : undefined;
    const prices = withPrices
      ? await findPrices(
          tryton,
          documents.map(({ key }) => key),
          signal,
        )
      : undefined;
    const tasks = operations.map((operation): Task => {
      const { document, action } = operation;
      const supplier = suppliers.get(codeOf(document.supplier)) as Supplier;
      const prepared = nothingYet();
      let lines: readonly WantedLine[] = [];
      try {
        if (action !== 'cancel') {
          checkMissing(supplier, settings, prepared.steps);
          lines = linesOf(document, data);
        }
        const task: Task = { operation, prepared, supplier, lines };
        if (withPurchases) preparePurchase(task, purchases?.get(document.key) ?? [], { tryton, settings, data });
        const held = prices?.get(document.key) ?? [];
        if (withPrices) preparePrices(task, held, data);
        if (!withPurchases) prepared.reference = referenceOfPrices(document.key);
        if (task.prices)
          prepared.action = actionWithPrices(
            prepared,
            operation,
            held.some(({ active }) => active),
          );
        return task;
      } catch (error) {
        if (!(error instanceof ConnectorError)) throw error;
        prepared.error = error;
        return { operation, prepared, supplier, lines };
      }
    });
    return { tasks, data };
  }

  function actionWithPrices({ action }: Prepared, operation: Operation<'award'>, isHeld: boolean): Prepared['action'] {
    if (operation.action === 'cancel') return 'cancel';
    if (action !== 'none') return action;
    return withPurchases || isHeld ? 'amend' : 'create';
  }

  function linesOf(document: AwardDocument, data: ReferenceData): WantedLine[] {
    checkFields(document.fields, awardFields, 'awards');
    for (const line of document.lines) checkFields(line.fields, awardLineFields, 'lines of awards');
    return document.lines.map((line) =>
      wantedLine(line, awardAmount(line), { data, settings, dateField: 'delivery_date' }),
    );
  }

  return {
    async write(operations, signal) {
      const { tasks, data } = await prepare(operations, signal);
      await makeMissing(
        tryton,
        tasks.filter(({ operation }) => operation.action !== 'cancel'),
        signal,
      );
      // Prices first: the purchase says what was written last, so that nothing is missing once it does.
      await writePrices(tasks, { tryton, data }, signal);
      await writePurchases(tasks, { tryton, settings, data }, signal);
      return tasks.map(({ prepared, operation }) => outcomeOfPrepared(prepared, operation));
    },
    async plan(operations, signal) {
      const { tasks } = await prepare(operations, signal);
      return tasks.map(({ prepared, operation }) => plannedOf(prepared, operation));
    },
    async lookup(documents, signal) {
      const keys = documents.map(({ key }) => key);
      const prices = withPrices ? await findPrices(tryton, keys, signal) : undefined;
      const wanted = keys.map((key) => ({ key, reference: undefined }));
      const purchases = withPurchases ? await findPurchases(tryton, wanted, signal) : undefined;
      return keys.flatMap((key): Found[] => {
        const live = (purchases?.get(key) ?? []).filter(isLive);
        if (live.length > 0)
          return live.map((held) => ({
            key,
            reference: referenceOfPurchase(held.row.id),
            contentHash: contentHashOf(held, settings),
          }));
        const hasPrices = prices?.get(key)?.some(({ active }) => active) === true;
        return hasPrices ? [{ key, reference: referenceOfPrices(key), contentHash: undefined }] : [];
      });
    },
  };
}
