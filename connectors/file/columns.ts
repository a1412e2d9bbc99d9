/**
 * Where a column's value stands: `event.reference_id`, `line.fields.Material`, `line.values.Unit Price`. A path begins at
 * the row: the document's members, with `line` and `bid` for the line and the bid that the row is of.
 */
import {
  type Document,
  documentJsonSchema,
  documentKinds,
  type Operation,
  type RfiAnswer,
} from 'sourcing-bridge/connector';

export type CellType = 'text' | 'decimal' | 'date';

/** What a row is made of. */
export interface Row {
  readonly operation: Operation;
  /** As `withdrawn`. */
  readonly state: string;
  readonly line?: Readonly<Record<string, unknown>> | undefined;
  readonly bid?: Readonly<Record<string, unknown>> | undefined;
  readonly file?: WrittenFile | undefined;
}

/** The bytes of a `file` document, where they were written. */
export interface WrittenFile {
  readonly name: string;
  readonly path: string;
  readonly bytes: number;
  readonly sha256: string;
}

interface Schema {
  readonly type?: string | undefined;
  readonly pattern?: string;
  readonly format?: string;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly items?: Schema;
  readonly additionalProperties?: Schema | boolean;
}

const text: Schema = { type: 'string' };
const ofRow: Record<string, Schema> = {
  action: text,
  state: text,
  content_hash: text,
  file: { type: 'object', properties: { name: text, path: text, bytes: { type: 'integer' }, sha256: text } },
};

let schemas: readonly Schema[] | undefined;

/** A row's schema for each kind of document. */
function rowSchemas(): readonly Schema[] {
  schemas ??= documentKinds.map((kind) => {
    const document = documentJsonSchema(kind) as Schema;
    const itself = document.properties?.['lines']?.items;
    const line: Schema | undefined = itself && {
      ...itself,
      properties: { ...itself.properties, ...(kind === 'rfi-answers' ? { answer: text } : {}) },
    };
    const bid = line?.properties?.['bids']?.items;
    return { properties: { ...document.properties, ...ofRow, ...(line ? { line } : {}), ...(bid ? { bid } : {}) } };
  });
  return schemas;
}

/** What is wrong with a path; undefined: it is one of at least one kind of document. */
export function pathFault(path: string): string | undefined {
  const found = rowSchemas().map((schema) => leafOf(schema, path.split('.')));
  if (found.some((leaf) => typeof leaf === 'object')) return undefined;
  if (found.includes('not a value'))
    return `"${path}" is no single value: say which, as line.values.<column> or contacts.0.email`;
  return `"${path}" is in no document: docs/documents.md names what is there, as event.reference_id, line.lot or line.fields.<name>`;
}

/** What kind of value a path leads to. */
export function typeOfPath(path: string): CellType {
  for (const schema of rowSchemas()) {
    const leaf = leafOf(schema, path.split('.'));
    if (typeof leaf !== 'object') continue;
    if (leaf.format === 'date-time') return 'date';
    if (leaf.pattern?.includes('\\d') === true) return 'decimal';
  }
  return 'text';
}

/** The schema of the value at the end of a path; it goes the ways that `valueAt` goes. */
function leafOf(schema: Schema, path: readonly string[]): Schema | 'missing' | 'not a value' {
  const [first, ...rest] = path;
  if (first === undefined) {
    const isList = schema.type === 'array' && schema.items?.type === 'string';
    return schema.type === 'object' || schema.properties || (schema.type === 'array' && !isList)
      ? 'not a value'
      : schema;
  }
  const member = schema.properties?.[first];
  if (member) return leafOf(member, rest);
  if (typeof schema.additionalProperties === 'object') return schema.additionalProperties;
  if (schema.type !== 'array' || !schema.items) return 'missing';
  const { value, column, name } = schema.items.properties ?? {};
  if (value && (column ?? name)) return value;
  return /^\d+$/.test(first) && schema.items.type === 'object' ? leafOf(schema.items, rest) : 'missing';
}

/** What the paths of a row begin at. */
export function rootOf(row: Row): Readonly<Record<string, unknown>> {
  const { document, action, contentHash } = row.operation;
  return {
    ...document,
    action,
    state: row.state,
    content_hash: contentHash,
    file: row.file,
    bid: row.bid,
    // Where the document and the line have a field of one name, the line's counts.
    line: row.line && {
      ...row.line,
      fields: { ...document.fields, ...(row.line['fields'] as object | undefined) },
      ...(document.kind === 'rfi-answers' ? { answer: answerOf(row.line as unknown as RfiAnswer) } : {}),
    },
  };
}

/** What a row has at a path, as text; undefined: nothing. */
export function valueAt(root: Readonly<Record<string, unknown>>, path: readonly string[]): string | undefined {
  return textOf(follow(root, path));
}

