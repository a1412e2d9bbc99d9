/**
 * Closes the resources of a test file when the file ends. Several files share a process and its modules, so a module of
 * the harness must not call `afterAll` itself: it would run only after the first file that imports the module.
 */
const closers: (() => unknown)[] = [];

/** Registers a function that runs after the current test file, before all that were registered earlier. */
export function closeAfterFile(close: () => unknown): void {
  closers.push(close);
}

/** Runs all registered functions, the newest first, also when some of them fail; then rejects with the errors. */
export async function closeWhatIsOpen(): Promise<void> {
  const failures: unknown[] = [];
  for (let close = closers.pop(); close; close = closers.pop()) {
    try {
      await close();
    } catch (error) {
      failures.push(error);
    }
  }
  if (failures.length === 1) throw failures[0];
  if (failures.length > 1)
    throw new AggregateError(failures, 'Several resources could not be closed after the test file.');
}
