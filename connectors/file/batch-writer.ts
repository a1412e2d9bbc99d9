/**
 * Writes batches: files that a reader imports and takes away. Each item is in exactly one batch for each time that the
 * bridge had it written.
 *
 * The words: a *batch* is the files of one write, and has an id: the time and a checksum of its idempotency keys. Below
 * `.sourcing-bridge` it waits in `ready` under its id until its files have their names. The *receipt* of an item, in
 * `known`, is what was written of it last: the reader takes the files away, and `lookup` reads receipts.
 *
 * The steps of a write, and what a kill after each of them leaves:
 *
 * 1. Finish the batches that wait in `ready` (steps 4 to 6). Killed: the next process goes on.
 * 2. Write the files as `ready/<id>.0`, `.1`, … and flush them. Killed: files that no batch names; removed after a day.
 * 3. Put `ready/<id>.json`, which names the files and has the receipts: a rename, so it is there as a whole or not at
 *    all. From here on the batch is written. Killed: the next process goes on with step 4.
 * 4. Move each file to its name, the manifest last. A file that is not in `ready` any more has its name already, or the
 *    reader has taken it. So none comes twice, whichever process moves it.
 * 5. Put the receipts. Doing it twice changes nothing; a newer receipt stays.
 * 6. Remove `ready/<id>.json`.
 *
 * `lookup` does step 1 before it reads receipts: so a batch is known as soon as it is written. Of two processes that
 * write at once each has its own ids, and both may finish the same batch. The bridge gives a document to one process at
 * a time; one that stood still for longer than its time limit stops before step 3 (see `Deadline`).
 */
import {
  type Clock,
  ConfigError,
  type ConnectorContext,
  type Outcome,
  outcomeOf,
  stopped,
  UnknownOutcome,
  z,
} from 'sourcing-bridge/connector';
import {
  type Deadline,
  dropFiles,
  type Folder,
  isInFolder,
  joinPath,
  moveIfThere,
  putFile,
  readJson,
  removeLeftovers,
  sha256,
} from './folder.ts';

/** What a receipt is of: a document, or the news of a requisition. */
interface Keyed {
  readonly kind: string;
  readonly key: string;
}

const receiptForm = z.object({
  kind: z.string(),
  key: z.string(),
  contentHash: z.string(),
  /** After `withdrawn`, the reader holds nothing of the document. */
  state: z.string(),
  idempotencyKey: z.string(),
  /** The time in the batch's id. */
  stampMs: z.number(),
});
type Receipt = z.output<typeof receiptForm>;

/** What is in a batch: an operation, or the news of a requisition. */
export interface BatchItem {
  readonly document: Keyed;
  readonly idempotencyKey: string;
}

const readyForm = z.object({ files: z.array(z.string().refine(isInFolder)), receipts: z.array(receiptForm) });

/** A file of a batch; `name` is the name that it gets once it is complete. */
export interface BatchFile {
  readonly name: string;
  readonly content: Uint8Array;
}

/** The files of a batch, before they have their names. */
export interface ComposedBatch<Item> {
  /** Empty when none could be written, and then the batch is given up. */
  readonly written: readonly { readonly item: Item; readonly contentHash: string; readonly state: string }[];
  readonly refused: ReadonlyMap<Item, Outcome>;
  /** In the order in which the reader may see them. */
  readonly files: readonly BatchFile[];
}

/** What names of a batch are made of: `sequence` sorts by time, and no two batches have the same. */
export interface BatchId {
  readonly sequence: string;
  readonly stampMs: number;
}

export interface BatchForm<Item> {
  /** Makes the files. Throws what `write` throws, and TransientError once `signal` aborts. */
  readonly compose: (items: readonly Item[], id: BatchId, signal: AbortSignal) => Promise<ComposedBatch<Item>>;
  /** The outcome of an item that is written now, or that an earlier attempt has written, whose answer was lost. */
  readonly outcomeOf: (item: Item, when: 'now' | 'before') => Outcome;
}

