/**
 * One timer for many deadlines. Nearly all of them pass unused, and to set and clear a timer for each costs more than to
 * look at all of them when the earliest is reached.
 */
export interface SharedTimer {
  /** Makes it end at `atMs` of `performance.now()`, or earlier. */
  setFor(atMs: number): void;
  clear(): void;
}

/**
 * `onTime` handles what has reached its deadline at `nowMs`, and returns the earliest of the other deadlines; Infinity for
 * none. The timer keeps no process alive.
 */
export function createSharedTimer(onTime: (nowMs: number) => number): SharedTimer {
  let setForMs = Number.POSITIVE_INFINITY;
  let timer: NodeJS.Timeout | undefined;

  function setFor(atMs: number): void {
    if (atMs >= setForMs) return;
    clearTimeout(timer);
    setForMs = atMs;
    timer = setTimeout(onTimeout, Math.ceil(atMs - performance.now())).unref();
  }

  function onTimeout(): void {
    setForMs = Number.POSITIVE_INFINITY;
    setFor(onTime(performance.now()));
  }

  return {
    setFor,
    clear() {
      clearTimeout(timer);
      setForMs = Number.POSITIVE_INFINITY;
    },
  };
}
