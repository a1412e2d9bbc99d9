/**
 * The queue between simulated processes: it wakes workers, loses signals, and sometimes wakes two workers for one key.
 */
import type { Signals, Work } from '#platform/queue.ts';
import type { Random } from './random.ts';
import { currentProcess, type SimulatedProcess, type World } from './world.ts';

export interface QueueFaults {
  lost: number;
  /** The chance that a second worker gets a key while the first works on it. */
  twice: number;
}

interface Worker {
  readonly process: SimulatedProcess;
  readonly work: Work;
  readonly concurrency: number;
  running: number;
}

/** How long a key stays locked after its process has died. */
const stalledMs = 30_000;

export class SimulatedQueue {
  readonly #world: World;
  readonly #random: Random;
  readonly #faults: QueueFaults;
  readonly #workers = new Map<string, Worker[]>();
  readonly #waiting = new Set<string>();
  readonly #active = new Map<string, number>();

  constructor(world: World, faults: QueueFaults) {
    this.#world = world;
    this.#random = world.random.of('queue');
    this.#faults = faults;
  }

  /** The queue as one process uses it. */
  signals(process: SimulatedProcess): Signals {
    const controllers = new Set<AbortController>();
    const mine: Worker[] = [];
    let closed = false;
    const here = new Map<string, Worker>();
    const waitingHere = new Set<string>();
    const turns = new Map<string, Promise<void>>();
    const send = (lane: string, keys: readonly string[]) =>
      process.beyond(`signal ${lane} ${keys.join(' ')}`, { toMs: 0.5, fromMs: 0.5 }, () => {
        for (const key of keys) {
          if (this.#world.chaos && this.#random.chance(this.#faults.lost)) continue;
          this.#wake(lane, key);
        }
      });
    const wakeHere: Signals['wakeHere'] = (lane, keys) => {
      const worker = here.get(lane);
      if (!worker || closed) return;
      for (const key of keys) {
        const id = `${lane} ${key}`;
        if (waitingHere.has(id)) continue;
        waitingHere.add(id);
        const turn = (turns.get(id) ?? Promise.resolve()).then(async () => {
          waitingHere.delete(id);
          this.#world.log(process.id, `works ${id}, woken here`);
          await worker.work(key, new AbortController().signal).catch((error: unknown) => {
            this.#world.log(process.id, `work of ${id} failed: ${String(error)}`);
          });
        });
        turns.set(id, turn);
      }
    };
    return {
      signal: async (lane, keys) => {
        if (here.has(lane) && !closed) wakeHere(lane, keys);
        else await send(lane, keys);
      },
      wakeHere,
      work: (lane, { concurrency }, work) => {
        // Code of a dead process still runs to its next await.
        if (!process.alive) return;
        const worker: Worker = {
          process,
          concurrency,
          running: 0,
          work: async (key) => {
            const controller = new AbortController();
            controllers.add(controller);
            if (closed) controller.abort(new Error('the process is stopping'));
            try {
              await work(key, controller.signal);
            } finally {
              controllers.delete(controller);
            }
          },
        };
        mine.push(worker);
        here.set(lane, worker);
        this.#workers.set(lane, [...(this.#workers.get(lane) ?? []), worker]);
        process.whenDead.push(() => this.#remove(lane, worker));
        for (const key of this.#waiting) this.#world.after(1, () => this.#start(key));
      },
      close: async () => {
        closed = true;
        for (const controller of controllers) controller.abort(new Error('the process is stopping'));
        for (const [lane, workers] of this.#workers)
          this.#workers.set(
            lane,
            workers.filter((worker) => !mine.includes(worker)),
          );
        while (mine.some(({ running }) => running > 0))
          await process.beyond('wait', { toMs: 50, fromMs: 0 }, () => undefined);
      },
    };
  }

  #remove(lane: string, worker: Worker): void {
    this.#workers.set(
      lane,
      (this.#workers.get(lane) ?? []).filter((other) => other !== worker),
    );
  }

  #wake(lane: string, key: string): void {
    const id = `${lane} ${key}`;
    if (this.#waiting.has(id)) return;
    this.#waiting.add(id);
    this.#world.after(0.5 + this.#random.fraction() * 3, () => this.#start(id));
  }

  #start(id: string): void {
    if (!this.#waiting.has(id)) return;
    const isActive = (this.#active.get(id) ?? 0) > 0;
    if (isActive && !(this.#world.chaos && this.#random.chance(this.#faults.twice))) return;
    const [lane = '', key = ''] = id.split(' ');
    const free = (this.#workers.get(lane) ?? []).filter(({ running, concurrency }) => running < concurrency);
    if (free.length === 0) return;
    const worker = this.#random.pick(free);
    this.#waiting.delete(id);
    this.#active.set(id, (this.#active.get(id) ?? 0) + 1);
    worker.running += 1;
    let over = false;
    const end = () => {
      if (over) return;
      over = true;
      worker.running -= 1;
      this.#active.set(id, (this.#active.get(id) ?? 1) - 1);
      // A waiting key may have waited for this key, or for a worker of this lane.
      for (const other of this.#waiting) this.#world.after(0.5, () => this.#start(other));
    };
    worker.process.whenDead.push(() => this.#world.after(stalledMs * this.#random.fraction(), end));
    worker.process.deliver(() => {
      this.#world.log(worker.process.id, `works ${id}`);
      worker.work(key, new AbortController().signal).then(
        () => end(),
        (error: unknown) => {
          this.#world.log(worker.process.id, `work of ${id} failed: ${String(error)}`);
          end();
        },
      );
    });
  }
}

export function processHere(): SimulatedProcess {
  const process = currentProcess.getStore();
  if (!process) throw new Error('This runs only in a simulated process.');
  return process;
}
