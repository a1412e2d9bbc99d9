/**
 * The bid sheet: columns, the values that buyers and suppliers enter, and the primary cost of a lot. The row of a lot
 * has four sources: the buyer's values for the event and for the lot, and the supplier's values for the event and for
 * the lot. Formula columns are computed from them. In a Dutch auction the cost of a lot is the sum of its offers; in
 * other events it is the result of the primary cost calculation. Source: API document, "Create-sourcing-event payload";
 * decisions, "Cost formula".
 */
import type { BidSheetValue } from '#contract/bid.ts';
import { Decimal, formatDecimal, hasAtMostDecimals, isDecimal, parseDecimal } from '#contract/decimal.ts';
import type { Offer } from '#contract/desk.ts';
import type { Issue } from '#contract/issue.ts';
import type { Cell, Column, CreateSourcingEventPayload } from '#contract/sourcing-event.ts';
import { operationsOf } from './formula/parse-formula.ts';
import { type CompiledSheet, checkFormulas, computeLot } from './formula.ts';
import { repeated, repeatsIn } from './issue.ts';
import type { Cells, Lot, SourcingEvent } from './sourcing-event.ts';

/** The columns and currencies, which decide what values may be entered. */
interface Columns {
  readonly byName: ReadonlyMap<string, Column>;
  /** Each currency with its rate: units of the primary currency for one unit. */
  readonly currencies: ReadonlyMap<string, Decimal>;
}

export interface BidSheet extends Columns {
  readonly columns: readonly Column[];
  readonly formulas: CompiledSheet;
  /** True in a Dutch auction: there a bid for a lot consists of offers. */
  readonly takesOffers: boolean;
}

type SheetSource = Pick<
  SourcingEvent,
  'type' | 'columns' | 'primaryCostCalculation' | 'primaryCurrency' | 'secondaryCurrencies'
>;

/** Compiles the sheet of an event that was checked when it was created. */
export function compileBidSheet(event: SheetSource): BidSheet {
  const checked = checkSheetFormulas(event, { isStored: true });
  if (!checked.ok) throw new Error(`the bid sheet of a stored event does not compile: ${checked.issues[0]?.message}`);
  return {
    ...columnsOf(event),
    columns: event.columns,
    formulas: checked.sheet,
    takesOffers: event.type === 'DUTCH',
  };
}

/** Formula columns are also checked when there is no primary cost calculation yet. */
function checkSheetFormulas(event: SheetSource, options: { isStored?: boolean } = {}) {
  return checkFormulas(
    event.columns.map((column) => ({
      name: column.name,
      inputType: column.column_type === 'INPUT' ? column.input_type : undefined,
      formula: column.column_type === 'FORMULA' ? column.formula : undefined,
    })),
    event.primaryCostCalculation,
    options,
  );
}

function columnsOf(event: SheetSource): Columns {
  const currencies = new Map([[event.primaryCurrency, new Decimal(1)]]);
  for (const { code, exchange_rate } of event.secondaryCurrencies) currencies.set(code, new Decimal(exchange_rate));
  return { currencies, byName: new Map(event.columns.map((column) => [column.name, column])) };
}

/**
 * The most operations of all formulas together, counted for every lot. This bounds what one submission makes the
 * service compute while other callers wait. A sheet of 20,000 lots may have 25 operations for each lot, a sheet of 100
 * lots 5,000.
 */
const operationsMax = 500_000;

const numericRoles: ReadonlySet<string> = new Set(['volume', 'historic_cost']);

