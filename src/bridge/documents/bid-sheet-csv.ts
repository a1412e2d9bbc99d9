/**
 * The bid sheet of an event as one CSV (RFC 4180), a row for each awarded lot and supplier. Values stay as they were
 * bid: nothing is rounded, converted or marked, as a program reads them.
 */
import { z } from 'zod';
import type { EventAwardsLine } from '#connector/documents.ts';
import type { EventInFlow } from './event-parts.ts';
import { readRecord } from './made-document.ts';

const columnsForm = z.looseObject({ columns: z.array(z.looseObject({ name: z.string() })).default([]) });

/**
 * Returns the CSV of these lines, in their order. The sheet's columns come in the order of the event's record; those that
 * only a line shows follow. Throws `Unmade`, rejected, for a record whose columns cannot be read.
 */
export function bidSheetCsv({ event }: EventInFlow, lines: readonly EventAwardsLine[]): string {
  const { columns } = readRecord(columnsForm, event, "the sourcing event's record");
  const cells = lines.flatMap(({ values }) => values);
  const names = [...new Set([...columns.map(({ name }) => name), ...cells.map(({ column }) => column)])];
  const withCurrency = new Set(cells.flatMap(({ column, currency }) => (currency === undefined ? [] : [column])));
  const header = ['lot', 'supplier', 'supplier_external_id', 'share'];
  const titles = names.flatMap((name) => (withCurrency.has(name) ? [name, `${name} (currency)`] : [name]));
  const rows = lines.map(({ lot, supplier, share, values }) => {
    const byColumn = new Map(values.map((cell) => [cell.column, cell]));
    const sheet = names.flatMap((name) => {
      const cell = byColumn.get(name);
      return withCurrency.has(name) ? [cell?.value ?? '', cell?.currency ?? ''] : [cell?.value ?? ''];
    });
    return [lot, supplier.name, supplier.external_id ?? '', share, ...sheet];
  });
  return [[...header, ...titles], ...rows].map((row) => `${row.map(cellText).join(',')}\r\n`).join('');
}

function cellText(text: string): string {
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
