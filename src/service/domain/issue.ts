/** Values that may occur only once in a list. */
import type { Issue } from '#contract/issue.ts';

/** The positions of values that also occur earlier in the list. An undefined value never counts as repeated. */
export function repeatsIn(values: readonly (string | undefined)[]): ReadonlySet<number> {
  const seen = new Set<string>();
  const repeats = new Set<number>();
  for (const [index, value] of values.entries()) {
    if (value === undefined) continue;
    if (seen.has(value)) repeats.add(index);
    seen.add(value);
  }
  return repeats;
}

/** An issue for each value that also occurs earlier in the list. */
export function repeated(values: readonly string[], pathOf: (index: number) => string, message: string): Issue[] {
  return [...repeatsIn(values)].map((index) => ({ path: pathOf(index), message }));
}
