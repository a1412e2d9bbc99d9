/**
 * A process that writes awards through the file connector, a few at a time, until it is killed or done, and prints
 * which writes were answered. Argument: the path of a JSON file with the settings and the operations.
 */
import { readFileSync } from 'node:fs';
import type { Operation } from '#connector/connector.ts';
import { testContext } from '#connector/testing/test-context.ts';
import connector from '../../../connectors/file/index.ts';

interface Work {
  readonly settings: unknown;
  readonly batches: readonly (readonly Operation[])[];
}

const { settings, batches } = JSON.parse(readFileSync(process.argv[2] ?? '', 'utf8')) as Work;
const session = await connector.open(connector.settings.parse(settings), testContext().context);
for (const [index, operations] of batches.entries()) {
  process.stdout.write(`begin ${index}\n`);
  const outcomes = await session.write(operations, new AbortController().signal);
  const wrong = outcomes.find((outcome) => !('reference' in outcome));
  if (wrong) throw new Error(JSON.stringify(wrong));
  process.stdout.write(`done ${index}\n`);
}
await session.close();
