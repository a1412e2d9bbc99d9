import { documentKeysOf, documentKeysOfResource, partsNaming } from '#bridge/documents/document-keys.ts';
import type { FlowSettings } from '#bridge/settings/settings.ts';
import { documentKinds } from '#connector/documents.ts';
import { feedNames } from '#contract/feed.ts';
import type { Timestamp } from '#contract/timestamp.ts';
import type { Sql } from '#platform/database/sql.ts';
import { markDocuments, markDocumentsOfFlow } from './mark-documents.ts';

const pageSize = 500;

/**
 * Marks every document that can be made for a flow of the mirror and the resources, page by page, and every document
 * that was ever made for it. A document that is marked without need is compared later and found equal. The caller holds
 * `lockSources` and has registered the flow's kinds.
 */
export async function markEverything(tx: Sql, flow: FlowSettings, now: Timestamp): Promise<void> {
  await markDocumentsOfFlow(tx, flow.name, now);
  // References of a kind were not indexed while no flow took that kind: those in the table may be out of date.
  await tx.query('update bridge.record_references set current = false where source = $1 and kind = any($2)', [
    flow.source,
    flow.documents,
  ]);
  const kinds = documentKinds.filter((kind) => flow.documents.includes(kind));
  const feeds = feedNames.filter((feed) => kinds.some((kind) => partsNaming(kind).feeds.includes(feed)));
  const resources = new Set(kinds.flatMap((kind) => partsNaming(kind).resources));
  const mark = (keys: Parameters<typeof markDocuments>[2]) =>
    markDocuments(
      tx,
      { source: flow.source, flow: flow.name },
      keys.filter(({ kind }) => kinds.includes(kind)),
      now,
    );
  for (const feed of feeds)
    await eachPage(tx, mirrorPage, [flow.source, feed], (body) => documentKeysOf(feed, body), mark);
  for (const kind of resources)
    await eachPage(tx, resourcePage, [flow.source, kind], (body) => documentKeysOfResource(kind, body), mark);
}

const mirrorPage = `select record_id as id, body from bridge.mirror where source = $1 and feed = $2 and record_id > $3
  order by record_id limit ${pageSize}`;
const resourcePage = `select id, body from bridge.resources where source = $1 and kind = $2 and id > $3
  order by id limit ${pageSize}`;

async function eachPage<Key>(
  tx: Sql,
  statement: string,
  [source, part]: readonly [string, string],
  keysOf: (body: unknown) => Key[],
  onKeys: (keys: Key[]) => Promise<void>,
): Promise<void> {
  for (let after = ''; ; ) {
    const rows = await tx.query<{ id: string; body: string }>(statement, [source, part, after]);
    await onKeys(rows.flatMap(({ body }) => keysOf(JSON.parse(body))));
    const last = rows.at(-1);
    if (!last || rows.length < pageSize) return;
    after = last.id;
  }
}
