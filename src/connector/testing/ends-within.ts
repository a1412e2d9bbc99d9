import type { FaultProxy } from './fault-proxy.ts';
import { CheckFailure } from './finding.ts';

/**
 * Returns the result of `running`, or rejects with CheckFailure when it takes longer than `ms`. `running` is not
 * stopped then; its end is ignored.
 */
export async function endsWithin<T>(ms: number, what: string, lookAt: string, running: Promise<T>): Promise<T> {
  const { promise: timeout, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(
    () => reject(new CheckFailure({ expected: `${what} ends within ${ms} ms`, seen: 'it has not ended', lookAt })),
    ms,
  );
  try {
    return await Promise.race([running, timeout]);
  } finally {
    clearTimeout(timer);
  }
}

const patienceMs = 1_000;

/** Aborts a call once its first request runs. Returns its result; rejects with CheckFailure when it does not end in time. */
export async function abortAndEnd<T>(
  proxy: FaultProxy | undefined,
  stopMs: number,
  what: string,
  call: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const stop = new AbortController();
  const running = call(stop.signal);
  const over = running.catch(() => undefined);
  // A call may send no request at all, or wait for something else first.
  const patience = Promise.withResolvers<void>();
  const timer = setTimeout(patience.resolve, patienceMs);
  await Promise.race([proxy?.untilRequest(1), over, patience.promise]);
  clearTimeout(timer);
  stop.abort(new Error('the conformance kit stops this call'));
  return endsWithin(
    stopMs,
    `${what} that was aborted`,
    'whether the signal is passed on to every request and wait',
    running,
  );
}
