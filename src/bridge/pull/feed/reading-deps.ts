/** What reading a feed into the mirror needs: the pull reads with it, and so do backfills and audits. */

import type { AcquireLease } from '#bridge/ledger/leases/lease.ts';
import type { SourceSettings } from '#bridge/settings/settings.ts';
import type { SourceClient } from '#client/source-client.ts';
import type { Clock } from '#platform/clock.ts';
import type { Database } from '#platform/database/database.ts';
import type { Logger } from '#platform/log.ts';
import type { Counter } from '#platform/metrics.ts';
import type { SourceProfile } from './source-profile.ts';

export interface ReadingDeps {
  source: SourceSettings;
  client: Pick<SourceClient, 'readFeed'>;
  database: Database;
  acquireLease: AcquireLease;
  clock: Clock;
  log: Logger;
  records: Counter<'feed' | 'result'>;
  /** Wakes the flows of this source, after a commit that marked documents. */
  wakeFlows: () => void;
}

/**
 * The lateness bound of a feed in milliseconds: how long after its stamp a record may still appear. It is the source's
 * setting, unless an audit has raised it.
 */
export function latenessMsOf(source: SourceSettings, { latenessMs = 0 }: SourceProfile): number {
  return Math.max(source.lateness_seconds * 1000, latenessMs);
}
