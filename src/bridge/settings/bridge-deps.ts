/** What every part of the bridge needs, and what a part provides to the process. */
import type { Request } from 'express';
import type { SourceClient } from '#client/source-client.ts';
import type { Clock } from '#platform/clock.ts';
import type { Database } from '#platform/database/database.ts';
import type { GuardedFetch } from '#platform/guarded-fetch.ts';
import type { Application } from '#platform/http/application.ts';
import type { ConnectionLimits } from '#platform/http/connections.ts';
import type { ServerCertificate } from '#platform/http/server-certificate.ts';
import type { Logger } from '#platform/log.ts';
import type { Registry } from '#platform/metrics.ts';
import type { Signals } from '#platform/queue.ts';
import type { SecretBox } from '#platform/secrets.ts';
import type { SweptLane } from '#platform/sweep.ts';
import type { ProcessIdentity } from './process-identity.ts';
import type { BridgeSettings } from './settings.ts';

/** What a process of the bridge does; several processes may have the same role. */
export const bridgeRoles = ['receive', 'pull', 'push', 'intake', 'console', 'all'] as const;
export type BridgeRole = (typeof bridgeRoles)[number];

export interface BridgeDeps {
  settings: BridgeSettings;
  /** Default: `all`. */
  role?: BridgeRole;
  /** For the webhook endpoint; undefined where a process does not receive and the certificate is the operator's own. */
  tls: ServerCertificate | undefined;
  /** For the console; without it the console speaks HTTP. */
  consoleTls?: ServerCertificate | undefined;
  dataDir: string;
  sweepMs: number;
  /** How many days the audit log is kept. */
  actionDays: number;
  database: Database;
  signals: Signals;
  fetch: GuardedFetch;
  secrets: SecretBox;
  clock: Clock;
  log: Logger;
  registry: Registry;
  /** The limits of connections, for the webhook endpoint and for the console; default: `connectionLimitsDefault`. */
  connections?: ConnectionLimits;
  /** Default: the identity of the operating system's process. */
  processIdentity?: ProcessIdentity;
  /**
   * Adds routes to the console's application; the start fails with its error. `clientOf` returns the client of a source, as
   * the other parts of the process have it, and `certificates` those that this process shows.
   */
  mountConsole?: (
    application: Application,
    clientOf: (source: string) => SourceClient,
    certificates: () => { certificatePem?: string | undefined; certificateRefused?: string | undefined },
  ) => void | Promise<void>;
  /** Throws the refusal of a request for `/metrics`; default: every request may have them. */
  guardMetrics?: (request: Request) => void;
}

/** A part of the process that works lanes of the queue. */
export interface WorkingPart {
  /** The lanes, each with the query by which the sweep finds what is due. */
  readonly lanes: readonly SweptLane[];
  /** Called with each sweep; it decides itself how often it does its work. */
  readonly housekeeping?: () => void | Promise<void>;
}

/**
 * The lanes of the queue. The keys of `pull` and `backfill` are `<source>/<feed>`, those of `push` and
 * `reconcile` names of flows, those of `suppliers`, `jobs` and `webhooks` names of sources, those of `intake` names of intakes, and `alerts` has
 * one key.
 */
export const lanes = {
  pull: 'pull',
  backfill: 'backfill',
  push: 'push',
  suppliers: 'suppliers',
  jobs: 'jobs',
  alerts: 'alerts',
  intake: 'intake',
  reconcile: 'reconcile',
  webhooks: 'webhooks',
} as const;
