/** The columns by which documents are shown in lists. */
import type { DocumentsAnswer } from '#console/api/list-documents-call.ts';
import { moneyText } from '../state/numbers.ts';
import { Reference, StateMark, Time } from './basics.tsx';
import { documentPath } from './paths.ts';
import type { Column } from './table.tsx';
import { sentenceOf } from './words.ts';

type Row = DocumentsAnswer['documents'][number];
/** What search and lists both have. */
export type ShownRow = Omit<Row, 'amount' | 'currency' | 'changed' | 'documentNote'> &
  Partial<Pick<Row, 'amount' | 'currency' | 'changed' | 'documentNote'>>;

export const kindNames: Readonly<Record<string, string>> = {
  award: 'Award',
  'event-awards': 'Awards of an event',
  quotation: 'Quotation',
  supplier: 'Supplier',
  'sourcing-event': 'Event',
  'rfi-answers': 'RFI answers',
  file: 'File',
  job: 'Job',
};

/** What a document is called: its event, or its supplier, by name; a job by its id. */
export function titleOf({
  eventName,
  supplierName,
  kind,
  key,
}: Pick<ShownRow, 'eventName' | 'supplierName' | 'kind' | 'key'>): string {
  if (kind === 'supplier') return supplierName ?? key;
  if (kind === 'job') return key;
  return eventName ?? 'Event without a name';
}

export function keyOfRow({ flow, kind, key }: Pick<ShownRow, 'flow' | 'kind' | 'key'>): string {
  return `${flow} ${kind} ${key}`;
}

export function documentColumns({
  flows = true,
  amounts = true,
}: {
  flows?: boolean;
  amounts?: boolean;
} = {}): Column<ShownRow>[] {
  return [
    {
      name: 'Document',
      kind: 'wide',
      cell: (row) => (
        <a class="row-link" href={documentPath(row)}>
          <strong>{titleOf(row)}</strong>
          <span class="under">
            {kindNames[row.kind] ?? row.kind}
            {row.eventReference && row.kind !== 'supplier' ? ` · ${row.eventReference}` : ''}
          </span>
        </a>
      ),
    },
    {
      name: 'Supplier',
      kind: 'name',
      cell: (row) => (row.kind === 'supplier' ? (row.supplierExternalId ?? '') : (row.supplierName ?? '')),
    },
    ...(amounts
      ? [
          {
            name: 'Amount',
            kind: 'number' as const,
            cell: (row: ShownRow) => (row.amount ? moneyText(row.amount, row.currency) : ''),
          },
        ]
      : []),
    {
      name: 'State',
      cell: (row) => (
        <span class="state-cell">
          <StateMark state={row.state} />
          {row.why && row.state !== 'nothing' && row.state !== 'cancelled' ? (
            <span class="under clip" title={row.why}>
              {sentenceOf(row.why)}
            </span>
          ) : null}
          {row.documentNote?.lookedAfterBy ? (
            <span class="under">{row.documentNote.lookedAfterBy} looks after it</span>
          ) : null}
        </span>
      ),
    },
    {
      name: 'In the ERP as',
      cell: (row) => (
        <span>
          <Reference reference={row.reference} url={row.url} />
          {flows ? <span class="under">{row.flow}</span> : null}
        </span>
      ),
    },
    { name: 'Changed', kind: 'time', cell: (row) => <Time at={row.changed ?? row.since ?? row.delivered} /> },
  ];
}
