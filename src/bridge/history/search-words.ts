/** The words that a person types into a search, and how SQL compares with them. */
import { AppError } from '#platform/errors.ts';

const wordsMax = 10;
const wordCharactersMax = 200;

/** Returns the words of a search. Throws AppError `invalid` for a text without one, or with too many or too long ones. */
export function wordsOf(text: string): string[] {
  const words = [...new Set(text.normalize('NFKC').split(/\s+/).filter(Boolean))];
  if (words.length === 0) throw new AppError('invalid', 'Say what to find: a name, a reference or an id.');
  if (words.length > wordsMax || words.some((word) => word.length > wordCharactersMax || word.includes('\0')))
    throw new AppError('invalid', `At most ${wordsMax} words of ${wordCharactersMax} characters can be looked for.`);
  return words;
}

/** Returns the text so that LIKE takes each of its characters as it is. */
export function escapeLike(text: string): string {
  return text.replaceAll(/[\\%_]/g, '\\$&');
}
