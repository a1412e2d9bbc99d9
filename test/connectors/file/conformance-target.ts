/**
 * Targets for the conformance kit: an ERP that imports files. It reads the folder with its own code. Of batches it
 * imports each that has its manifest, compares the checksums and removes the files, as a real ERP does.
 */
import { createHash, randomUUID } from 'node:crypto';
import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Document, RecordOf } from 'sourcing-bridge/connector';
import type {
  ConformanceTarget,
  EditedField,
  HeldObject,
  ShownAcknowledgement,
} from 'sourcing-bridge/connector/testing';
import file from '../../../connectors/file/index.ts';

type Given = Pick<ConformanceTarget, 'against' | 'settings'> & Partial<ConformanceTarget>;

/** A target for the layout `document`; `inbox` returns the folder of the files, once the tests run. */
export function documentTarget(inbox: () => string, given: Given): ConformanceTarget {
  return {
    connector: file,
    verified: 'real server',
    held: async ({ kind, key }) =>
      readdirSync(inbox())
        .filter((name) => name.endsWith('.json'))
        .map((name) => ({ name, json: JSON.parse(readFileSync(join(inbox(), name), 'utf8')) as Held }))
        .filter(({ json }) => json.kind === kind && json.key === key && json.state !== 'withdrawn')
        .map(({ name, json }) => heldOf(inbox(), name, json)),
    poison: halfCharacter,
    edit: async ({ kind, key }, n) => {
      const file = fileOf(inbox(), kind, key);
      return file && editsOf(inbox(), file)[n]?.();
    },
    remove: async ({ kind, key }) => {
      const file = fileOf(inbox(), kind, key);
      if (!file) return undefined;
      // Somebody who takes an award back as the bridge does, and somebody who deletes what is no longer wanted.
      if (kind === 'award') writeFileSync(file.path, JSON.stringify({ ...file.json, state: 'withdrawn' }));
      else rmSync(file.path);
      return kind === 'award' ? 'cancelled' : 'missing';
    },
    ...given,
  };
}

interface JsonFile {
  readonly path: string;
  readonly json: Held & Readonly<Record<string, unknown>>;
}

function fileOf(inbox: string, kind: string, key: string): JsonFile | undefined {
  return readdirSync(inbox)
    .filter((name) => name.endsWith('.json'))
    .map((name) => join(inbox, name))
    .map((path) => ({ path, json: JSON.parse(readFileSync(path, 'utf8')) as JsonFile['json'] }))
    .find(({ json }) => json.kind === kind && json.key === key);
}

interface JsonLine {
  readonly lot?: string;
  readonly cost?: string;
  readonly bids?: readonly { readonly value: string }[];
}

/** What somebody may change with an editor, and the fields that differ then. */
function editsOf(inbox: string, { path, json }: JsonFile): (() => EditedField[])[] {
  const save = (changed: Readonly<Record<string, unknown>>, ...differs: EditedField[]) => {
    writeFileSync(path, JSON.stringify({ ...json, ...changed }));
    return differs;
  };
  const {
    lines,
    event,
    kind,
    lines_file: csvName,
    bytes_file: bytesName,
  } = json as JsonFile['json'] & {
    readonly lines?: readonly JsonLine[];
    readonly event?: object;
  };
  const title = 'Other "title"';
  const edits = [
    () =>
      kind === 'supplier'
        ? save({ name: title }, { name: 'name', held: title })
        : kind === 'job'
          ? save({ type: title }, { name: 'type', held: title })
          : save({ event: { ...event, name: title } }, { name: 'event.name', held: title }),
    () => save({ note: 'checked' }),
  ];
  if (bytesName !== undefined)
    edits.push(() => {
      const bytes = Buffer.from('scanned again');
      writeFileSync(join(inbox, bytesName), bytes);
      return [{ name: 'bytes_sha256', held: createHash('sha256').update(bytes).digest('hex') }];
    });
  const [first, ...others] = lines ?? [];
  const { lot } = first ?? {};
  if (first && lot !== undefined) {
    const cost = '1234567.8904';
    edits.push(
      () =>
        first.bids
          ? save(
              { lines: [{ ...first, bids: [{ ...first.bids[0], value: cost }] }, ...others] },
              { name: `lines[${lot}].bids[1].value`, held: cost },
            )
          : save({ lines: [{ ...first, cost }, ...others] }, { name: `lines[${lot}].cost`, held: cost }),
      () =>
        save(
          { lines: [...(lines ?? []), { lot: 'Fracht', cost: '9.90' }] },
          { name: 'lines[Fracht].lot', held: 'Fracht' },
          { name: 'lines[Fracht].cost', held: '9.9' },
        ),
    );
    // The same number, typed in another way.
    if (first.cost !== undefined)
      edits.push(() => save({ lines: [{ ...first, cost: zeroAdded(first.cost ?? '') }, ...others] }));
  }
  if (csvName !== undefined && first) {
    const csv = join(inbox, csvName);
    edits.push(
      () => {
        writeFileSync(csv, readFileSync(csv, 'utf8').replace(/,/, ',E-1 '));
        return [{ name: 'lines_sha256', held: sha256Of(csv) }];
      },
      () => {
        rmSync(csv);
        return [{ name: 'lines_sha256', held: undefined }];
      },
    );
  }
  return edits;
}

