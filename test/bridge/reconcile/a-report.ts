/** A report whose figures fit together, for tests. */
import type { ReportContent } from '#bridge/reconcile/report-form.ts';

export function aReport(changes: Partial<ReportContent> = {}): ReportContent {
  return {
    format: 'sourcing-bridge report 1',
    number: 1,
    flow: 'erp',
    source: 'main',
    connector: 'memory',
    program: 'sourcing-bridge 1.0.0',
    askedBy: 'ann',
    started: '2030-01-01T00:00:00.000000Z',
    ended: '2030-01-01T00:01:00.000000Z',
    events: null,
    documents: 3,
    values: 12,
    totals: [
      { kind: 'award', currency: 'EUR', state: 'as delivered', documents: 2, amount: '0.3' },
      { kind: 'award', currency: 'EUR', state: 'changed', documents: 1, amount: '12.5' },
    ],
    differences: [
      {
        kind: 'award',
        key: 'e1/s1',
        finding: 'changed',
        reference: 'PO-1',
        field: 'lines[<M8> & "ß"].price',
        expected: '1.5',
        held: '1.7',
        changedBy: 'bob',
        changedAt: '2030-01-01T00:00:30.000000Z',
        reason: null,
      },
    ],
    differencesOmitted: 0,
    notCompared: [{ kind: 'award', field: 'attachments', reason: 'the connector cannot compare it', documents: 3 }],
    previous: null,
    ...changes,
  };
}
