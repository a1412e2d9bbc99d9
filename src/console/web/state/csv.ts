/** Tables as CSV (RFC 4180), for spreadsheets. */

/** A spreadsheet would run a text that begins so; a number may begin with a sign. */
const isFormula = /^[=+\-@\t\r]/;
const isNumber = /^-?\d+(\.\d+)?$/;

/** Returns the rows under the names of the columns; a text that a spreadsheet would run begins with an apostrophe. */
export function csvOf(
  columns: readonly (readonly [member: string, name: string])[],
  rows: readonly Readonly<Record<string, string | null | undefined>>[],
): string {
  const lines = [columns.map(([, name]) => name), ...rows.map((row) => columns.map(([member]) => row[member] ?? ''))];
  return lines.map((cells) => `${cells.map(cellText).join(',')}\r\n`).join('');
}

function cellText(text: string): string {
  const safe = isFormula.test(text) && !isNumber.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}
