/** The error of a call that has to fail, for the expectations about it. */
import { expect } from 'vitest';

/** What `run` rejects with; fails when it does not reject, or rejects with something else than `type`. */
export async function failureOf<T extends Error>(
  type: abstract new (...args: never[]) => T,
  run: Promise<unknown>,
): Promise<T> {
  const error = await run.then(
    () => new Error('it should have failed'),
    (thrown: unknown) => thrown,
  );
  expect(error).toBeInstanceOf(type);
  return error as T;
}
