/**
 * The simulated world: one virtual time, one queue of events, and processes that live, are paused and die in it. The
 * code under test runs as it is; every call that leaves it (timers, the database, the network, the queue, the ERP)
 * becomes an event here. Before the next event begins, all code that can run has run. So the order of events decides
 * everything that happens, and only the seed chooses that order.
 */
import { AsyncLocalStorage } from 'node:async_hooks';
import { createRandom, type Random } from './random.ts';

/** An invariant that does not hold in this seed: the run ends with it. */
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
/** Far more than any seed needs: a seed that does not end is a failure, too. */
const eventsMax = 200_000;
const epochMicros = Date.UTC(2030, 0, 1) * 1_000;

export class World {
  readonly random: Random;
  readonly lines: string[] = [];
  readonly processes: SimulatedProcess[] = [];
  /** Faults happen only while this is true. */
  chaos = true;
  violation: Violation | undefined;
  /** Called before and after each call that leaves a process: it may kill the process there, or pause it. */
  atBoundary: ((process: SimulatedProcess, where: string) => void) | undefined;
  /** How many calls of `setImmediate` in the code under test are waiting. */
  immediates = 0;
  /** How many turns of Node's event loop a stream of Node may still need. */
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

  /** Virtual time since the beginning. */
  get elapsedMs(): number {
    return (this.#micros - epochMicros) / 1_000;
  }

  log(actor: string, what: string): void {
    const line = `${(this.elapsedMs / 1_000).toFixed(6)} ${actor} ${what}`;
    this.lines.push(line);
    if (this.#echo) process.stdout.write(`${line}\n`);
  }

  /** Records a violation; only the first one counts. */
  violate(invariant: string, detail: string): void {
    this.log('world', `VIOLATION ${invariant}: ${detail}`);
    this.violation ??= new Violation(invariant, detail);
  }

  /** Schedules an event `ms` of virtual time from now. */
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

  /** Runs events until `done`, a violation, or no event is left. Each event ends before the next one begins. */
  async run(done: () => boolean): Promise<void> {
    while (!this.violation && !done()) {
      const event = this.#events.pop();
      if (!event) return;
      if (event.cancelled) continue;
      this.#happened += 1;
      if (this.#happened > eventsMax) this.violate('the bridge becomes idle', `${eventsMax} events and no end`);
      this.#micros = Math.max(this.#micros, event.atMicros);
      await event.run();
      await this.untilIdle();
    }
  }

  /** Resolves when no code can run before the next event. */
  async untilIdle(): Promise<void> {
    do {
      await new Promise((resolve) => realImmediate(resolve));
      this.turns -= 1;
    } while (this.immediates > 0 || this.turns > 0);
    this.turns = 0;
  }

  /** Ends the world: no event happens any more, and waiting code waits for ever. */
  end(): void {
    for (const each of this.processes) each.die();
    this.#events.length = 0;
    // Waiting code keeps its process in memory, and through this list it would keep all the others.
    this.processes.length = 0;
    this.atBoundary = undefined;
  }
}

/** Keeps the list sorted; the earliest event is the last entry. */
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

/**
 * One life of a process, from its start to its end or crash. Afterwards no event is delivered to it, and none of its
 * calls has an effect.
 */
export class SimulatedProcess {
  readonly id: string;
  readonly world: World;
  readonly random: Random;
  /** How far its clock is ahead. */
  readonly skewMs: number;
  readonly startedMs: number;
  alive = true;
  /** Called when it dies. */
  readonly whenDead: (() => void)[] = [];
  /** Functions that remove its listeners from signals. */
  readonly #listening = new Set<() => void>();
  #isPaused = false;
  readonly #held: (() => void)[] = [];

  constructor(world: World, id: string, skewMs: number) {
    this.world = world;
    this.id = id;
    this.skewMs = skewMs;
    this.random = world.random.of(id);
    this.startedMs = world.nowMs;
    world.processes.push(this);
  }

  get isPaused(): boolean {
    return this.#isPaused;
  }

  get nowMs(): number {
    return this.world.nowMs + this.skewMs;
  }

  /** Runs a callback in the process: at once, after its pause, or never if it is dead. */
  deliver(callback: () => void): void {
    if (!this.alive) return;
    if (this.#isPaused) this.#held.push(callback);
    else currentProcess.run(this, callback);
  }

  /**
   * Makes a call that leaves the process. `effect` happens elsewhere after `toMs`, even if the process dies meanwhile;
   * the answer arrives `fromMs` later. A call of a dead process has no effect and never ends.
   */
  beyond<T>(what: string, travel: Travel, effect: () => T | Promise<T>): Promise<T> {
    return this.reach<T>(what, travel, async (answer) => answer(await answeredBy(effect)));
  }

  /** The same, for an effect that may answer long after it began. */
  reach<T>(
    what: string,
    { toMs, fromMs }: Travel,
    effect: (answer: (answered: Answered<T>) => void) => Promise<void>,
  ): Promise<T> {
    if (!this.alive) return never();
    this.world.atBoundary?.(this, `before ${what}`);
    if (!this.alive) return never();
    return new Promise<T>((resolve, reject) => {
      const answer = (answered: Answered<T>) => {
        if (!this.alive) return;
        this.world.atBoundary?.(this, `after ${what}`);
        const complete = () => ('value' in answered ? resolve(answered.value) : reject(answered.error));
        if (fromMs === 0) this.deliver(complete);
        else this.world.after(fromMs, () => this.deliver(complete));
      };
      this.world.after(toMs, () => effect(answer));
    });
  }

  /**
   * Calls `abort` when the signal aborts, until the returned function is called or the process dies. Node keeps a
   * signal in memory that has listeners; with it the whole world would stay in memory.
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

  /** The process runs no code for `ms`; what is delivered to it meanwhile waits. */
  pause(ms: number): void {
    if (!this.alive || this.#isPaused) return;
    this.world.log(this.id, `is paused for ${ms} ms`);
    this.#isPaused = true;
    this.world.after(ms, () => this.resume());
  }

  resume(): void {
    if (!this.alive || !this.#isPaused) return;
    this.world.log(this.id, 'resumes');
    this.#isPaused = false;
    for (const callback of this.#held.splice(0)) this.deliver(callback);
  }

  die(): void {
    if (!this.alive) return;
    this.alive = false;
    this.#held.length = 0;
    for (const each of this.whenDead.splice(0)) each();
    for (const stop of this.#listening) stop();
  }
}

/** A new promise for each caller: a shared one would keep all its callers in memory. */
function never(): Promise<never> {
  return new Promise(() => undefined);
}

export type Answered<T> = { value: T } | { error: unknown };

interface Travel {
  readonly toMs: number;
  readonly fromMs: number;
}

async function answeredBy<T>(effect: () => T | Promise<T>): Promise<Answered<T>> {
  try {
    return { value: await effect() };
  } catch (error) {
    return { error };
  }
}
