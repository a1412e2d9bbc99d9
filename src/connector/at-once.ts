/** Several records at once: how many run at a time, and which errors end the work on all. */
import type { OutcomeError } from './connector.ts';

/** The results in the order of the items; up to `limit` of them run at a time. `run` must not throw. */
export async function mapWithLimit<T, R>(
  items: readonly T[],
  limit: number,
  run: (item: T) => Promise<R>,
): Promise<R[]> {
  const results: R[] = [];
  let next = 0;
  const work = async () => {
    while (next < items.length) {
      const index = next;
      next += 1;
      results[index] = await run(items[index] as T);
    }
  };
  await Promise.all(Array.from({ length: Math.min(Math.max(1, limit), items.length) }, work));
  return results;
}

/** Whether an error of this type would meet every other record, too. */
export function meetsOthers(type: OutcomeError['type'] | 'unknown'): boolean {
  return type === 'rate-limited' || type === 'auth' || type === 'config';
}