/** Returns all faults of the sheet of a create payload that its schema cannot find; paths are the payload's. */
export function checkBidSheet(payload: CreateSourcingEventPayload): Issue[] {
  const { bid_sheet: given } = payload;
  const issues: Issue[] = [];
  const duplicate = (names: readonly string[], pathOf: (index: number) => string, what: string) =>
    issues.push(...repeated(names, pathOf, `is the name of another ${what}, too`));
  duplicate(
    given.columns.map(({ name }) => name),
    (index) => `bid_sheet.columns[${index}].name`,
    'column',
  );
  duplicate(
    given.lots.map(({ name }) => name),
    (index) => `bid_sheet.lots[${index}].name`,
    'lot',
  );
  duplicate(
    payload.suppliers.map((supplier) => supplier.external_id),
    (index) => `suppliers[${index}].external_id`,
    'supplier',
  );
  duplicate(
    [payload.primary_currency, ...payload.secondary_currencies.map(({ code }) => code)],
    // The first one is the primary currency: an issue is never reported for it, because no currency is before it.
    (index) => `secondary_currencies[${index - 1}].code`,
    'currency of the event',
  );
  for (const [index, { exchange_rate: rate }] of payload.secondary_currencies.entries())
    if (!parseDecimal(rate)?.greaterThan(0))
      issues.push({ path: `secondary_currencies[${index}].exchange_rate`, message: 'must be greater than 0' });
  const source = {
    type: payload.event_type,
    columns: given.columns,
    primaryCostCalculation: payload.primary_cost_calculation ?? null,
    primaryCurrency: payload.primary_currency,
    secondaryCurrencies: payload.secondary_currencies,
  };
  const checked = checkSheetFormulas(source);
  if (!checked.ok) issues.push(...checked.issues);
  else {
    const formulas = [...checked.sheet.formulaColumns.map(({ formula }) => formula), checked.sheet.primaryCost];
    const operations = formulas.reduce((sum, formula) => sum + (formula ? operationsOf(formula) : 0), 0);
    const { length: lots } = given.lots;
    if (operations * lots > operationsMax) {
      const possible = `with ${lots} lots at most ${Math.floor(operationsMax / lots)} are possible`;
      const message = `has formulas of ${operations} operations together; ${possible}`;
      issues.push({ path: 'bid_sheet.columns', message });
    }
  }
  const sheet = columnsOf(source);
  for (const [role, name] of Object.entries(given.column_roles)) {
    if (name === undefined) continue;
    const column = sheet.byName.get(name);
    const isText = column?.column_type === 'INPUT' && column.input_type === 'TEXT';
    const fault = !column ? 'does not exist' : isText && numericRoles.has(role) ? 'holds no numbers' : undefined;
    if (fault)
      issues.push({ path: `bid_sheet.column_roles.${role}`, message: `names the column "${name}", which ${fault}` });
  }
  const checkValues = (values: typeof given.global_values, path: string, scope: FormulaScope) => {
    duplicate(
      values.map(({ column }) => column),
      (index) => `${path}[${index}].column`,
      'value here',
    );
    for (const [index, { column, value, currency }] of values.entries()) {
      const message = cellIssue(sheet, column, currency ? { value, currency } : value, 'BUYER_INPUT', scope);
      if (message) issues.push({ path: `${path}[${index}]`, message });
    }
  };
  for (const [index, lot] of given.lots.entries()) checkValues(lot.values, `bid_sheet.lots[${index}].values`, 'LOT');
  checkValues(given.global_values, 'bid_sheet.global_values', 'EVENT');
  return issues;
}

export type FormulaScope = 'LOT' | 'EVENT';
export type InputBy = 'BUYER_INPUT' | 'SUPPLIER_INPUT';

/** Returns why this value may not be entered in this column; undefined when it may. */
export function cellIssue(
  sheet: Columns,
  name: string,
  cell: Cell,
  by: InputBy,
  scope: FormulaScope,
): string | undefined {
  const column = sheet.byName.get(name);
  if (!column) return `there is no column "${name}"`;
  if (column.column_type !== 'INPUT') return `column "${name}" is computed: it takes no value`;
  if (column.input_by !== by)
    return `column "${name}" is filled in by the ${by === 'BUYER_INPUT' ? 'supplier' : 'buyer'}`;
  if (column.scope !== scope)
    return column.scope === 'EVENT'
      ? `column "${name}" has one value for the whole event: give it among the global values`
      : `column "${name}" has a value for each lot: give it with the lot`;
  const { value, currency } = typeof cell === 'string' ? { value: cell, currency: undefined } : cell;
  if (currency !== undefined && column.input_type !== 'CURRENCY') return `column "${name}" takes no currency`;
  if (currency !== undefined && !sheet.currencies.has(currency))
    return `the event does not use the currency ${currency}`;
  if (column.input_type === 'TEXT') return undefined;
  if (!isDecimal(value)) return `column "${name}" takes a decimal number of at most 20 digits, like "12.50"`;
  if (value.startsWith('-') && !column.allow_negative && new Decimal(value).lessThan(0))
    return `column "${name}" takes no negative value: it does not say allow_negative`;
  if (column.precision !== undefined && !hasAtMostDecimals(value, column.precision))
    return `column "${name}" takes at most ${column.precision} decimals`;
  return undefined;
}

