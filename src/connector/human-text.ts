/**
 * Text that people typed, compared as they read it. Unicode writes `ü` as one character or as `u` with a mark above it; two
 * programs that show the same name may hold it in either form. All comparisons of names, addresses and settings with such
 * text go through here; what is stored and sent stays as it was written.
 */

/** The text in the one form (NFC) in which equal texts are equal. */
export function composed(text: string): string {
  return text.normalize('NFC');
}

/** As `composed`, also for upper and lower case: for names and e-mail addresses that are searched. */
export function caseless(text: string): string {
  return composed(text).toLowerCase();
}

/** The text in both forms, for a search by a program that compares characters; one where they are the same. */
export function bothForms(text: string): string[] {
  return [...new Set([composed(text), text.normalize('NFD')])];
}

/** At most so many UTF-16 units, and no half of a character at the end: the service refuses a text with one. */
export function shortened(text: string, unitsMax: number): string {
  return text.length <= unitsMax ? text : text.slice(0, unitsMax).replace(/[\uD800-\uDBFF]$/, '');
}
