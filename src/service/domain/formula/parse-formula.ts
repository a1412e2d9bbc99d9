/**
 * Reads the text of a formula into a tree. The language:
 *
 *     formula    = additive [ ("=" | "<>" | "!=" | "<" | "<=" | ">" | ">=") additive ]
 *     additive   = term { ("+" | "-") term }
 *     term       = factor { ("*" | "/") factor }
 *     factor     = { "-" } ( number | column | function "(" formula { "," formula } ")" | "(" formula ")" )
 *     number     = digits [ "." digits ]
 *     column     = name | "[" any characters "]"
 *     function   = "IF" | "MIN" | "MAX" | "SUM" | "ROUND" | "ABS", in any case
 *
 * A bare name has letters, digits and `_` and does not start with a digit. Every other name is written in brackets,
 * exactly as the column is called, and a `]` in it is written twice: `[Price [net]]]`. A bare name is a function only
 * before `(`; a name in brackets is always a column. The value of a comparison is 1 or 0. Comparisons are not chained:
 * `1 < 2 < 3` is refused.
 *
 * The sheet's names that are no plain words (`Unit Price`, `Price (EUR)`) can be given to the reader as `bareNames`. Where
 * one of them stands, the longest is read as one column.
 *
 * Reading takes time in proportion to the length. Both the length and the nesting are limited, so a hostile text leads
 * to an error message and not to a stack overflow. A long chain (`a + b + c ...`) is one node: it does not nest.
 */
import { type Decimal, parseDecimal } from '#contract/decimal.ts';

/** The longest formula, in UTF-16 units: the same as the longest cell. */
export const formulaLengthMax = 10_000;
/** How deeply parentheses and function calls may be nested. */
export const nestingMax = 100;
const literalDigitsMax = 34;

export type Comparison = '=' | '<>' | '<' | '<=' | '>' | '>=';
export type FunctionName = 'if' | 'min' | 'max' | 'sum' | 'round' | 'abs';

export type Expression =
  | { kind: 'number'; value: Decimal }
  | { kind: 'column'; name: string }
  | { kind: 'negate'; operand: Expression }
  | { kind: 'add'; first: Expression; rest: readonly { minus: boolean; operand: Expression }[] }
  | { kind: 'multiply'; first: Expression; rest: readonly Factor[] }
  | { kind: 'compare'; operator: Comparison; left: Expression; right: Expression }
  | { kind: 'call'; name: FunctionName; args: readonly Expression[] };

/** One step of a product; `text` is the operand as written, for the message about a division by zero. */
export interface Factor {
  divide: boolean;
  operand: Expression;
  text: string;
}

/** A formula that has no fault. */
export interface Formula {
  /** The columns that it names, also in both branches of every IF. */
  readonly columns: ReadonlySet<string>;
  readonly root: Expression;
}

const functions: ReadonlyMap<string, { name: FunctionName; argsMin: number; argsMax: number }> = new Map([
  ['if', { name: 'if', argsMin: 3, argsMax: 3 }],
  ['min', { name: 'min', argsMin: 1, argsMax: Infinity }],
  ['max', { name: 'max', argsMin: 1, argsMax: Infinity }],
  ['sum', { name: 'sum', argsMin: 1, argsMax: Infinity }],
  ['round', { name: 'round', argsMin: 1, argsMax: 2 }],
  ['abs', { name: 'abs', argsMin: 1, argsMax: 1 }],
]);

const comparisons: ReadonlyMap<string, Comparison> = new Map([
  ['=', '='],
  ['<>', '<>'],
  ['!=', '<>'],
  ['<', '<'],
  ['<=', '<='],
  ['>', '>'],
  ['>=', '>='],
]);

/** Longer names stand in brackets: this bounds how far the reader looks ahead. */
const bareLengthMax = 100;

/** The names of a sheet by their characters, to find the longest that stands at a place. */
export interface BareNames {
  readonly next: Map<string, BareNames>;
  isName: boolean;
}

