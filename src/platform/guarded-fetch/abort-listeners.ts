/**
 * One listener per abort signal, for all exchanges that the signal ends. Many exchanges share one signal, and a
 * listener costs more than an entry in a set.
 */
export interface Abortable {
  end(reason: 'aborted'): void;
}

interface Listener {
  readonly exchanges: Set<Abortable>;
  readonly onAbort: () => void;
}

const listenerBySignal = new WeakMap<AbortSignal, Listener>();

/** Has the exchange ended as `aborted` when the signal aborts. */
export function listenForAbort(signal: AbortSignal, exchange: Abortable): void {
  const known = listenerBySignal.get(signal);
  if (known) {
    known.exchanges.add(exchange);
    return;
  }
  const exchanges = new Set([exchange]);
  const onAbort = () => exchanges.forEach((each) => each.end('aborted'));
  listenerBySignal.set(signal, { exchanges, onAbort });
  signal.addEventListener('abort', onAbort, { once: true });
}

/**
 * Forgets the exchange. The last exchange of a signal removes the listener: Node never frees a signal made by
 * AbortSignal.any that has a listener.
 */
export function stopListening(signal: AbortSignal, exchange: Abortable): void {
  const listener = listenerBySignal.get(signal);
  if (!listener?.exchanges.delete(exchange) || listener.exchanges.size > 0) return;
  listenerBySignal.delete(signal);
  signal.removeEventListener('abort', listener.onAbort);
}

/** Has one listener on the signal while `work` runs, for exchanges of it that follow each other. */
export async function withListener<T>(signal: AbortSignal, work: () => Promise<T>): Promise<T> {
  const held: Abortable = { end: () => undefined };
  listenForAbort(signal, held);
  try {
    return await work();
  } finally {
    stopListening(signal, held);
  }
}
