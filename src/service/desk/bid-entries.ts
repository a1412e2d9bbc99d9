/**
 * Reads and checks entries in the bid sheet, with the same rules for a supplier's bid, the buyer's edit of a bid and
 * the buyer's values.
 */
import type { BuyerValues, SubmitBid } from '#contract/desk.ts';
import { type Issue, issuesMax } from '#contract/issue.ts';
import type { Cell } from '#contract/sourcing-event.ts';
import { AppError, throwIssues } from '#platform/errors.ts';
import { pathText } from '#platform/input.ts';
import { type BidSheet, cellIssue, type FormulaScope, type InputBy, offerIssues } from '../domain/bid-sheet.ts';
import { type Entries, merged } from '../domain/bids.ts';
import { repeatsIn } from '../domain/issue.ts';
import type { Invitation, SourcingEvent } from '../domain/sourcing-event.ts';
import { cellsOf } from '../events/event-store.ts';

/** Throws `conflict` for a supplier that is not invited, and `invalid` with an issue for each wrong lot and column. */
export function readSubmission(event: SourcingEvent, sheet: BidSheet, body: SubmitBid): Entries {
  const invitation = invitationOf(event, body.supplier);
  throwIssues(
    entryIssues(event, sheet, body, 'SUPPLIER_INPUT'),
    ({ path, message }) => `The bid is not valid: ${path}: ${message}.`,
  );
  const global = cellsOf(body.global);
  return {
    supplierId: invitation.supplierId,
    lots: new Map(body.lots.map(({ lot, values, offers }) => [lot, { values: cellsOf(values), offers }])),
    global,
    allGlobal: merged(invitation.globalValues, global),
  };
}

/** The supplier's invitation, by its `external_id`. Throws `conflict` when the supplier is not invited. */
export function invitationOf(event: SourcingEvent, supplier: string): Invitation {
  const found = event.invitations.find((invitation) => invitation.externalId === supplier);
  if (!found) throw new AppError('conflict', `Supplier "${supplier}" is not invited to this event.`);
  return found;
}

/**
 * An issue for each wrong lot and column in the entries of the buyer or of a supplier (`by`): as many as an answer names,
 * because a body may hold hundreds of thousands of wrong values.
 */
export function entryIssues(
  event: SourcingEvent,
  sheet: BidSheet,
  entries: Omit<SubmitBid, 'supplier'>,
  by: InputBy,
): Issue[] {
  const issues: Issue[] = [];
  for (const issue of findEntryIssues(event, sheet, entries, by)) {
    issues.push(issue);
    if (issues.length === issuesMax) break;
  }
  return issues;
}

function* findEntryIssues(
  event: SourcingEvent,
  sheet: BidSheet,
  { lots, global }: Omit<SubmitBid, 'supplier'>,
  by: InputBy,
): Generator<Issue, undefined, undefined> {
  yield* lotIssues(
    event,
    lots.map(({ lot }) => lot),
    (index) => `lots[${index}].lot`,
  );
  for (const [index, { values, offers }] of lots.entries()) {
    for (const { column, message } of faultyCells(sheet, values, by, 'LOT'))
      yield { path: pathText(['lots', index, 'values', column]), message };
    if (!offers) continue;
    if (!sheet.takesOffers)
      yield {
        path: `lots[${index}].offers`,
        message: `only a Dutch auction takes offers, and this event is of type ${event.type}`,
      };
    for (const { index: at, member, message } of offerIssues(offers))
      yield { path: `lots[${index}].offers[${at}].${member}`, message };
  }
  for (const { column, message } of faultyCells(sheet, global, by, 'EVENT'))
    yield { path: pathText(['global', column]), message };
}

/** The path of a lot in the body, by its name. A fault of a lot that the body does not name comes from `global`. */
export function pathsOfLots(lots: BuyerValues['lots']): (name: string) => string {
  const paths = new Map(lots.map(({ lot }, index) => [lot, `lots[${index}]`]));
  return (name) => paths.get(name) ?? 'global';
}

/** An issue for each lot that does not exist or is named twice. */
export function lotIssues(event: SourcingEvent, names: readonly string[], pathOf: (index: number) => string): Issue[] {
  const known = new Set(event.lots.map((lot) => lot.name));
  const repeats = repeatsIn(names);
  return names.flatMap((name, index) => {
    if (!known.has(name)) return [{ path: pathOf(index), message: `there is no lot "${name}"` }];
    return repeats.has(index) ? [{ path: pathOf(index), message: `the lot "${name}" is named twice` }] : [];
  });
}

interface FaultyCell {
  readonly column: string;
  readonly message: string;
}

const none: readonly FaultyCell[] = [];

/**
 * The values that this side may not enter here, or that their column does not accept. A submission has thousands of cells
 * without a fault: nothing is made for those.
 */
function faultyCells(
  sheet: BidSheet,
  values: Readonly<Record<string, Cell>>,
  by: InputBy,
  scope: FormulaScope,
): readonly FaultyCell[] {
  let faulty: FaultyCell[] | undefined;
  for (const column of Object.keys(values)) {
    const message = cellIssue(sheet, column, values[column] as Cell, by, scope);
    if (message !== undefined) (faulty ??= []).push({ column, message });
  }
  return faulty ?? none;
}
