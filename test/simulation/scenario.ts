/**
 * The scenario that a seed chooses. Each seed has its own selection of quirks and faults: a world in which everything
 * fails at once would hide what a world with a single fault shows.
 */

import type { DocumentKind } from '#connector/documents.ts';
import { drawQuirks } from './draw-quirks.ts';
import type { Quirks, SourceFaults } from './hostile-source.ts';
import { createRandom, type Random } from './random.ts';
import type { ErpFaults, ErpQuirks } from './simulated-erp.ts';
import type { DatabaseFaults } from './simulated-postgres.ts';
import type { QueueFaults } from './simulated-signals.ts';
import type { StorySize } from './sourcing-story.ts';
import { nothingWide, type WideScenario, wideScenarioOf } from './wide-scenario.ts';

export interface Scenario {
  readonly story: StorySize & {
    /** How many steps happen before the bridge starts, how many during the chaos, and how long the chaos lasts. */
    readonly before: number;
    readonly during: number;
    readonly chaosMs: number;
  };
  readonly calm: {
    /** Each feed is announced once more when all its records have arrived; otherwise it waits for its schedule. */
    readonly announceAgain: boolean;
    /** Only one process is left, with every role; it must complete what the others have left undone. */
    readonly oneProcess: boolean;
  };
  readonly quirks: Quirks;
  readonly source: SourceFaults;
  readonly database: DatabaseFaults;
  readonly queue: QueueFaults;
  readonly erp: ErpQuirks;
  readonly erpFaults: ErpFaults;
  readonly notifications: {
    readonly lost: number;
    readonly twice: number;
    readonly lateMs: number;
    readonly forged: number;
  };
  readonly processes: {
    readonly roles: readonly ('receive' | 'pull' | 'push' | 'all')[];
    readonly skewMs: number;
    readonly oneMachine: boolean;
    /** The chances to die or to be paused, for each call that leaves the process. */
    readonly crash: number;
    readonly freeze: number;
    /** Calls of one kind at which that happens far more often than at others. */
    readonly focus: { readonly on: keyof typeof focusPoints; readonly does: 'crash' | 'freeze' } | undefined;
    /** How many of each happen during the chaos. */
    readonly kills: number;
    readonly stops: number;
    readonly pauses: number;
    readonly outages: number;
    /** How long a process is paused. */
    readonly pauseMs: readonly number[];
  };
  readonly settings: {
    readonly pageSize: number;
    readonly latenessS: number;
    /** Longer than any simulation: the bridge reads by notifications alone. */
    readonly pollS: number;
    readonly timeoutS: number;
    readonly leaseS: number;
    readonly sweepMs: number;
    readonly documents: readonly DocumentKind[];
    readonly flows: number;
    readonly testEvents: boolean;
    readonly withdrawals: { readonly most: number; readonly share: number } | undefined;
  };
  readonly wide: WideScenario;
  /** The second source, with its flows. The processes, the database and the queue are those of the first scenario. */
  readonly second: Scenario | undefined;
}

/** The calls around which a crash or a pause does most harm, and the chance of it in a seed that focuses on them. */
export const focusPoints = {
  'keeps a push': { where: /^after keep lease push/, chance: 0.2 },
  'keeps a pull': { where: /^after keep lease pull/, chance: 0.1 },
  commits: { where: /^(before|after) commit$/, chance: 0.05 },
  'calls the ERP': { where: /^(before|after) call the ERP/, chance: 0.15 },
  'looks up in the ERP': { where: /^(before|after) look up in the ERP/, chance: 0.2 },
  'asks the source': { where: /^(before|after) GET/, chance: 0.05 },
};

/**
 * The versions of the generator: 1 draws the narrow scenario, 2 adds the wide one, 3 adds quirks, 4 adds documents of whole
 * events, 5 adds those of jobs. Whatever the generator learns to draw comes with a new version and from a stream of its own,
 * so that seeds of earlier versions keep their scenario.
 */
const newestVersion = 5;
/** The version that draws a seed which names none. `SIM_VERSION` chooses another one. */
const usualVersion = Number(process.env['SIM_VERSION'] ?? newestVersion);

/** Reads a seed: a number, drawn by the usual version of the generator, or `v1:7`, drawn by that version. */
export function readSeed(seed: string): { version: number; number: string } {
  const [, versionText, number] = /^(?:v(\d+):)?(\d+)$/.exec(seed) ?? [];
  if (number === undefined) throw new Error(`The seed ${seed} must be a number, or a version and a number, as v1:7.`);
  const version = Number(versionText ?? usualVersion);
  if (version < 1 || version > newestVersion) throw new Error(`The generator of seeds has no version ${version}.`);
  return { version, number };
}