/** What was written, or the options that were chosen. */
function answerOf({ value, options }: RfiAnswer): string {
  return value ?? options.map((option) => option.value).join(', ');
}

function follow(given: unknown, path: readonly string[]): unknown {
  const [first, ...rest] = path;
  if (first === undefined || given === undefined || given === null) return given;
  if (Array.isArray(given)) {
    const whole = path.join('.');
    const named = given.find((item: Named) => (item.column ?? item.name) === whole && item.value !== undefined) as
      | Named
      | undefined;
    if (named) return named.value;
    return /^\d+$/.test(first) ? follow(given[Number(first)], rest) : undefined;
  }
  if (typeof given !== 'object') return undefined;
  // A field's name may have dots.
  const name = rest.length > 0 && Object.hasOwn(given, path.join('.')) ? path.join('.') : first;
  if (!Object.hasOwn(given, name)) return undefined;
  return follow((given as Record<string, unknown>)[name], name === first ? rest : []);
}

interface Named {
  readonly column?: string;
  readonly name?: string;
  readonly value?: unknown;
}

function textOf(value: unknown): string | undefined {
  if (typeof value === 'string') return value;
  if (typeof value === 'number' || typeof value === 'boolean') return String(value);
  return Array.isArray(value) ? value.map(String).join(' ') : undefined;
}

/** The rows of a document: one for each line, of a quotation for each bid; one for a document that has none. */
export function rowsOf(operation: Operation, state: string, file?: WrittenFile): Row[] {
  const { document } = operation;
  const row = { operation, state, file };
  if (!('lines' in document) || document.lines.length === 0) return [row];
  return document.lines.flatMap((line): Row[] => {
    const bids = 'bids' in line ? line.bids : [];
    return bids.length === 0 ? [{ ...row, line }] : bids.map((bid) => ({ ...row, line, bid }));
  });
}

/** For messages: which line of which document. */
export function placeOf({ operation: { document }, line }: Row): string {
  const lot = line?.['lot'];
  return `${document.kind} ${document.key}${typeof lot === 'string' ? `, lot ${lot}` : ''}`;
}

/** The columns that all documents of a kind have, when none are chosen. */
export function fixedColumns(
  kind: Document['kind'],
  isBatch: boolean,
): readonly (readonly [name: string, from: string])[] {
  return isBatch ? [...told, ...columnsOfKind[kind]] : columnsOfKind[kind];
}

const told = [
  ['action', 'action'],
  ['state', 'state'],
  ['key', 'key'],
  ['content_hash', 'content_hash'],
] as const;

const event = [
  ['event_id', 'event.id'],
  ['event_reference', 'event.reference_id'],
  ['event_name', 'event.name'],
] as const;

const supplier = [
  ['supplier_id', 'supplier.id'],
  ['supplier_external_id', 'supplier.external_id'],
  ['supplier_name', 'supplier.name'],
] as const;

const columnsOfKind: Record<Document['kind'], readonly (readonly [string, string])[]> = {
  supplier: [
    ['supplier_id', 'id'],
    ['supplier_external_id', 'external_id'],
    ['supplier_name', 'name'],
    ['archived', 'archived'],
    ['contact_name', 'contacts.0.name'],
    ['contact_email', 'contacts.0.email'],
  ],
  'sourcing-event': [
    ...event,
    ['type', 'event.type'],
    ['category', 'event.category'],
    ['status', 'status'],
    ['currency', 'currency'],
    ['created', 'created'],
    ['published', 'published'],
    ['closed', 'closed'],
    ['lot_count', 'lot_count'],
  ],
  quotation: [
    ...event,
    ...supplier,
    ['lot', 'line.lot'],
    ['quantity', 'line.quantity'],
    ['unit_price', 'line.unit_price'],
    ['currency', 'currency'],
    ['bid', 'bid.value'],
    ['volume', 'bid.volume'],
  ],
  award: [
    ...event,
    ...supplier,
    ['lot', 'line.lot'],
    ['share', 'line.share'],
    ['quantity', 'line.quantity'],
    ['unit_price', 'line.unit_price'],
    ['currency', 'currency'],
    ['cost', 'line.cost'],
    ['historic_cost', 'line.historic_cost'],
    ['savings', 'line.savings'],
  ],
  'rfi-answers': [
    ...event,
    ...supplier,
    ['question', 'line.question.identifier'],
    ['question_id', 'line.question.id'],
    ['question_text', 'line.question.text'],
    ['value', 'line.answer'],
    ['currency', 'line.currency'],
    ['comment', 'line.comment'],
    ['files', 'line.files'],
  ],
  file: [
    ...event,
    ...supplier,
    ['question', 'question.identifier'],
    ['question_id', 'question.id'],
    ['file_name', 'file.name'],
    ['file', 'file.path'],
    ['bytes', 'file.bytes'],
    ['sha256', 'file.sha256'],
  ],
};
