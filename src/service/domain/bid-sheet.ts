/**
 * The bid sheet: columns, the values that buyers and suppliers enter, and the primary cost of a lot. A lot's row is
 * put together from four places: the buyer's values of the event and of the lot, the supplier's of the event and of
 * the lot; formula columns are computed from them. Source: API document, "Create-sourcing-event payload"; decisions,
 * "Cost formula".
 */
import type { BidSheetValue } from '#contract/bid.ts';
import { Decimal, formatDecimal, hasAtMostDecimals, parseDecimal } from '#contract/decimal.ts';
import type { Cell, Column, CreateSourcingEventPayload } from '#contract/sourcing-event.ts';
import { type CompiledSheet, checkFormulas, computeLot } from './formula.ts';
import type { Cells, SourcingEvent } from './sourcing-event.ts';

interface Issue {
  path: string;
  message: string;
}

export interface BidSheet {
  readonly columns: readonly Column[];
  /** Undefined when the event has no primary cost calculation: no bid can be complete. */
  readonly formulas: CompiledSheet | undefined;
  readonly currencies: ReadonlyMap<string, Decimal>;
  readonly byName: ReadonlyMap<string, Column>;
}

type SheetSource = Pick<
  SourcingEvent,
  'columns' | 'primaryCostCalculation' | 'primaryCurrency' | 'secondaryCurrencies'
>;

/** Compiles the sheet of an event that was checked when it was created. */
export function compileBidSheet(event: SheetSource): BidSheet {
  const compiled = compile(event);
  if (compiled.issues.length > 0)
    throw new Error(`the bid sheet of a stored event does not compile: ${compiled.issues[0]?.message}`);
  return compiled.sheet;
}

function compile(event: SheetSource): { sheet: BidSheet; issues: Issue[] } {
  // Formula columns are checked also while there is no primary cost calculation yet.
  const checked = checkFormulas(
    event.columns.map((column) => ({
      name: column.name,
      inputType: column.column_type === 'INPUT' ? column.input_type : undefined,
      formula: column.column_type === 'FORMULA' ? column.formula : undefined,
    })),
    event.primaryCostCalculation ?? '0',
  );
  const currencies = new Map([[event.primaryCurrency, new Decimal(1)]]);
  for (const { code, exchange_rate } of event.secondaryCurrencies) currencies.set(code, new Decimal(exchange_rate));
  const byName = new Map(event.columns.map((column) => [column.name, column]));
  const formulas = checked.ok && event.primaryCostCalculation !== null ? checked.sheet : undefined;
  const sheet = { columns: event.columns, currencies, byName, formulas };
  return { sheet, issues: checked.ok ? [] : checked.issues };
}

const numericRoles: ReadonlySet<string> = new Set(['volume', 'historic_cost']);

/** Everything wrong with the sheet of a create payload that its schema cannot see; paths are the payload's. */
export function checkBidSheet(payload: CreateSourcingEventPayload): Issue[] {
  const { bid_sheet: given } = payload;
  const issues: Issue[] = [];
  const duplicate = (names: readonly string[], pathOf: (index: number) => string, what: string) => {
    const seen = new Set<string>();
    for (const [index, name] of names.entries()) {
      if (seen.has(name)) issues.push({ path: pathOf(index), message: `is the name of another ${what}, too` });
      seen.add(name);
    }
  };
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
    // The first is the primary currency, which none can precede.
    (index) => `secondary_currencies[${index - 1}].code`,
    'currency of the event',
  );
  for (const [index, { exchange_rate: rate }] of payload.secondary_currencies.entries())
    if (!parseDecimal(rate)?.greaterThan(0))
      issues.push({ path: `secondary_currencies[${index}].exchange_rate`, message: 'must be greater than 0' });
  const { sheet, issues: formulaIssues } = compile({
    columns: given.columns,
    primaryCostCalculation: payload.primary_cost_calculation ?? null,
    primaryCurrency: payload.primary_currency,
    secondaryCurrencies: payload.secondary_currencies,
  });
  issues.push(...formulaIssues);
  for (const [role, name] of Object.entries(given.column_roles)) {
    if (name === undefined) continue;
    const column = sheet.byName.get(name);
    const isText = column?.column_type === 'INPUT' && column.input_type === 'TEXT';
    const fault = !column ? 'does not exist' : isText && numericRoles.has(role) ? 'holds no numbers' : undefined;
    if (fault)
      issues.push({ path: `bid_sheet.column_roles.${role}`, message: `names the column "${name}", which ${fault}` });
  }
  const checkValues = (values: typeof given.global_values, path: string, scope: Scope) => {
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

type Scope = 'LOT' | 'EVENT';

/** What is wrong with entering this value in this column; undefined when nothing is. */
export function cellIssue(
  sheet: BidSheet,
  name: string,
  cell: Cell,
  by: 'BUYER_INPUT' | 'SUPPLIER_INPUT',
  scope: Scope,
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
  if (parseDecimal(value) === undefined)
    return `column "${name}" takes a decimal number of at most 20 digits, like "12.50"`;
  if (column.precision !== undefined && !hasAtMostDecimals(value, column.precision))
    return `column "${name}" takes at most ${column.precision} decimals`;
  return undefined;
}

export interface ComputedLot {
  /** In the primary currency; undefined when the bid is incomplete, and `missing` says why. */
  readonly cost: string | undefined;
  readonly missing: string | undefined;
  /** Every value of the row in the order of the columns, formula columns included. */
  readonly values: BidSheetValue[];
}

/** Puts one lot's row together and computes it. `layers`: later ones win. */
export function computeRow(sheet: BidSheet, layers: readonly Cells[]): ComputedLot {
  const cellOf = (name: string): Cell | undefined => {
    for (let index = layers.length - 1; index >= 0; index -= 1) {
      const cell = layers[index]?.get(name);
      if (cell !== undefined) return cell;
    }
    return undefined;
  };
  const computed = sheet.formulas && computeLot(sheet.formulas, (name) => amountOf(sheet, cellOf(name)));
  const values: BidSheetValue[] = [];
  for (const column of sheet.columns) {
    if (column.column_type === 'FORMULA') {
      const amount = computed?.values.get(column.name);
      if (amount) values.push({ column_name: column.name, value: formatDecimal(amount) });
      continue;
    }
    const cell = cellOf(column.name);
    if (cell === undefined) continue;
    if (typeof cell === 'string') values.push({ column_name: column.name, value: cell });
    else values.push({ column_name: column.name, value: cell.value, currency: cell.currency });
  }
  if (!computed) return { cost: undefined, missing: 'the event has no primary cost calculation', values };
  return computed.cost.ok
    ? { cost: formatDecimal(computed.cost.value), missing: undefined, values }
    : { cost: undefined, missing: computed.cost.message, values };
}

/** The number in a row's column, in the primary currency; undefined where there is none. */
export function amountInRow(sheet: BidSheet, values: readonly BidSheetValue[], column: string): Decimal | undefined {
  const found = values.find((value) => value.column_name === column);
  if (!found) return undefined;
  return amountOf(sheet, found.currency ? { value: found.value, currency: found.currency } : found.value);
}

/** A cell as a number in the primary currency. A currency without a rate gives no amount: the bid is incomplete. */
function amountOf(sheet: BidSheet, cell: Cell | undefined): Decimal | undefined {
  if (cell === undefined) return undefined;
  if (typeof cell === 'string') return parseDecimal(cell);
  const rate = sheet.currencies.get(cell.currency);
  return rate && parseDecimal(cell.value)?.times(rate);
}
