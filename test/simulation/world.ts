/**
 * The simulated world: one virtual time, one queue of events, and processes that live, stand still and die in it. The
 * code under test runs as it is; whatever leaves it (timers, the database, the network, the queue, the ERP) becomes an
 * event here. Between two events everything that can run has run, so the order of events is the whole of what happens,
 * and the seed alone chooses it.
 */
import { AsyncLocalStorage } from 'node:async_hooks';
import { createRandom, type Random } from './random.ts';

/** What the seed has broken: the run ends with it. */
export class Violation extends Error {
  constructor(invariant: string, detail: string) {
    super(`${invariant}: ${detail}`);
    this.name = 'Violation';
  }
}

export interface SimulatedEvent {
  readonly atMicros: number;
  readonly order: number;
  readonly run: () => unknown;
  cancelled: boolean;
}

/** The process that the running code belongs to; undefined in the simulation itself and outside of one. */
export const currentProcess = new AsyncLocalStorage<SimulatedProcess>();

/** Taken before timers are replaced. */
const realImmediate = setImmediate;
/** Far more than any seed needs: one that does not end is a fault, too. */
const eventsMost = 200_000;
const epochMicros = Date.UTC(2030, 0, 1) * 1_000;

export class World {
  readonly random: Random;
  readonly lines: string[] = [];
  readonly processes: SimulatedProcess[] = [];
  /** Faults happen only while this is true. */
  chaos = true;
  violation: Violation | undefined;
  /** Asked at each edge: it may kill the process there, or make it stand still. */
  atProxy: ((process: SimulatedProcess, where: string) => void) | undefined;
  /** What runs beyond promises: `setImmediate` of the code under test. */
  immediates = 0;
  /** Turns of Node's event loop that something may still need that is not ours: a stream's. */
  turns = 0;
  #micros = epochMicros;
  #order = 0;
  #happened = 0;
  readonly #events: SimulatedEvent[] = [];
  readonly #echo: boolean;

  constructor(seed: string, echo = false) {
    this.random = createRandom(seed);
    this.#echo = echo;
  }

  get nowMicros(): number {
    return this.#micros;
  }

