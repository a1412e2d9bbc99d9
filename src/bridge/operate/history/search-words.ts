/** The words that a person types into a search, and how SQL compares with them. */
import { AppError } from '#platform/errors.ts';

const wordsMax = 10;
const wordCharactersMax = 200;

/** `meyer "English auction 10"`: two words, of which one is a phrase. */
const wordForm = /"([^"]{1,500})"(?=\s|$)|\S+/g;

/**
 * Returns the words of a search: of a text, in which quotation marks group the words of a phrase; or of a list, each
 * entry of which is a word or a phrase as it stands. Throws AppError `invalid` for a search without a word, or with too
 * many or too long ones.
 */
export function wordsOf(search: string | readonly string[]): string[] {
  const found =
    typeof search === 'string'
      ? [...search.normalize('NFKC').matchAll(wordForm)].map(([word, phrase]) => phrase ?? word)
      : search.map((word) => word.normalize('NFKC'));
  const words = [...new Set(found.map((word) => word.trim().replaceAll(/\s+/g, ' ')).filter(Boolean))];
  if (words.length === 0) throw new AppError('invalid', 'Say what to find: a name, a reference or an id.');
  if (words.length > wordsMax || words.some((word) => word.length > wordCharactersMax || word.includes('\0')))
    throw new AppError('invalid', `At most ${wordsMax} words of ${wordCharactersMax} characters can be looked for.`);
  return words;
}

/** Returns the text so that LIKE takes each of its characters as it is. */
export function escapeLike(text: string): string {
  return text.replaceAll(/[\\%_]/g, '\\$&');
}
