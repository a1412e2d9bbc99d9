/**
 * The end of a call, kept also by a process that stood still. Its timers fire only when it goes on, and by then an answer
 * that waits, or a timer that was to fire earlier, may let the connector send the next thing: at a time when others take
 * the call for over. So whoever asks this signal whether it is aborted looks at the time as well.
 */

/** Its signal is aborted from `timeoutMs` on: at once for who asks it, or for a `fetch` that is given it; soon for who listens. */
export function createDeadline(timeoutMs: number): AbortController {
  const controller = new AbortController();
  const { signal } = controller;
  const endMs = performance.now() + timeoutMs;
  // A machine that was suspended may not have counted that time; a clock may be set back. The sooner end is the safe one.
  const endWallMs = Date.now() + timeoutMs;
  const look = () => {
    if (performance.now() >= endMs || Date.now() >= endWallMs)
      controller.abort(new Error(`no answer within ${timeoutMs} ms`));
  };
  Object.defineProperties(signal, {
    aborted: {
      get: () => {
        look();
        return Reflect.get(AbortSignal.prototype, 'aborted', signal);
      },
    },
    throwIfAborted: {
      value: () => {
        look();
        AbortSignal.prototype.throwIfAborted.call(signal);
      },
    },
  });
  return controller;
}
