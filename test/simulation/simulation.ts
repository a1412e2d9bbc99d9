/** Everything that belongs to the world of one seed, and the settings of its bridge. */
import type { Client } from 'pg';
import { type BridgeSettings, bridgeSettings } from '#bridge/settings.ts';
import type { FeedName } from '#contract/feed.ts';
import { HostileSource } from './hostile-source.ts';
import { type Scenario, scenarioOf } from './scenario.ts';
import { SimulatedErp } from './simulated-erp.ts';
import { connectErps } from './simulated-network.ts';
import { type RealSessions, SimulatedPostgres } from './simulated-postgres.ts';
import { SimulatedQueue } from './simulated-signals.ts';
import { World } from './world.ts';

/** A fault that no bridge can compensate: the simulation must report it as a violation. */
export type Sabotage = 'forgetful ERP' | 'silent change';

export interface Simulation {
  readonly world: World;
  readonly scenario: Scenario;
  readonly source: HostileSource;
  readonly postgres: SimulatedPostgres;
  readonly queue: SimulatedQueue;
  readonly erps: ReadonlyMap<string, SimulatedErp>;
  /** The simulation's own database session, in which no fault happens. */
  readonly sql: Client;
  readonly settings: BridgeSettings;
  /** The bodies of genuine notifications that were answered with 2xx, and of forged ones. */
  readonly accepted: string[];
  readonly forged: string[];
  /** The bodies of genuine notifications that have not been accepted yet. */
  readonly underway: Set<string>;
}

export const signingKey = 'signing-key-of-the-simulation';
const apiKey = 'feed-key-of-the-simulation';

export interface SeedOptions {
  sql: Client;
  real: RealSessions;
  /** Writes the log to standard output, too. */
  echo?: boolean;
  sabotage?: Sabotage;
}

export function createSimulation(seed: string, { sql, real, echo = false, sabotage }: SeedOptions): Simulation {
  const world = new World(seed, echo);
  const scenario = scenarioOf(seed);
  world.log('world', JSON.stringify(scenario));
  const source = new HostileSource(world, apiKey, scenario.quirks, scenario.source);
  source.changesWithoutStamp = sabotage === 'silent change';
  const quirks = { ...scenario.erp, forgets: sabotage === 'forgetful ERP' };
  const names = Array.from({ length: scenario.settings.flows }, (_, index) => `erp-${index}`);
  const erps = new Map(names.map((name) => [name, new SimulatedErp(world, quirks, scenario.erpFaults, name)]));
  connectErps(world, erps);
  return {
    world,
    scenario,
    source,
    postgres: new SimulatedPostgres(world, real, scenario.database),
    queue: new SimulatedQueue(world, scenario.queue),
    erps,
    sql,
    settings: settingsOf(scenario),
    accepted: [],
    forged: [],
    underway: new Set(),
  };
}

/** The feeds of which this scenario's documents are made. */
export function feedsOf({ settings: { documents } }: Scenario): FeedName[] {
  return [
    'sourcing-events',
    ...(documents.includes('award') ? (['awards'] as const) : []),
    ...(documents.includes('quotation') ? (['latest-bids'] as const) : []),
  ];
}

function settingsOf(scenario: Scenario): BridgeSettings {
  const { settings, quirks } = scenario;
  return bridgeSettings.parse({
    lease_seconds: settings.leaseS,
    sources: [
      {
        name: 'main',
        base_url: 'https://source.test',
        api_key: apiKey,
        signing_keys: [signingKey],
        feeds: feedsOf(scenario),
        quotas:
          quirks.perMinute === null ? { enabled: false } : { feeds: { burst: quirks.perMinute, sustained: 43_200 } },
        poll_seconds: settings.pollS,
        page_size: settings.pageSize,
        timeout_seconds: settings.timeoutS,
        lateness_seconds: settings.latenessS,
        includes: false,
        audit_hours: 1,
        audit_window_hours: 1,
      },
    ],
    flows: Array.from({ length: settings.flows }, (_, index) => ({
      name: `flow-${index}`,
      source: 'main',
      connector: `erp-${index}`,
      documents: settings.documents,
      test_events: settings.testEvents,
      circuit: { failures: 4, seconds: 20 },
      ...(settings.withdrawals ? { withdrawals: settings.withdrawals } : {}),
    })),
  });
}