/** Where the connector remembers what it has written in batches. */
export const receiptsFolder = '.sourcing-bridge';

const receiptsAtOnce = 8;
const leftovers = /^(?:\d{13}-[0-9a-f]{12}\.\d+|\..*\.tmp)$/;

/** Where batches wait, and what is known of their items. */
interface Deps {
  readonly folder: Folder;
  readonly clock: Clock;
  /** The folder of the waiting batches. */
  readonly ready: string;
  readonly receiptPath: (document: Keyed) => string;
  /** Does once what is to be done before the first call. */
  readonly tidy: () => Promise<void>;
}

/** The writer of batches below the folder `path`. */
export function createBatchWriter<Item extends BatchItem>(
  folder: Folder,
  path: string,
  { clock }: Pick<ConnectorContext, 'clock'>,
  form: BatchForm<Item>,
) {
  const ready = joinPath(path, 'ready');
  let isTidy = false;
  const tidy = async () => {
    if (isTidy) return;
    await removeLeftovers(folder, ready, leftovers, clock.nowMs());
    isTidy = true;
  };
  const receiptPath = ({ kind, key }: Keyed) =>
    joinPath(path, 'known', `${sha256(`${kind}\u0000${key}`).slice(0, 32)}.json`);
  const deps: Deps = { folder, clock, ready, receiptPath, tidy };
  return {
    write: (items: readonly Item[], signal: AbortSignal, deadline: Deadline) =>
      writeItems(deps, form, items, { signal, deadline }),
    /** What was written last of these documents, where something was. */
    lookup: async (documents: readonly Keyed[]): Promise<Map<Keyed, Receipt>> => {
      await finishInterrupted(deps);
      return receiptsOf(deps, documents);
    },
  };
}

/** When a write has to stop. */
interface Limits {
  readonly signal: AbortSignal;
  readonly deadline: Deadline;
}

async function writeItems<Item extends BatchItem>(
  deps: Deps,
  form: BatchForm<Item>,
  items: readonly Item[],
  limits: Limits,
): Promise<Outcome[]> {
  const { signal } = limits;
  if (signal.aborted) return items.map(() => stopped);
  const outcomes = new Map<Item, Outcome>();
  try {
    await finishInterrupted(deps);
    const known = await receiptsOf(
      deps,
      items.map(({ document }) => document),
    );
    const wanted = items.filter((item) => {
      const isWritten = known.get(item.document)?.idempotencyKey === item.idempotencyKey;
      // An earlier attempt has written it, and its answer was lost.
      if (isWritten) outcomes.set(item, form.outcomeOf(item, 'before'));
      return !isWritten;
    });
    if (wanted.length > 0) {
      // Later than whatever was written of these items before, also by a process whose clock is ahead.
      const stampMs = Math.max(deps.clock.nowMs(), ...[...known.values()].map((receipt) => receipt.stampMs + 1));
      await writeBatch(deps, form, { items: wanted, stampMs, outcomes }, limits);
    }
  } catch (error) {
    const outcome = signal.aborted && !(error instanceof UnknownOutcome) ? stopped : outcomeOf(error);
    for (const item of items) if (!outcomes.has(item)) outcomes.set(item, outcome);
  }
  return items.map((item) => outcomes.get(item) ?? stopped);
}

