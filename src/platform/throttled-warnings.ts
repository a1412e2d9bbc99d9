/**
 * Warnings that any client on the network can cause, or that each request of an outage causes: of each kind at most one a
 * second is written, so that a flood does not fill the disk. How many there were in all is for a metric to say.
 */

/** `kind` is one of a few words that the code knows, never a text from outside. */
export type ThrottledWarn = (kind: string, facts: Record<string, unknown>, text: string) => void;

const everyMs = 1_000;

/** `suppressed` in a line is the number of warnings of its kind that were not written since the one before. */
export function createThrottledWarnings(
  log: { warn(facts: object, text: string): void },
  monotonicMs: () => number = () => performance.now(),
): ThrottledWarn {
  const kinds = new Map<string, { writtenMs: number; suppressed: number }>();
  return (kind, facts, text) => {
    const nowMs = monotonicMs();
    const known = kinds.get(kind);
    if (known && nowMs - known.writtenMs < everyMs) {
      known.suppressed += 1;
      return;
    }
    kinds.set(kind, { writtenMs: nowMs, suppressed: 0 });
    log.warn(known?.suppressed ? { ...facts, suppressed: known.suppressed } : facts, text);
  };
}
