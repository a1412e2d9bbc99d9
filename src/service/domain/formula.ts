/**
 * The cost formula of a bid sheet: reads and checks the formula columns and the primary cost calculation when the event
 * is created, and computes them for each lot. `formula/parse-formula.ts` describes the language. Formula columns are
 * computed in the order of their dependencies, each once per lot, and used unrounded. Source: decisions, "Cost
 * formula".
 */
import type { Decimal } from '#contract/decimal.ts';
import { evaluateFormula, type FormulaFailure, type FormulaResult } from './formula/evaluate-formula.ts';
import { bareNamesOf, columnLabel, type Formula, parseFormula } from './formula/parse-formula.ts';

/** A column of the sheet: computed by `formula`, or entered as `inputType`. Names are unique. */
export interface FormulaColumn {
  readonly name: string;
  readonly inputType?: 'TEXT' | 'NUMBER' | 'CURRENCY' | undefined;
  readonly formula?: string | undefined;
}

/** A checked bid sheet that can be computed for each lot. */
export interface CompiledSheet {
  /** In the order in which they are computed: each after the columns that it needs. */
  readonly formulaColumns: readonly { readonly name: string; readonly formula: Formula }[];
  /** Undefined if the event has none. */
  readonly primaryCost: Formula | undefined;
}

export interface FormulaIssue {
  /** `bid_sheet.columns[2].formula` or `primary_cost_calculation`. */
  path: string;
  message: string;
}

/** The results for one lot. A formula column is either in `values` or, with the reason, in `failures`. */
export interface ComputedLot {
  readonly values: ReadonlyMap<string, Decimal>;
  readonly failures: ReadonlyMap<string, FormulaFailure>;
  /** Fails with `incomplete` while the bid lacks a value that it needs. */
  readonly cost: FormulaResult<Decimal>;
}

/**
 * Checks all formulas of a sheet: syntax, names of columns that do not exist or hold no numbers, and cycles. Returns
 * all faults, at most one of a kind for each formula, so that the answer is small for any sheet.
 *
 * A formula is first read with every operator as an operator. If that is no formula over the sheet's columns, names that
 * are no plain words are looked for, the longest first: `Unit Price * Quantity`, `Price (EUR) + 1`. A formula that can be
 * read both ways is refused, unless it `isStored`: then it keeps the first meaning, which it was created with.
 */
export function checkFormulas(
  columns: readonly FormulaColumn[],
  primaryCost: string | null,
  { isStored = false }: { isStored?: boolean } = {},
): { ok: true; sheet: CompiledSheet } | { ok: false; issues: FormulaIssue[] } {
  const issues: FormulaIssue[] = [];
  const sheetColumns = new Map(columns.map((column) => [column.name, column]));
  const namesByLowerCase = new Map(columns.map(({ name }) => [name.toLowerCase(), name]));
  let bareNames: ReturnType<typeof bareNamesOf> | undefined;
  const isOfSheet = (formula: Formula) => [...formula.columns].every((name) => sheetColumns.has(name));
  const parse = (text: string): ReturnType<typeof parseFormula> => {
    const plain = parseFormula(text);
    const isMeant = plain.ok && isOfSheet(plain.formula);
    if (isMeant && isStored) return plain;
    bareNames ??= bareNamesOf(columns.map(({ name }) => name));
    const withNames = parseFormula(text, bareNames);
    if (!withNames.ok || !withNames.usesBareNames) return plain.ok ? plain : withNames;
    if (!isMeant) return withNames;
    if (!isOfSheet(withNames.formula)) return plain;
    return { ok: false, message: ambiguous(plain.formula, withNames.formula) };
  };
  const read = (text: string, path: string): Formula | undefined => {
    const parsed = parse(text);
    if (!parsed.ok) {
      issues.push({ path, message: parsed.message });
      return undefined;
    }
    const used = [...parsed.formula.columns];
    const unknown = used.filter((name) => !sheetColumns.has(name));
    if (unknown.length > 0) issues.push({ path, message: unknownColumns(unknown, namesByLowerCase) });
    const unusable = used.filter((name) => holdsNoNumber(sheetColumns.get(name)));
    if (unusable.length > 0)
      issues.push({ path, message: `${list(unusable)} cannot be computed with: only NUMBER and CURRENCY columns can` });
    return parsed.formula;
  };

  const formulas = new Map<string, { formula: Formula; path: string }>();
  for (const [index, { name, formula: text }] of columns.entries()) {
    if (text === undefined) continue;
    const path = `bid_sheet.columns[${index}].formula`;
    const formula = read(text, path);
    if (formula) formulas.set(name, { formula, path });
  }
  const cost = primaryCost === null ? undefined : read(primaryCost, 'primary_cost_calculation');
  const order = dependenceOrder(new Map([...formulas].map(([name, { formula }]) => [name, formula.columns])));
  for (const [name, { path }] of formulas) {
    const cycle = order.cycles.get(name);
    if (cycle) issues.push({ path, message: cycleMessage(cycle) });
  }
  if (issues.length > 0) return { ok: false, issues };

  const formulaColumns = order.sorted.flatMap((name) => {
    const found = formulas.get(name);
    return found ? [{ name, formula: found.formula }] : [];
  });
  return { ok: true, sheet: { formulaColumns, primaryCost: cost } };
}

