/** `connector show`: what a connector can do, and its settings in a flow. */
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { z } from 'zod';
import { connectorFolder, loadConnector } from '#bridge/connectors/load-connector.ts';
import type { Connector } from '#connector/connector.ts';
import { type OutputOptions, oneLine, print, type TableCell, tableOf } from '../output.ts';
import { type SettingsSchema, settingsRows } from '../settings-rows.ts';

/**
 * `name` is as in a flow: a folder's name, a path or a package. Throws an AppError `invalid` when it cannot be loaded.
 */
export async function runConnectorShow(options: OutputOptions, name: string): Promise<number> {
  const { capabilities, settings } = await loadConnector(name);
  const description = descriptionOf(name);
  const schema = z.toJSONSchema(settings, { io: 'input', unrepresentable: 'any' }) as SettingsSchema;
  print(options, { name, description, capabilities, settings: schema }, () =>
    [
      description === undefined ? name : `${name}: ${description}`,
      tableOf(['capability', ''], capabilityRows(capabilities)),
      settingsTable(schema),
    ].join('\n\n'),
  );
  return 0;
}

/** The title of the connector's README, which is `# <name>: <what it is>`. */
function descriptionOf(name: string): string | undefined {
  const folder = connectorFolder(name);
  const file = join(folder ?? '', 'README.md');
  if (folder === undefined || !existsSync(file)) return undefined;
  const title = /^# (?:[a-z0-9-]+: )?(.+)$/m.exec(readFileSync(file, 'utf8'))?.[1];
  return title === undefined ? undefined : oneLine(title);
}

const idempotencyText = {
  key: 'the ERP recognises a repeated idempotency key',
  'external-id': "the object is stored under the document's key",
  lookup: 'the bridge asks the ERP before it sends again',
} as const;

function capabilityRows(capabilities: Connector['capabilities']): TableCell[][] {
  const {
    kinds,
    reads = [],
    readsBack = [],
    batchMax,
    concurrency = 1,
    requestsAtOnce,
    idempotency,
    timeoutMs,
    lateEffectMs,
    visibleAfterMs = lateEffectMs,
  } = capabilities;
  return [
    ['takes documents', kinds.join(', ')],
    ['reads from the ERP', reads.join(', ')],
    ['compares what was delivered', readsBack.join(', ')],
    ['writes at once', `${concurrency} x ${batchMax} documents, ${requestsAtOnce ?? concurrency} requests`],
    ['no second object', `${idempotency}: ${idempotencyText[idempotency]}`],
    ['time limit of a write', `${timeoutMs} ms`],
    ['may take effect later', `${lateEffectMs} ms after a call that was cut off`],
    ['may be missing from lookup', `${visibleAfterMs} ms after the answer`],
  ];
}

function settingsTable(schema: SettingsSchema): string {
  const rows = settingsRows(schema).map(({ path, type, required, default: defaultValue, only, description }) => [
    path,
    type,
    required ? 'must be set' : defaultValue,
    [only === undefined ? undefined : `(${only})`, description].filter((part) => part !== undefined).join(' '),
  ]);
  return tableOf(['setting', 'type', 'default', 'purpose'], rows, 'It has no settings.');
}
