/** The text of a value of JSON; empty for none. */
export function textOf(value: unknown): string {
  if (value === undefined || value === null || value === false) return '';
  return typeof value === 'string' ? value : JSON.stringify(value);
}
