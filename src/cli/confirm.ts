/** The question before a command changes much. */
import { createInterface } from 'node:readline/promises';
import { isatty } from 'node:tty';
import { AppError } from '#platform/errors.ts';

/**
 * Resolves to whether the operator at the terminal answers yes; to true at once with `--yes`. Rejects with an AppError
 * `invalid` when there is no terminal.
 */
export async function confirm(question: string, options: { yes?: boolean }, signal?: AbortSignal): Promise<boolean> {
  if (options.yes) return true;
  // Not `process.stdin.isTTY`, because reading that property opens standard input.
  if (!isatty(0) || !isatty(2))
    throw new AppError('invalid', `${question} There is no terminal for the answer: add --yes.`);
  const terminal = createInterface({ input: process.stdin, output: process.stderr });
  try {
    const answer = await terminal.question(`${question} [y/N] `, signal ? { signal } : {});
    return /^y(es)?$/i.test(answer.trim());
  } catch {
    // Ctrl-C, or the end of the input.
    return false;
  } finally {
    terminal.close();
  }
}
