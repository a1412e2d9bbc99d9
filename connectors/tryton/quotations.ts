/** Bids, as a supplier's quotation (`purchase.request.quotation`) with a line for each lot. */
import type { Found, Operation } from 'sourcing-bridge/connector';
import { findQuotations, type HeldQuotation, referenceOfQuotation } from './held-quotations.ts';
import { quotationAmount, wantedLines } from './lots.ts';
import { checkMissing, makeMissingSuppliers } from './parties.ts';
import { onlyOne, planQuotation, planWithdrawal, type QuotationTask } from './plan-quotation.ts';
import { bidsOf, findRequests, makeMissingRequests, type Requests } from './purchase-requests.ts';
import type { ReadReferenceData, ReferenceData } from './reference-data.ts';
import type { Tryton } from './rpc.ts';
import { sendQuotations } from './send-quotations.ts';
import type { Settings } from './settings.ts';
import { decide, type Kind, newTask } from './task.ts';

/** What Tryton holds: quotations by key. */
interface Held {
  readonly quotations: ReadonlyMap<string, HeldQuotation[]>;
  readonly requests: Requests;
}

export function createQuotations({
  tryton,
  settings,
  readReferenceData,
}: {
  tryton: Tryton;
  settings: Settings;
  readReferenceData: ReadReferenceData;
}): Kind<'quotation'> {
  function planOne(operation: Operation<'quotation'>, held: Held, data: ReferenceData): QuotationTask {
    const { document, action } = operation;
    const supplier = data.supplier(document);
    const own: QuotationTask = { ...newTask(operation), supplier, held: undefined, bids: [] };
    return decide(own, (task) => {
      task.held = onlyOne(held.quotations.get(document.key) ?? []);
      if (action === 'cancel') return planWithdrawal(task);
      checkMissing(supplier, settings, task.steps);
      const given = { data, settings, dateField: 'supply_date' };
      const lines = wantedLines(document, 'quotations', quotationAmount, given);
      task.bids = bidsOf(lines, document, task.held, held.requests);
      return planQuotation(task, { settings, data });
    });
  }

  return {
    async plan(operations, signal) {
      const documents = operations.map(({ document }) => document);
      const data = await readReferenceData(documents, signal);
      const wanted = operations.map(({ document: { key }, reference }) => ({ key, reference }));
      const held = {
        quotations: await findQuotations(tryton, wanted, signal),
        requests: await findRequests(tryton, documents, signal),
      };
      const tasks = operations.map((operation) => planOne(operation, held, data));
      return {
        tasks,
        send: async (signal) => {
          const kept = tasks.filter(({ operation }) => operation.action !== 'cancel');
          await makeMissingSuppliers(tryton, kept, signal);
          await makeMissingRequests(tryton, kept, data, signal);
          await sendQuotations(tasks, { tryton, settings, data }, signal);
        },
      };
    },
    async lookup(documents, signal) {
      const wanted = documents.map(({ key }) => ({ key, reference: undefined }));
      const found = await findQuotations(tryton, wanted, signal);
      return documents.flatMap(({ key }) =>
        (found.get(key) ?? []).map(
          ({ row }): Found => ({ key, reference: referenceOfQuotation(row.id), contentHash: undefined }),
        ),
      );
    },
  };
}
