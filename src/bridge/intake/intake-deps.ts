/** What the parts of one intake's work share. */
import type { Lease } from '#bridge/ledger/leases/lease.ts';
import type { IntakeSettings } from '#bridge/settings/intake-settings.ts';
import type { SourceSettings } from '#bridge/settings/settings.ts';
import type { SourceClient } from '#client/source-client.ts';
import type { Clock } from '#platform/clock.ts';
import type { Database } from '#platform/database/database.ts';
import type { Logger } from '#platform/log.ts';
import type { ErpReader } from './read-erp.ts';
import type { WishOf } from './requisitions/requisition-need.ts';
import type { ErpTeller } from './tell-erp.ts';
import type { createWanted } from './wanted-supplier.ts';

export interface IntakeDeps {
  readonly intake: IntakeSettings;
  readonly source: SourceSettings;
  readonly reader: ErpReader;
  /** Of requisitions, where the connector tells its ERP what became of them. */
  readonly teller: ErpTeller | undefined;
  readonly client: Pick<SourceClient, 'call' | 'readFeed' | 'readList' | 'submitJobOnce' | 'uploadFiles'>;
  readonly wantedOf: ReturnType<typeof createWanted>;
  /** For requisitions. */
  readonly wishOf: WishOf;
  readonly database: Database;
  readonly clock: Clock;
  readonly log: Logger;
  /** Counts what became of records: `read`, `taken`, `refused`. */
  readonly count: (result: string, number: number) => void;
}

/** The same, while the lease on the intake is held. */
export interface IntakeWork extends IntakeDeps {
  readonly lease: Lease;
  readonly signal: AbortSignal;
}
