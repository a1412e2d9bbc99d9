/** What was awarded, with the whole bid sheet, as a CSV that a buyer opens from the purchase. */
import type { AwardDocument } from 'sourcing-bridge/connector';

export function awardSheet({ lines, currency }: AwardDocument): Uint8Array {
  const columns = [...new Set(lines.flatMap(({ values }) => values.map(({ column }) => column)))];
  const head = ['Lot', 'Share', 'Quantity', 'Unit price', 'Cost', 'Historic cost', 'Savings', 'Currency', ...columns];
  const rows = lines.map((line) => [
    shownText(line.lot),
    line.share,
    line.quantity ?? '',
    line.unit_price ?? '',
    line.cost,
    line.historic_cost ?? '',
    line.savings ?? '',
    currency,
    ...columns.map((column) => {
      const cell = line.values.find((value) => value.column === column);
      return cell === undefined
        ? ''
        : shownText([cell.value, cell.currency].filter((part) => part !== undefined).join(' '));
    }),
  ]);
  const csv = [head.map(shownText), ...rows].map((row) => `${row.map(cellOf).join(',')}\r\n`).join('');
  // The mark tells spreadsheets that it is UTF-8.
  return Buffer.from(`\uFEFF${csv}`, 'utf8');
}

/** A supplier's text is no formula in a buyer's spreadsheet; a number stays one. */
function shownText(value: string): string {
  return /^[=+\-@\t\r]/u.test(value) && !/^-?\d+(\.\d+)?$/u.test(value) ? `'${value}` : value;
}

function cellOf(value: string): string {
  return /[",\r\n]/u.test(value) ? `"${value.replaceAll('"', '""')}"` : value;
}
