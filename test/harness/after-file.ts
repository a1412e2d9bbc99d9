/**
 * What a test file has opened and closes when it ends. Several files share a process and its modules, so a module of the
 * harness must not call `afterAll` itself: it would run after the first file that imports the module, and after no other.
 */
const closers: (() => unknown)[] = [];

/** Closes something after the test file that runs now, before everything that was registered earlier. */
export function closeAfterFile(close: () => unknown): void {
  closers.push(close);
}

/** Closes all that is registered, the newest first, whichever of it fails; then rejects with the failures. */
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
    throw new AggregateError(failures, 'Several things could not be closed after the test file.');
}
