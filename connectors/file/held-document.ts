/**
 * What the folder holds of a document in the layout `document`: its JSON, and the companions that the JSON names with
 * their checksums. What an ERP made of the files is not seen here.
 */
import { type Document, documentDecimals, documentNames, fieldsOf, type ReadBack, z } from 'sourcing-bridge/connector';
import { type Folder, isInFolder, sha256 } from './folder.ts';
import { stateOf } from './table.ts';

const ownPath = z.string().refine(isInFolder);
export const heldForm = z.looseObject({
  key: z.string(),
  state: z.string(),
  content_hash: z.string(),
  lines_file: ownPath.optional(),
  lines_sha256: z.string().optional(),
  bytes_file: ownPath.optional(),
  bytes_sha256: z.string().optional(),
});
/** The members that name a companion, each with the one that has its checksum. */
const companionMembers = [
  ['lines_file', 'lines_sha256'],
  ['bytes_file', 'bytes_sha256'],
] as const;
/** The members of a document's JSON that the connector reads. */
export type HeldJson = z.output<typeof heldForm>;

/** Whether the companions in the folder are those that the JSON names. */
export async function companionsFit(folder: Folder, held: HeldJson): Promise<boolean> {
  for (const [file, checksum] of companionMembers) {
    const path = held[file];
    const bytes = path === undefined ? undefined : await folder.read(path);
    if (path !== undefined && (!bytes || sha256(bytes) !== held[checksum])) return false;
  }
  return true;
}

/** Members of the JSON that are of the write, and not of the document. */
const notCompared = ['content_hash', 'file_name', 'bytes', ...companionMembers.flat()];

/** What the folder holds of a document; `held` is null when its JSON is not one of ours. Throws ConnectorErrors. */
export async function readBackFrom(
  folder: Folder,
  document: Document,
  reference: string,
  held: HeldJson | null,
): Promise<ReadBack> {
  const { key } = document;
  const at = (await folder.stat(reference))?.modifiedMs;
  const found = { key, status: 'held', reference, ...(at && { changed: { at: new Date(at).toISOString() } }) } as const;
  if (held === null)
    return { ...found, fields: [{ name: reference, expected: 'the JSON of a document', held: 'something else' }] };
  if (held.state === 'withdrawn') return { key, status: 'cancelled', reference };
  const members = Object.fromEntries(Object.entries(held).filter(([name]) => !notCompared.includes(name)));
  const expected = { state: stateOf({ document, action: 'create' }), ...document };
  const fields = fieldsOf(expected, members, { decimals: documentDecimals, names: documentNames });
  for (const [file, checksum] of companionMembers) {
    const path = held[file];
    if (path === undefined) continue;
    const bytes = await folder.read(path);
    fields.push({ name: checksum, expected: held[checksum], held: bytes && sha256(bytes) });
  }
  if (document.kind !== 'file') return { ...found, fields };
  return { ...found, fields, notCompared: ['whether the bytes are those of the source'] };
}
