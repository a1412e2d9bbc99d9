/**
 * Computes a formula over the values of one lot, with 34 significant digits at every step. Chains are computed from
 * left to right. Of an IF only the chosen branch is computed: missing or impossible values in the other are no fault.
 */
import { Decimal } from '#contract/decimal.ts';
import { columnLabel, type Expression, type Factor, type Formula } from './parse-formula.ts';

/**
 * `incomplete`: a needed column has no value, so the bid is not complete yet. `impossible`: the values exist, but the
 * result cannot be computed: division by zero, a number that is too large, a wrong number of digits.
 */
export type FormulaFailure =
  | { ok: false; reason: 'incomplete'; column: string; message: string }
  | { ok: false; reason: 'impossible'; message: string };

export type FormulaResult<T> = { ok: true; value: T } | FormulaFailure;

const zero = new Decimal(0);
const one = new Decimal(1);
const ten = new Decimal(10);
const roundDigitsMax = 20;
const exponentMax = 100;

/**
 * Returns the value of the formula. `valueOf` returns a column's number, made by this project's `Decimal` and in the
 * primary currency; undefined when there is none. A failure's message names the column or the divisor. Throws only what
 * `valueOf` throws.
 */
export function evaluateFormula(
  formula: Formula,
  valueOf: (column: string) => Decimal | undefined,
): FormulaResult<Decimal> {
  try {
    return { ok: true, value: compute(formula.root, valueOf) };
  } catch (error) {
    if (error instanceof Fault) return error.failure;
    throw error;
  }
}

class Fault extends Error {
  readonly failure: FormulaFailure;

  constructor(failure: FormulaFailure) {
    super(failure.message);
    this.failure = failure;
  }
}

function impossible(message: string): Fault {
  return new Fault({ ok: false, reason: 'impossible', message });
}

type ValueOf = (column: string) => Decimal | undefined;

/** Recursion is safe: the parser limits how deep a tree can be. */
function compute(node: Expression, valueOf: ValueOf): Decimal {
  switch (node.kind) {
    case 'number':
      return node.value;
    case 'column': {
      const value = valueOf(node.name);
      if (value) return value;
      const message = `column ${columnLabel(node.name)} has no value`;
      throw new Fault({ ok: false, reason: 'incomplete', column: node.name, message });
    }
    case 'negate':
      return compute(node.operand, valueOf).negated();
    case 'add': {
      let total = compute(node.first, valueOf);
      for (const { minus, operand } of node.rest) {
        const value = compute(operand, valueOf);
        total = bounded(minus ? total.minus(value) : total.plus(value));
      }
      return total;
    }
    case 'multiply': {
      let product = compute(node.first, valueOf);
      for (const factor of node.rest) product = applyFactor(product, factor, compute(factor.operand, valueOf));
      return product;
    }
    case 'compare':
      return holds(node, compute(node.left, valueOf), compute(node.right, valueOf)) ? one : zero;
    case 'call':
      return call(node, valueOf);
  }
}

/** The bound leaves room for later results, like totals and savings. */
function bounded(value: Decimal): Decimal {
  if (value.e <= exponentMax) return value;
  throw impossible(`a number in the formula grows beyond 10^${exponentMax}`);
}

function applyFactor(product: Decimal, factor: Factor, value: Decimal): Decimal {
  if (!factor.divide) return bounded(product.times(value));
  if (value.isZero()) throw impossible(`division by zero: ${factor.text} is 0`);
  return bounded(product.dividedBy(value));
}

function holds({ operator }: Extract<Expression, { kind: 'compare' }>, left: Decimal, right: Decimal): boolean {
  const order = left.comparedTo(right);
  switch (operator) {
    case '=':
      return order === 0;
    case '<>':
      return order !== 0;
    case '<':
      return order < 0;
    case '<=':
      return order <= 0;
    case '>':
      return order > 0;
    case '>=':
      return order >= 0;
  }
}

function call({ name, args }: Extract<Expression, { kind: 'call' }>, valueOf: ValueOf): Decimal {
  const argument = (index: number): Decimal => {
    const arg = args[index];
    if (!arg) throw new Error(`${name} was read with ${args.length} values`);
    return compute(arg, valueOf);
  };
  switch (name) {
    case 'if':
      return argument(argument(0).isZero() ? 2 : 1);
    case 'abs':
      return argument(0).abs();
    case 'round':
      return round(argument(0), args.length > 1 ? argument(1) : zero);
    case 'min':
    case 'max':
    case 'sum': {
      let result = argument(0);
      for (let index = 1; index < args.length; index += 1) {
        const value = argument(index);
        if (name === 'sum') result = bounded(result.plus(value));
        else if (name === 'min' ? value.lessThan(result) : value.greaterThan(result)) result = value;
      }
      return result;
    }
  }
}

/** `ROUND(1250, -2)` is 1300: negative digits round before the point. */
function round(value: Decimal, digits: Decimal): Decimal {
  if (!digits.isInteger() || digits.abs().greaterThan(roundDigitsMax))
    throw impossible(`ROUND takes a whole number of digits from -${roundDigitsMax} to ${roundDigitsMax}`);
  const places = digits.toNumber();
  if (places >= 0) return value.toDecimalPlaces(places);
  // Shifting the point is exact; only toDecimalPlaces rounds.
  const unit = ten.pow(-places);
  return bounded(value.dividedBy(unit).toDecimalPlaces(0).times(unit));
}
