/**
 * The layout `batch`: each write gives new files, which the reader takes in and may remove or move: an outbox. What is
 * promised is that each document stands in exactly one of them for each time that the bridge had it written.
 *
 * A write goes in three steps. First its files are written to a folder of the journal, under the batch's own name, and
 * flushed. Then the journal is told of the batch. Then each file gets its name, in one step each: the first of these
 * steps is the one that counts, and the manifest is the last. A file is in the journal's folder or under its name, never
 * both, so what a kill has interrupted can be seen: while the first file has not moved, nothing has happened, and `lookup`
 * takes the batch back by moving that file away; once it has moved, `lookup` moves the others after it. Whoever of two
 * moves the file first has decided, also against a process that sleeps in the middle of a write and goes on much later.
 */
import { createHash, randomBytes } from 'node:crypto';
import { setImmediate } from 'node:timers/promises';
import {
  ConfigError,
  type ConnectorContext,
  type Document,
  type Found,
  fileBytes,
  type Operation,
  type Outcome,
  outcomeOf,
  type PlannedOperation,
  stopped,
  TransientError,
  UnknownOutcome,
} from 'sourcing-bridge/connector';
import { bytesPath, stateOf } from './documents.ts';
import { type Content, checksumOf, type Folder, joined, NoSuchFile } from './folder.ts';
import { type BatchHead, createJournal, Overtaken } from './journal.ts';
import { fillTemplate, timeInName } from './names.ts';
import type { FileSettings } from './settings.ts';
import { type Entry, tablesOf } from './table.ts';

const nameByDefault = '{kind}_{time}_{sequence}';
const filesByDefault = 'files';
/** A write that takes longer has stood still, and what it has written may be cleared away already. */
const writeWithinMs = 5 * 60_000;
const triesToSettle = 5;

/** A file that is written, and has no name yet. */
interface Staged {
  readonly name: string;
  readonly sha256: string;
  readonly bytes: number;
  readonly rows: number | undefined;
}

