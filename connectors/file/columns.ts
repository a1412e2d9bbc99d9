/**
 * The rows of a table, and the paths of their values: `event.reference_id`, `line.fields.Material`,
 * `line.values[Unit Price]`. A path begins at the document, or at the `line` or the `bid` of the row.
 */
import {
  type CompiledPath,
  compilePath,
  compileValuePath,
  type Document,
  type DocumentKind,
  documentKinds,
  documentShape,
  type Operation,
  PathError,
  type RfiAnswer,
  type Roots,
  type Shape,
} from 'sourcing-bridge/connector';

export type CellType = 'text' | 'decimal' | 'date';

/** The values of a row; paths begin at its members. */
export interface Row {
  readonly operation: Operation;
  /** The document's members, and those of the write (`writeMembers`). */
  readonly document: Readonly<Record<string, unknown>>;
  readonly line?: Readonly<Record<string, unknown>> | undefined;
  readonly bid?: Readonly<Record<string, unknown>> | undefined;
}

/** The written bytes of a `file` document. */
export interface WrittenFile {
  readonly name: string;
  readonly path: string;
  readonly bytes: number;
  readonly sha256: string;
}

const text: Shape = {};
const writeMembers: Readonly<Record<string, Shape>> = {
  action: text,
  state: text,
  content_hash: text,
  file: { properties: { name: text, path: text, bytes: text, sha256: text } },
};

const rootsByKind = new Map<DocumentKind, Roots>();

function rootsOf(kind: DocumentKind): Roots {
  let roots = rootsByKind.get(kind);
  if (!roots) {
    const document = documentShape(kind);
    const entry = document.properties?.['lines']?.items;
    const answer: Shape['properties'] = kind === 'rfi-answers' ? { answer: text } : {};
    const line = entry && { ...entry, properties: { ...entry.properties, ...answer } };
    const bid = entry?.properties?.['bids']?.items;
    roots = {
      document: { ...document, properties: { ...document.properties, ...writeMembers } },
      ...(line ? { line } : {}),
      ...(bid ? { bid } : {}),
    };
    rootsByKind.set(kind, roots);
  }
  return roots;
}

/** Compiles the path of a single value, or of a list of texts, which also fits into one cell. Throws PathError. */
function compileCell(kind: DocumentKind, path: string): CompiledPath {
  const compiled = compilePath(rootsOf(kind), path);
  const { items } = compiled.shape;
  return items && !items.properties ? compiled : compileValuePath(rootsOf(kind), path);
}

/** What is wrong with a path; undefined when at least one kind of document has it. */
export function pathFault(path: string): string | undefined {
  const faults: string[] = [];
  for (const kind of documentKinds) {
    try {
      compileCell(kind, path);
      return undefined;
    } catch (error) {
      if (!(error instanceof PathError)) throw error;
      faults.push(error.message);
    }
  }
  const known = faults.find((fault) => !fault.startsWith('leads to nothing: the document has no member'));
  if (known !== undefined) return `"${path}": ${known}`;
  return `"${path}" is in no document: docs/documents.md lists the paths, such as event.reference_id, line.lot or line.fields.<name>`;
}

export interface CellSource {
  readonly type: CellType;
  /** The value as text; undefined when there is none. */
  readonly read: (row: Row) => string | undefined;
}

/** Reads a path in the rows of a kind; reads nothing when only other kinds have such a path. */
export function cellSource(kind: DocumentKind, path: string): CellSource {
  try {
    const { root, read, shape } = compileCell(kind, path);
    return { type: typeOf(shape), read: (row) => textOf(read(row[root as 'document' | 'line' | 'bid'])) };
  } catch (error) {
    if (error instanceof PathError) return { type: 'text', read: () => undefined };
    throw error;
  }
}

function typeOf({ format, pattern }: Shape): CellType {
  if (format === 'date-time') return 'date';
  return pattern?.includes('\\d') === true ? 'decimal' : 'text';
}

