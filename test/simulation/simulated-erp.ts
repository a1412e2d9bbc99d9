/**
 * An ERP in which every mistake shows. It has no idempotency: each `create` makes an object. A call may take effect
 * long after its caller has given up. And it remembers every object that was ever made.
 */

import { z } from 'zod';
import type { Connector, Found, Operation, Outcome, OutcomeError, Session } from '#connector/connector.ts';
import { type Document, documentKinds } from '#connector/documents.ts';
import { errorText } from '#platform/errors.ts';
import type { Random } from './random.ts';
import { currentProcess, type SimulatedProcess, type World } from './world.ts';

export interface ErpQuirks {
  batchMax: number;
  concurrency: number;
  timeoutMs: number;
  lateEffectMs: number;
  /** Whether `lookup` returns the hash of the content that was written last. */
  knowsHashes: boolean;
  /** How long a connector sometimes goes on after its signal was aborted. */
  stubbornMs: number;
  /** `lookup` finds no object, although there are some. */
  forgets?: boolean;
}

/** Chances per call, or per operation. */
export interface ErpFaults {
  lostBefore: number;
  lostAnswer: number;
  hang: number;
  slow: number;
  transient: number;
  limited: number;
  locked: number;
  data: number;
  conflict: number;
  auth: number;
  garbled: number;
  lookupFails: number;
}

interface ErpObject {
  readonly reference: string;
  readonly key: string;
  content: Document;
  contentHash: string;
  /** Of a file: its bytes as text. */
  text: string | undefined;
  living: boolean;
}

interface ToSend {
  readonly operation: Operation;
  /** The bytes of its file as text. */
  readonly text: string | undefined;
}

/** An operation that was sent to the ERP and is not carried out yet. */
interface Underway extends ToSend {
  cancelled: boolean;
}

/** How much may be withdrawn before an operator agrees to more. */
export interface WithdrawalRule {
  readonly most: number;
  readonly share: number;
  /** The keys of the documents that the source wants now. */
  readonly wanted: () => ReadonlySet<string>;
}

export class SimulatedErp {
  readonly objects: ErpObject[] = [];
  withdrawalRule: WithdrawalRule | undefined;
  /** The keys of documents that were cancelled, and not wanted again since. */
  readonly #withdrawn = new Set<string>();
  readonly quirks: ErpQuirks;
  readonly #faults: ErpFaults;
  readonly #world: World;
  readonly #random: Random;

  constructor(world: World, quirks: ErpQuirks, faults: ErpFaults, name: string) {
    this.#world = world;
    this.#random = world.random.of(name);
    this.quirks = quirks;
    this.#faults = faults;
  }

  living(): Map<string, ErpObject> {
    return new Map(this.objects.filter(({ living }) => living).map((object) => [object.key, object]));
  }

  /** The source has changed: a document that it wants again no longer counts as withdrawn. */
  forgetWithdrawals(): void {
    if (this.#withdrawn.size === 0) return;
    for (const key of this.withdrawalRule?.wanted() ?? []) this.#withdrawn.delete(key);
  }

  connector(): Connector {
    const { batchMax, concurrency, timeoutMs, lateEffectMs } = this.quirks;
    return {
      name: 'simulated',
      settings: z.looseObject({}),
      capabilities: { kinds: documentKinds, batchMax, concurrency, timeoutMs, lateEffectMs, idempotency: 'lookup' },
      open: async () => this.#open(),
    };
  }

  #open(): Session {
    const process = currentProcess.getStore();
    if (!process) throw new Error('A session was opened outside of a simulated process.');
    const writing = new Set<readonly string[]>();
    let lookups = 0;
    const guard = (operations: readonly Operation[]) => {
      const keys = operations.map(({ document }) => keyOf(document));
      const violate = (detail: string) => this.#world.violate('a connector is called as it declares', detail);
      if (operations.length > this.quirks.batchMax) violate(`${operations.length} operations in one call`);
      if (new Set(operations.map(({ document }) => document.kind)).size > 1) violate('two kinds in one call');
      if (writing.size >= this.quirks.concurrency) violate('more calls at once than it declares');
      if (lookups > 0) violate('write during a lookup');
      const busy = new Set([...writing].flat());
      if (new Set(keys).size < keys.length || keys.some((key) => busy.has(key))) violate('the same key twice at once');
      return keys;
    };
    return {
      check: async () => [{ name: 'reachable', ok: true, message: 'simulated' }],
      write: async (operations, signal) => {
        const keys = guard(operations);
        writing.add(keys);
        try {
          return await this.#writeWithFiles(process, operations, signal);
        } finally {
          writing.delete(keys);
        }
      },
      lookup: async (documents, signal) => {
        if (writing.size > 0) this.#world.violate('a connector is called as it declares', 'lookup during a write');
        lookups += 1;
        try {
          return await this.#lookup(process, documents, signal);
        } finally {
          lookups -= 1;
        }
      },
      close: async () => undefined,
    };
  }

