/** What is left of the sources' quotas. */
import type { FeedsAnswer } from '#console/api/feeds.ts';
import { Empty, Failure, Loading, Mark, PageHead, Time } from '../parts/basics.tsx';
import { Table } from '../parts/table.tsx';
import { numberText } from '../state/numbers.ts';
import { useAnswer } from '../state/use-answer.ts';

export function QuotasPage() {
  const { answer, error, busy } = useAnswer<FeedsAnswer>('/api/feeds');
  return (
    <>
      <PageHead title="Quotas" />
      <Failure error={error} />
      {answer === undefined && error === undefined ? <Loading /> : null}
      {answer?.quotas.length === 0 ? (
        <Empty>No limit was used lately: every quota is full, or the source sets none.</Empty>
      ) : null}
      {answer && answer.quotas.length > 0 ? (
        <Table
          label="Quotas"
          busy={busy}
          rows={answer.quotas}
          keyOf={({ source, bucket, window }) => `${source} ${bucket} ${window}`}
          columns={[
            { name: 'Source', cell: ({ source }) => source },
            { name: 'Requests', kind: 'wide', cell: ({ bucket }) => bucket },
            { name: 'Limit', cell: ({ window }) => (window === 'burst' ? 'short' : 'long') },
            { name: 'Left', kind: 'number', cell: ({ left }) => numberText(left) },
            {
              name: 'State',
              cell: ({ pausedUntil }) =>
                pausedUntil === undefined ? (
                  <Mark tone="good">open</Mark>
                ) : (
                  <span>
                    <Mark tone="bad">refused</Mark> none is sent until <Time at={pausedUntil} />
                  </span>
                ),
            },
          ]}
        />
      ) : null}
    </>
  );
}
