/**
 * SQL for the JSON of a stored body, to read members of it. A source may send the escape of the zero character, which
 * JSON allows and PostgreSQL refuses wherever it stands in a text of which any member is read; here it is U+FFFD.
 */
export function bodyJson(column: string): string {
  return String.raw`replace(${column}, '\u0000', '\ufffd')::json`;
}
