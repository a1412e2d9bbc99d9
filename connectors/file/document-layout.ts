/**
 * The layout `document`: each document is one JSON file, with a CSV of its lines where it has lines, or the bytes where it
 * is a file, under names that never change: writing the same again gives the same files. What is taken back stays as a
 * document with the state `withdrawn`: a reader that has imported it must learn of that.
 *
 * The JSON names what is beside it with its checksum and is written after it. Between the two renames, and after a kill
 * there, the checksum does not fit: a reader waits, and `lookup` reports the pair as neither the old state nor the new.
 */
import {
  type ConnectorContext,
  type Document,
  type Found,
  fileBytes,
  type Operation,
  type Outcome,
  outcomeOf,
  type PlannedOperation,
  stopped,
  UnknownOutcome,
  writeEach,
  z,
} from 'sourcing-bridge/connector';
import { bytesPath, stateOf } from './documents.ts';
import { checksumOf, type Folder, readText, replace, sha256 } from './folder.ts';
import { createJournal } from './journal.ts';
import { baseName, fillTemplate, placeholderValue } from './names.ts';
import type { FileSettings } from './settings.ts';
import { tablesOf } from './table.ts';

/** Documents that are written or looked up at once: what costs time is waiting for the disk, or for the server. */
export const documentsAtOnce = 8;

/** What is written beside the JSON, and how the JSON names it. */
interface Beside {
  readonly path: string;
  /** Undefined: it is to be removed. */
  readonly content: Uint8Array | undefined;
  readonly named: Readonly<Record<string, unknown>>;
}

const heldForm = z.looseObject({
  key: z.string(),
  state: z.string(),
  content_hash: z.string(),
  lines_sha256: z.string().optional(),
  bid_sheet_sha256: z.string().optional(),
  bytes_sha256: z.string().optional(),
  // As it was written here, and nothing that leads elsewhere.
  bytes_file: z
    .string()
    .refine((path) => !path.startsWith('/') && !path.split('/').includes('..'))
    .optional(),
});
type Held = z.output<typeof heldForm>;

