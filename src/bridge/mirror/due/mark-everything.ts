import { documentKeysOf, documentKeysOfResource, partsNaming } from '#bridge/documents/document-keys.ts';
import type { FlowSettings } from '#bridge/settings/settings.ts';
import { documentKinds } from '#connector/documents.ts';
import { feedNames } from '#contract/feed.ts';
import type { Timestamp } from '#contract/timestamp.ts';
import type { Sql } from '#platform/database/sql.ts';
import { markDocuments, markDocumentsOfFlows } from './mark-documents.ts';

const pageSize = 500;

/**
 * Marks every document that can be made for these flows of the mirror and the resources, page by page, and every document
 * that was ever made for them. A document that is marked without need is compared later and found equal. The caller holds
 * `lockSources` and has registered the flows' kinds.
 */
export async function markEverything(tx: Sql, flows: readonly FlowSettings[], now: Timestamp): Promise<void> {
  const names = flows.map(({ name }) => name);
  await markDocumentsOfFlows(tx, names, now);
  // References of a kind were not indexed while no flow took that kind: those in the table may be out of date.
  await tx.query(
    `update bridge.record_references r set current = false
     from bridge.flows f where f.name = any($1) and r.source = f.source and r.kind = any(f.kinds)`,
    [names],
  );
  const known = await sourcesWithRecords(
    tx,
    flows.map(({ source }) => source),
  );
  for (const flow of flows) if (known.has(flow.source)) await markMirrored(tx, flow, now);
}

/** The others need no look at each of their feeds: at a first start that is all of them. */
async function sourcesWithRecords(tx: Sql, sources: readonly string[]): Promise<ReadonlySet<string>> {
  const rows = await tx.query<{ source: string }>(
    `select s.source from unnest($1::text[]) as s (source)
     where exists (select from bridge.mirror m where m.source = s.source)
       or exists (select from bridge.resources r where r.source = s.source)`,
    [sources],
  );
  return new Set(rows.map(({ source }) => source));
}

async function markMirrored(tx: Sql, flow: FlowSettings, now: Timestamp): Promise<void> {
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
