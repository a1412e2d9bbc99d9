/** What has changed at the sources, read from SQL: for status, check and the metrics. */
import type { FeedName } from '#contract/feed.ts';
import type { Timestamp } from '#contract/timestamp.ts';
import type { Sql } from '#platform/database/sql.ts';
import { neededFields } from '../documents/needed-fields.ts';
import type { BridgeSettings } from '../settings.ts';

/** A change that was noticed within the last days, or a field that is gone. */
export interface SourceChange {
  source: string;
  feed: string;
  /** `field`, `form`, `gone`, `paging`, `page size` or `clock`. */
  kind: string;
  /** The path of the field: `awards[].cost`. */
  subject: string;
  detail: string;
  noticed: Timestamp;
  /** A flow needs the field now, and the source no longer sends it. */
  isMissed: boolean;
}

const shownMost = 200;
const shownDays = 14;

/** Returns the changes of the configured feeds, the latest first. */
export async function readSourceChanges(
  sql: Sql,
  { sources, flows = [] }: Pick<BridgeSettings, 'sources'> & Partial<Pick<BridgeSettings, 'flows'>>,
  now: Timestamp,
): Promise<SourceChange[]> {
  const rows = await sql.query<Omit<SourceChange, 'isMissed'> & { resolved: Timestamp | null }>(
    `select source, feed, kind, subject, detail, noticed, resolved from bridge.source_changes
     where noticed > $1::timestamptz - $2 * interval '1 day' or (kind = 'gone' and resolved is null)
     order by kind = 'gone' and resolved is null desc, noticed desc, subject limit ${shownMost}`,
    [now, shownDays],
  );
  return rows.flatMap(({ resolved, ...change }): SourceChange[] => {
    const source = sources.find(({ name }) => name === change.source);
    const feed = source?.feeds.find((name) => name === change.feed);
    if (!source || !feed) return [];
    if (change.kind !== 'gone') return [{ ...change, isMissed: false }];
    return resolved === null && isNeeded(flows, source.name, feed, change.subject)
      ? [{ ...change, isMissed: true }]
      : [];
  });
}

function isNeeded(flows: BridgeSettings['flows'], source: string, feed: FeedName, path: string): boolean {
  const own = flows.filter((flow) => flow.source === source);
  return neededFields(own, feed).some((field) => field.path === path);
}