  /** Loads the files that are to be written; an operation whose file cannot be loaded is not sent. */
  async #writeWithFiles(process: SimulatedProcess, operations: readonly Operation[], signal: AbortSignal) {
    if (!operations.some(needsFile)) return this.#write(process, operations.map(withoutFile), signal);
    const loaded = await Promise.all(operations.map((operation) => this.#load(operation, signal)));
    const sent = loaded.filter((each) => 'operation' in each);
    const outcomes = sent.length > 0 ? await this.#write(process, sent, signal) : [];
    return loaded.flatMap((each) => {
      if (!('operation' in each)) return [each];
      const outcome = outcomes[sent.indexOf(each)];
      return outcome === undefined ? [] : [outcome];
    });
  }

  async #load(operation: Operation, signal: AbortSignal): Promise<ToSend | Outcome> {
    if (!needsFile(operation)) return withoutFile(operation);
    const { file } = operation;
    if (!file) {
      this.#world.violate(
        'a connector is called as it declares',
        `${keyOf(operation.document)} comes without its file`,
      );
      return { status: 'rejected', error: { type: 'data', message: 'there is no file' } };
    }
    try {
      return { operation, text: Buffer.from(await file.read(signal)).toString() };
    } catch (error) {
      return { status: 'retry', error: { type: 'transient', message: errorText(error) } };
    }
  }

  /**
   * Sends one request with all operations. The ERP carries them out one after the other, and answers after the last.
   */
  async #write(process: SimulatedProcess, operations: readonly ToSend[], signal: AbortSignal): Promise<Outcome[]> {
    // As a fetch with the signal does: a process that was frozen while it loaded files sends nothing after its time.
    signal.throwIfAborted();
    const random = this.#random;
    const faulty = (chance: number) => this.#world.chaos && random.chance(chance);
    const lostBefore = faulty(this.#faults.lostBefore);
    const lostAnswer = faulty(this.#faults.lostAnswer);
    const hangs = faulty(this.#faults.hang);
    const stubborn = faulty(this.#faults.hang);
    const durationMs = faulty(this.#faults.slow)
      ? this.quirks.timeoutMs * (0.5 + random.fraction())
      : 5 + 100 * random.fraction();
    const underway: Underway[] = operations.map((operation) => ({ ...operation, cancelled: false }));
    const stop = cutWhen(process, signal, () => this.#cut(underway));
    const call = process.reach<Outcome[]>(
      'call the ERP',
      { toMs: 1 + 30 * random.fraction(), fromMs: 1 + 30 * random.fraction() },
      async (answer) => {
        if (lostBefore) {
          // It has never reached the ERP: it takes no effect later either, when a process that was frozen gives it up.
          for (const each of underway) each.cancelled = true;
          if (!hangs) answer({ error: new Error('the connection to the ERP was reset') });
          return;
        }
        const refusal = this.#refusal();
        if (refusal) {
          for (const each of underway) each.cancelled = true;
          this.#world.log('erp', `refuses a call: ${refusal.type}`);
          const status = refusal.type === 'auth' ? 'rejected' : 'retry';
          answer({ value: operations.map(() => ({ status, error: refusal })) });
          return;
        }
        const outcomes: Outcome[] = [];
        for (const [index, each] of underway.entries())
          this.#world.after((durationMs * (index + 1)) / underway.length, () => {
            if (each.cancelled) return;
            each.cancelled = true;
            outcomes[index] = this.#carryOut(each, random);
            if (outcomes.filter(Boolean).length < underway.length || hangs) return;
            if (lostAnswer) answer({ error: new Error('the connection to the ERP was lost') });
            else answer({ value: faulty(this.#faults.garbled) ? outcomes.slice(1) : outcomes });
          });
      },
    );
    try {
      return await unlessAborted(call, process, signal, stubborn ? this.quirks.stubbornMs : 10);
    } finally {
      stop();
    }
  }

  /** The caller has gone: an operation that was sent may still take effect within `lateEffectMs`, or never. */
  #cut(underway: readonly Underway[]): void {
    for (const each of underway) {
      if (each.cancelled) continue;
      each.cancelled = true;
      if (!this.#random.chance(0.6)) continue;
      const ms = this.quirks.lateEffectMs * this.#random.fraction();
      this.#world.after(ms, () => this.#carryOut(each, this.#random));
    }
  }

  #refusal(): OutcomeError | undefined {
    if (!this.#world.chaos) return undefined;
    if (this.#random.chance(this.#faults.auth)) return { type: 'auth', message: 'the password has expired' };
    if (this.#random.chance(this.#faults.limited))
      return {
        type: 'rate-limited',
        message: 'too many calls',
        ...(this.#random.chance(0.5) ? { retryAfterMs: this.#random.whole(100, 20_000) } : {}),
      };
    return undefined;
  }

  #carryOut({ operation, text }: ToSend, random: Random): Outcome {
    const { action, document, reference } = operation;
    const key = keyOf(document);
    const faulty = (chance: number) => this.#world.chaos && random.chance(chance);
    const log = (what: string) => this.#world.log('erp', `${action} ${key.slice(0, 60)} ${what}`);
    for (const type of ['transient', 'locked', 'data', 'conflict'] as const)
      if (faulty(this.#faults[type])) {
        log(`refused: ${type}`);
        const status = type === 'data' || type === 'conflict' ? 'rejected' : 'retry';
        return { status, error: { type, message: `the ERP says ${type}` } };
      }
    const living = this.objects.filter((object) => object.key === key && object.living);
    if (action === 'create') {
      const made = {
        reference: `OBJ-${this.objects.length + 1}`,
        key,
        content: document,
        contentHash: operation.contentHash,
        text,
        living: true,
      };
      this.objects.push(made);
      log(`makes ${made.reference} ${operation.contentHash.slice(0, 6)}`);
      if (living.length > 0) this.#world.violate('each object is made once', `${key} has ${living.length + 1} objects`);
      return { status: 'created', reference: made.reference };
    }
    const object = living.find((candidate) => candidate.reference === reference);
    if (!object) {
      log(`of ${reference}, which is not there`);
      this.#world.violate('only an object that exists is changed', `${action} of ${key} as ${reference}`);
      return { status: 'rejected', error: { type: 'data', message: 'there is no such object' } };
    }
    log(`of ${reference} ${operation.contentHash.slice(0, 6)}`);
    if (action === 'cancel') {
      object.living = false;
      this.#countWithdrawal(key);
      return { status: 'cancelled', reference: object.reference };
    }
    object.content = document;
    object.contentHash = operation.contentHash;
    object.text = text;
    return { status: 'updated', reference: object.reference };
  }

  #countWithdrawal(key: string): void {
    const rule = this.withdrawalRule;
    if (!rule || rule.wanted().has(key)) return;
    this.#withdrawn.add(key);
    const made = new Set(this.objects.map((object) => object.key)).size;
    const count = this.#withdrawn.size;
    if (count > rule.most && count > rule.share * made)
      this.#world.violate(
        'no more is withdrawn than the operator agreed to',
        `${count} of ${made} objects were cancelled`,
      );
  }

  async #lookup(process: SimulatedProcess, documents: readonly Document[], signal: AbortSignal): Promise<Found[]> {
    const random = this.#random;
    const travel = { toMs: 1 + 30 * random.fraction(), fromMs: 1 + 30 * random.fraction() };
    const call = process.beyond('look up in the ERP', travel, () => {
      if (this.#world.chaos && random.chance(this.#faults.lookupFails)) throw new Error('the ERP does not answer');
      const living = this.quirks.forgets ? new Map<string, ErpObject>() : this.living();
      const found = documents.flatMap((document) => {
        const object = living.get(keyOf(document));
        if (!object) return [];
        const contentHash = this.quirks.knowsHashes ? object.contentHash : undefined;
        return [{ key: document.key, reference: object.reference, contentHash }];
      });
      this.#world.log('erp', `lookup of ${documents.length}: ${found.map(({ reference }) => reference).join(' ')}`);
      return found;
    });
    return unlessAborted(call, process, signal, 10);
  }
}

function needsFile({ action, document }: Operation): boolean {
  return document.kind === 'file' && action !== 'cancel';
}

function withoutFile(operation: Operation): ToSend {
  return { operation, text: undefined };
}

function keyOf({ kind, key }: Pick<Document, 'kind' | 'key'>): string {
  return `${kind} ${key}`;
}

/** Calls `cut` once, when the caller gives up or dies; returns a function that prevents it. */
function cutWhen(process: SimulatedProcess, signal: AbortSignal, cut: () => void): () => void {
  let over = false;
  const once = () => {
    if (over) return;
    over = true;
    cut();
  };
  const stopListening = process.listen(signal, once);
  process.whenDead.push(once);
  return () => {
    over = true;
    stopListening();
  };
}

/** Rejects `ms` after the signal was aborted, unless the call has ended by then. */
async function unlessAborted<T>(call: Promise<T>, process: SimulatedProcess, signal: AbortSignal, ms: number) {
  const { promise: aborted, reject } = Promise.withResolvers<never>();
  const stopped = () => reject(new Error('the call was stopped'));
  const rejectLater = () => process.world.after(ms, () => process.deliver(stopped));
  if (signal.aborted) rejectLater();
  const stopListening = process.listen(signal, rejectLater);
  try {
    return await Promise.race([call, aborted]);
  } finally {
    stopListening();
  }
}
