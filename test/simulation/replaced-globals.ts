/**
 * Time and random numbers as simulated processes see them: timers, `performance.now`, `Date.now`, `Math.random` and
 * random ids. Code that runs in no simulated process gets the real ones, so tests around it are not affected.
 */
import crypto from 'node:crypto';
import { syncBuiltinESMExports } from 'node:module';
import timers from 'node:timers';
import timersPromises from 'node:timers/promises';
import { currentProcess, type SimulatedEvent, type SimulatedProcess } from './world.ts';

type Callback = (...args: unknown[]) => void;

class SimulatedTimer {
  readonly #process: SimulatedProcess;
  readonly #callback: () => void;
  readonly #ms: number;
  readonly #repeats: boolean;
  #event: SimulatedEvent | undefined;

  constructor(process: SimulatedProcess, callback: () => void, ms: number, repeats: boolean) {
    this.#process = process;
    this.#callback = callback;
    this.#ms = Math.max(1, Number.isFinite(ms) ? ms : 1);
    this.#repeats = repeats;
    this.refresh();
  }

  refresh(): this {
    this.close();
    if (!this.#process.alive) return this;
    const event = this.#process.world.after(this.#ms, () =>
      this.#process.deliver(() => {
        // The timer was cleared while the process was paused, or by another timer before it.
        if (this.#event !== event) return;
        this.#event = undefined;
        if (this.#repeats) this.refresh();
        this.#callback();
      }),
    );
    this.#event = event;
    return this;
  }

  close(): this {
    if (this.#event) this.#event.cancelled = true;
    this.#event = undefined;
    return this;
  }

  ref(): this {
    return this;
  }

  unref(): this {
    return this;
  }

  hasRef(): boolean {
    return true;
  }

  [Symbol.dispose](): void {
    this.close();
  }
}

const real = {
  setTimeout: globalThis.setTimeout,
  setInterval: globalThis.setInterval,
  setImmediate: globalThis.setImmediate,
  clearTimeout: globalThis.clearTimeout,
  clearInterval: globalThis.clearInterval,
  sleep: timersPromises.setTimeout,
  performanceNow: performance.now.bind(performance),
  dateNow: Date.now,
  random: Math.random.bind(Math),
  abortAfter: AbortSignal.timeout.bind(AbortSignal),
  randomUUID: crypto.randomUUID,
  randomInt: crypto.randomInt,
  randomBytes: crypto.randomBytes,
};

function replaceStart(repeats: boolean, original: (...args: never[]) => unknown) {
  return (callback: Callback, ms = 1, ...args: unknown[]) => {
    const process = currentProcess.getStore();
    if (!process) return (original as (...given: unknown[]) => unknown)(callback, ms, ...args);
    return new SimulatedTimer(process, () => callback(...args), ms, repeats);
  };
}

function replaceStop(original: (timer: never) => void) {
  return (timer: unknown) => {
    if (timer instanceof SimulatedTimer) timer.close();
    else original(timer as never);
  };
}

function immediately(callback: Callback, ...args: unknown[]) {
  const process = currentProcess.getStore();
  if (!process) return real.setImmediate(callback, ...args);
  const { world } = process;
  world.immediates += 1;
  return real.setImmediate(() => {
    world.immediates -= 1;
    if (process.alive) callback(...args);
  });
}

function sleep(ms = 1, value?: unknown, options?: { signal?: AbortSignal }): Promise<unknown> {
  const process = currentProcess.getStore();
  if (!process) return real.sleep(ms, value, options);
  return sleepIn(process, ms, options?.signal).then(() => value);
}

/** Resolves after `ms` of virtual time; rejects when the signal aborts. */
export function sleepIn(process: SimulatedProcess, ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) {
      reject(signal.reason as Error);
      return;
    }
    const onAbort = () => {
      timer.close();
      reject(signal?.reason as Error);
    };
    const timer = new SimulatedTimer(
      process,
      () => {
        stopListening();
        resolve();
      },
      ms,
      false,
    );
    const stopListening = process.listen(signal, onAbort);
  });
}

function abortAfter(ms: number): AbortSignal {
  const process = currentProcess.getStore();
  if (!process) return real.abortAfter(ms);
  const controller = new AbortController();
  const reason = new DOMException('The operation was aborted due to timeout', 'TimeoutError');
  void new SimulatedTimer(process, () => controller.abort(reason), ms, false);
  return controller.signal;
}

/** Replaces the globals in this process of Node; returns the function that restores them. */
export function replaceGlobals(): () => void {
  const setTimeout = replaceStart(false, real.setTimeout);
  const setInterval = replaceStart(true, real.setInterval);
  const clearTimeout = replaceStop(real.clearTimeout);
  const clearInterval = replaceStop(real.clearInterval);
  const simulated = { setTimeout, setInterval, clearTimeout, clearInterval, setImmediate: immediately };
  Object.assign(globalThis, simulated);
  Object.assign(timers, simulated);
  Object.assign(timersPromises, { setTimeout: sleep });
  const random = () => currentProcess.getStore()?.random;
  performance.now = () => {
    const process = currentProcess.getStore();
    return process ? process.world.elapsedMs : real.performanceNow();
  };
  Date.now = () => currentProcess.getStore()?.nowMs ?? real.dateNow();
  AbortSignal.timeout = abortAfter;
  Math.random = () => random()?.fraction() ?? real.random();
  Object.assign(crypto, {
    randomUUID: () => random()?.uuid() ?? real.randomUUID(),
    randomInt: (least: number, below: number) => random()?.whole(least, below - 1) ?? real.randomInt(least, below),
    randomBytes: (size: number) => {
      const generator = random();
      return generator
        ? Buffer.from(Array.from({ length: size }, () => generator.whole(0, 255)))
        : real.randomBytes(size);
    },
  });
  syncBuiltinESMExports();
  return () => {
    const { sleep: realSleep, performanceNow, dateNow, random: realRandom, randomUUID, randomInt, randomBytes } = real;
    const { setTimeout, setInterval, clearTimeout, clearInterval, setImmediate } = real;
    const own = { setTimeout, setInterval, clearTimeout, clearInterval, setImmediate };
    Object.assign(globalThis, own);
    Object.assign(timers, own);
    Object.assign(timersPromises, { setTimeout: realSleep });
    performance.now = performanceNow;
    Date.now = dateNow;
    AbortSignal.timeout = real.abortAfter;
    Math.random = realRandom;
    Object.assign(crypto, { randomUUID, randomInt, randomBytes });
    syncBuiltinESMExports();
  };
}
