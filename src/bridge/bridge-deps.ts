/** What every part of the bridge stands on. */
import type { Clock } from '#platform/clock.ts';
import type { Database } from '#platform/database/database.ts';
import type { GuardedFetch } from '#platform/guarded-fetch.ts';
import type { Application } from '#platform/http/application.ts';
import type { Logger } from '#platform/log.ts';
import type { Registry } from '#platform/metrics.ts';
import type { Signals } from '#platform/queue.ts';
import type { SecretBox } from '#platform/secrets.ts';
import type { SweptLane } from '#platform/sweep.ts';
import type { ProcessIdentity } from './leases/process-identity.ts';
import type { BridgeSettings } from './settings.ts';

/** What a process of the bridge does; several processes may do the same. */
export const bridgeRoles = ['receive', 'pull', 'push', 'all'] as const;
export type BridgeRole = (typeof bridgeRoles)[number];

export interface BridgeDeps {
  settings: BridgeSettings;
  /** `all` when it is left out. */
  role?: BridgeRole;
  /** For the webhook endpoint; the console stays on plain HTTP. */
  tls: { certPem: string; keyPem: string };
  dataDir: string;
  sweepMs: number;
  database: Database;
  signals: Signals;
  fetch: GuardedFetch;
  secrets: SecretBox;
  clock: Clock;
  log: Logger;
  registry: Registry;
  /** The operating system's, when it is left out. */
  processIdentity?: ProcessIdentity;
  /** Adds routes to the console's application. */
  mountConsole?: (application: Application) => void;
}

/** A part that works lanes: what the sweep has to look for, and its housekeeping. */
export interface WorkingPart {
  readonly lanes: readonly SweptLane[];
  /** Called with each sweep; it decides itself how often it has something to do. */
  readonly housekeeping?: () => Promise<void>;
}

/** The lanes of the queue. A key of `pull` and of `backfill` is `<source>/<feed>`, one of `push` the flow's name, of `suppliers` the source's. */
export const lanes = { pull: 'pull', backfill: 'backfill', push: 'push', suppliers: 'suppliers' } as const;
