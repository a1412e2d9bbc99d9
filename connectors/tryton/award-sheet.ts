/** The CSV that is attached to a purchase: what was awarded, with the whole bid sheet. */
import { type AwardDocument } from 'sourcing-bridge/connector';

/** UTF-8, one row per lot, with a column for each column of the bid sheet. */
export function awardSheet({ lines, currency }: AwardDocument): Uint8Array {
  const columns = [...new Set(lines.flatMap(({ values }) => values.map(({ column }) => column)))];
  const head = ['Lot', 'Share', 'Quantity', 'Unit price', 'Cost', 'Historic cost', 'Savings', 'Currency', ...columns];
  const rows = lines.map((line) => [
    cellText(line.lot),
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
        : cellText([cell.value, cell.currency].filter((part) => part !== undefined).join(' '));
    }),
  ]);
  const csv = [head.map(cellText), ...rows].map((row) => `${row.map(quoted).join(',')}\r\n`).join('');
  // By the byte order mark, spreadsheets see that the file is UTF-8.
  return Buffer.from(`\uFEFF${csv}`, 'utf8');
}

/** Protects the buyer: a supplier's text that looks like a formula gets a leading quote. A number stays a number. */
function cellText(value: string): string {
  return /^[=+\-@\t\r]/u.test(value) && !/^-?\d+(\.\d+)?$/u.test(value) ? `'${value}` : value;
}

function quoted(value: string): string {
  return /[",\r\n]/u.test(value) ? `"${value.replaceAll('"', '""')}"` : value;
}
