/**
 * How long to wait before the next try: `firstMs`, doubled with each failure before it up to `mostMs`, and up to a fifth
 * more by chance, so that many that failed together do not come back together. Never less than `floorMs`, which is what
 * the other side asked for.
 */
export function backoffMs(options: { firstMs: number; mostMs: number; failures: number; floorMs?: number }): number {
  const { firstMs, mostMs, failures, floorMs = 0 } = options;
  const waitMs = Math.min(mostMs, firstMs * 2 ** Math.min(failures, 30));
  return Math.max(floorMs, Math.round(waitMs * (1 + 0.2 * Math.random())));
}
