/** Finds columns of bid sheets that a flow names and that no line has, such as `Unit price` for `Unit Price`. */
import type { FlowSettings } from '#bridge/settings/settings.ts';
import type { DocumentOf } from '#connector/documents.ts';
import { composed } from '#connector/human-text.ts';
import type { Database } from '#platform/database/database.ts';
import { tryMapping } from './try-mapping.ts';

/**
 * Returns a sentence for each column that the flow names and that no line of the tried documents has; none while there is
 * no line. Looks at the documents that `tryMapping` would make. Writes nothing that stays.
 */
export async function missingColumns(
  database: Database,
  flow: FlowSettings,
  which: { events?: readonly string[]; limit: number },
): Promise<string[]> {
  const { quantity_column: quantity, unit_price_column: price, ...others } = flow;
  if (quantity === undefined && price === undefined) return [];
  // Without columns and mapping, so that a document shows its lines also where these settings would reject it.
  const tried = await tryMapping(database, { ...others, mapping: {} }, which);
  const documents = tried.flatMap(({ document }) =>
    document?.kind === 'award' || document?.kind === 'event-awards' || document?.kind === 'quotation' ? [document] : [],
  );
  // In a Dutch auction suppliers accept the price of a lot, so its sheets need no price of a piece.
  const priced = documents.filter(({ event }) => event.type !== 'DUTCH');
  return [...missingIn(documents, quantity), ...missingIn(priced, price)];
}

function missingIn(
  documents: readonly DocumentOf<'award' | 'event-awards' | 'quotation'>[],
  column: string | undefined,
): string[] {
  const rows = documents.flatMap(({ lines }) => lines.map(({ values }) => values));
  const shown = new Set(rows.flatMap((values) => values.map((value) => composed(value.column))));
  if (column === undefined || rows.length === 0 || shown.has(composed(column))) return [];
  return [`no line has a column "${column}"; the sheets have: ${[...shown].join(', ') || 'no columns'}`];
}
