/** Reads a password: typed twice at the terminal without being shown, or the first line of standard input. */
import { createInterface } from 'node:readline';
import { PassThrough } from 'node:stream';
import { isatty } from 'node:tty';
import { AppError } from '#platform/errors.ts';

/** Rejects with an AppError `invalid` for two passwords that differ, and when nothing is typed. */
export async function readPassword(prompt: string): Promise<string> {
  if (!isatty(0)) return readLine();
  const first = await readHidden(`${prompt}: `);
  const second = await readHidden('Once more: ');
  if (first !== second) throw new AppError('invalid', 'The two passwords differ. Nothing was changed.');
  return first;
}

async function readLine(): Promise<string> {
  const lines = createInterface({ input: process.stdin });
  for await (const line of lines) return line;
  throw new AppError('invalid', 'There is no terminal, and no password on standard input.');
}

/**
 * Reads a line at the terminal. What is typed goes to a stream that no one reads, instead of the screen. Rejects with an
 * AppError `invalid` when the input ends without it.
 */
export function readHidden(prompt: string): Promise<string> {
  const terminal = createInterface({ input: process.stdin, output: new PassThrough().resume(), terminal: true });
  // Asked only now that the terminal shows nothing of itself: a quick answer must not be seen.
  process.stderr.write(prompt);
  return new Promise((resolve, reject) => {
    let answered = false;
    terminal.question('', (answer) => {
      answered = true;
      terminal.close();
      resolve(answer);
    });
    terminal.on('SIGINT', () => terminal.close());
    terminal.on('close', () => {
      process.stderr.write('\n');
      if (!answered) reject(new AppError('invalid', 'Nothing was typed, and nothing was changed.'));
    });
  });
}
