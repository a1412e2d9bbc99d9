/** Remembers notifications in this process: enough for one process, and forgotten when it ends. */
import { aFunction, aPositiveNumber, checkOptions } from './check-options.ts';
import { type NotificationStore, type StoreTimes, storeTimes, timeChecks } from './notification-store.ts';

interface Entry {
  /** Undefined when it is handled. */
  readonly token: string | undefined;
  readonly untilMs: number;
}

export interface MemoryStoreOptions extends StoreTimes {
  /** The most notifications that are remembered; then the oldest is forgotten. Default: 10,000, some 2 MB. */
  readonly entriesMax?: number;
  readonly nowMs?: () => number;
}

export function memoryStore(options: MemoryStoreOptions = {}): NotificationStore {
  checkOptions('memoryStore', options, { ...timeChecks, entriesMax: aPositiveNumber, nowMs: aFunction });
  const { leaseMs, rememberMs } = storeTimes(options);
  const { entriesMax = 10_000, nowMs = Date.now } = options;
  const entries = new Map<string, Entry>();

  function put(id: string, entry: Entry): void {
    entries.delete(id);
    entries.set(id, entry);
    const [oldest] = entries.keys();
    if (entries.size > entriesMax && oldest !== undefined) entries.delete(oldest);
  }

  return {
    begin: async (id, token) => {
      const found = entries.get(id);
      if (found && found.untilMs > nowMs()) return found.token === undefined ? 'done' : 'running';
      put(id, { token, untilMs: nowMs() + leaseMs });
      return 'new';
    },
    finish: async (id, token) => {
      if (entries.get(id)?.token === token) put(id, { token: undefined, untilMs: nowMs() + rememberMs });
    },
    abandon: async (id, token) => {
      if (entries.get(id)?.token === token) entries.delete(id);
    },
  };
}
