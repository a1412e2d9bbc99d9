/**
 * Closes what a test has opened when that test ends, and what was opened outside of a test when the test file ends. Several
 * files share a process and its modules, so a module of the harness must not call `afterEach` or `afterAll` itself: it
 * would run only for the first file that imports the module.
 */
const closers: (() => unknown)[] = [];

/** Registers a function that runs after the current test or file, before all that were registered earlier. */
export function closeAtEnd(close: () => unknown): void {
  closers.push(close);
}

/** How many functions are registered. */
export function countOpen(): number {
  return closers.length;
}

/** Runs all registered functions but the first `kept`, the newest first, also when some of them fail; then rejects with the errors. */
export async function closeWhatIsOpen(kept: number): Promise<void> {
  const failures: unknown[] = [];
  while (closers.length > kept) {
    try {
      await closers.pop()?.();
    } catch (error) {
      failures.push(error);
    }
  }
  if (failures.length === 1) throw failures[0];
  if (failures.length > 1) throw new AggregateError(failures, 'Several resources could not be closed after the tests.');
}
