import { createHash } from 'node:crypto';
import type { Document } from '#connector/documents.ts';
import type { Sql } from '#platform/database/database.ts';
import { type MadeDocument, makeAwardDocument } from '../documents/award-document.ts';
import { readAwardKey } from '../documents/document-keys.ts';
import type { FlowSettings } from '../settings.ts';

/** Makes the documents of these keys from the mirror as it stands, with two statements for all of them. */
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
  const awards = Map.groupBy(
    await sql.query<{ sourcing_event: string; body: string }>(
      `select sourcing_event, body from bridge.mirror
       where source = $1 and feed = 'awards' and sourcing_event = any($2) order by record_id`,
      [flow.source, eventIds],
    ),
    (row) => row.sourcing_event,
  );
  const parsed = new Map(
    [...awards].map(([event, rows]) => [event, rows.map(({ body }) => JSON.parse(body) as unknown)]),
  );
  return new Map(
    parts.map(({ key, event, supplier }) => {
      const record = events.get(event);
      const wanted = flow.test_events || record?.is_test !== true;
      const document = makeAwardDocument({
        eventId: event,
        supplierId: supplier,
        event: record,
        awards: wanted ? (parsed.get(event) ?? []) : [],
        columns: { quantity: flow.quantity_column, unitPrice: flow.unit_price_column },
      });
      return [key, document];
    }),
  );
}

/** What tells two states of a document apart. Its fields are always made in the same order. */
export function hashOf(document: Document): string {
  return createHash('sha256').update(JSON.stringify(document)).digest('hex');
}
