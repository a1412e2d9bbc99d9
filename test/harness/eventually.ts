import { systemClock } from '#platform/clock.ts';

/** Calls `look` until it returns a value; fails with `what` after ten seconds. */
export async function eventually<T>(what: string, look: () => Promise<T | undefined | false>): Promise<T> {
  const until = performance.now() + 10_000;
  for (;;) {
    const found = await look();
    if (found !== undefined && found !== false) return found;
    if (performance.now() > until) throw new Error(`This did not happen: ${what}`);
    await systemClock.sleep(10);
  }
}
