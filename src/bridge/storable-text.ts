const charactersMax = 2_000;

/** A text of somebody else's that is to be shown to a person: at most 2,000 characters, and none that PostgreSQL refuses. */
export function storableText(text: string): string {
  return text.replaceAll('\0', '').slice(0, charactersMax);
}
