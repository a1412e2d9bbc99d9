/**
 * The live sourcing event as the domain sees it: what the screens of such a service would show. The feeds show what it
 * was at their last update (see `feed-records.ts`).
 */
import type { Cell, Column, EventStatus, RoundStatus } from '#contract/sourcing-event.ts';
import type { Timestamp } from '#contract/timestamp.ts';

/** Values by column name. A Map, because a column may be called `__proto__`. */
export type Cells = ReadonlyMap<string, Cell>;

export interface Lot {
  readonly id: string;
  readonly name: string;
  /** The buyer's values. */
  readonly values: Cells;
}

export interface Round {
  readonly number: number;
  readonly starts: Timestamp | null;
  readonly ends: Timestamp | null;
  readonly status: RoundStatus;
  readonly awardedCost: string | null;
  readonly awardedLotCount: number | null;
}

export interface Invitation {
  readonly supplierId: string;
  readonly externalId: string;
  readonly name: string;
  readonly contacts: readonly { id: string; name: string; email: string }[];
  readonly inviteCount: number;
  readonly accepted: boolean;
  readonly participated: boolean;
  readonly lastSuccessfulBid: Timestamp | null;
  readonly lastFailedBid: Timestamp | null;
  readonly lastAccessed: Timestamp | null;
  /** The supplier's values for columns of scope EVENT. */
  readonly globalValues: Cells;
}

export interface SourcingEvent {
  readonly id: string;
  readonly organisationId: string;
  readonly name: string;
  readonly description: string;
  readonly referenceId: string | null;
  readonly type: string;
  readonly status: EventStatus;
  readonly primaryCurrency: string;
  readonly secondaryCurrencies: readonly { code: string; exchange_rate: string }[];
  readonly tags: readonly { name: string; value: string }[];
  readonly category: string | null;
  readonly eventContact: { name?: string; email?: string } | null;
  readonly columns: readonly Column[];
  readonly columnRoles: { readonly volume?: string; readonly historic_cost?: string };
  /** The buyer's values for columns of scope EVENT. */
  readonly globalValues: Cells;
  readonly primaryCostCalculation: string | null;
  readonly isTest: boolean;
  readonly createdBy: string;
  readonly created: Timestamp;
  readonly published: Timestamp | null;
  readonly closed: Timestamp | null;
  readonly awardedScenario: string | null;
  readonly scenarioCount: number;
  readonly lots: readonly Lot[];
  readonly rounds: readonly Round[];
  readonly invitations: readonly Invitation[];
}

/** The bid of one supplier for one lot. */
export interface Bid {
  readonly id: string;
  readonly lotId: string;
  readonly supplierId: string;
  /** The values that stand; null while no complete bid was made. */
  readonly values: Cells | null;
  /** The primary cost of `values`, in the event's primary currency. */
  readonly cost: string | null;
  /** Entered since, and not complete. */
  readonly draft: Cells | null;
}

/** A lot's award to one supplier. */
export interface ScenarioAward {
  readonly lotId: string;
  readonly supplierId: string;
  readonly share: string;
}