/**
 * Collects the names that may stand without brackets although they are no plain words. A number is always a number, and
 * a space at the end of a name cannot be seen.
 */
export function bareNamesOf(names: readonly string[]): BareNames {
  const root: BareNames = { next: new Map(), isName: false };
  for (const name of names) {
    if (plainName.test(name) || /^[\d.]+$/.test(name) || name !== name.trim() || name.length > bareLengthMax) continue;
    let node = root;
    for (const character of name.split('')) {
      const next = node.next.get(character) ?? { next: new Map(), isName: false };
      node.next.set(character, next);
      node = next;
    }
    node.isName = true;
  }
  return root;
}

const plainName = /^[\p{L}_][\p{L}\p{M}\p{N}_]*$/u;
const endsInWord = /[\p{L}\p{M}\p{N}_]$/u;
const beginsInWord = /^[\p{L}\p{M}\p{N}_]/u;

/** The longest of the names that stands at `start` and does not end inside of a word; undefined: none does. */
function bareNameAt(text: string, start: number, names: BareNames): string | undefined {
  let longest: string | undefined;
  let node: BareNames | undefined = names;
  for (let end = start; ; end += 1) {
    if (node.isName) {
      const name = text.slice(start, end);
      if (!endsInWord.test(name) || !beginsInWord.test(text.slice(end, end + 2))) longest = name;
    }
    node = node.next.get(text[end] ?? '');
    if (!node) return longest;
  }
}

/** A column's name as messages show it: in brackets, and shortened if it is long. */
export function columnLabel(name: string): string {
  return `[${clip(name)}]`;
}

function clip(text: string): string {
  const characters = Array.from(text.slice(0, 200));
  return characters.length <= 60 ? characters.join('') : `${characters.slice(0, 60).join('')}…`;
}

/**
 * Reads a formula. The message of a fault names the character (from 1) and what was expected there. `usesBareNames` says
 * whether one of `bareNames` was found. Never throws.
 */
export function parseFormula(
  text: string,
  bareNames?: BareNames,
): { ok: true; formula: Formula; usesBareNames: boolean } | { ok: false; message: string } {
  if (text.length > formulaLengthMax)
    return { ok: false, message: `a formula has at most ${formulaLengthMax} characters, this one has ${text.length}` };
  try {
    const tokens = tokenize(text, bareNames);
    if (tokens.length === 1) return { ok: false, message: 'the formula is empty' };
    const parser = new Parser(text, tokens);
    const formula = { root: parser.parse(), columns: parser.columns };
    return { ok: true, formula, usesBareNames: tokens.some(({ isBare }) => isBare) };
  } catch (error) {
    if (!(error instanceof SyntaxFault)) throw error;
    const position = Array.from(text.slice(0, error.index)).length + 1;
    return { ok: false, message: `at character ${position}: ${error.message}` };
  }
}

/** The most operations that the formula takes for one lot. */
export function operationsOf({ root }: Formula): number {
  return operationsIn(root);
}

/** Recursion is safe: the parser limits how deep a tree can be. */
function operationsIn(node: Expression): number {
  const inAll = (nodes: readonly Expression[]) => nodes.reduce((sum, inner) => sum + operationsIn(inner), 0);
  switch (node.kind) {
    case 'number':
    case 'column':
      return 1;
    case 'negate':
      return 1 + operationsIn(node.operand);
    case 'add':
    case 'multiply':
      return inAll([node.first, ...node.rest.map(({ operand }) => operand)]);
    case 'compare':
      return inAll([node.left, node.right]);
    case 'call':
      return 1 + inAll(node.args);
  }
}

class SyntaxFault extends Error {
  readonly index: number;

  constructor(index: number, message: string) {
    super(message);
    this.index = index;
  }
}

interface Token {
  kind: 'number' | 'name' | 'column' | 'symbol' | 'end';
  /** As written; for a column in brackets, the name between them. */
  text: string;
  start: number;
  end: number;
  /** One of the bare names that are no plain words. */
  isBare?: true;
}

