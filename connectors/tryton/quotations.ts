/**
 * Documents of the kind `quotation`: a supplier's bids become a quotation (`purchase.request.quotation`), one line per
 * lot.
 */
import { decide, type Found, type Kind, newTask, type Operation } from 'sourcing-bridge/connector';
import { findQuotations, type HeldQuotation, quotationModel, referenceOfQuotation } from './held-quotations.ts';
import { quotationAmount, wantedLines } from './lots.ts';
import { createMissingSuppliers, planMissingSupplier } from './parties.ts';
import { planQuotation, planWithdrawal, type QuotationTask, singleQuotation } from './plan-quotation.ts';
import { bidsOf, createMissingRequests, findRequests, type Requests } from './purchase-requests.ts';
import { addChanges, answerEach, readQuotation } from './read-back.ts';
import type { ReadReferenceData, ReferenceData } from './reference-data.ts';
import type { Tryton } from './rpc.ts';
import { sendQuotations } from './send-quotations.ts';
import type { Settings } from './settings.ts';

/** What Tryton holds for the documents of a batch. */
interface Held {
  /** By document key. */
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
    const newQuotationTask: QuotationTask = { ...newTask(operation), supplier, held: undefined, bids: [] };
    return decide(newQuotationTask, (task) => {
      task.held = singleQuotation(held.quotations.get(document.key) ?? []);
      if (action === 'cancel') return planWithdrawal(task);
      planMissingSupplier(supplier, settings, task.steps);
      const context = { data, settings, dateField: 'supply_date' };
      const lines = wantedLines(document, 'quotations', quotationAmount, context);
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
          await createMissingSuppliers(tryton, kept, signal);
          await createMissingRequests(tryton, kept, data, signal);
          await sendQuotations(tasks, { tryton, settings, data }, signal);
        },
      };
    },
    async readBack(deliveries, signal) {
      const documents = deliveries.map(({ document }) => document);
      const data = await readReferenceData(documents, signal);
      const wanted = deliveries.map(({ document: { key }, reference }) => ({ key, reference }));
      const held = await findQuotations(tryton, wanted, signal, { withCancelled: true });
      const requests = await findRequests(tryton, documents, signal);
      const answers = answerEach(deliveries, (delivery) =>
        readQuotation(delivery, held.get(delivery.document.key) ?? [], { data, settings, requests }),
      );
      return addChanges(tryton, answers, quotationModel, signal);
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
