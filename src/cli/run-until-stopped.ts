/** Runs a program until SIGINT or SIGTERM, then closes it; a second signal ends the process at once. */

/** Resolves with exit code 0 when `close` is done. */
export async function runUntilStopped(close: () => Promise<void>): Promise<number> {
  await new Promise<void>((resolve) => {
    for (const signal of ['SIGINT', 'SIGTERM'] as const)
      process.once(signal, () => {
        resolve();
        process.once(signal, () => process.exit(1));
      });
  });
  await close();
  return 0;
}