function zeroAdded(decimal: string): string {
  return `${decimal}${decimal.includes('.') ? '' : '.'}00`;
}

/** The settings of a read of the files that `dropFiles` makes. `whole`: each file of requisitions has all of them. */
export function droppedFiles(format: 'csv' | 'jsonl', content: 'delta' | 'whole' = 'whole') {
  const files = { format, marker: '.ok', page: 2 };
  const vendors = {
    csv: { external_id: 'Vendor No', name: 'Name', archived: 'Blocked', contacts: { email: 'E-mail' } },
    jsonl: {
      external_id: 'no',
      name: 'name',
      archived: 'blocked',
      contacts: 'contacts',
      fields: { City: 'at.city' },
    },
  };
  const needs = {
    csv: {
      reference_id: 'Number',
      name: 'Title',
      open: { at: 'Status', is: ['released'] },
      tags: { Plant: 'Plant' },
      items: { line: 'Item', name: 'Text', quantity: 'Quantity', unit: 'Unit' },
    },
    jsonl: {
      reference_id: 'no',
      name: 'title',
      open: { at: 'status', is: ['released'] },
      tags: { Plant: 'plant.code' },
      items: { at: 'items', line: 'pos', name: 'text.long', quantity: 'amount' },
    },
  };
  return {
    supplier: { ...files, files: `vendors*.${format}`, record: vendors[format] },
    requisition: {
      ...files,
      files: `needs*.${format}`,
      content,
      record: needs[format],
      acknowledge: true,
    },
  };
}