export function createDocumentLayout(folder: Folder, settings: FileSettings, { clock }: ConnectorContext) {
  const journal = createJournal(folder, settings.journal, () => clock.nowMs());

  async function heldAt(base: string): Promise<{ json: string; held: Held | undefined } | undefined> {
    const json = await readText(folder, `${base}.json`);
    return json === undefined ? undefined : { json, held: heldForm.safeParse(parseJson(json)).data };
  }

  /**
   * The document's name in this folder. Keys of suppliers may differ in case only, and some file systems do not tell such
   * names apart: one whose name another key has goes by a name of its own.
   */
  async function nameIn(document: Document): Promise<string> {
    const name = baseName(document);
    if (document.kind !== 'supplier') return name;
    const json = await readText(folder, `${name}.json`);
    const held = json === undefined ? undefined : keyForm.safeParse(parseJson(json)).data;
    if (held === undefined || held.key === document.key) return name;
    return `${name.slice(0, 135)}_${sha256(document.key)}`;
  }

  /** With a template, a name is given once and kept in the journal: what it was made of may change. */
  async function givenNames(documents: readonly Document[]): Promise<Map<Document, string>> {
    const names = new Map<Document, string>();
    if (settings.name === undefined) return names;
    const journaled = await journal.read();
    for (const [document, { reference }] of await journaled.find(documents)) names.set(document, reference);
    return names;
  }

  async function giveNames(documents: readonly Document[]): Promise<Map<Document, string>> {
    const { name: template } = settings;
    if (template === undefined) return new Map();
    const { next, find } = await journal.read();
    const given = await find(documents);
    const names = new Map([...given].map(([document, { reference }]) => [document, reference]));
    const now = new Date(clock.nowMs());
    const fresh = documents
      .filter((document) => !names.has(document))
      .map((document) => ({ document, name: fillTemplate(template, (part) => placeholderValue(part, document, now)) }));
    if (fresh.length === 0) return names;
    const writeOf = (reference: string) => ({ contentHash: '', state: 'named', idempotencyKey: '', reference });
    await journal.add(
      next,
      fresh.map(({ document, name }) => ({ document, write: writeOf(name) })),
    );
    for (const { document, name } of fresh) names.set(document, name);
    await journal.merge(new AbortController().signal);
    return names;
  }

  async function besideOf(operation: Operation, base: string, signal: AbortSignal): Promise<Beside[]> {
    const { document, action, file } = operation;
    if ('lines' in document) {
      const entry = { operation, state: stateOf(operation) };
      return tablesOf(document.kind, settings).map((table) => {
        const content = Buffer.concat([...table.render([entry]).parts]);
        const path = `${base}${table.suffix}.csv`;
        const name = table.suffix === '' ? 'lines' : 'bid_sheet';
        return { path, content, named: { [`${name}_file`]: path, [`${name}_sha256`]: sha256(content) } };
      });
    }
    if (document.kind !== 'file') return [];
    const { file_folder: template } = settings;
    const before = template === undefined ? undefined : (await heldAt(base))?.held?.bytes_file;
    const bytes = await fileBytes(operation, signal);
    const path = template === undefined ? `${base}.bin` : (before ?? ownPath(operation, template));
    if (action === 'cancel' || !bytes || !file) return [{ path, content: undefined, named: {} }];
    return [
      {
        path,
        content: bytes,
        named: { file_name: file.name, bytes_file: path, bytes: bytes.length, bytes_sha256: sha256(bytes) },
      },
    ];
  }

  /** Where a folder has the key in its name, nothing else is in it. */
  function ownPath(operation: Operation, template: string): string {
    const mark = template.includes('{key}') ? '' : `-${sha256(operation.document.key).slice(0, 16)}`;
    return bytesPath(operation, template, new Date(clock.nowMs()), mark);
  }

  /** What is there already is not created. */
  async function actionFor({ action }: Operation, base: string): Promise<Operation['action']> {
    return action === 'create' && (await folder.look(`${base}.json`)) !== undefined ? 'amend' : action;
  }

  async function writeOne(operation: Operation, base: string, signal: AbortSignal): Promise<Outcome> {
    const { document, contentHash } = operation;
    const action = await actionFor(operation, base);
    const beside = await besideOf(operation, base, signal);
    for (const { path, content } of beside) {
      if (content === undefined) await folder.remove(path);
      else await replace(folder, path, content, signal);
    }
    const named = Object.assign({}, ...beside.map((one) => one.named)) as Record<string, unknown>;
    const content = { state: stateOf(operation), content_hash: contentHash, ...named, ...document };
    try {
      await replace(folder, `${base}.json`, Buffer.from(`${JSON.stringify(content, null, 2)}\n`));
    } catch (error) {
      // What is beside it may be in place: what the folder holds now is for `lookup` to say.
      throw new UnknownOutcome(error instanceof Error ? error.message : String(error), { cause: error });
    }
    return { status: done[action], reference: `${base}.json` };
  }

  /** What is withdrawn is not held. Files that do not fit together, or are no document of ours, have no content hash. */
  async function lookupOne(document: Document, base: string): Promise<Found | undefined> {
    const found = await heldAt(base);
    if (!found) return undefined;
    const { held } = found;
    const fits = held !== undefined && (await besideFits(document, base, held));
    if (fits && held.state === 'withdrawn') return undefined;
    return { key: document.key, reference: `${base}.json`, contentHash: fits ? held.content_hash : undefined };
  }

  async function besideFits(document: Document, base: string, held: Held): Promise<boolean> {
    if (document.kind === 'file') {
      const path = settings.file_folder === undefined ? `${base}.bin` : held.bytes_file;
      return path === undefined || (await checksumOf(folder, path)) === held.bytes_sha256;
    }
    if (!('lines' in document)) return true;
    if ((await checksumOf(folder, `${base}.csv`)) !== held.lines_sha256) return false;
    return (
      held.bid_sheet_sha256 === undefined ||
      (await checksumOf(folder, `${base}_bid_sheet.csv`)) === held.bid_sheet_sha256
    );
  }

  return {
    write: async (operations: readonly Operation[], signal: AbortSignal): Promise<Outcome[]> => {
      if (signal.aborted) return operations.map(() => stopped);
      let names: ReadonlyMap<Document, string>;
      try {
        names = await giveNames(operations.map(({ document }) => document));
      } catch (error) {
        return operations.map(() => outcomeOf(error));
      }
      // Of suppliers it is asked whether a name is free before it is taken.
      const isInTurn = operations[0]?.document.kind === 'supplier' || keysOf(operations).size < operations.length;
      const atOnce = isInTurn ? 1 : documentsAtOnce;
      const write = async (operation: Operation) =>
        writeOne(operation, names.get(operation.document) ?? (await nameIn(operation.document)), signal);
      return writeEach(operations, write, { signal, atOnce });
    },
    lookup: async (documents: readonly Document[]): Promise<Found[]> => {
      const names = await givenNames(documents);
      const found: Found[] = [];
      for (let from = 0; from < documents.length; from += documentsAtOnce) {
        const some = documents.slice(from, from + documentsAtOnce).map(async (document) => {
          const base = settings.name === undefined ? await nameIn(document) : names.get(document);
          return base === undefined ? undefined : lookupOne(document, base);
        });
        for (const held of await Promise.all(some)) if (held) found.push(held);
      }
      return found;
    },
    plan: async (operations: readonly Operation[]): Promise<PlannedOperation[]> => {
      const names = await givenNames(operations.map(({ document }) => document));
      const now = new Date(clock.nowMs());
      const planned: PlannedOperation[] = [];
      for (const operation of operations) {
        const { document } = operation;
        const template = settings.name;
        const base =
          names.get(document) ??
          (template === undefined
            ? await nameIn(document)
            : fillTemplate(template, (part) => placeholderValue(part, document, now)));
        const action = await actionFor(operation, base);
        const tables = 'lines' in document ? tablesOf(document.kind, settings) : [];
        const files = [...tables.map(({ suffix }) => `${base}${suffix}.csv`), `${base}.json`];
        const word = { create: 'Write', amend: 'Replace', cancel: 'Write as withdrawn' }[action];
        const steps = [`${word}: ${files.join(', ')} in ${folder.place}`];
        if (operation.file && action !== 'cancel')
          steps.push(
            `Write its bytes: ${settings.file_folder === undefined ? `${base}.bin` : ownPath(operation, settings.file_folder)}`,
          );
        planned.push({ key: document.key, action, steps });
      }
      return planned;
    },
  };
}

const done = { create: 'created', amend: 'updated', cancel: 'cancelled' } as const;
const keyForm = z.looseObject({ key: z.string() });

function keysOf(operations: readonly Operation[]): Set<string> {
  return new Set(operations.map(({ document }) => document.key));
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