export function createBatchLayout(folder: Folder, settings: FileSettings, { clock, log }: ConnectorContext) {
  const journal = createJournal(folder, settings.journal, () => clock.nowMs());
  const stagedPath = joined(settings.journal, 'staged');
  const stagedName = (batch: string, part: number | 'void') => joined(stagedPath, `${batch}.${part}`);

  /** What is in the journal's folder and has no name yet, by batch. */
  async function stagedBatches(): Promise<Map<string, Set<string>>> {
    const batches = new Map<string, Set<string>>();
    for (const { name } of await folder.list(stagedPath)) {
      if (name.startsWith('.')) continue;
      const at = name.lastIndexOf('.');
      const batch = name.slice(0, at);
      batches.set(batch, (batches.get(batch) ?? new Set()).add(name.slice(at + 1)));
    }
    return batches;
  }

  /** Brings to an end what was interrupted of writes that have to do with these documents, or had begun to count. */
  async function settle(documents: readonly Document[]): Promise<void> {
    const batches = await stagedBatches();
    if (batches.size > 0) {
      for (const { sequence, head, has } of await journal.unmerged()) {
        const parts = batches.get(head.batch);
        if (!parts) continue;
        batches.delete(head.batch);
        if (!parts.has('void') && (await hasBegun(head, parts))) await finish(head);
        else if (parts.has('void') || documents.some(has)) await takeBack(sequence, head);
      }
      for (const [batch, parts] of batches) await clear(batch, parts);
    }
  }

  /** Whether the first file has its name. */
  async function hasBegun({ batch, files }: BatchHead, parts: ReadonlySet<string>): Promise<boolean> {
    const [first] = files;
    if (!first) return true;
    // It may have been taken back while the folder was listed, which shows neither name then.
    if (!parts.has('0')) return (await folder.look(stagedName(batch, 'void'))) === undefined;
    // A server that cannot rename in one step may have left both.
    if ((await checksumOf(folder, first.name)) !== first.sha256) return false;
    await folder.remove(stagedName(batch, 0));
    return true;
  }

  async function finish({ batch, files }: BatchHead): Promise<void> {
    for (const [index, { name }] of files.entries()) await moveIfThere(stagedName(batch, index), name);
  }

  /** Nothing of the batch has happened, and nothing of it can happen any more. Throws Overtaken if something just has. */
  async function takeBack(sequence: number, { batch, files }: BatchHead): Promise<void> {
    const isFirst = await moveIfThere(stagedName(batch, 0), stagedName(batch, 'void'));
    if (!isFirst && (await folder.look(stagedName(batch, 'void'))) === undefined)
      throw new Overtaken('a write that was cut off has gone on just now');
    await journal.retract(sequence, batch);
    for (const index of files.keys()) await folder.remove(stagedName(batch, index));
    await folder.remove(stagedName(batch, 'void'));
  }

  async function moveIfThere(from: string, to: string): Promise<boolean> {
    return folder.move(from, to).then(
      () => true,
      (error: unknown) => {
        if (error instanceof NoSuchFile) return false;
        throw error;
      },
    );
  }

  /** What no journal tells of: the rest of what was taken back, or of a write that died long ago. */
  async function clear(batch: string, parts: ReadonlySet<string>): Promise<void> {
    for (const part of parts) {
      const file = joined(stagedPath, `${batch}.${part}`);
      const seen = parts.has('void') ? undefined : await folder.look(file);
      if (
        parts.has('void') ||
        (seen && clock.nowMs() - seen.modifiedMs > Math.max(folder.leftoverMs, 2 * writeWithinMs))
      )
        await folder.remove(file);
    }
  }

  async function write(operations: readonly Operation[], signal: AbortSignal): Promise<Outcome[]> {
    const outcomes = new Map<Operation, Outcome>();
    if (signal.aborted) return operations.map(() => stopped);
    try {
      const documents = operations.map(({ document }) => document);
      const { touched, next } = await journal.news(documents);
      await settle(documents);
      const known = await journal.find(documents);
      const wanted = operations.filter((operation) => {
        const line = known.get(operation.document);
        // What was told of since then is not settled: it may never happen.
        const isSettled = line !== undefined && line.sequence < next;
        if (isSettled && line.idempotencyKey === operation.idempotencyKey)
          outcomes.set(operation, {
            status: operation.action === 'cancel' ? 'cancelled' : 'unchanged',
            reference: referenceOf(operation.document),
          });
        else if (touched.has(operation.document) || (line !== undefined && !isSettled))
          outcomes.set(
            operation,
            outcomeOf(new Overtaken('another process has written it, or asked for it, meanwhile')),
          );
        return !outcomes.has(operation);
      });
      if (wanted.length > 0) await writeBatch(wanted, next, outcomes, signal);
      await tidy(signal);
    } catch (error) {
      const outcome = signal.aborted && !(error instanceof UnknownOutcome) ? stopped : outcomeOf(error);
      for (const operation of operations) if (!outcomes.has(operation)) outcomes.set(operation, outcome);
    }
    return operations.map((operation) => outcomes.get(operation) ?? stopped);
  }

  async function writeBatch(
    operations: readonly Operation[],
    sequence: number,
    outcomes: Map<Operation, Outcome>,
    signal: AbortSignal,
  ): Promise<void> {
    const beganMs = clock.nowMs();
    const now = new Date(beganMs);
    const batch = `${String(sequence).padStart(12, '0')}-${randomBytes(8).toString('hex')}`;
    const base = baseName(operations, sequence, now);
    const staged: Staged[] = [];
    const stage = async (name: string, content: Content, rows?: () => number) => {
      const seen = { bytes: 0, hash: createHash('sha256') };
      await folder.write(stagedName(batch, staged.length), counted(content, seen), signal);
      const one = { name, bytes: seen.bytes, sha256: seen.hash.digest('hex'), rows: rows?.() };
      staged.push(one);
      return one;
    };
    let isTold = false;
    try {
      const entries = await stageAll(operations, { base, sequence, now }, outcomes, stage, signal);
      const [{ operation } = {}] = entries;
      if (!operation) return await discard(batch, staged.length + 1);
      const main = staged.at(-1)?.name ?? '';
      if (settings.manifest !== 'none')
        await stage(`${base}.${manifestEnding[settings.manifest]}`, manifest(base, entries, staged, now));
      const head = { batch, files: staged.map(({ name, sha256 }) => ({ name, sha256 })) };
      const told = entries.map(({ operation, state }) => ({
        document: operation.document,
        known: {
          key: operation.document.key,
          contentHash: operation.contentHash,
          state,
          idempotencyKey: operation.idempotencyKey,
          reference: main,
        },
      }));
      const taken = await Promise.all(staged.map(async ({ name }) => ((await folder.look(name)) ? [name] : [])));
      const [name] = taken.flat();
      if (name !== undefined)
        throw new ConfigError(
          `${name} is in ${folder.place} already, and not of this flow: give each flow its own settings.name, or its own directory.`,
        );
      mayGoOn(beganMs, signal);
      // What the journal tells of must be there after a power cut, too: what is missing has moved.
      await folder.flush(stagedPath);
      isTold = true;
      await journal.append(sequence, told, head);
      mayGoOn(beganMs, signal);
      await publish(head);
      for (const { operation } of entries)
        outcomes.set(operation, { status: done[operation.action], reference: referenceOf(operation.document) });
    } catch (error) {
      if (error instanceof UnknownOutcome) throw error;
      await undo(isTold && !(error instanceof Overtaken) ? sequence : undefined, batch, staged);
      throw error;
    }
  }

  function mayGoOn(beganMs: number, signal: AbortSignal): void {
    if (signal.aborted) throw new TransientError('stopped before it was written');
    if (clock.nowMs() - beganMs > writeWithinMs)
      throw new TransientError('this process stood still in the middle of a write');
  }

  /** The documents' own files and tables. What cannot be written has its outcome, and is left out. */
  async function stageAll(
    operations: readonly Operation[],
    { base, sequence, now }: { base: string; sequence: number; now: Date },
    outcomes: Map<Operation, Outcome>,
    stage: (name: string, content: Content, rows?: () => number) => Promise<Staged>,
    signal: AbortSignal,
  ): Promise<Entry[]> {
    const kind = operations[0]?.document.kind ?? 'award';
    const tables = settings.format === 'csv' ? tablesOf(kind, settings) : [];
    const entries: Entry[] = [];
    for (const operation of operations) {
      // A large batch may not keep everything else in this process waiting, the signal included.
      await setImmediate();
      if (signal.aborted) throw new TransientError('stopped before it was written');
      const state = stateOf(operation);
      let bytes: Uint8Array | undefined;
      try {
        // Whether a table can hold it, before anything of it is written.
        for (const table of tables) table.check({ operation, state });
        bytes = await fileBytes(operation, signal);
      } catch (error) {
        outcomes.set(operation, outcomeOf(error));
        continue;
      }
      if (bytes === undefined) entries.push({ operation, state });
      else {
        const mark = `-${digits(sequence)}-${entries.length + 1}`;
        const path = bytesPath(operation, settings.file_folder ?? filesByDefault, now, mark);
        const { sha256, bytes: count } = await stage(path, bytes);
        entries.push({ operation, state, file: { name: operation.file?.name ?? '', path, bytes: count, sha256 } });
      }
    }
    if (entries.length === 0) return [];
    if (settings.format === 'jsonl') await stage(`${base}.jsonl`, jsonLines(entries), () => entries.length);
    for (const table of tables.toReversed()) {
      const { parts, rows } = table.render(entries);
      await stage(`${base}${table.suffix}.csv`, inTurn(parts), rows);
    }
    return entries;
  }

  async function publish({ batch, files }: BatchHead): Promise<void> {
    for (const [index, { name }] of files.entries()) {
      try {
        await folder.move(stagedName(batch, index), name);
      } catch (error) {
        if (index === 0 && !(error instanceof NoSuchFile)) throw error;
        const message = error instanceof Error ? error.message : String(error);
        throw new UnknownOutcome(`${name} did not get its name: ${message}`, { cause: error });
      }
    }
  }

  /** Best effort: what stays is taken back when somebody asks, or cleared away later. */
  async function undo(sequence: number | undefined, batch: string, staged: readonly Staged[]): Promise<void> {
    try {
      if (sequence === undefined) await discard(batch, staged.length + 1);
      else await takeBack(sequence, { batch, files: staged });
    } catch (cause) {
      if (sequence === undefined) return;
      throw new UnknownOutcome('a write that failed could not be taken back yet', { cause });
    }
  }

  async function discard(batch: string, parts: number): Promise<void> {
    for (let index = 0; index < parts; index += 1) await folder.remove(stagedName(batch, index));
  }

  async function openSequences(): Promise<Set<number>> {
    return new Set([...(await stagedBatches()).keys()].map((batch) => Number(batch.slice(0, batch.indexOf('-')))));
  }

  /** Never fails a write that has happened. */
  async function tidy(signal: AbortSignal): Promise<void> {
    try {
      if (!signal.aborted) await journal.merge(openSequences, signal);
    } catch (error) {
      if (!signal.aborted) log.warn('the journal could not be merged; it is tried again', { reason: String(error) });
    }
  }

  function baseName(operations: readonly Operation[], sequence: number, now: Date): string {
    return fillTemplate(settings.name ?? nameByDefault, (placeholder) => {
      if (placeholder === 'kind') return operations[0]?.document.kind ?? '';
      return placeholder === 'sequence' ? digits(sequence) : timeInName(placeholder, now);
    });
  }

  function manifest(base: string, entries: readonly Entry[], staged: readonly Staged[], now: Date): Uint8Array {
    // As sha256sum --check reads it.
    if (settings.manifest !== 'json') return Buffer.from(staged.map((one) => `${one.sha256}  ${one.name}\n`).join(''));
    const files = staged.map(({ name, bytes, sha256, rows }) => ({
      name,
      bytes,
      sha256,
      ...(rows === undefined ? {} : { rows }),
    }));
    const documents = entries.map(({ operation: { document, action, contentHash, idempotencyKey }, state }) => ({
      id: idempotencyKey,
      kind: document.kind,
      key: document.key,
      action,
      state,
      content_hash: contentHash,
    }));
    const content = { batch: base, written: now.toISOString(), files, documents };
    return Buffer.from(`${JSON.stringify(content, null, 2)}\n`);
  }

  return {
    write,
    lookup: async (documents: readonly Document[], signal: AbortSignal): Promise<Found[]> => {
      for (let tries = 1; ; tries += 1) {
        try {
          const { next } = await journal.news([]);
          await settle(documents);
          const known = await journal.find(documents);
          await journal.fence(next, documents);
          await tidy(signal);
          return documents.flatMap((document) => {
            const line = known.get(document);
            if (!line || line.state === 'withdrawn') return [];
            return [{ key: document.key, reference: referenceOf(document), contentHash: line.contentHash }];
          });
        } catch (error) {
          if (!(error instanceof Overtaken) || tries === triesToSettle) throw error;
        }
      }
    },
    plan: async (operations: readonly Operation[]): Promise<PlannedOperation[]> => {
      const file = `${(settings.name ?? nameByDefault).replace('{kind}', operations[0]?.document.kind ?? '')}.${settings.format}`;
      return operations.map((operation) => {
        const { action, document } = operation;
        const lines = 'lines' in document && document.lines.length > 0 ? `${document.lines.length} lines of ` : '';
        const word = { create: '', amend: 'the new state of ', cancel: 'the withdrawal of ' }[action];
        const bytes =
          operation.file &&
          bytesPath(operation, settings.file_folder ?? filesByDefault, new Date(clock.nowMs()), '-<sequence>');
        const steps = [
          `Write ${word}${lines}${document.kind} ${document.key} into a new file ${file} in ${folder.place}`,
          ...(bytes === undefined ? [] : [`Write its bytes to ${bytes}`]),
        ];
        return { key: document.key, action, steps };
      });
    },
  };
}

function digits(sequence: number): string {
  return String(sequence).padStart(8, '0');
}

/** Its files go, and each write gives another: what stays the same is the document. */
function referenceOf({ kind, key }: Document): string {
  return `${kind} ${key}`;
}

const manifestEnding = { json: 'manifest.json', ok: 'ok', done: 'done' } as const;
const done = { create: 'created', amend: 'updated', cancel: 'cancelled' } as const;

async function* counted(
  content: Content,
  seen: { bytes: number; hash: ReturnType<typeof createHash> },
): AsyncGenerator<Uint8Array> {
  for await (const piece of content instanceof Uint8Array ? [content] : content) {
    seen.bytes += piece.length;
    seen.hash.update(piece);
    yield piece;
  }
}

async function* inTurn(parts: Iterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  yield* parts;
}

async function* jsonLines(entries: readonly Entry[]): AsyncGenerator<Uint8Array> {
  for (const { operation, state, file } of entries) {
    const { document, action, contentHash } = operation;
    const named = file && { file_name: file.name, file: file.path, bytes: file.bytes, sha256: file.sha256 };
    yield Buffer.from(`${JSON.stringify({ action, state, content_hash: contentHash, ...named, ...document })}\n`);
  }
}
