/** Entries in the bid sheet, read and checked the same way whoever makes them: a supplier's bid, the buyer's edit, the buyer's values. */
import type { SubmitBid } from '#contract/desk.ts';
import type { Cell } from '#contract/sourcing-event.ts';
import { AppError, type Issue } from '#platform/errors.ts';
import { pathText } from '#platform/input.ts';
import { type BidSheet, cellIssue, offerIssues } from '../domain/bid-sheet.ts';
import { type Entries, merged } from '../domain/bids.ts';
import type { Invitation, SourcingEvent } from '../domain/sourcing-event.ts';

/** Throws `conflict` for a supplier that is not invited, and `invalid` naming every lot and column that is wrong. */
export function readSubmission(event: SourcingEvent, sheet: BidSheet, body: SubmitBid): Entries {
  const invitation = invitationOf(event, body.supplier);
  const issues = [
    ...bidIssues(event, sheet, body),
    ...cellIssues(sheet, body.global, ['global'], 'SUPPLIER_INPUT', 'EVENT'),
  ];
  if (issues[0])
    throw new AppError('invalid', `The bid is not valid: ${issues[0].path}: ${issues[0].message}.`, { issues });
  const global = new Map(Object.entries(body.global));
  return {
    supplierId: invitation.supplierId,
    lots: new Map(
      body.lots.map(({ lot, values, offers }) => [lot, { values: new Map(Object.entries(values)), offers }]),
    ),
    global,
    allGlobal: merged(invitation.globalValues, global),
  };
}

/** Throws `conflict` when there is none. */
export function invitationOf(event: SourcingEvent, supplier: string): Invitation {
  const found = event.invitations.find((invitation) => invitation.externalId === supplier);
  if (!found) throw new AppError('conflict', `Supplier "${supplier}" is not invited to this event.`);
  return found;
}

function bidIssues(event: SourcingEvent, sheet: BidSheet, { lots }: SubmitBid): Issue[] {
  const issues = lotIssues(
    event,
    lots.map(({ lot }) => lot),
    (index) => `lots[${index}].lot`,
  );
  for (const [index, { values, offers }] of lots.entries()) {
    issues.push(...cellIssues(sheet, values, ['lots', index, 'values'], 'SUPPLIER_INPUT', 'LOT'));
    if (offers && !sheet.takesOffers)
      issues.push({
        path: `lots[${index}].offers`,
        message: `only a Dutch auction takes offers, and this event is of type ${event.type}`,
      });
    for (const { index: at, member, message } of offerIssues(offers ?? []))
      issues.push({ path: `lots[${index}].offers[${at}].${member}`, message });
  }
  return issues;
}

/** Names of lots that do not exist, or stand twice. */
export function lotIssues(event: SourcingEvent, names: readonly string[], pathOf: (index: number) => string): Issue[] {
  const known = new Set(event.lots.map((lot) => lot.name));
  const seen = new Set<string>();
  const issues: Issue[] = [];
  for (const [index, name] of names.entries()) {
    if (!known.has(name)) issues.push({ path: pathOf(index), message: `there is no lot "${name}"` });
    else if (seen.has(name)) issues.push({ path: pathOf(index), message: `the lot "${name}" stands twice` });
    seen.add(name);
  }
  return issues;
}

/** Values that this side may not enter here, or that their columns do not take. */
export function cellIssues(
  sheet: BidSheet,
  values: Readonly<Record<string, Cell>>,
  path: (string | number)[],
  by: 'BUYER_INPUT' | 'SUPPLIER_INPUT',
  scope: 'LOT' | 'EVENT',
): Issue[] {
  return Object.entries(values).flatMap(([column, cell]) => {
    const message = cellIssue(sheet, column, cell, by, scope);
    return message === undefined ? [] : [{ path: pathText([...path, column]), message }];
  });
}
