/** A table whose rows are links, and which is a list of cards on a phone. */
import type { ComponentChildren } from 'preact';

export interface Column<Row> {
  readonly name: string;
  readonly cell: (row: Row) => ComponentChildren;
  readonly kind?: 'number' | 'wide' | 'name' | 'time';
}

export function Table<Row>({
  label,
  columns,
  rows,
  keyOf,
  busy = false,
}: {
  label: string;
  columns: readonly Column<Row>[];
  rows: readonly Row[];
  keyOf: (row: Row) => string;
  busy?: boolean;
}) {
  return (
    <div class="scroll" tabindex={0} role="region" aria-label={label}>
      <table aria-busy={busy}>
        <thead>
          <tr>
            {columns.map(({ name, kind }) => (
              <th key={name} scope="col" class={kind ?? ''}>
                {name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={keyOf(row)}>
              {columns.map(({ name, cell, kind }) => (
                <td key={name} data-name={name} class={kind ?? ''}>
                  {cell(row)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** What a row is called, as a link to its page, with a second line. */
export function RowLink({ path, title, under }: { path: string; title: string; under: string }) {
  return (
    <a class="row-link" href={path}>
      <strong>{title}</strong>
      <span class="under">{under}</span>
    </a>
  );
}
