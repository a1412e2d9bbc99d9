/**
 * A process that writes versions of the same awards through the connector until it is killed, and prints each version
 * that was acknowledged. Every part of a document shows its version: the total cost, each line and each cell are equal
 * to it. Arguments: the database's URL and the first version.
 */

import { createHash } from 'node:crypto';
import { once } from 'node:events';
import type { AwardDocument } from '#connector/documents.ts';
import { testContext } from '#connector/testing/test-context.ts';
import { systemClock } from '#platform/clock.ts';
import connector from '../../../connectors/postgres/index.ts';

const [url = '', first = '1'] = process.argv.slice(2);
const awards = 30;

const session = await connector.open(connector.settings.parse({ url, history: true }), testContext().context);
for (let version = Number(first); ; version += 1) {
  const operations = Array.from({ length: awards }, (_, number) => {
    const document = documentOf(number, version);
    const contentHash = createHash('sha256').update(JSON.stringify(document)).digest('hex');
    return { action: 'create' as const, document, contentHash, idempotencyKey: contentHash, reference: undefined };
  });
  const outcomes = await session.write(operations, new AbortController().signal);
  const wrong = outcomes.find((outcome) => outcome.status === 'rejected');
  if (wrong) throw new Error(JSON.stringify(wrong));
  if (!outcomes.every((outcome) => 'reference' in outcome)) {
    version -= 1;
    await systemClock.sleep(20);
    continue;
  }
  if (!process.stdout.write(`${version}\n`)) await once(process.stdout, 'drain');
}

function documentOf(number: number, version: number): AwardDocument {
  const cost = String(version);
  return {
    kind: 'award',
    key: `event/${number}`,
    event: { id: 'event', name: 'Killed', type: 'RFQ', is_test: false, tags: [] },
    supplier: { id: `${number}`, name: 'S' },
    currency: 'EUR',
    exchange_rates: [],
    total_cost: cost,
    lines: Array.from({ length: 1 + (version % 4) }, (_, line) => ({
      lot: `Lot ${line}`,
      share: '1',
      cost,
      values: Array.from({ length: 1 + (version % 3) }, (_, cell) => ({ column: `Column ${cell}`, value: cost })),
    })),
  };
}