/** An ERP that exports vendors and requisitions as files, each with a marker, and imports what it is told of them. */
export function dropFiles(
  inbox: () => string,
  format: 'csv' | 'jsonl',
  content: 'delta' | 'whole' = 'whole',
): Partial<ConformanceTarget> {
  const needs = new Map<string, string>();
  const told = new Map<string, ShownAcknowledgement[]>();
  const cells = (values: readonly string[]) => values.map((text) => `"${text.replaceAll('"', '""')}"`).join(',');
  let dropped = 0;
  const drop = (name: string, text: string) => {
    dropped += 1;
    mkdirSync(inbox(), { recursive: true });
    const file = join(inbox(), `${name}-${String(dropped).padStart(6, '0')}.${format}`);
    dropOne(file, text);
    dropOne(`${file}.ok`, '');
  };
  const dropNeeds = (rows: Iterable<string>) =>
    drop(
      'needs',
      `${format === 'csv' ? 'Number,Title,Status,Plant,Item,Text,Quantity,Unit\r\n' : ''}${[...rows].join('')}`,
    );

  function dropVendor(name: string, archived: boolean): RecordOf<'supplier'> {
    const number = randomUUID();
    const email = 'ann@example.com';
    drop(
      'vendors',
      format === 'csv'
        ? `Vendor No,Name,City,Blocked,E-mail\r\n${cells([number, name, 'Łódź', archived ? 'x' : '', email])}\r\n`
        : `${JSON.stringify({ no: number, name, blocked: archived, contacts: [{ email }], at: { city: 'Łódź' } })}\n`,
    );
    const contacts = [{ name: email, email }];
    return { external_id: number, name, archived, fields: { City: 'Łódź' }, contacts };
  }

  function dropNeed(name: string): RecordOf<'requisition'> {
    const number = randomUUID();
    const row = (item: string, text: string, quantity: string) =>
      `${cells([number, name, 'released', 'Ł1', item, text, quantity, 'kg'])}\r\n`;
    const items = [
      { pos: 10, text: { long: name }, amount: 2.5, unit: 'kg' },
      { pos: 20, text: { long: 'Nut' }, amount: 4, unit: 'kg' },
    ];
    needs.set(
      number,
      format === 'csv'
        ? row('10', name, '2.5') + row('20', 'Nut', '4')
        : `${JSON.stringify({ no: number, title: name, status: 'released', plant: { code: 'Ł1' }, items })}\n`,
    );
    dropNeeds(content === 'whole' ? needs.values() : [needs.get(number) ?? '']);
    return {
      reference_id: number,
      name,
      tags: [{ name: 'Plant', value: 'Ł1' }],
      items: [
        { line: '10', name, quantity: '2.5', unit: 'kg' },
        { line: '20', name: 'Nut', quantity: '4', unit: 'kg' },
      ],
      open: true,
    };
  }

  /** Imports what there is, and removes it: each row is kept, so that one that comes twice is seen. */
  function importNews(): void {
    const folder = join(inbox(), 'requisition-news');
    if (!existsSync(folder)) return;
    for (const name of readdirSync(folder).toSorted()) {
      const path = join(folder, name);
      const rows =
        format === 'csv'
          ? tableOf(path).map((row) => ({
              ...row,
              event: row['event_id'] || undefined,
              reason: row['reason'] || undefined,
            }))
          : readFileSync(path, 'utf8')
              .split('\n')
              .filter(Boolean)
              .map((line) => JSON.parse(line) as Record<string, string>)
              .map((line) => ({ ...line, event: (line['event'] as { id?: string } | undefined)?.id }));
      for (const row of rows as (ShownAcknowledgement & { requisition: string })[]) {
        const { requisition, status, event, reason, text } = row;
        told.set(requisition, [...(told.get(requisition) ?? []), { status, event, reason, text }]);
      }
      rmSync(path);
    }
  }

  return {
    changeRecord: async (stream, name, archived) =>
      (stream === 'supplier' ? dropVendor(name, archived) : dropNeed(name)) as never,
    ...(content === 'whole' && {
      deleteRequisition: async (requisition: string) => {
        needs.delete(requisition);
        dropNeeds(needs.values());
      },
    }),
    acknowledged: async (requisition) => {
      importNews();
      return told.get(requisition) ?? [];
    },
    takesUnknownRequisitions: 'news are files: the connector cannot ask which requisitions the ERP has',
  };
}

/** Over SFTP another user reads it, whatever the umask is here. */
function dropOne(file: string, text: string): void {
  writeFileSync(file, text);
  chmodSync(file, 0o644);
}

interface Held {
  readonly kind: string;
  readonly key: string;
  readonly state: string;
  readonly content_hash: string;
  readonly lines_file?: string;
  readonly lines_sha256?: string;
  readonly file_name?: string;
  readonly bytes_file?: string;
  readonly bytes_sha256?: string;
}

function heldOf(inbox: string, reference: string, json: Held): HeldObject {
  const { lines_file, lines_sha256, bytes_file, bytes_sha256 } = json;
  const document = without(json, [...addedMembers, 'lines_file', 'lines_sha256']);
  for (const [name, sha256] of [
    [lines_file, lines_sha256],
    [bytes_file, bytes_sha256],
  ])
    if (name !== undefined && sha256Of(join(inbox, name)) !== sha256)
      throw new Error(`${name} does not fit ${reference}`);
  // The CSV must have the same lots as the JSON.
  const table = lines_file === undefined ? undefined : tableOf(join(inbox, lines_file));
  const lots = (document['lines'] as { lot?: string }[] | undefined)?.map(({ lot }) => lot);
  if (table && lots?.[0] !== undefined && table.map((row) => row['lot']).join() !== lots.join())
    throw new Error(`${lines_file} has other lots than ${reference}`);
  return {
    reference,
    document,
    ...(bytes_file === undefined ? {} : { bytes: readFileSync(join(inbox, bytes_file)) }),
  };
}