export function scenarioOf(seed: string): Scenario {
  const { version, number } = readSeed(seed);
  const random = createRandom(number);
  const narrow = narrowScenarioOf(random.of('scenario'));
  const wide = version === 1 ? nothingWide : wideScenarioOf(random.of('wide'));
  const documents = [...narrow.settings.documents, ...wide.kinds];
  const second = wide.secondSource ? beside(narrow, narrowScenarioOf(random.of('second'))) : undefined;
  const scenario = { ...narrow, settings: { ...narrow.settings, documents }, wide, second };
  if (version < 3) return scenario;
  const quirky = {
    ...withQuirks(scenario, random.of('quirks')),
    second: second && withQuirks(second, random.of('quirks of second')),
  };
  const whole = version < 4 ? quirky : withWholeEvents(quirky, random.of('whole events'));
  return version < 5 ? whole : withJobs(whole, random.of('jobs'));
}

/** In a part of the seeds the flows also take what became of jobs. */
function withJobs(scenario: Scenario, random: Random): Scenario {
  const { settings } = scenario;
  return random.chance(0.3)
    ? { ...scenario, settings: { ...settings, documents: [...settings.documents, 'job'] } }
    : scenario;
}

/**
 * In a part of the seeds the flows also take all awards of an event in one document. Left out are scenarios in which it may
 * wait for longer than the calm lasts: for a stamp of the future to come, or for the next pull where only notifications ask
 * for one; and those that count withdrawals, as this document stays while its event is open.
 */
function withWholeEvents(scenario: Scenario, random: Random): Scenario {
  const { quirks, settings } = scenario;
  const isSettled = quirks.futureDated === 0 && settings.pollS <= 3_600 && settings.withdrawals === undefined;
  if (!isSettled || !random.chance(0.5)) return scenario;
  return { ...scenario, settings: { ...settings, documents: [...settings.documents, 'event-awards'] } };
}

function withQuirks(scenario: Scenario, random: Random): Scenario {
  return { ...scenario, quirks: { ...scenario.quirks, ...drawQuirks(random, scenario) } };
}

type NarrowScenario = Omit<Scenario, 'wide' | 'second'>;

/** A second source is small, and shares what belongs to the processes of the bridge. */
function beside(first: NarrowScenario, { story, quirks, settings, ...second }: NarrowScenario): Scenario {
  const { skewMs } = first.processes;
  const { leaseS, sweepMs } = first.settings;
  return {
    ...second,
    story: { ...story, events: Math.min(2, story.events), during: Math.min(10, story.during) },
    quirks: { ...quirks, bridgeSkewMs: skewMs },
    settings: { ...settings, flows: 1, leaseS, sweepMs },
    processes: first.processes,
    database: first.database,
    queue: first.queue,
    calm: first.calm,
    wide: nothingWide,
    second: undefined,
  };
}

