import { readPairKey } from '#bridge/documents/document-keys.ts';
import type { Sql } from '#platform/database/sql.ts';
import { type KindAndKey, pairFeeds, placesOf } from './document-parts.ts';

/**
 * Returns as many of the keys, from the first on, as are made of at most `bytesMax` bytes of records in total; at least
 * one key. Cheap: PostgreSQL knows the length of a stored text without reading it.
 */
export async function limitKeys(
  sql: Sql,
  source: string,
  keys: readonly KindAndKey[],
  bytesMax: number,
): Promise<readonly KindAndKey[]> {
  // The first one is always made, whatever it is made of.
  if (keys.length === 1) return keys;
  const placesOfKeys = keys.map(({ kind, key }) => {
    if (kind === 'event-awards') return [{ feed: 'awards', event: key, supplier: '' }];
    const feed = pairFeeds.get(kind);
    return feed === undefined ? [] : placesOf([{ feed, ...readPairKey(key) }]);
  });
  const named = new Map(placesOfKeys.flat().map((place) => [nameOf(place), place]));
  if (named.size === 0) return keys;
  const places = [...named.values()];
  const rows = await sql.query<{ feed: string; event: string; supplier: string; bytes: number }>(
    `select k.feed, k.event, k.supplier, sum(octet_length(m.body))::bigint as bytes
     from unnest($2::text[], $3::text[], $4::text[]) as k (feed, event, supplier)
     join bridge.mirror m on m.source = $1 and m.feed = k.feed and m.sourcing_event = k.event
       and m.supplier = k.supplier
     group by 1, 2, 3`,
    [source, places.map(({ feed }) => feed), places.map(({ event }) => event), places.map(({ supplier }) => supplier)],
  );
  const bytes = new Map(rows.map((row) => [nameOf(row), row.bytes]));
  let left = bytesMax;
  for (const [index, own] of placesOfKeys.entries()) {
    for (const place of own) {
      const name = nameOf(place);
      left -= bytes.get(name) ?? 0;
      // A place that several documents are made of is read, and counted, once.
      bytes.delete(name);
    }
    if (left < 0) return keys.slice(0, Math.max(1, index));
  }
  return keys;
}

function nameOf({ feed, event, supplier }: { feed: string; event: string; supplier: string }): string {
  return JSON.stringify([feed, event, supplier]);
}
