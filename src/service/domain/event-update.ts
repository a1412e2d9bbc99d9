/**
 * What an update may change. In a draft everything may change except what would take a submitted bid or answer its lot,
 * its supplier or its meaning. In a published event only members may change on which no bid depends. Also: the bids of
 * a draft after its sheet has changed. Source: decisions, "Jobs".
 */
import { isDeepStrictEqual } from 'node:util';
import { Decimal } from '#contract/decimal.ts';
import type { Issue } from '#contract/issue.ts';
import type { Cell, Column, CreateSourcingEventPayload } from '#contract/sourcing-event.ts';
import { type BidSheet, cellIssue, compileBidSheet, type FormulaScope } from './bid-sheet.ts';
import { recomputeBids, withdrawn } from './bids.ts';
import { cellsOfValues } from './event-payload.ts';
import type { Bid, Cells, SourcingEvent } from './sourcing-event.ts';

type Payload = CreateSourcingEventPayload;

/** What suppliers have entered: the names of lots with bids, and the external ids of suppliers that bid or answered. */
export interface Entered {
  readonly lots: ReadonlySet<string>;
  readonly suppliers: ReadonlySet<string>;
}

/** Returns an issue for each change from `before` to a valid `after` that the event's status or its bids forbid. */
export function updateRefusals(
  event: Pick<SourcingEvent, 'status'>,
  before: Payload,
  after: Payload,
  entered: Entered,
): Issue[] {
  return event.status === 'DRAFT' ? draftRefusals(before, after, entered) : openRefusals(event, before, after);
}

function draftRefusals(before: Payload, after: Payload, entered: Entered): Issue[] {
  const issues: Issue[] = [];
  for (const member of ['event_type', 'primary_currency'] as const)
    if (after[member] !== before[member] && entered.lots.size > 0)
      issues.push({ path: member, message: `cannot be changed from ${before[member]}: suppliers have bid` });
  const lots = new Set(after.bid_sheet.lots.map(({ name }) => name));
  for (const name of entered.lots)
    if (!lots.has(name))
      issues.push({ path: 'bid_sheet.lots', message: `leaves out the lot "${name}", which has bids: keep it` });
  const suppliers = new Set(after.suppliers.map((supplier) => supplier.external_id));
  for (const id of entered.suppliers)
    if (!suppliers.has(id))
      issues.push({ path: 'suppliers', message: `leaves out "${id}", who has bid or answered: keep it` });
  return issues;
}

const possible = `Possible are name, description, reference_id, tags, category, event_contact, sourcing_requests,
  more suppliers, more secondary_currencies, more bid_sheet.lots, settings.is_test, settings.close_after_last_round`.replace(
  /\s+/g,
  ' ',
);

/** Members on which bids depend, or that have commands of their own, with their paths in a payload. */
const fixed: readonly [path: string, of: (payload: Payload) => unknown][] = [
  ['event_type', (payload) => payload.event_type],
  ['primary_currency', (payload) => payload.primary_currency],
  ['primary_cost_calculation', (payload) => payload.primary_cost_calculation],
  ['rounds', (payload) => payload.rounds],
  ['questions', (payload) => payload.questions],
  ['settings.is_template', (payload) => payload.settings.is_template],
  ['bid_sheet.columns', (payload) => payload.bid_sheet.columns],
  ['bid_sheet.column_roles', (payload) => payload.bid_sheet.column_roles],
  ['bid_sheet.global_values', (payload) => cellsOfValues(payload.bid_sheet.global_values)],
];

