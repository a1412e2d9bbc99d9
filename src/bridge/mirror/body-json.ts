/**
 * SQL for the JSON of a stored body, to read members of it. A source may send the escapes of the zero character and of half
 * a surrogate pair, as of a text that was cut in the middle of an emoji. JSON allows both, and PostgreSQL refuses them
 * wherever they stand in a text of which any member is read; here they are U+FFFD. A whole pair is stored as it is: it has
 * no escapes.
 */
export function bodyJson(column: string): string {
  return String.raw`regexp_replace(${column}, '\\u(0000|d[89a-f]..)', '\\ufffd', 'g')::json`;
}
