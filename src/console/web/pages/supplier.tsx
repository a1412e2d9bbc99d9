/** One supplier, and what is about it. */
import type { SuppliersAnswer } from '#console/api/list-subjects-call.ts';
import { Failure, Ids, Loading, PageHead } from '../parts/basics.tsx';
import { useAnswer } from '../state/use-answer.ts';
import { DocumentList } from './documents.tsx';

export function SupplierPage({ source, id }: { source: string; id: string }) {
  const { answer, error } = useAnswer<SuppliersAnswer>('/api/suppliers', { source, id });
  const supplier = answer?.suppliers[0];
  if (!supplier)
    return (
      <>
        <PageHead title="Supplier" />
        {error === undefined && answer === undefined ? (
          <Loading />
        ) : (
          <Failure error={error ?? 'The bridge has read no such supplier.'} />
        )}
      </>
    );
  return (
    <>
      <PageHead title={supplier.name || supplier.reference}>
        <Ids ids={{ supplier: supplier.id, source: supplier.source }} />
      </PageHead>
      <dl class="facts">
        <div>
          <dt>Number</dt>
          <dd>{supplier.reference || '–'}</dd>
        </div>
        <div>
          <dt>Source</dt>
          <dd>{supplier.source}</dd>
        </div>
      </dl>
      <h2>Documents</h2>
      <DocumentList parameters={{ supplier: supplier.id }} />
    </>
  );
}
