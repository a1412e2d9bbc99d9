/** Describes what a write would do. */
import type { Operation, PlannedOperation } from 'sourcing-bridge/connector';
import type { Settings } from './settings.ts';
import { rowsOf, tablesOf } from './tables.ts';
import type { Known } from './writer.ts';

/** The plan of one operation; `known` is what the database has of its document. */
export function planOf(operation: Operation, known: Known | undefined, settings: Settings): PlannedOperation {
  const { document, contentHash } = operation;
  const { key } = document;
  const isHeld = known?.state === 'current';
  if (operation.action === 'cancel') {
    if (!isHeld) return { key, action: 'none', steps: [] };
    return { key, action: 'cancel', steps: [stepOf(operation, 'cancel', settings)] };
  }
  if (isHeld && known.content_hash === contentHash) return { key, action: 'none', steps: [] };
  const action = isHeld ? 'amend' : 'create';
  return { key, action, steps: [stepOf(operation, action, settings)] };
}

function stepOf({ document }: Operation, action: Operation['action'], settings: Settings): string {
  const { kind, key } = document;
  if (settings.function !== undefined) return `call ${settings.function}('${kind}', '${action}', '${key}', …)`;
  const [head, ...parts] = tablesOf(kind);
  const row = `${settings.schema}.${head.name} ${key}`;
  if (action === 'cancel')
    return `mark ${row} as withdrawn, and delete its rows in: ${parts.map(({ name }) => name).join(', ') || 'file_content'}`;
  const counts = parts.map((part) => `${rowsOf(part, document).length} in ${part.name}`);
  const rows = counts.length === 0 ? '' : `, with rows: ${counts.join(', ')}`;
  return action === 'create' ? `insert ${row}${rows}` : `update ${row}${rows}`;
}
