/**
 * The deadline of a call. It also holds in a process that was frozen (SIGSTOP, a suspended machine). When such a
 * process runs again, its timers fire late: an answer that has arrived meanwhile, or an earlier timer, may come first
 * and let the connector send its next request, at a time when other processes believe that the call is over. Therefore
 * reading this signal's `aborted` compares the time as well.
 */

/**
 * Returns a controller whose signal is aborted from `timeoutMs` on. Code that reads `aborted`, and a `fetch` that is
 * started with the signal, see that at once. Listeners are called at the first such read: the caller sets a timer for
 * it.
 */
export function createDeadline(timeoutMs: number): AbortController {
  const controller = new AbortController();
  const { signal } = controller;
  const endMs = performance.now() + timeoutMs;
  // `performance.now()` may not count the time of a suspended machine, and the wall clock may be set back. The earlier
  // of the two ends is safe.
  const endWallMs = Date.now() + timeoutMs;
  const abortIfOver = () => {
    if (performance.now() >= endMs || Date.now() >= endWallMs)
      controller.abort(new Error(`no answer within ${timeoutMs} ms`));
  };
  Object.defineProperties(signal, {
    aborted: {
      get: () => {
        abortIfOver();
        return Reflect.get(AbortSignal.prototype, 'aborted', signal);
      },
    },
    throwIfAborted: {
      value: () => {
        abortIfOver();
        AbortSignal.prototype.throwIfAborted.call(signal);
      },
    },
  });
  return controller;
}
