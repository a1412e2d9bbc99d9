/** Values that may stand only once in a list. */
import type { Issue } from '#contract/issue.ts';

/** The places of values that stand earlier in the list, too. Absent ones repeat nothing. */
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

/** An issue for each value that stands earlier in the list, too. */
export function repeated(values: readonly string[], pathOf: (index: number) => string, message: string): Issue[] {
  return [...repeatsIn(values)].map((index) => ({ path: pathOf(index), message }));
}
