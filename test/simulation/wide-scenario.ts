/**
 * What version 2 of the generator adds to a scenario: any feeds of the contract, supplier lists, answers, files, audits,
 * commands of an operator during the chaos, and a second source. Each seed gets few of them, so that its cost stays
 * bounded.
 */

import type { DocumentKind } from '#connector/documents.ts';
import { type FeedName, feedNames } from '#contract/feed.ts';
import type { Random } from './random.ts';

export interface WideScenario {
  /** Kinds of documents that the flows take, beside those of the narrow scenario. */
  readonly kinds: readonly DocumentKind[];
  /** Feeds that are read although no document of the flows needs them. */
  readonly feeds: readonly FeedName[];
  /** How many changes of answers, files, suppliers and other records happen during the chaos. */
  readonly changes: number;
  /** How many suppliers the list has that no event names; undefined: the list is not read. */
  readonly suppliers: { readonly others: number; readonly pollS: number; readonly counts: boolean } | undefined;
  /** How often audits are made, by schedule. */
  readonly audits: { readonly everyS: number; readonly fullEveryS: number } | undefined;
  /** How many commands of an operator happen during the chaos. */
  readonly commands: {
    readonly backfills: number;
    readonly fullAudits: number;
    readonly cancels: number;
    readonly setBacks: number;
  };
  readonly secondSource: boolean;
}

/** A scenario of version 1 has nothing of it. */
export const nothingWide: WideScenario = {
  kinds: [],
  feeds: [],
  changes: 0,
  suppliers: undefined,
  audits: undefined,
  commands: { backfills: 0, fullAudits: 0, cancels: 0, setBacks: 0 },
  secondSource: false,
};

export function wideScenarioOf(random: Random): WideScenario {
  const suppliers = random.chance(0.2)
    ? { others: random.whole(0, 8), pollS: random.whole(10, 30), counts: random.chance(0.7) }
    : undefined;
  const answers = random.chance(0.25);
  const files = random.chance(answers ? 0.5 : 0.08);
  const feeds = random.chance(0.15) ? feedNames.filter(() => random.chance(0.4)) : [];
  const isWide = suppliers !== undefined || answers || files || feeds.length > 0;
  const few = (chance: number) => (random.chance(chance) ? random.whole(1, 2) : 0);
  return {
    kinds: [
      ...(suppliers ? (['supplier'] as const) : []),
      ...(answers ? (['rfi-answers'] as const) : []),
      ...(files ? (['file'] as const) : []),
    ],
    feeds,
    changes: isWide ? random.whole(4, 16) : 0,
    suppliers,
    audits: random.chance(0.15)
      ? { everyS: random.pick([8, 15, 40]), fullEveryS: random.pick([20, 40, 100]) }
      : undefined,
    commands: { backfills: few(0.12), fullAudits: few(0.1), cancels: few(0.04), setBacks: few(0.06) },
    secondSource: random.chance(0.12),
  };
}