interface OfferIssue {
  readonly index: number;
  readonly member: keyof Offer;
  readonly message: string;
}

/** Returns the faults of the offers of one lot, at most one for each offer. */
export function offerIssues(offers: readonly Offer[]): OfferIssue[] {
  // 10 and 10.0 are the same volume, which must not have two prices.
  const repeats = repeatsIn(offers.map(({ volume }) => new Decimal(volume).toFixed()));
  return offers.flatMap((offer, index): OfferIssue[] => {
    if (new Decimal(offer.value).lessThan(0)) return [{ index, member: 'value', message: 'must not be negative' }];
    if (!new Decimal(offer.volume).greaterThan(0))
      return [{ index, member: 'volume', message: 'must be greater than 0' }];
    return repeats.has(index)
      ? [{ index, member: 'volume', message: 'is the volume of an earlier offer for this lot, too' }]
      : [];
  });
}

export interface ComputedRow {
  /** In the primary currency; undefined when the bid is incomplete, and `missing` says why. */
  readonly cost: string | undefined;
  readonly missing: string | undefined;
  /** All values of the row in the order of the columns, formula columns included. */
  readonly values: BidSheetValue[];
  /** The number in a column, in the primary currency and not rounded; undefined if it has no number. */
  amountIn(column: string): Decimal | undefined;
}

/** The layers of a supplier's row for a lot; `bid` holds the supplier's values for the lot and for the event. */
export function rowLayers(event: SourcingEvent, lot: Lot, bid: Cells): Cells[] {
  return [event.globalValues, lot.values, bid];
}

/** Merges and computes the row of one lot. A value of a later layer replaces that of an earlier one. */
export function computeRow(sheet: BidSheet, layers: readonly Cells[], offers: readonly Offer[] | null): ComputedRow {
  const cellOf = (name: string): Cell | undefined => {
    for (let index = layers.length - 1; index >= 0; index -= 1) {
      const cell = layers[index]?.get(name);
      if (cell !== undefined) return cell;
    }
    return undefined;
  };
  const computed = computeLot(sheet.formulas, (name) => amountOf(sheet, cellOf(name)));
  const values: BidSheetValue[] = [];
  for (const column of sheet.columns) {
    if (column.column_type === 'FORMULA') {
      const amount = computed.values.get(column.name);
      if (amount) values.push({ column_name: column.name, value: formatDecimal(amount) });
      continue;
    }
    const cell = cellOf(column.name);
    if (cell === undefined) continue;
    if (typeof cell === 'string') values.push({ column_name: column.name, value: cell });
    else values.push({ column_name: column.name, value: cell.value, currency: cell.currency });
  }
  const cost = sheet.takesOffers ? costOfOffers(offers ?? []) : computed.cost;
  return {
    cost: cost.ok ? formatDecimal(cost.value) : undefined,
    missing: cost.ok ? undefined : cost.message,
    values,
    amountIn: (name) =>
      sheet.byName.get(name)?.column_type === 'FORMULA' ? computed.values.get(name) : amountOf(sheet, cellOf(name)),
  };
}

type Cost = { ok: true; value: Decimal } | { ok: false; message: string };

function costOfOffers(offers: readonly Offer[]): Cost {
  if (offers.length === 0) return { ok: false, message: 'in a Dutch auction a lot needs at least one offer' };
  const value = offers.reduce((sum, offer) => sum.plus(new Decimal(offer.value).times(offer.volume)), new Decimal(0));
  return { ok: true, value };
}

/**
 * A cell as a number in the primary currency; undefined, so that the bid is incomplete, if its currency has no rate.
 */
function amountOf(sheet: Columns, cell: Cell | undefined): Decimal | undefined {
  if (cell === undefined) return undefined;
  if (typeof cell === 'string') return parseDecimal(cell);
  const rate = sheet.currencies.get(cell.currency);
  return rate && parseDecimal(cell.value)?.times(rate);
}