/**
 * Computes the formula columns and the primary cost of one lot. `valueOf` returns the number entered in an input
 * column, in the primary currency; undefined when there is none. A failure has the message of its cause: where the cost
 * needs a formula column that failed, the message of that column. Throws only what `valueOf` throws.
 */
export function computeLot(sheet: CompiledSheet, valueOf: (column: string) => Decimal | undefined): ComputedLot {
  const values = new Map<string, Decimal>();
  const failures = new Map<string, FormulaFailure>();
  const lookUp = (column: string) => values.get(column) ?? (failures.has(column) ? undefined : valueOf(column));
  const rootOf = (failure: FormulaFailure) =>
    failure.reason === 'incomplete' ? (failures.get(failure.column) ?? failure) : failure;
  for (const { name, formula } of sheet.formulaColumns) {
    const result = evaluateFormula(formula, lookUp);
    if (result.ok) values.set(name, result.value);
    else if (result.reason === 'incomplete') failures.set(name, rootOf(result));
    else failures.set(name, { ...result, message: `in column ${columnLabel(name)}: ${result.message}` });
  }
  if (!sheet.primaryCost) return { values, failures, cost: noCalculation };
  const cost = evaluateFormula(sheet.primaryCost, lookUp);
  return { values, failures, cost: cost.ok ? cost : rootOf(cost) };
}

const noCalculation: FormulaFailure = {
  ok: false,
  reason: 'impossible',
  message: 'the event has no primary cost calculation',
};

function holdsNoNumber(column: FormulaColumn | undefined): boolean {
  return (
    column !== undefined &&
    column.formula === undefined &&
    column.inputType !== 'NUMBER' &&
    column.inputType !== 'CURRENCY'
  );
}

function unknownColumns(names: readonly string[], namesByLowerCase: ReadonlyMap<string, string>): string {
  const meant = names.flatMap((name) => namesByLowerCase.get(name.toLowerCase()) ?? []);
  const hint = meant.length > 0 ? `; the sheet has ${list(meant)}` : '';
  return names.length === 1
    ? `column ${list(names)} does not exist${hint}`
    : `columns ${list(names)} do not exist${hint}`;
}

function ambiguous(plain: Formula, withNames: Formula): string {
  const only = (columns: ReadonlySet<string>, others: ReadonlySet<string>) =>
    list([...columns].filter((name) => !others.has(name)));
  const [one, other] = [only(withNames.columns, plain.columns), only(plain.columns, withNames.columns)];
  const readings = one !== '' && other !== '' ? `: over ${one}, or over ${other}` : '';
  return `can be read in two ways${readings}; write the names in [brackets]`;
}

function cycleMessage(cycle: readonly string[]): string {
  return cycle.length === 1
    ? `column ${list(cycle)} needs itself`
    : `columns ${list(cycle)} need each other in a circle`;
}

function list(names: readonly string[]): string {
  const shown = names.slice(0, 5).map(columnLabel).join(', ');
  return names.length > 5 ? `${shown} and ${names.length - 5} more` : shown;
}

/**
 * Sorts names so that each comes after the names that it needs; needs that are not in the map count as met. A name that
 * cannot be sorted is part of a cycle or needs one. Each cycle is returned once, under one of its names. Uses no
 * recursion, and takes time proportional to the names and needs.
 */
function dependenceOrder(needs: ReadonlyMap<string, ReadonlySet<string>>): {
  sorted: string[];
  cycles: Map<string, string[]>;
} {
  const open = new Map<string, Set<string>>();
  const neededBy = new Map<string, string[]>();
  for (const [name, all] of needs) {
    const unsorted = new Set([...all].filter((need) => needs.has(need)));
    open.set(name, unsorted);
    for (const need of unsorted) {
      const users = neededBy.get(need);
      if (users) users.push(name);
      else neededBy.set(need, [name]);
    }
  }
  const sorted = [...open].filter(([, unsorted]) => unsorted.size === 0).map(([name]) => name);
  // The list grows during the loop: a sorted name releases the names that needed only it.
  for (const name of sorted) {
    open.delete(name);
    for (const user of neededBy.get(name) ?? []) {
      const unsorted = open.get(user);
      unsorted?.delete(name);
      if (unsorted?.size === 0) sorted.push(user);
    }
  }
  return { sorted, cycles: cyclesIn(open) };
}

/** Every remaining name needs another remaining name, so following the needs must reach a name again. */
function cyclesIn(open: ReadonlyMap<string, ReadonlySet<string>>): Map<string, string[]> {
  const cycles = new Map<string, string[]>();
  const seen = new Set<string>();
  for (const start of open.keys()) {
    const path: string[] = [];
    let name: string | undefined = start;
    while (name !== undefined && !seen.has(name)) {
      seen.add(name);
      path.push(name);
      [name] = open.get(name) ?? [];
    }
    // If it reached a name of an earlier path, the cycle is known already.
    const cycle = name === undefined ? [] : path.slice(path.indexOf(name));
    if (name !== undefined && cycle[0] === name) cycles.set(name, cycle);
  }
  return cycles;
}
