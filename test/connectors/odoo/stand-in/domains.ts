/** Odoo's search domains, in prefix notation, over rows of the stand-in. */
import { valueError } from './faults.ts';
import { models } from './models.ts';
import type { Row, Rows } from './rows.ts';
import { textOf } from './text-of.ts';

type Test = (row: Row) => boolean;

/** Throws Odoo's ValueError for a field that the model does not have. */
export function compileDomain(rows: Rows, model: string, domain: readonly unknown[]): Test {
  const terms = [...domain];
  const tests: Test[] = [];
  while (terms.length > 0) tests.push(next());
  return (row) => tests.every((test) => test(row));

  function next(): Test {
    const term = terms.shift();
    if (term === '&' || term === '|') {
      const [left, right] = [next(), next()];
      return term === '&' ? (row) => left(row) && right(row) : (row) => left(row) || right(row);
    }
    if (term === '!') {
      const inner = next();
      return (row) => !inner(row);
    }
    if (!Array.isArray(term) || term.length !== 3) throw valueError(`Invalid leaf ${JSON.stringify(term)}`);
    const [path, operator, value] = term as [string, string, unknown];
    return compileLeaf(rows, model, path, operator, value);
  }
}

function compileLeaf(rows: Rows, model: string, path: string, operator: string, value: unknown): Test {
  const [name = '', ...rest] = path.split('.');
  const field = models[model]?.fields[name];
  if (!field)
    throw valueError(`Invalid field ${model}.${name} in condition ('${path}', '${operator}', ${textOf(value)})`);
  if (rest.length > 0 && field.relation) {
    const relation = field.relation;
    const inner = compileLeaf(rows, relation, rest.join('.'), operator, value);
    return (row) => idsIn(rows, model, row, name).some((id) => matches(rows.find(relation, id), inner));
  }
  if (field.type === 'one2many' || field.type === 'many2many')
    return (row) => idsIn(rows, model, row, name).some((id) => compare(id, operator, value));
  const like = likes[operator]?.(textOf(value));
  if (like) return (row) => typeof row[name] === 'string' && like.test(row[name]);
  if (operator === 'not like') return (row) => !pattern(`%${textOf(value)}%`, '').test(textOf(row[name]));
  return (row) => compare(row[name] ?? false, operator, value);
}

function matches(row: Row | undefined, test: Test): boolean {
  return row !== undefined && test(row);
}

function idsIn(rows: Rows, model: string, row: Row, name: string): number[] {
  const value = rows.valueOf(model, row, name);
  if (Array.isArray(value)) return value as number[];
  return typeof value === 'number' ? [value] : [];
}

function compare(held: unknown, operator: string, value: unknown): boolean {
  switch (operator) {
    case '=':
      return held === (value ?? false);
    case '!=':
      return held !== (value ?? false);
    case 'in':
      return (value as unknown[]).includes(held);
    case 'not in':
      return !(value as unknown[]).includes(held);
    case '>':
      return held !== false && (held as never) > (value as never);
    case '>=':
      return held !== false && (held as never) >= (value as never);
    case '<':
      return held !== false && (held as never) < (value as never);
    case '<=':
      return held !== false && (held as never) <= (value as never);
    default:
      throw valueError(`Invalid operator ${operator}`);
  }
}

/** The operators that compare with a pattern, which is compiled once for a search. */
const likes: Readonly<Record<string, (value: string) => RegExp>> = {
  '=like': (value) => pattern(value, ''),
  '=ilike': (value) => pattern(value, 'i'),
  like: (value) => pattern(`%${value}%`, ''),
  ilike: (value) => pattern(`%${value}%`, 'i'),
};

/** A LIKE pattern of SQL as a regular expression; a backslash makes the next character an ordinary one. */
function pattern(like: string, flags: string): RegExp {
  const parts = like.match(/\\.|./gsu) ?? [];
  const wild: Readonly<Record<string, string>> = { '%': '.*', _: '.' };
  const regex = parts.map(
    (part) => wild[part] ?? part.replace(/^\\/u, '').replace(/[.*+?^${}()|[\]\\]/u, String.raw`\$&`),
  );
  return new RegExp(`^${regex.join('')}$`, `s${flags}`);
}
