/**
 * The live sourcing event as the domain sees it: what the screens of such a service would show. The feeds show the
 * event as it was at their last update (see `feed-records.ts`).
 */
import type { Offer } from '#contract/desk.ts';
import type { QuestionInput } from '#contract/rfi.ts';
import type { Cell, Column, EventStatus, RoundStatus } from '#contract/sourcing-event.ts';
import type { Timestamp } from '#contract/timestamp.ts';

/** Values by column name. A Map, because a column may be called `__proto__`. */
export type Cells = ReadonlyMap<string, Cell>;

export interface Lot {
  readonly id: string;
  readonly name: string;
  /** The buyer's values. */
  readonly values: Cells;
  readonly sourcingRequest: string | null;
}

export interface Round {
  readonly number: number;
  readonly starts: Timestamp | null;
  readonly ends: Timestamp | null;
  readonly status: RoundStatus;
  readonly awardedCost: string | null;
  readonly awardedLotCount: number | null;
  /** Whether it is, or was, open for a second time. */
  readonly reopened: boolean;
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
  readonly columnRoles: Readonly<
    Partial<Record<'lot_identifier' | 'volume' | 'historic_cost' | 'description', string | undefined>>
  >;
  /** The buyer's values for columns of scope EVENT. */
  readonly globalValues: Cells;
  readonly primaryCostCalculation: string | null;
  readonly isTest: boolean;
  readonly isTemplate: boolean;
  readonly closeAfterLastRound: boolean;
  readonly createdBy: Creator;
  readonly created: Timestamp;
  readonly published: Timestamp | null;
  readonly closed: Timestamp | null;
  /** When its bids and answers were deleted, long after it had closed. */
  readonly emptied: Timestamp | null;
  readonly awardedScenario: string | null;
  /** Whether records of bids have changed since the feed was last compared with all of the bids. */
  readonly bidsBehind: boolean;
  readonly scenarioCount: number;
  /** The ids of the sourcing requests that it serves. */
  readonly sourcingRequests: readonly string[];
  readonly lots: readonly Lot[];
  readonly rounds: readonly Round[];
  readonly invitations: readonly Invitation[];
}

/** The user of the API key that created an event; of a key without a user, the key itself. */
export interface Creator {
  readonly id: string;
  readonly name: string | null;
  readonly email: string | null;
}

/** The bid of one supplier for one lot. */
export interface Bid {
  readonly id: string;
  readonly lotId: string;
  readonly supplierId: string;
  /** The values that stand; null until a complete bid was made. */
  readonly values: Cells | null;
  /** The offers that stand, in a Dutch auction. */
  readonly offers: readonly Offer[] | null;
  /** The primary cost of the values that stand, in the event's primary currency. */
  readonly cost: string | null;
  /** Values entered later that are not complete. */
  readonly draft: Cells | null;
  /** Whether it stood and was withdrawn. Its record then says so. */
  readonly withdrawn: boolean;
}

/** A lot's award to one supplier. */
export interface ScenarioAward {
  readonly lotId: string;
  readonly supplierId: string;
  readonly share: string;
}

/** A question of the event's RFI. */
export interface Question extends Omit<QuestionInput, 'uuid' | 'parent_question_uuid'> {
  readonly id: string;
  readonly parentId: string | null;
  readonly modified: Timestamp;
}

/** The answer of one supplier to one question. */
export interface RfiResponse {
  readonly id: number;
  readonly supplierId: string;
  readonly questionId: string;
  readonly value: string | null;
  readonly selectedOptions: readonly { value: string; satisfies_gating: boolean }[] | null;
  readonly comment: string | null;
  readonly currency: string | null;
  readonly documentFileIds: readonly string[];
}
