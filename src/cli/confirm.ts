/** A question before something that reaches far. */
import { createInterface } from 'node:readline/promises';
import { isatty } from 'node:tty';
import { AppError } from '#platform/errors.ts';

/**
 * Resolves with whether a person at the terminal said yes; with true at once when the answer was given as `--yes`.
 * Throws AppError `invalid` where nobody can be asked.
 */
export async function confirm(question: string, options: { yes?: boolean }, signal?: AbortSignal): Promise<boolean> {
  if (options.yes) return true;
  // Not `process.stdin.isTTY`: to look at that is to open it.
  if (!isatty(0) || !isatty(2)) throw new AppError('invalid', `${question} There is no terminal to ask at: say --yes.`);
  const asking = createInterface({ input: process.stdin, output: process.stderr });
  try {
    const answer = await asking.question(`${question} [y/N] `, signal ? { signal } : {});
    return /^y(es)?$/i.test(answer.trim());
  } catch {
    // Ctrl-C, or the end of the input.
    return false;
  } finally {
    asking.close();
  }
}
