import { createHash } from 'node:crypto';
import type { Document } from '#connector/documents.ts';
import type { Sql } from '#platform/database/database.ts';
import { type MadeDocument, makeAwardDocument } from '../documents/award-document.ts';
import { documentKeysOf, readAwardKey } from '../documents/document-keys.ts';
import type { FlowSettings } from '../settings.ts';

/**
 * Makes the documents of these keys from the mirror as it stands, with two statements for all of them. A document is
 * made of the records that name it: one that cannot be understood spoils no others.
 */
export async function makeDocuments(
  sql: Sql,
  flow: FlowSettings,
  keys: readonly string[],
): Promise<Map<string, MadeDocument<Document>>> {
  const parts = keys.map((key) => ({ key, ...readAwardKey(key) }));
  const eventIds = [...new Set(parts.map(({ event }) => event))];
  const events = new Map(
    (
      await sql.query<{ record_id: string; body: string }>(
        `select record_id, body from bridge.mirror
         where source = $1 and feed = 'sourcing-events' and record_id = any($2)`,
        [flow.source, eventIds],
      )
    ).map((row) => [row.record_id, JSON.parse(row.body) as { is_test?: unknown }]),
  );
  const awards = await awardsByKey(sql, flow.source, eventIds);
  return new Map(
    parts.map(({ key, event, supplier }) => {
      const record = events.get(event);
      const wanted = flow.test_events || record?.is_test !== true;
      const document = makeAwardDocument({
        eventId: event,
        supplierId: supplier,
        event: record,
        awards: wanted ? (awards.get(key) ?? []) : [],
        columns: { quantity: flow.quantity_column, unitPrice: flow.unit_price_column },
      });
      return [key, document];
    }),
  );
}

async function awardsByKey(sql: Sql, source: string, eventIds: readonly string[]): Promise<Map<string, unknown[]>> {
  const rows = await sql.query<{ body: string }>(
    `select body from bridge.mirror where source = $1 and feed = 'awards' and sourcing_event = any($2)`,
    [source, eventIds],
  );
  const awards = new Map<string, unknown[]>();
  for (const { body } of rows) {
    const record = JSON.parse(body) as unknown;
    for (const key of new Set(documentKeysOf('awards', record).map((one) => one.key))) {
      const sofar = awards.get(key);
      if (sofar) sofar.push(record);
      else awards.set(key, [record]);
    }
  }
  return awards;
}

/** What tells two states of a document apart. Its fields are always made in the same order. */
export function hashOf(document: Document): string {
  return createHash('sha256').update(JSON.stringify(document)).digest('hex');
}
