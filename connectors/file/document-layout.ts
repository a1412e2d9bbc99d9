/**
 * The layout `document`: each document is one JSON file with its companions (a CSV of its lines, or the bytes of a
 * file), under names that never change, so writing the same document again makes the same files. A withdrawn document
 * stays with the state `withdrawn`, because a reader that has imported it must learn of the withdrawal.
 *
 * All are written under temporary names at once. The companions get their names first, then the JSON, which names them
 * with their checksums. Between the two renames, and after a kill there, the checksums do not fit: a reader waits, and
 * `lookup` reports neither the old nor the new content hash.
 */
import {
  type ConnectorContext,
  type Document,
  type Found,
  type Operation,
  type Outcome,
  outcomeOf,
  type PlannedOperation,
  type ReadBack,
  stopped,
  type TakenDocument,
  UnknownOutcome,
  writeEach,
} from 'sourcing-bridge/connector';
import { createDocumentFiles } from './document-files.ts';
import { createDocumentNames } from './document-names.ts';
import { stateOf } from './documents.ts';
import { type Folder, writeNewFiles } from './folder.ts';
import { readBackFromFiles } from './read-back.ts';
import type { FileSettings } from './settings.ts';

/** How many documents are written or looked up at once: what takes time is waiting for the disk or the server. */
export const documentsAtOnce = 8;

/** The layout `document` in a folder. */
export function createDocumentLayout(folder: Folder, settings: FileSettings, { clock }: ConnectorContext) {
  const names = createDocumentNames(folder, settings, clock);
  const files = createDocumentFiles(folder, settings, clock);

  /** A create for which there is a JSON already is an amend. */
  async function actionFor({ action }: Operation, base: string): Promise<Operation['action']> {
    return action === 'create' && (await folder.stat(`${base}.json`)) !== undefined ? 'amend' : action;
  }

  async function writeOne(operation: Operation, base: string, signal: AbortSignal): Promise<Outcome> {
    const { document, contentHash } = operation;
    const acting = actionFor(operation, base);
    // Thrown where it is awaited; until then a rejection must not count as unhandled.
    acting.catch(() => undefined);
    const companions = await files.companionsOf(operation, base, signal);
    const named = Object.assign({}, ...companions.map((companion) => companion.named)) as Record<string, unknown>;
    const content = { state: stateOf(operation), content_hash: contentHash, ...named, ...document };
    const json = { path: `${base}.json`, content: Buffer.from(`${JSON.stringify(content, null, 2)}\n`) };
    const written = companions.flatMap(({ path, content: bytes }) => (bytes ? [{ path, content: bytes }] : []));
    const newFiles = await writeNewFiles(folder, [...written, json], signal);
    let action: Operation['action'];
    try {
      // Asked for before anything has its name.
      action = await acting;
      for (const companion of companions)
        if (companion.content === undefined) await folder.remove(companion.path);
        else await newFiles.place(companion.path);
    } catch (error) {
      await newFiles.dropAfter(error);
      throw error;
    }
    try {
      await newFiles.place(json.path);
    } catch (error) {
      await newFiles.dropAfter(error);
      // The companions may be in place already: `lookup` has to find out what the folder holds now.
      throw new UnknownOutcome(error instanceof Error ? error.message : String(error), { cause: error });
    }
    return { status: done[action], reference: json.path };
  }

  /** A withdrawn document is not found. Without a content hash: files that do not fit together, or a foreign JSON. */
  async function lookupOne(document: Document, base: string): Promise<Found | undefined> {
    const json = await files.readJson(base);
    if (!json) return undefined;
    const { held } = json;
    const fits = held !== undefined && (await files.companionsFit(document, base, held));
    if (fits && held.state === 'withdrawn') return undefined;
    return { key: document.key, reference: `${base}.json`, contentHash: fits ? held.content_hash : undefined };
  }

  async function planOne(operation: Operation, base: string): Promise<PlannedOperation> {
    const { document } = operation;
    const action = await actionFor(operation, base);
    const word = { create: 'Write', amend: 'Replace', cancel: 'Write as withdrawn' }[action];
    const steps = [`${word}: ${files.namesOf(document, base).join(', ')} in ${folder.place}`];
    if (operation.file && action !== 'cancel') steps.push(`Write its bytes: ${files.newBytesPath(operation, base)}`);
    return { key: document.key, action, steps };
  }

  return {
    write: async (operations: readonly Operation[], signal: AbortSignal): Promise<Outcome[]> => {
      if (signal.aborted) return operations.map(() => stopped);
      let assigned: ReadonlyMap<Document, string>;
      try {
        assigned = await names.assign(operations.map(({ document }) => document));
      } catch (error) {
        return operations.map(() => outcomeOf(error));
      }
      // Suppliers are written one after another, because `fromKey` looks whether a name is free before it is taken.
      const isSequential = operations[0]?.document.kind === 'supplier' || keysOf(operations).size < operations.length;
      const write = async (operation: Operation) =>
        writeOne(operation, assigned.get(operation.document) ?? (await names.fromKey(operation.document)), signal);
      return writeEach(operations, write, { signal, atOnce: isSequential ? 1 : documentsAtOnce });
    },
    lookup: async (documents: readonly Document[]): Promise<Found[]> => {
      const assigned = await names.find(documents);
      const found: Found[] = [];
      for (let from = 0; from < documents.length; from += documentsAtOnce) {
        const searches = documents.slice(from, from + documentsAtOnce).map(async (document) => {
          const base = settings.name === undefined ? await names.fromKey(document) : assigned.get(document);
          return base === undefined ? undefined : lookupOne(document, base);
        });
        for (const held of await Promise.all(searches)) if (held) found.push(held);
      }
      return found;
    },
    readBack: async (deliveries: readonly TakenDocument[]): Promise<ReadBack[]> => {
      const assigned = await names.find(deliveries.map(({ document }) => document));
      const answers: ReadBack[] = [];
      for (let from = 0; from < deliveries.length; from += documentsAtOnce) {
        const reads = deliveries.slice(from, from + documentsAtOnce).map(async ({ document }): Promise<ReadBack> => {
          const base = settings.name === undefined ? await names.fromKey(document) : assigned.get(document);
          if (base === undefined) return { key: document.key, status: 'missing' };
          return readBackFromFiles({ folder, files, settings }, document, base);
        });
        answers.push(...(await Promise.all(reads)));
      }
      return answers;
    },
    plan: async (operations: readonly Operation[]): Promise<PlannedOperation[]> => {
      const assigned = await names.find(operations.map(({ document }) => document));
      const planned: PlannedOperation[] = [];
      for (const operation of operations) {
        const { document } = operation;
        planned.push(await planOne(operation, assigned.get(document) ?? (await names.predict(document))));
      }
      return planned;
    },
  };
}

const done = { create: 'created', amend: 'updated', cancel: 'cancelled' } as const;

function keysOf(operations: readonly Operation[]): Set<string> {
  return new Set(operations.map(({ document }) => document.key));
}