interface Manifest {
  readonly files: readonly {
    readonly name: string;
    readonly sha256: string;
    readonly bytes: number;
    readonly rows?: number;
  }[];
  readonly documents: readonly {
    readonly id: string;
    readonly kind: string;
    readonly key: string;
    readonly state: string;
  }[];
}

/** A target for the layout `batch`. */
export function batchTarget(inbox: () => string, given: Given): ConformanceTarget {
  const objects = new Map<string, HeldObject[]>();
  const ids = new Set<string>();
  return {
    connector: file,
    verified: 'real server',
    held: async ({ kind, key }) => {
      importAll(inbox(), objects, ids);
      return objects.get(`${kind} ${key}`) ?? [];
    },
    poison: halfCharacter,
    ...given,
  };
}

/** Imports complete batches in the order of their names, and removes them. A repeated id counts as a second object. */
function importAll(inbox: string, objects: Map<string, HeldObject[]>, ids: Set<string>): void {
  for (const name of readdirSync(inbox).toSorted()) {
    if (!name.endsWith('.manifest.json')) continue;
    const manifest = JSON.parse(readFileSync(join(inbox, name), 'utf8')) as Manifest;
    for (const file of manifest.files)
      if (sha256Of(join(inbox, file.name)) !== file.sha256) throw new Error(`${file.name} does not fit ${name}`);
    const found = documentsOf(inbox, manifest);
    for (const { id, kind, key, state } of manifest.documents) {
      const held = objects.get(`${kind} ${key}`) ?? [];
      const [object] = state === 'withdrawn' ? [] : [found.get(key)];
      if (state !== 'withdrawn' && !object) throw new Error(`${key} is in ${name}, and in none of its files`);
      const isRepeated = ids.has(id);
      ids.add(id);
      objects.set(`${kind} ${key}`, [...(isRepeated ? held : []), ...(object ? [object] : [])]);
    }
    for (const file of manifest.files) rmSync(join(inbox, file.name));
    rmSync(join(inbox, name));
  }
}

function documentsOf(inbox: string, { files }: Manifest): Map<string, HeldObject> {
  const main = files.find(({ name }) => /^[^/]*\.(?:csv|jsonl)$/.test(name));
  if (!main) throw new Error('a batch without a table');
  const path = join(inbox, main.name);
  const found = new Map<string, HeldObject>();
  if (main.name.endsWith('.jsonl')) {
    for (const line of readFileSync(path, 'utf8').split('\n').filter(Boolean)) {
      const written = JSON.parse(line) as Record<string, string>;
      const document = without(written, [...addedMembers, 'action', 'file', 'sha256']);
      const name = written['file'];
      found.set(written['key'] ?? '', objectOf(inbox, written as unknown as Document, document, name));
    }
    return found;
  }
  const table = tableOf(path);
  if (table.length !== main.rows) throw new Error(`${main.name} has ${table.length} rows and not ${main.rows}`);
  for (const [key, rows] of Map.groupBy(table, (row) => row['key'] ?? '')) {
    const [row = {}] = rows;
    const kind = /^[a-z-]+?(?=_)/.exec(main.name)?.[0] as Document['kind'];
    found.set(key, objectOf(inbox, { kind, key }, documentOfRows(kind, rows), row['file']));
  }
  return found;
}

function objectOf(
  inbox: string,
  { kind, key }: Pick<Document, 'kind' | 'key'>,
  document: unknown,
  name?: string,
): HeldObject {
  return {
    reference: `${kind} ${key}`,
    document,
    ...(name ? { bytes: readFileSync(join(inbox, name)) } : {}),
  };
}

type Row = Readonly<Record<string, string>>;

