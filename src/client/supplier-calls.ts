/** Calls for suppliers and their changes. Source: API document, "Supplier management". */
import { z } from 'zod';
import { type SupplierChange, submissionReceipt, supplier, supplierSubmission } from '#contract/supplier.ts';
import type { Timestamp } from '#contract/timestamp.ts';
import { type ListPage, queryOf, type ReadList } from './list-page.ts';
import type { CallApi } from './send-call.ts';

const suppliersPath = '/api/manage/suppliers';
const changesPath = '/api/manage/supplier_changes';

export interface SupplierQuery {
  /** From 1. */
  pageNumber?: number;
  pageSize: number;
  archived?: boolean;
  name?: string;
  externalId?: string;
  modifiedAfter?: Timestamp;
}

export interface SupplierCalls {
  /**
   * Reads one page of the list; suppliers are as the service sent them. `at` is a filter, or the `next` of an earlier
   * page.
   */
  listSuppliers(at: SupplierQuery | { next: string }, signal?: AbortSignal): Promise<ListPage<Record<string, unknown>>>;
  readSupplier(externalId: string, signal?: AbortSignal): Promise<z.output<typeof supplier>>;
  /**
   * Submits changes of 1 to 1,000 suppliers. A second call with the same key and changes makes no second submission.
   */
  submitSupplierChange(
    suppliers: readonly SupplierChange[],
    idempotencyKey: string,
    signal?: AbortSignal,
  ): Promise<{ uuid: string }>;
  /** Reads a submission; `current_state` is `PROCESSED` when its changes have been applied. */
  readSupplierChange(uuid: string, signal?: AbortSignal): Promise<z.output<typeof submission>>;
}

/** The members of a submission that reading needs; others are kept. */
const submission = z.looseObject({
  ...supplierSubmission.pick({ uuid: true, current_state: true }).shape,
  state_errors: z.record(z.string(), z.unknown()).nullish(),
  change_warnings: z.array(z.unknown()).nullish(),
});

export function supplierQuery(query: SupplierQuery): string {
  return queryOf({
    page_number: query.pageNumber,
    page_size: query.pageSize,
    archived: query.archived,
    name: query.name,
    external_id: query.externalId,
    modified_after: query.modifiedAfter,
  });
}

/** Creates the calls for suppliers. */
export function createSupplierCalls({ call, readList }: { call: CallApi; readList: ReadList }): SupplierCalls {
  const item = <Schema extends z.ZodType>(schema: Schema) => z.looseObject({ result: schema });
  return {
    listSuppliers: (at, signal) => {
      const query = 'next' in at ? at.next : supplierQuery(at);
      return readList({ path: suppliersPath, query, item: z.looseObject({}) }, signal);
    },
    async readSupplier(externalId, signal) {
      const path = `${suppliersPath}/${encodeURIComponent(externalId)}`;
      return (await call({ method: 'GET', path }, item(supplier), signal)).result;
    },
    async submitSupplierChange(suppliers, idempotencyKey, signal) {
      const body = { change_data: { suppliers } };
      const answer = await call(
        { method: 'POST', path: changesPath, body, idempotencyKey },
        item(submissionReceipt.pick({ uuid: true })),
        signal,
      );
      return answer.result;
    },
    async readSupplierChange(uuid, signal) {
      const path = `${changesPath}/${encodeURIComponent(uuid)}`;
      return (await call({ method: 'GET', path }, item(submission), signal)).result;
    },
  };
}
