/** The lines of a document as CSV (RFC 4180), for readers that import tables: one row a line, or a bid of it. */
import { stringify } from 'csv-stringify/sync';
import type { AwardDocument, Document, QuotationDocument, RfiAnswersDocument } from 'sourcing-bridge/connector';

type WithLines = AwardDocument | QuotationDocument | RfiAnswersDocument;
type Cells = readonly (readonly [column: string, value: string | undefined])[];

/** Undefined for a kind without lines. A document without lines gives the columns that every one has. */
export function linesAsCsv(document: Document): string | undefined {
  if (!('lines' in document)) return undefined;
  const rows = rowsOf(document);
  const columns = [
    ...new Set([...fixedColumns[document.kind], ...rows.flatMap((row) => row.map(([column]) => column))]),
  ];
  const table = rows.map((row) => {
    const cells = new Map(row);
    return columns.map((column) => cells.get(column) ?? '');
  });
  return stringify([columns, ...table], { record_delimiter: 'windows' });
}

function rowsOf(document: WithLines): Cells[] {
  switch (document.kind) {
    case 'award':
      return document.lines.map((line) => [
        ...headOf(document),
        ['lot', line.lot],
        ['share', line.share],
        ['quantity', line.quantity],
        ['unit_price', line.unit_price],
        ['currency', document.currency],
        ['cost', line.cost],
        ['historic_cost', line.historic_cost],
        ['savings', line.savings],
        ...sheetOf(line.values),
        ...fieldsOf(document, line),
      ]);
    case 'quotation':
      return document.lines.flatMap((line) =>
        (line.bids.length > 0 ? line.bids : [undefined]).map(
          (bid): Cells => [
            ...headOf(document),
            ['lot', line.lot],
            ['quantity', line.quantity],
            ['unit_price', line.unit_price],
            ['currency', document.currency],
            ['bid', bid?.value],
            ['volume', bid?.volume],
            ...sheetOf(line.values),
            ...fieldsOf(document, line),
          ],
        ),
      );
    case 'rfi-answers':
      return document.lines.map((line) => [
        ...headOf(document),
        ['question', line.question.identifier],
        ['question_id', line.question.id],
        ['question_text', line.question.text],
        ['value', line.value ?? line.options.map(({ value }) => value).join(', ')],
        ['currency', line.currency],
        ['comment', line.comment],
        ['files', line.files.join(' ')],
        ...fieldsOf(document, line),
      ]);
  }
}

const headColumns = [
  'event_id',
  'event_reference',
  'event_name',
  'supplier_id',
  'supplier_external_id',
  'supplier_name',
] as const;

/** In this order, whatever the document holds; what its bid sheet and the flow's mapping add stands after them. */
const fixedColumns: Record<WithLines['kind'], readonly string[]> = {
  award: [...headColumns, 'lot', 'share', 'quantity', 'unit_price', 'currency', 'cost', 'historic_cost', 'savings'],
  quotation: [...headColumns, 'lot', 'quantity', 'unit_price', 'currency', 'bid', 'volume'],
  'rfi-answers': [...headColumns, 'question', 'question_id', 'question_text', 'value', 'currency', 'comment', 'files'],
};

function headOf({ event, supplier }: WithLines): Cells {
  return [
    ['event_id', event.id],
    ['event_reference', event.reference_id],
    ['event_name', event.name],
    ['supplier_id', supplier.id],
    ['supplier_external_id', supplier.external_id],
    ['supplier_name', supplier.name],
  ];
}

function sheetOf(values: AwardDocument['lines'][number]['values']): Cells {
  return values.map(({ column, value }) => [`sheet: ${column}`, value]);
}

/** Of the document and of the line; where both have one of a name, the line's. */
function fieldsOf(document: WithLines, line: { fields?: Readonly<Record<string, string>> | undefined }): Cells {
  return Object.entries({ ...document.fields, ...line.fields }).map(([name, value]) => [`field: ${name}`, value]);
}
