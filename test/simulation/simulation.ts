/** Everything that belongs to the world of one seed, and the settings of its bridge. */
import type { Client } from 'pg';
import { partsNaming } from '#bridge/documents/document-keys.ts';
import { type BridgeSettings, bridgeSettings } from '#bridge/settings/settings.ts';
import { type FeedName, feedNames } from '#contract/feed.ts';
import { HostileSource } from './hostile-source.ts';
import { readSeed, type Scenario, scenarioOf } from './scenario.ts';
import { SimulatedErp } from './simulated-erp.ts';
import { connectErps } from './simulated-network.ts';
import { type RealSessions, SimulatedPostgres } from './simulated-postgres.ts';
import { SimulatedService } from './simulated-service.ts';
import { SimulatedQueue } from './simulated-signals.ts';
import { World } from './world.ts';

/** A fault that no bridge can compensate: the simulation must report it as a violation. */
export type Sabotage = 'forgetful ERP' | 'silent change';

/** A source with what the bridge makes of it. */
export interface SimulatedSource {
  readonly name: 'main' | 'second';
  readonly origin: string;
  readonly scenario: Scenario;
  readonly source: HostileSource;
  readonly service: SimulatedService;
  /** The ERPs of its flows, by the names of their connectors. */
  readonly erps: ReadonlyMap<string, SimulatedErp>;
}

export interface Simulation {
  readonly world: World;
  /** The first source's scenario, which is also that of the processes. */
  readonly scenario: Scenario;
  readonly sources: readonly SimulatedSource[];
  readonly postgres: SimulatedPostgres;
  readonly queue: SimulatedQueue;
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
  const world = new World(readSeed(seed).number, echo);
  const scenario = scenarioOf(seed);
  world.log('world', JSON.stringify(scenario));
  const sources = [
    createSource(world, 'main', scenario, sabotage),
    ...(scenario.second ? [createSource(world, 'second', scenario.second, sabotage)] : []),
  ];
  connectErps(world, new Map(sources.flatMap(({ erps }) => [...erps])));
  return {
    world,
    scenario,
    sources,
    postgres: new SimulatedPostgres(world, real, scenario.database),
    queue: new SimulatedQueue(world, scenario.queue),
    sql,
    settings: settingsOf(scenario, sources),
    accepted: [],
    forged: [],
    underway: new Set(),
  };
}

/** The parts of the second source have random numbers of their own. */
export function partOf(name: SimulatedSource['name'], part: string): string {
  return name === 'main' ? part : `${part} of ${name}`;
}

function createSource(
  world: World,
  name: SimulatedSource['name'],
  scenario: Scenario,
  sabotage: Sabotage | undefined,
): SimulatedSource {
  const { quirks, source: faults, wide } = scenario;
  const origin = name === 'main' ? 'https://source.test' : `https://${name}.test`;
  const source = new HostileSource(
    world,
    { apiKey, origin, random: world.random.of(partOf(name, 'source')) },
    quirks,
    faults,
  );
  source.changesWithoutStamp = sabotage === 'silent change';
  const erpQuirks = { ...scenario.erp, forgets: sabotage === 'forgetful ERP' };
  const names = Array.from({ length: scenario.settings.flows }, (_, index) =>
    partOf(name, `erp-${index}`).replaceAll(' ', '-'),
  );
  const erps = new Map(names.map((erp) => [erp, new SimulatedErp(world, erpQuirks, scenario.erpFaults, erp)]));
  const random = world.random.of(partOf(name, 'service'));
  const service = new SimulatedService(world, { random, faults, counts: wide.suppliers?.counts ?? true });
  return { name, origin, scenario, source, service, erps };
}

/** The feeds that are read: those that this scenario's documents are made of, and others. */
export function feedsOf({ settings: { documents }, wide }: Scenario): FeedName[] {
  const needed = new Set<FeedName>(['sourcing-events', ...documents.flatMap((kind) => partsNaming(kind).feeds)]);
  return feedNames.filter((feed) => needed.has(feed) || wide.feeds.includes(feed));
}

function settingsOf({ settings }: Scenario, sources: readonly SimulatedSource[]): BridgeSettings {
  return bridgeSettings.parse({
    lease_seconds: settings.leaseS,
    sources: sources.map(sourceSettingsOf),
    flows: sources.flatMap(flowSettingsOf),
  });
}

function sourceSettingsOf({ name, origin, scenario }: SimulatedSource) {
  const { settings, quirks, wide } = scenario;
  return {
    name,
    base_url: origin,
    api_key: apiKey,
    signing_keys: [signingKey],
    feeds: feedsOf(scenario),
    quotas: { enabled: quirks.perMinute !== null },
    poll_seconds: settings.pollS,
    page_size: settings.pageSize,
    timeout_seconds: settings.timeoutS,
    lateness_seconds: settings.latenessS,
    includes: false,
    suppliers: wide.suppliers !== undefined,
    suppliers_poll_seconds: wide.suppliers?.pollS ?? 900,
    audit_hours: wide.audits ? wide.audits.everyS / 3_600 : 1,
    audit_window_hours: 1,
    ...(wide.audits ? { audit_full_days: wide.audits.fullEveryS / 86_400 } : {}),
  };
}

function flowSettingsOf({ name, scenario: { settings }, erps }: SimulatedSource) {
  return [...erps.keys()].map((connector) => ({
    name: connector.replace('erp', 'flow'),
    source: name,
    connector,
    documents: settings.documents,
    test_events: settings.testEvents,
    circuit: { failures: 4, seconds: 20 },
    ...(settings.withdrawals ? { withdrawals: settings.withdrawals } : {}),
  }));
}