function openRefusals({ status }: Pick<SourcingEvent, 'status'>, before: Payload, after: Payload): Issue[] {
  const issues: Issue[] = [];
  const refuse = (path: string, what = 'cannot be changed') =>
    issues.push({ path, message: `${what} while the event is ${status}. ${possible}` });
  for (const [path, of] of fixed) if (!isDeepStrictEqual(of(after), of(before))) refuse(path);

  const rates = new Map(
    after.secondary_currencies.map(({ code, exchange_rate: rate }, index) => [code, { rate, index }]),
  );
  for (const { code, exchange_rate: rate } of before.secondary_currencies) {
    const now = rates.get(code);
    if (!now) refuse('secondary_currencies', `cannot leave out ${code}`);
    else if (!new Decimal(now.rate).equals(rate)) refuse(`secondary_currencies[${now.index}].exchange_rate`);
  }
  const suppliers = new Set(after.suppliers.map((supplier) => supplier.external_id));
  for (const { external_id: id } of before.suppliers)
    if (!suppliers.has(id)) refuse('suppliers', `cannot leave out "${id}"`);
  const lots = new Map(after.bid_sheet.lots.map((lot, index) => [lot.name, { lot, index }]));
  for (const { name, values } of before.bid_sheet.lots) {
    const now = lots.get(name);
    if (!now) refuse('bid_sheet.lots', `cannot leave out the lot "${name}"`);
    else if (!isDeepStrictEqual(cellsOfValues(now.lot.values), cellsOfValues(values)))
      refuse(`bid_sheet.lots[${now.index}].values`);
  }
  return issues;
}

export interface RebasedBids {
  /** The bids that have changed. */
  readonly bids: Bid[];
  /** Bids that stand now for the first time, and bids that stood and can no longer be computed. */
  readonly completed: Bid[];
  readonly fallen: Bid[];
  /** The values for the whole event that a supplier keeps, by its id; only of suppliers that lose some. */
  readonly globalValues: Map<string, Cells>;
}

/**
 * Returns the bids of an event whose sheet has changed. Values that the new sheet does not accept are dropped, and
 * costs are computed again. A bid that stood and can no longer be computed counts as withdrawn; its values are kept as
 * a draft.
 */
export function rebaseBids(before: SourcingEvent, after: SourcingEvent, bids: readonly Bid[]): RebasedBids {
  const [sheetBefore, sheet] = [compileBidSheet(before), compileBidSheet(after)];
  const scopes = new Map(before.columns.map((column) => [column.name, scopeOf(column)]));
  const keeps = ([name, cell]: [string, Cell]) => {
    const column = sheet.byName.get(name);
    const scope = column && scopeOf(column);
    // The value of a lot is not the value for the event.
    if (!scope || scope !== scopes.get(name)) return false;
    const isTakenIn = (one: BidSheet) => cellIssue(one, name, cell, 'SUPPLIER_INPUT', scope) === undefined;
    // A value that the sheet did not take before either was entered when the rules were others: this update leaves it.
    return isTakenIn(sheet) || !isTakenIn(sheetBefore);
  };
  const kept = <Given extends Cells | null>(cells: Given): Given | Cells => {
    if (cells === null) return cells;
    const left = new Map([...cells].filter(keeps));
    return left.size === cells.size ? cells : left;
  };
  const byId = new Map<string, Bid>();
  const trimmed = bids.map((bid) => {
    const [values, draft] = [kept(bid.values), kept(bid.draft)];
    if (values === bid.values && draft === bid.draft) return bid;
    const fewer = { ...bid, values, draft };
    byId.set(bid.id, fewer);
    return fewer;
  });
  const { changed, completed, broken } = recomputeBids({ event: after, sheet }, new Set(after.lots), trimmed);
  const fallen = broken.map(({ bid }) => ({ ...withdrawn(bid), draft: bid.draft ?? bid.values }));
  for (const bid of [...changed, ...completed, ...fallen]) byId.set(bid.id, bid);
  const globalValues = new Map<string, Cells>();
  for (const { supplierId, globalValues: values } of before.invitations) {
    const left = kept(values);
    if (left !== values) globalValues.set(supplierId, left);
  }
  return { bids: [...byId.values()], completed, fallen, globalValues };
}

function scopeOf(column: Column): FormulaScope | undefined {
  return column.column_type === 'INPUT' ? column.scope : undefined;
}
