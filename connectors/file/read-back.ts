/**
 * Reads back what the folder holds of documents in the layout `document`, for the comparison with what was delivered:
 * the JSON member by member, the rows of its CSV files cell by cell, and the bytes of a file by the checksum beside them.
 * What an ERP made of the files is not seen here.
 */
import {
  type Document,
  documentDecimals,
  documentNames,
  fieldsOf,
  type Operation,
  type ReadBack,
  type ReadField,
} from 'sourcing-bridge/connector';
import type { DocumentFiles, HeldJson } from './document-files.ts';
import { stateOf } from './documents.ts';
import { checksumOf, type Folder } from './folder.ts';
import { readEntries } from './lines.ts';
import type { FileSettings } from './settings.ts';
import { type Entry, type Table, tablesOf } from './table.ts';

/** What a write adds to the JSON of a document. */
const added = [
  'content_hash',
  'lines_file',
  'lines_sha256',
  'bid_sheet_file',
  'bid_sheet_sha256',
  'file_name',
  'bytes',
  'bytes_file',
  'bytes_sha256',
];

/** What the folder holds of a document whose files have this base name. Throws ConnectorErrors of the folder. */
export async function readBackFromFiles(
  { folder, files, settings }: { folder: Folder; files: DocumentFiles; settings: FileSettings },
  document: Document,
  base: string,
): Promise<ReadBack> {
  const { key } = document;
  const reference = `${base}.json`;
  const json = await files.readJson(base);
  if (!json) return { key, status: 'missing' };
  const at = (await folder.stat(reference))?.modifiedMs;
  const changed = at === undefined ? {} : { changed: { at: new Date(at).toISOString() } };
  const { held } = json;
  if (!held) {
    const fields = [{ name: reference, expected: 'the JSON of a document', held: 'something else' }];
    return { key, status: 'held', reference, fields, ...changed };
  }
  if (held.state === 'withdrawn') return { key, status: 'cancelled', reference };
  // What a write makes of the document. Its action and hash are not compared.
  const operation: Operation = { document, action: 'create', contentHash: '', idempotencyKey: '', reference: '' };
  const state = stateOf(operation);
  const fields = [
    ...fieldsOf({ state, ...document }, without(held, added), { decimals: documentDecimals, names: documentNames }),
    ...(await tableFields({ operation, state })),
    ...(document.kind === 'file' ? await bytesFields(held) : []),
  ];
  const notCompared = document.kind === 'file' ? { notCompared: ['whether the bytes are those of the source'] } : {};
  return { key, status: 'held', reference, fields, ...notCompared, ...changed };

  async function tableFields(entry: Entry): Promise<ReadField[]> {
    if (!('lines' in document)) return [];
    const found: ReadField[] = [];
    const hasHeader = settings.csv.header;
    for (const table of tablesOf(document.kind, settings)) {
      const name = table.suffix === '' ? 'csv' : 'bid_sheet_csv';
      const inTwo = (rows: readonly unknown[] = []) =>
        hasHeader ? { [`${name}_header`]: rows[0], [name]: rows.slice(1) } : { [name]: rows };
      const bytes = await folder.read(`${base}${table.suffix}.csv`);
      const expected = await rowsOf(Buffer.concat([...table.render([entry]).parts]), table, entry, settings);
      const seen = bytes && (await rowsOf(bytes, table, entry, settings));
      if (seen) found.push(...fieldsOf(inTwo(expected), inTwo(seen), { names: documentNames }));
      else found.push({ name, expected: 'a table', held: bytes && 'something else' });
    }
    return found;
  }

  /** The bytes are those that were written as long as the checksum in the JSON is. */
  async function bytesFields({ bytes_file: path, bytes_sha256: expected }: HeldJson): Promise<ReadField[]> {
    const bytes = path === undefined ? undefined : await checksumOf(folder, path);
    return [{ name: 'bytes_sha256', expected, held: bytes }];
  }
}

/** The rows by the names of the columns; undefined when the bytes are no such table. */
async function rowsOf(
  bytes: Uint8Array,
  table: Table,
  entry: Entry,
  { csv }: FileSettings,
): Promise<Record<string, string>[] | undefined> {
  const { delimiter, encoding } = csv;
  const columns = table.columns(entry);
  const rows: Record<string, string>[] = [];
  const pieces = async ({ from, to }: { from: number; to: number }) => bytes.subarray(from, to);
  for await (const { cells, fault } of readEntries(
    pieces,
    { offset: 0, line: 1 },
    { delimiter, encoding, endsAnyhow: true },
  )) {
    if (!cells || fault !== undefined) return undefined;
    const row = cells.flatMap((cell, index): [string, string][] => {
      const column = columns[index];
      return column?.isOfWrite ? [] : [[column?.name ?? `cell ${index + 1}`, cell]];
    });
    rows.push(Object.fromEntries(row));
  }
  return rows;
}

function without(held: object, members: readonly string[]): Record<string, unknown> {
  return Object.fromEntries(Object.entries(held).filter(([name]) => !members.includes(name)));
}
