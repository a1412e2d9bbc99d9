/** What carries wake-ups from one process to another. It may lose any of them: the sweeps find what is due. */
export interface Carrier {
  /** Hands the keys to a process that works the lane, or to all of them. Resolves within 2 s and never rejects. */
  send(lane: string, keys: readonly string[]): Promise<void>;
  /** Calls `wake` for each key that another process sends for the lane. */
  receive(lane: string, wake: (key: string) => void): void;
  /** Ends within 2 s, also while the server does not answer. Never rejects. */
  close(): Promise<void>;
}

/** How long a carrier waits at most for a server that does not answer. */
export const answerTimeoutMs = 2_000;

/** Gets the errors of connections, which come from many connections at once and at any time. */
export type ReportError = (error: unknown) => void;
