const charactersMax = 2_000;

/**
 * Returns a text of another program so that it can be stored and shown: at most 2,000 characters, and without the zero
 * character, which PostgreSQL does not accept.
 */
export function storableText(text: string): string {
  return text.replaceAll('\0', '').slice(0, charactersMax);
}

/** Whether PostgreSQL can hold the text as it is: without the zero character, and without half of a surrogate pair. */
export function isStorable(text: string): boolean {
  return !text.includes('\0') && text.isWellFormed();
}