/** What version 1 of the generator draws. */
function narrowScenarioOf(random: Random): NarrowScenario {
  const focus = random.chance(0.4)
    ? {
        on: random.pick(Object.keys(focusPoints) as (keyof typeof focusPoints)[]),
        does: random.pick(['crash', 'freeze'] as const),
      }
    : undefined;
  /** With pauses, leases are short, so that others have time to take over and to do the same work. */
  const freezes = focus?.does === 'freeze';
  const declaresOrder = random.chance(0.35);
  /** Some stamps are ahead by less than others are late: only the source's `Date` keeps the watermark back then. */
  const slightlyAhead = !declaresOrder && random.chance(0.08);
  const latenessS = slightlyAhead ? 10 : random.pick([2, 3, 6]);
  const processSkewMs = random.chance(0.3) ? 2_000 : 0;
  const leaseS = freezes ? 8 : random.pick([8, 25]);
  const often = (chance: number, rate: number) => rateOf(random, chance, rate);
  const timeoutMs = random.pick(freezes ? [5_000, 10_000] : [5_000, 12_000, 30_000]);
  /** The bridge reads by notifications alone, so none of them may be lost. */
  const byNotifications = declaresOrder && random.chance(0.4);
  const isLate = slightlyAhead || !(declaresOrder || random.chance(0.4));
  const lateMs = isLate ? latenessS * 950 * (slightlyAhead ? 1 : random.fraction()) : 0;
  return {
    story: {
      events: random.pick([1, 2, 6]),
      suppliers: random.whole(1, 3),
      lots: random.pick([1, 2, 4, 7]),
      before: random.pick([0, 2, 8]),
      during: slightlyAhead ? 40 : random.whole(6, 24),
      chaosMs: slightlyAhead ? 90_000 : freezes ? 50_000 : random.pick([10_000, 25_000, 50_000]),
    },
    calm: { announceAgain: !byNotifications && random.chance(0.7), oneProcess: !freezes && random.chance(0.6) },
    quirks: {
      declaresOrder,
      paging: declaresOrder ? 'cursor' : random.pick(['cursor', 'page-number', 'offset']),
      inclusiveAfter: declaresOrder || random.chance(0.5),
      inclusiveBefore: declaresOrder || random.chance(0.5),
      stamps: declaresOrder ? 'micros' : random.pick(['micros', 'millis', 'seconds', 'rounded']),
      boundsInSeconds: !declaresOrder && random.chance(0.3),
      lateMs,
      // A late version on a replica that lags is as late as both together.
      lagMs: !byNotifications && random.chance(0.3) ? (latenessS * 1_000 - lateMs) * 0.95 * random.fraction() : 0,
      skewMs: random.chance(0.4) ? random.whole(-120_000, 120_000) : 0,
      // A range that does not fit a page is halved: with tiny pages that takes many requests.
      pageMax: random.pick(declaresOrder ? [2, 3, 1_000] : [3, 5, 1_000, 1_000]),
      foreignNext: random.chance(0.1),
      showsDate: slightlyAhead || random.chance(0.8),
      upperCaseIds: random.chance(0.1),
      futureDated: slightlyAhead ? 0.2 : declaresOrder || random.chance(0.8) ? 0 : 0.1,
      futureMs: slightlyAhead ? latenessS * 900 : 48 * 3_600_000,
      goesBack: random.chance(0.5),
      undated: !declaresOrder && random.chance(0.2) ? 1 : 0,
      perMinute: random.pick([30, 100, null, null]),
      bridgeSkewMs: processSkewMs,
    },
    source: {
      tooMany: often(0.3, 0.06),
      serverError: often(0.3, 0.08),
      truncated: often(0.3, 0.08),
      errorBody: often(0.3, 0.08),
      cut: often(0.3, 0.08),
      slow: often(0.3, 0.1),
      nothing: byNotifications ? 0 : often(0.2, 0.15),
    },
    database: {
      cut: often(0.25, 0.02),
      cutAtCommit: often(0.3, 0.1),
      slow: often(0.2, 0.02),
      lingerMs: random.pick([100, 30_000]),
      idleMs: leaseS * 1_000,
    },
    queue: { lost: often(0.4, 0.7), twice: often(0.3, 0.5) },
    erp: {
      batchMax: random.pick([1, 2, 5, 20]),
      concurrency: random.pick([1, 1, 3]),
      timeoutMs,
      lateEffectMs: random.pick(freezes ? [0, 3_000] : [0, 3_000, 20_000]),
      knowsHashes: random.chance(0.7),
      stubbornMs: random.pick([1_000, 4_000, 12_000]),
    },
    erpFaults: {
      lostBefore: often(0.3, 0.2),
      lostAnswer: focus?.on === 'looks up in the ERP' ? 0.4 : often(0.4, 0.3),
      hang: often(0.25, 0.15),
      slow: often(0.25, 0.2),
      transient: often(0.3, 0.2),
      limited: often(0.2, 0.1),
      locked: often(0.2, 0.1),
      data: often(0.2, 0.1),
      conflict: often(0.1, 0.05),
      auth: often(0.15, 0.05),
      garbled: often(0.15, 0.1),
      lookupFails: often(0.3, 0.3),
    },
    notifications: {
      lost: byNotifications ? 0 : random.pick([0, 0.3, 1]),
      twice: often(0.3, 0.5),
      lateMs: random.pick([500, 500, 10_000]),
      forged: often(0.2, 0.3),
    },
    processes: {
      roles: random.pick<Scenario['processes']['roles']>([
        ['all', 'all'],
        ['all', 'all'],
        ['all', 'all', 'all'],
        ['pull', 'all', 'push'],
        // A pause does harm only where another process can take over.
        ...(freezes ? [] : [['all'] as const, ['receive', 'pull', 'push'] as const]),
      ]),
      skewMs: processSkewMs,
      oneMachine: random.chance(0.5),
      crash: often(0.5, 0.01),
      freeze: often(0.3, 0.012),
      kills: random.chance(0.4) ? random.whole(1, 3) : 0,
      stops: random.chance(0.2) ? 1 : 0,
      pauses: random.chance(0.35) ? random.whole(1, 2) : 0,
      focus,
      outages: random.chance(0.2) ? 1 : 0,
      pauseMs: freezes ? [12_000, 25_000, 45_000] : [1_000, leaseS * 1_300, leaseS * 2_000, 60_000],
    },
    settings: {
      pageSize: random.pick(declaresOrder ? [2, 3, 10] : [5, 10]),
      latenessS,
      pollS: byNotifications ? 36_000 : slightlyAhead ? 5 : random.pick([15, 40]),
      timeoutS: random.pick([2, 10]),
      leaseS,
      sweepMs: slightlyAhead ? 2_500 : freezes ? 6_000 : random.pick([8_000, 20_000]),
      documents: random.pick([['award'], ['award'], ['award'], ['award', 'sourcing-event'], ['quotation', 'award']]),
      flows: random.pick([1, 1, 1, 2]),
      testEvents: random.chance(0.5),
      withdrawals: random.chance(0.25) ? { most: random.whole(1, 3), share: random.pick([0, 0.3]) } : undefined,
    },
  };
}

/** 0 in most seeds; otherwise up to `rate`. */
function rateOf(random: Random, chance: number, rate: number): number {
  return random.chance(chance) ? rate * (0.2 + 0.8 * random.fraction()) : 0;
}