/** The members of a document that the columns have, in the document's structure. */
function documentOfRows(kind: Document['kind'], rows: readonly Row[]): unknown {
  const [row = {}] = rows;
  const head = {
    event: given({ id: row['event_id'], reference_id: row['event_reference'], name: row['event_name'] }),
    supplier: given({ id: row['supplier_id'], external_id: row['supplier_external_id'], name: row['supplier_name'] }),
  };
  switch (kind) {
    case 'supplier':
      return {
        ...given({ id: row['supplier_id'], name: row['supplier_name'] }),
        ...(row['archived'] === '' ? {} : { archived: row['archived'] === 'true' }),
        attributes: prefixed(row, 'attribute: '),
      };
    case 'job':
      return {
        ...given({ type: row['type'], status: row['status'], created: row['created'] }),
        ...given({ created_entity: row['created_entity'], reference_id: row['reference_id'] }),
        // Of several errors the table has the first.
        ...(row['error'] ? { errors: [given({ path: row['error_path'], message: row['error'] })] } : {}),
      };
    case 'sourcing-event':
      return {
        event: head.event,
        ...given({ status: row['status'], currency: row['currency'], created: row['created'] }),
      };
    case 'award':
      return {
        ...head,
        currency: row['currency'],
        lines: rows.map((line) => ({
          ...given({
            lot: line['lot'],
            share: line['share'],
            quantity: line['quantity'],
            unit_price: line['unit_price'],
            cost: line['cost'],
          }),
          values: prefixed(line, 'sheet: ', 'column'),
        })),
      };
    case 'event-awards':
      return {
        event: head.event,
        currency: row['currency'],
        lines: rows.map((line) => ({
          ...given({ lot: line['lot'], share: line['share'], quantity: line['quantity'], cost: line['cost'] }),
          ...given({ unit_price: line['unit_price'] }),
          supplier: given({
            id: line['supplier_id'],
            external_id: line['supplier_external_id'],
            name: line['supplier_name'],
          }),
          values: prefixed(line, 'sheet: ', 'column'),
        })),
      };
    case 'quotation':
      return {
        ...head,
        currency: row['currency'],
        lines: rows.map((line) => ({
          ...given({ lot: line['lot'], quantity: line['quantity'], unit_price: line['unit_price'] }),
          bids: [given({ value: line['bid'], volume: line['volume'] })],
          values: prefixed(line, 'sheet: ', 'column'),
        })),
      };
    case 'rfi-answers':
      return {
        ...head,
        lines: rows.map((line) => ({
          question: given({ id: line['question_id'], identifier: line['question'], text: line['question_text'] }),
          ...given({ currency: line['currency'], comment: line['comment'] }),
        })),
      };
    case 'file':
      return { ...head, question: given({ id: row['question_id'], identifier: row['question'] }) };
  }
}

/** The members that the connector adds to a document. */
const addedMembers = ['state', 'content_hash', 'file_name', 'bytes_file', 'bytes_sha256', 'bytes'];

function without(given: object, names: readonly string[]): Record<string, unknown> {
  return Object.fromEntries(Object.entries(given).filter(([name]) => !names.includes(name)));
}

function given(values: Record<string, string | undefined>): Record<string, string> {
  return Object.fromEntries(Object.entries(values).flatMap(([name, value]) => (value ? [[name, value]] : [])));
}

function prefixed(row: Row, prefix: string, name = 'name'): unknown[] {
  return Object.entries(row)
    .filter(([column, value]) => column.startsWith(prefix) && value !== '')
    .map(([column, value]) => ({ [name]: column.slice(prefix.length), value }));
}

/** The rows of a CSV file (RFC 4180, UTF-8), by column name. */
function tableOf(path: string): Row[] {
  const rows: string[][] = [[]];
  for (const [, quoted, plain, end] of readFileSync(path, 'utf8').matchAll(
    /(?:"((?:[^"]|"")*)"|([^",\r\n]*))(,|\r\n|$)/gy,
  )) {
    if (end === '' && quoted === undefined && plain === '' && rows.at(-1)?.length === 0) break;
    rows.at(-1)?.push(quoted?.replaceAll('""', '"') ?? plain ?? '');
    if (end === '\r\n') rows.push([]);
  }
  const [columns = [], ...lines] = rows.filter((cells) => cells.length > 0);
  return lines.map((cells) => Object.fromEntries(columns.map((column, index) => [column, cells[index] ?? ''])));
}

function sha256Of(path: string): string {
  return createHash('sha256').update(readFileSync(path)).digest('hex');
}

/** A document with half a character, which UTF-8 cannot encode. Tables refuse it; JSON can escape it. */
function halfCharacter(document: Document): Document {
  const half = 'half \ud83d';
  if ('lines' in document) return { ...document, event: { ...document.event, name: half } };
  return document;
}