function textOf(value: unknown): string | undefined {
  if (typeof value === 'string') return value;
  if (typeof value === 'number' || typeof value === 'boolean') return String(value);
  return Array.isArray(value) ? value.map(String).join(' ') : undefined;
}

/** The rows of a document: one per line, in a quotation one per bid; a single row for a document without lines. */
export function rowsOf(operation: Operation, state: string, file?: WrittenFile): Row[] {
  const { document: given, action, contentHash: content_hash } = operation;
  const row: Row = { operation, document: { ...given, action, state, content_hash, file } };
  if (!('lines' in given) || given.lines.length === 0) return [row];
  return given.lines.flatMap((entry): Row[] => {
    const lineRow: Row = { ...row, line: lineOf(given, entry) };
    const bids = 'bids' in entry ? entry.bids : [];
    return bids.length === 0 ? [lineRow] : bids.map((bid) => ({ ...lineRow, bid }));
  });
}

function lineOf(document: Document, line: { readonly fields?: Record<string, string> | undefined }): Row['line'] {
  return {
    ...line,
    // A field of the line overrides the document's field of the same name.
    fields: { ...document.fields, ...line.fields },
    ...(document.kind === 'rfi-answers' ? { answer: answerOf(line as RfiAnswer) } : {}),
  };
}

/** The written answer, or the chosen options. */
function answerOf({ value, options }: RfiAnswer): string {
  return value ?? options.map((option) => option.value).join(', ');
}

/** The document and line of a row, for messages. */
export function placeOf({ operation: { document }, line }: Row): string {
  const lot = line?.['lot'];
  return `${document.kind} ${document.key}${typeof lot === 'string' ? `, lot ${lot}` : ''}`;
}

/** The columns of a kind when the settings choose none: `name` in the header, `from` where its value is. */
export function fixedColumns(kind: DocumentKind, isBatch: boolean): { name: string; from: string }[] {
  const given = isBatch ? `${ofBatch} ${columnsOfKind[kind]}` : columnsOfKind[kind];
  return given.split(/\s+/).map((column) => {
    const [name = '', from = name] = column.split('=');
    return { name, from };
  });
}

const ofBatch = 'action state key content_hash';
const ofEvent = 'event_id=event.id event_reference=event.reference_id event_name=event.name';
const ofSupplier = 'supplier_id=supplier.id supplier_external_id=supplier.external_id supplier_name=supplier.name';
const ofAward = `lot=line.lot share=line.share quantity=line.quantity unit_price=line.unit_price
    currency cost=line.cost historic_cost=line.historic_cost savings=line.savings
    requisition=line.requisition.reference_id requisition_line=line.requisition.line`;

/** Each column as `<name>=<path>`, or only the path where that is its name. */
const columnsOfKind: Record<DocumentKind, string> = {
  supplier: `supplier_id=id supplier_external_id=external_id supplier_name=name archived
    contact_name=contacts[1].name contact_email=contacts[1].email`,
  'sourcing-event': `${ofEvent} type=event.type category=event.category status currency created published closed
    lot_count`,
  quotation: `${ofEvent} ${ofSupplier} lot=line.lot quantity=line.quantity unit_price=line.unit_price currency
    bid=bid.value volume=bid.volume`,
  award: `${ofEvent} ${ofSupplier} ${ofAward}`,
  'event-awards': `${ofEvent} supplier_id=line.supplier.id supplier_external_id=line.supplier.external_id
    supplier_name=line.supplier.name ${ofAward}`,
  'rfi-answers': `${ofEvent} ${ofSupplier} question=line.question.identifier question_id=line.question.id
    question_text=line.question.text value=line.answer currency=line.currency comment=line.comment files=line.files`,
  job: 'type status created created_entity reference_id error=errors[1].message error_path=errors[1].path',
  file: `${ofEvent} ${ofSupplier} question=question.identifier question_id=question.id file_name=file.name
    file=file.path bytes=file.bytes sha256=file.sha256`,
};
