/**
 * The request to stop: SIGTERM from a service manager, Ctrl-C, or the end of the terminal. After the first one the
 * program closes what it has opened, also while it is starting. A second one ends the process at once.
 */
import { errorText } from '#platform/errors.ts';

export interface StopRequest extends Disposable {
  readonly signal: AbortSignal;
  /** Resolves when the program must stop. */
  readonly requested: Promise<void>;
}

/** One Ctrl-C may arrive twice: the terminal signals every process, and npm passes its own signal on. */
const echoMs = 1_000;

/**
 * Call it before anything is opened: before the call, and once it is disposed of, a signal ends the process at once.
 * With `hangUp` SIGHUP does not stop the program, unless it is its terminal that ends: it asks for something else.
 */
export function listenForStop({ hangUp = false }: { hangUp?: boolean } = {}): StopRequest {
  const controller = new AbortController();
  const { promise: requested, resolve } = Promise.withResolvers<void>();
  let firstMs: number | undefined;
  const stop = () => {
    const nowMs = performance.now();
    firstMs ??= nowMs;
    if (!controller.signal.aborted) {
      controller.abort();
      resolve();
    } else if (nowMs - firstMs > echoMs) {
      console.error('Ended before everything was closed. Nothing is lost: the next start continues from here.');
      process.exit(1);
    }
  };
  const goOn = () => undefined;
  const listeners = [
    ['SIGINT', stop],
    ['SIGTERM', stop],
    ['SIGHUP', hangUp && !process.stdout.isTTY ? goOn : stop],
  ] as const;
  for (const [signal, listener] of listeners) process.on(signal, listener);
  return {
    signal: controller.signal,
    requested,
    [Symbol.dispose]: () => {
      for (const [signal, listener] of listeners) process.off(signal, listener);
    },
  };
}

/**
 * How long a program may take to close: what it closes may wait for a database that does not answer, or whose files are
 * gone. Service managers expect an end within ten seconds.
 */
const closeWithinMs = 9_500;

/**
 * Resolves when the program is asked to stop. Throws the reason of `gone` when that aborts before. A program that is not
 * closed in time from then on is ended, after it has said so: to be killed at any instant loses nothing.
 */
export async function untilStopped(stop: StopRequest, gone: AbortSignal): Promise<void> {
  const { promise: lost, resolve } = Promise.withResolvers<void>();
  gone.addEventListener('abort', () => resolve(), { once: true });
  if (gone.aborted) resolve();
  await Promise.race([stop.requested, lost]);
  setTimeout(() => {
    console.error(
      gone.aborted
        ? errorText(gone.reason)
        : 'Ended before everything was closed, as the database, or another program, did not answer in time. ' +
            'Nothing is lost: the next start continues from here.',
    );
    process.exit(1);
  }, closeWithinMs).unref();
  if (gone.aborted) throw gone.reason;
}