const space = /\s*/uy;
// The brackets end at the first `]` that is not written twice.
const tokenForm =
  /(\d+(?:\.\d+)?)|([\p{L}_][\p{L}\p{M}\p{N}_]*)|\[((?:[^\]]|\]\])*)\](?!\])|(<>|!=|<=|>=|[-+*/(),=<>])/uy;

function tokenize(text: string, bareNames: BareNames | undefined): Token[] {
  const tokens: Token[] = [];
  let index = 0;
  for (;;) {
    space.lastIndex = index;
    space.test(text);
    index = space.lastIndex;
    if (index === text.length) break;
    const bare = bareNames && bareNameAt(text, index, bareNames);
    if (bare !== undefined) {
      tokens.push({ kind: 'column', text: bare, start: index, end: index + bare.length, isBare: true });
      index += bare.length;
      continue;
    }
    tokenForm.lastIndex = index;
    const match = tokenForm.exec(text);
    if (!match) throw unreadable(text, index);
    const [written, number, name, column, symbol] = match;
    const end = tokenForm.lastIndex;
    if (number !== undefined) tokens.push({ kind: 'number', text: number, start: index, end });
    else if (name !== undefined) tokens.push({ kind: 'name', text: name, start: index, end });
    else if (column !== undefined)
      tokens.push({ kind: 'column', text: column.replaceAll(']]', ']'), start: index, end });
    else tokens.push({ kind: 'symbol', text: symbol ?? written, start: index, end });
    if (column === '') throw new SyntaxFault(index, 'there is no column name between the brackets');
    index = end;
  }
  tokens.push({ kind: 'end', text: '', start: text.length, end: text.length });
  return tokens;
}

function unreadable(text: string, index: number): SyntaxFault {
  if (text[index] === '[') return new SyntaxFault(index, 'this bracket is not closed; a ] inside a name is written ]]');
  const codePoint = text.codePointAt(index) ?? 0;
  const character = String.fromCodePoint(codePoint);
  const shown = /[\p{L}\p{N}\p{P}\p{S}]/u.test(character)
    ? `'${character}'`
    : `U+${codePoint.toString(16).toUpperCase().padStart(4, '0')}`;
  return new SyntaxFault(
    index,
    `${shown} means nothing here; a column name with such a character stands in [brackets]`,
  );
}

class Parser {
  readonly columns = new Set<string>();
  readonly #text: string;
  readonly #tokens: readonly Token[];
  #next = 0;
  #nesting = 0;

  constructor(text: string, tokens: readonly Token[]) {
    this.#text = text;
    this.#tokens = tokens;
  }

  parse(): Expression {
    const root = this.#formula();
    const token = this.#peek();
    if (token.kind !== 'end') throw this.#unexpectedAfterOperand(token);
    return root;
  }