  get nowMs(): number {
    return Math.floor(this.#micros / 1_000);
  }

  /** Since the beginning. */
  get elapsedMs(): number {
    return (this.#micros - epochMicros) / 1_000;
  }

  log(who: string, what: string): void {
    const line = `${(this.elapsedMs / 1_000).toFixed(6)} ${who} ${what}`;
    this.lines.push(line);
    if (this.#echo) process.stdout.write(`${line}\n`);
  }

  /** The first one counts. */
  violate(invariant: string, detail: string): void {
    this.log('world', `VIOLATION ${invariant}: ${detail}`);
    this.violation ??= new Violation(invariant, detail);
  }

  after(ms: number, run: () => unknown): SimulatedEvent {
    const event = {
      atMicros: this.#micros + Math.max(0, Math.round(ms * 1_000)),
      order: this.#order++,
      run,
      cancelled: false,
    };
    insertSorted(this.#events, event);
    return event;
  }

  /** Lets events happen until `done`, a violation, or nothing is left. Each is over before the next one begins. */
  async run(done: () => boolean): Promise<void> {
    while (!this.violation && !done()) {
      const event = this.#events.pop();
      if (!event) return;
      if (event.cancelled) continue;
      this.#happened += 1;
      if (this.#happened > eventsMost) this.violate('it comes to rest', `${eventsMost} events and no end`);
      this.#micros = Math.max(this.#micros, event.atMicros);
      await event.run();
      await this.settle();
    }
  }

  /** Resolves when nothing can run before the next event. */
  async settle(): Promise<void> {
    do {
      await new Promise((resolve) => realImmediate(resolve));
      this.turns -= 1;
    } while (this.immediates > 0 || this.turns > 0);
    this.turns = 0;
  }

  /** Nothing happens any more; whatever waits, waits for ever. */
  end(): void {
    for (const each of this.processes) each.die();
    this.#events.length = 0;
    // What still waits holds its process, and would hold all of the others, too.
    this.processes.length = 0;
    this.atProxy = undefined;
  }
}

/** The earliest stands last. */
function insertSorted(events: SimulatedEvent[], event: SimulatedEvent): void {
  let low = 0;
  let high = events.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    const other = events[middle] as SimulatedEvent;
    if (other.atMicros > event.atMicros || (other.atMicros === event.atMicros && other.order > event.order))
      low = middle + 1;
    else high = middle;
  }
  events.splice(low, 0, event);
}

/** One life of a process: from its start to its end or its crash. Nothing reaches it afterwards, and it reaches nothing. */
export class SimulatedProcess {
  readonly id: string;
  readonly world: World;
  readonly random: Random;
  /** How far its clock is off. */
  readonly skewMs: number;
  readonly startedMs: number;
  alive = true;
  /** Called when it dies. */
  readonly whenDead: (() => void)[] = [];
  /** What call off its listening to signals. */
  readonly #listening = new Set<() => void>();
  #standsStill = false;
  readonly #held: (() => void)[] = [];

  constructor(world: World, id: string, skewMs: number) {
    this.world = world;
    this.id = id;
    this.skewMs = skewMs;
    this.random = world.random.of(id);
    this.startedMs = world.nowMs;
    world.processes.push(this);
  }

  get standsStill(): boolean {
    return this.#standsStill;
  }

  get nowMs(): number {
    return this.world.nowMs + this.skewMs;
  }

  /** Hands something to the process: at once, when it goes on again, or never. */
  deliver(give: () => void): void {
    if (!this.alive) return;
    if (this.#standsStill) this.#held.push(give);
    else currentProcess.run(this, give);
  }

  /**
   * What a call beyond the process comes to: `effect` happens elsewhere after `toMs`, whatever becomes of the process
   * meanwhile; the answer arrives after `fromMs` more. A dead process calls nothing.
   */
  beyond<T>(what: string, travel: Travel, effect: () => T | Promise<T>): Promise<T> {
    return this.reach<T>(what, travel, async (answer) => answer(await settled(effect)));
  }

  /** The same for an effect that may be answered long after it began. */
  reach<T>(
    what: string,
    { toMs, fromMs }: Travel,
    effect: (answer: (answered: Answered<T>) => void) => Promise<void>,
  ): Promise<T> {
    if (!this.alive) return never();
    this.world.atProxy?.(this, `before ${what}`);
    if (!this.alive) return never();
    return new Promise<T>((resolve, reject) => {
      const answer = (answered: Answered<T>) => {
        if (!this.alive) return;
        this.world.atProxy?.(this, `after ${what}`);
        const give = () => ('value' in answered ? resolve(answered.value) : reject(answered.error));
        if (fromMs === 0) this.deliver(give);
        else this.world.after(fromMs, () => this.deliver(give));
      };
      this.world.after(toMs, () => effect(answer));
    });
  }

  /**
   * Calls `abort` when the signal aborts, until what this gives is called or the process dies: Node keeps a signal alive
   * that is listened to, and with it would stay all of this world.
   */
  listen(signal: AbortSignal | undefined, abort: () => void): () => void {
    const stop = () => {
      signal?.removeEventListener('abort', abort);
      this.#listening.delete(stop);
    };
    signal?.addEventListener('abort', abort, { once: true });
    this.#listening.add(stop);
    return stop;
  }

  standStill(ms: number): void {
    if (!this.alive || this.#standsStill) return;
    this.world.log(this.id, `stands still for ${ms} ms`);
    this.#standsStill = true;
    this.world.after(ms, () => this.goOn());
  }

  goOn(): void {
    if (!this.alive || !this.#standsStill) return;
    this.world.log(this.id, 'goes on');
    this.#standsStill = false;
    for (const give of this.#held.splice(0)) this.deliver(give);
  }

  die(): void {
    if (!this.alive) return;
    this.alive = false;
    this.#held.length = 0;
    for (const each of this.whenDead.splice(0)) each();
    for (const stop of this.#listening) stop();
  }
}

/** One for each that waits: whoever waits for a promise lives as long as the promise. */
function never(): Promise<never> {
  return new Promise(() => undefined);
}

export type Answered<T> = { value: T } | { error: unknown };

interface Travel {
  readonly toMs: number;
  readonly fromMs: number;
}

async function settled<T>(effect: () => T | Promise<T>): Promise<Answered<T>> {
  try {
    return { value: await effect() };
  } catch (error) {
    return { error };
  }
}
