/** Tables as CSV (RFC 4180), for spreadsheets. */

/**
 * A spreadsheet would run a text that begins so; a number may begin with a sign. Where the decimal sign is a comma, a
 * semicolon or a line end also ends a cell, within quotation marks, too: the rest of the text begins another.
 */
const formulaStart = /(^|[;\t\r\n])(?=[=+\-@\t\r])/g;
const isNumber = /^-?\d+(\.\d+)?$/;

/** Returns the rows under the names of the columns; before what a spreadsheet would run stands an apostrophe. */
export function csvOf(
  columns: readonly (readonly [member: string, name: string])[],
  rows: readonly Readonly<Record<string, string | null | undefined>>[],
): string {
  const lines = [columns.map(([, name]) => name), ...rows.map((row) => columns.map(([member]) => row[member] ?? ''))];
  return lines.map((cells) => `${cells.map(cellText).join(',')}\r\n`).join('');
}

function cellText(text: string): string {
  const safe = isNumber.test(text) ? text : text.replace(formulaStart, "$1'");
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}
