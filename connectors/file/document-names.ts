/**
 * The base names of documents in the layout `document`: the name of a document's files without their endings. Without a
 * template the name follows from the key. With a template it is assigned once and kept in the journal, because the
 * values that it was made of may change.
 */
import { type Clock, type Document, z } from 'sourcing-bridge/connector';
import { type Folder, readText, sha256 } from './folder.ts';
import { createJournal } from './journal.ts';
import { baseName, fillTemplate, placeholderValue } from './names.ts';
import type { FileSettings } from './settings.ts';

export interface DocumentNames {
  /** The names that the journal has for these documents; empty without a template. */
  find(documents: readonly Document[]): Promise<ReadonlyMap<Document, string>>;
  /** As `find`, and assigns names to documents that have none yet; empty without a template. */
  assign(documents: readonly Document[]): Promise<ReadonlyMap<Document, string>>;
  /** The name that follows from the document's key, for settings without a template. */
  fromKey(document: Document): Promise<string>;
  /** The name that `assign` would assign now; without a template the one from the key. */
  predict(document: Document): Promise<string>;
}

const heldKey = z.looseObject({ key: z.string() });
const never = new AbortController().signal;

/** The names in a folder. */
export function createDocumentNames(folder: Folder, settings: FileSettings, clock: Clock): DocumentNames {
  const journal = createJournal(folder, settings.journal, () => clock.nowMs());
  const { name: template } = settings;

  async function fromKey(document: Document): Promise<string> {
    const name = baseName(document);
    if (document.kind !== 'supplier') return name;
    // Keys of suppliers may differ only in case, and some file systems do not distinguish such names. A supplier whose
    // name belongs to another key gets a name with its checksum.
    const json = await readText(folder, `${name}.json`);
    const held = json === undefined ? undefined : heldKey.safeParse(parseJson(json)).data;
    if (held === undefined || held.key === document.key) return name;
    return `${name.slice(0, 135)}_${sha256(document.key)}`;
  }

  const fill = (filled: string, document: Document, now: Date) =>
    fillTemplate(filled, (part) => placeholderValue(part, document, now));

  return {
    fromKey,
    find: async (documents) => {
      if (template === undefined) return new Map();
      const { find } = await journal.read();
      return new Map([...(await find(documents))].map(([document, { reference }]) => [document, reference]));
    },
    assign: async (documents) => {
      if (template === undefined) return new Map();
      const { next, find } = await journal.read();
      const known = await find(documents);
      const names = new Map([...known].map(([document, { reference }]) => [document, reference]));
      const now = new Date(clock.nowMs());
      const unnamed = documents
        .filter((document) => !names.has(document))
        .map((document) => ({ document, name: fill(template, document, now) }));
      if (unnamed.length === 0) return names;
      const writeOf = (reference: string) => ({ contentHash: '', state: 'named', idempotencyKey: '', reference });
      await journal.add(
        next,
        unnamed.map(({ document, name }) => ({ document, write: writeOf(name) })),
      );
      for (const { document, name } of unnamed) names.set(document, name);
      await journal.merge(never);
      return names;
    },
    predict: async (document) =>
      template === undefined ? fromKey(document) : fill(template, document, new Date(clock.nowMs())),
  };
}

/** Undefined when the text is not JSON. */
export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