/** Steps 2 to 6; adds the outcomes to `outcomes`. */
async function writeBatch<Item extends BatchItem>(
  deps: Deps,
  form: BatchForm<Item>,
  batch: { readonly items: readonly Item[]; readonly stampMs: number; readonly outcomes: Map<Item, Outcome> },
  { signal, deadline }: Limits,
): Promise<void> {
  const { folder, ready } = deps;
  const { items, stampMs, outcomes } = batch;
  const keys = items.map(({ idempotencyKey }) => idempotencyKey).toSorted();
  const id = `${String(stampMs).padStart(13, '0')}-${sha256(keys.join('\n')).slice(0, 12)}`;
  const { written, refused, files } = await form.compose(items, { sequence: id, stampMs }, signal);
  for (const [item, outcome] of refused) outcomes.set(item, outcome);
  if (written.length === 0) return;
  const paths = files.map((_, index) => joinPath(ready, `${id}.${index}`));
  const receipts = written.map(({ item: { document, idempotencyKey }, contentHash, state }): Receipt => {
    const { kind, key } = document;
    return { kind, key, contentHash, state, idempotencyKey, stampMs };
  });
  const made = { files: files.map(({ name }) => name), receipts };
  try {
    for (const [index, { content }] of files.entries()) await folder.write(paths[index] ?? '', content);
    deadline();
    await putFile(folder, joinPath(ready, `${id}.json`), JSON.stringify(made));
  } catch (error) {
    await dropFiles(folder, paths, error);
    throw error;
  }
  await finish(deps, id, made).catch((cause: unknown) => {
    const message = cause instanceof Error ? cause.message : String(cause);
    throw new UnknownOutcome(`the files of a batch did not get their names: ${message}`, { cause });
  });
  for (const { item } of written) outcomes.set(item, form.outcomeOf(item, 'now'));
}

/** Steps 4 to 6. */
async function finish(deps: Deps, id: string, { files, receipts }: z.output<typeof readyForm>): Promise<void> {
  const { folder, ready, receiptPath } = deps;
  for (const [index, name] of files.entries()) await moveIfThere(folder, joinPath(ready, `${id}.${index}`), name);
  const put = async (receipt: Receipt) => {
    const held = await receiptOf(deps, receipt);
    if (held === undefined || held.stampMs < receipt.stampMs)
      await putFile(folder, receiptPath(receipt), JSON.stringify(receipt));
  };
  for (let from = 0; from < receipts.length; from += receiptsAtOnce)
    await Promise.all(receipts.slice(from, from + receiptsAtOnce).map(put));
  await folder.remove(joinPath(ready, `${id}.json`));
}

/** Step 1. */
async function finishInterrupted(deps: Deps): Promise<void> {
  const { folder, ready } = deps;
  await deps.tidy();
  for (const name of (await folder.list(ready)).toSorted()) {
    const id = /^(\d{13}-[0-9a-f]{12})\.json$/.exec(name)?.[1];
    const batch = id === undefined ? undefined : await readOwn(folder, joinPath(ready, name), readyForm);
    if (id !== undefined && batch !== undefined) await finish(deps, id, batch);
  }
}

async function receiptsOf(deps: Deps, documents: readonly Keyed[]): Promise<Map<Keyed, Receipt>> {
  const found = new Map<Keyed, Receipt>();
  for (let from = 0; from < documents.length; from += receiptsAtOnce) {
    const some = documents.slice(from, from + receiptsAtOnce);
    const receipts = await Promise.all(some.map((document) => receiptOf(deps, document)));
    for (const [index, receipt] of receipts.entries()) if (receipt) found.set(some[index] as Keyed, receipt);
  }
  return found;
}

function receiptOf({ folder, receiptPath }: Deps, document: Keyed): Promise<Receipt | undefined> {
  return readOwn(folder, receiptPath(document), receiptForm);
}

/**
 * What the writer has stored at the path; undefined where nothing is. Throws ConfigError for anything else: a server
 * that does not flush files may lose what is in them in a power cut, and only a person can see what the reader has
 * imported.
 */
async function readOwn<Stored>(folder: Folder, path: string, form: z.ZodType<Stored>): Promise<Stored | undefined> {
  const json = await readJson(folder, path);
  if (json === undefined) return undefined;
  const read = form.safeParse(json);
  if (read.success) return read.data;
  throw new ConfigError(
    `${path} in ${folder.place} is damaged: look what the reader has imported last, remove the file, and resume the ` +
      'flow. What is not known to be written then is written again.',
  );
}
