/** The error of a call that must fail, for the expectations about it. */
import { expect } from 'vitest';

/** Returns the error with which `run` rejects; fails when it does not reject, or not with an error of `type`. */
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