  #peek(): Token {
    const token = this.#tokens[this.#next];
    if (!token) throw new Error('read past the end of the formula');
    return token;
  }

  /** Takes the next token if it is this symbol. */
  #take(symbol: string): boolean {
    const token = this.#peek();
    if (token.kind !== 'symbol' || token.text !== symbol) return false;
    this.#next += 1;
    return true;
  }

  #formula(): Expression {
    const left = this.#additive();
    const operator = this.#takeComparison();
    if (!operator) return left;
    const right = this.#additive();
    const { start } = this.#peek();
    if (this.#takeComparison())
      throw new SyntaxFault(start, 'comparisons are not chained; put one of them in parentheses');
    return { kind: 'compare', operator, left, right };
  }

  #takeComparison(): Comparison | undefined {
    const token = this.#peek();
    const operator = token.kind === 'symbol' ? comparisons.get(token.text) : undefined;
    if (operator) this.#next += 1;
    return operator;
  }

  #additive(): Expression {
    const first = this.#term();
    const rest: { minus: boolean; operand: Expression }[] = [];
    for (;;) {
      const minus = this.#take('-');
      if (!minus && !this.#take('+')) break;
      rest.push({ minus, operand: this.#term() });
    }
    return rest.length === 0 ? first : { kind: 'add', first, rest };
  }

  #term(): Expression {
    const first = this.#factor();
    const rest: Factor[] = [];
    for (;;) {
      const divide = this.#take('/');
      if (!divide && !this.#take('*')) break;
      const { start } = this.#peek();
      const operand = this.#factor();
      const end = this.#tokens[this.#next - 1]?.end;
      rest.push({ divide, operand, text: clip(this.#text.slice(start, end)) });
    }
    return rest.length === 0 ? first : { kind: 'multiply', first, rest };
  }

  #factor(): Expression {
    // A loop, not a recursion: ten thousand minus signs do not nest.
    let negative = false;
    while (this.#take('-')) negative = !negative;
    const operand = this.#operand();
    return negative ? { kind: 'negate', operand } : operand;
  }

  #operand(): Expression {
    const token = this.#peek();
    if (this.#take('(')) {
      const inner = this.#nested(token);
      this.#close(token);
      return inner;
    }
    if (token.kind === 'symbol' || token.kind === 'end') {
      const found = token.kind === 'end' ? 'the formula ends' : `found '${token.text}'`;
      throw new SyntaxFault(token.start, `expected a number, a column or '(', but ${found}`);
    }
    this.#next += 1;
    if (token.kind === 'number') return this.#number(token);
    if (token.kind === 'name' && this.#take('(')) return this.#call(token);
    this.columns.add(token.text);
    return { kind: 'column', name: token.text };
  }

  #number(token: Token): Expression {
    const value = parseDecimal(token.text, { digitsMax: literalDigitsMax });
    if (!value) throw new SyntaxFault(token.start, `a number has at most ${literalDigitsMax} digits`);
    return { kind: 'number', value };
  }

  #call(token: Token): Expression {
    const called = functions.get(token.text.toLowerCase());
    if (!called) {
      const known = [...functions.keys()].join(', ').toUpperCase();
      throw new SyntaxFault(
        token.start,
        `there is no function ${clip(token.text)}; there are ${known}. ` +
          'A column name with parentheses stands in [brackets]',
      );
    }
    const args: Expression[] = [];
    if (this.#peek().text !== ')') {
      do args.push(this.#nested(token));
      while (this.#take(','));
    }
    this.#close(token);
    const { name, argsMin, argsMax } = called;
    if (args.length < argsMin || args.length > argsMax) {
      const wanted =
        argsMin === argsMax ? `${argsMin}` : `${argsMin} ${argsMax === Infinity ? 'or more' : `or ${argsMax}`}`;
      const noun = wanted === '1' ? 'value' : 'values';
      throw new SyntaxFault(token.start, `${name.toUpperCase()} takes ${wanted} ${noun}, not ${args.length}`);
    }
    return { kind: 'call', name, args };
  }

  #nested(opening: Token): Expression {
    this.#nesting += 1;
    if (this.#nesting > nestingMax)
      throw new SyntaxFault(opening.start, `parentheses and functions nest at most ${nestingMax} deep`);
    const inner = this.#formula();
    this.#nesting -= 1;
    return inner;
  }

  #close(opening: Token): void {
    if (this.#take(')')) return;
    const token = this.#peek();
    if (token.kind !== 'end') throw this.#unexpectedAfterOperand(token);
    throw new SyntaxFault(opening.start, "the parenthesis that opens here is not closed with ')'");
  }

  #unexpectedAfterOperand(token: Token): SyntaxFault {
    const written = this.#text.slice(token.start, token.end);
    if (token.kind === 'symbol' && token.text !== '(')
      return new SyntaxFault(token.start, `'${written}' is out of place`);
    return new SyntaxFault(
      token.start,
      `an operator is missing before ${clip(written)}; a column name with spaces stands in [brackets]`,
    );
  }
}
