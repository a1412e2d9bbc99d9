/**
 * Finds regular expressions that take more than linear time: in texts from outside, a hundred thousand characters would
 * hold the process for seconds. Two ways lead there: a repetition that gives what it has taken to another one (`.*?\s*$`),
 * and one that is tried again from each place of a run (`<[^>]*>` over `<<<<<`).
 *
 * What helps: let the repetition not take its own beginning (`<[^<>]*>`), begin only at the beginning of a run
 * (`(?<!0)0+$`), or bound it (`{1,500}`).
 */
import { parseSync } from 'oxc-parser';
import { analyse } from 'scslre';

export interface SlowExpression {
  readonly line: number;
  readonly expression: string;
}

/** Returns those among the literals of a TypeScript file. Throws for a file that cannot be parsed. */
export function slowExpressionsIn(name: string, text: string): SlowExpression[] {
  const { program, errors } = parseSync(name, text);
  const [fault] = errors;
  if (fault) throw new Error(`${name}: ${fault.message}`);
  return literalsOf(program)
    .filter(({ regex }) => isSlow(regex))
    .map(({ regex, start }) => ({
      line: text.slice(0, start).split('\n').length,
      expression: `/${regex.pattern}/${regex.flags}`,
    }));
}

interface Literal {
  readonly start: number;
  readonly regex: { readonly pattern: string; readonly flags: string };
}

function isSlow({ pattern, flags }: Literal['regex']): boolean {
  return analyse({ source: pattern, flags }, { reportTypes: { Move: true } }).reports.length > 0;
}

function literalsOf(node: unknown): Literal[] {
  if (typeof node !== 'object' || node === null) return [];
  const inside = Object.values(node).flatMap(literalsOf);
  return 'regex' in node && node.regex ? [node as Literal, ...inside] : inside;
}
