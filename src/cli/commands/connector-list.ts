/** `connector list`: the connectors of this program, and what each can do. */
import { readdirSync } from 'node:fs';
import { connectorsDir, loadConnector, ownConnectorFile } from '#bridge/connectors/load-connector.ts';
import { errorText } from '#platform/errors.ts';
import { type OutputOptions, print, tableOf } from '../output.ts';

/** Exit code 1 when a connector cannot be loaded: its line says why, and the others are shown. */
export async function runConnectorList(options: OutputOptions): Promise<number> {
  const connectors = await Promise.all(connectorNames().map(describe));
  print(options, { connectors }, () =>
    tableOf(
      ['connector', 'takes', 'reads', 'idempotency', 'batch'],
      connectors.map((connector) =>
        'problem' in connector
          ? [connector.name, connector.problem]
          : [
              connector.name,
              connector.kinds.join(', '),
              connector.reads.join(', '),
              connector.idempotency,
              connector.batch_max,
            ],
      ),
    ),
  );
  return connectors.some((connector) => 'problem' in connector) ? 1 : 0;
}

/** The names of the folders that hold a connector, in alphabetical order. */
export function connectorNames(): string[] {
  return readdirSync(connectorsDir)
    .filter((name) => ownConnectorFile(name) !== undefined)
    .sort();
}

async function describe(name: string) {
  try {
    const { kinds, reads = [], idempotency, batchMax } = (await loadConnector(name)).capabilities;
    return { name, kinds, reads, idempotency, batch_max: batchMax };
  } catch (error) {
    return { name, problem: errorText(error) };
  }
}
