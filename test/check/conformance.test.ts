/** `test/service/conformance/README.md` names, for every rule and table row of the API document, the tests that prove it. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { parseAst } from 'vitest/node';

const root = join(import.meta.dirname, '..', '..');
const contract = readFileSync(join(root, 'docs/spec/sourcing-service-api.md'), 'utf8');
const decisions = readFileSync(join(root, 'docs/spec/decisions.md'), 'utf8');
const conformance = readFileSync(join(root, 'test/service/conformance/README.md'), 'utf8');

interface Rule {
  section: string;
  label: string;
}

/** Every row of a table, every numbered rule and every bullet, in the document's order. */
function rulesOf(markdown: string): Rule[] {
  const rules: Rule[] = [];
  let headings: string[] = [];
  let table: string[][] = [];
  const section = () => headings.slice(1).join(' / ');
  const endTable = () => {
    for (const row of table) {
      // As many of the first cells as make the row unique.
      const width = [1, 2, 3].find((cells) => table.filter((other) => same(row, other, cells)).length === 1) ?? 3;
      rules.push({ section: section(), label: row.slice(0, width).join(', ') });
    }
    table = [];
  };
  for (const line of [...markdown.split('\n'), '']) {
    if (line.startsWith('|')) {
      table.push(cellsOf(line));
      continue;
    }
    if (table.length > 0) {
      table = table.slice(2);
      endTable();
    }
    const [, marks, title] = /^(#+) (.*)/.exec(line) ?? [];
    if (marks !== undefined && title !== undefined) headings = [...headings.slice(0, marks.length - 1), title];
    const [, bullet, text] = /^(\d+\.|-) (.*)/.exec(line) ?? [];
    if (bullet !== undefined && text !== undefined)
      rules.push({ section: section(), label: bullet === '-' ? text : bullet.slice(0, -1) });
  }
  return rules;
}

const same = (a: readonly string[], b: readonly string[], cells: number) =>
  a.slice(0, cells).join('|') === b.slice(0, cells).join('|');

function cellsOf(row: string): string[] {
  return row
    .split(/(?<!\\)\|/)
    .slice(1, -1)
    .map((cell) => cell.trim());
}

interface Proof {
  rule: string;
  tests: { file: string; title: string }[];
}

/** Rows `| rule | test/a.test.ts: title; test/b.test.ts: title |` below a heading with the section's name. */
function proofsOf(markdown: string): Proof[] {
  let section = '';
  return markdown.split('\n').flatMap((line) => {
    const [, title] = /^## (.*)/.exec(line) ?? [];
    if (title !== undefined) section = title;
    if (!line.startsWith('|') || /^\|[-| ]+\|$/.test(line)) return [];
    const [label = '', proof = ''] = cellsOf(line);
    if (label === 'Rule') return [];
    const tests = [...proof.matchAll(/`(test\/[\w./-]+\.test\.ts)`: (.+?)(?=; `test\/|$)/g)].map(
      ([, file = '', title = '']) => ({ file, title }),
    );
    return [{ rule: `${section} | ${label}`, tests }];
  });
}

interface Node {
  type: string;
  [member: string]: unknown;
}

const isNode = (value: unknown): value is Node => typeof value === 'object' && value !== null && 'type' in value;
const childrenOf = (node: Node): Node[] => Object.values(node).flat().filter(isNode);

/** `test.each(rows)` is a `test` with the modifier `each`. */
function calledName(
  callee: unknown,
  modifiers: readonly string[] = [],
): { name: string; modifiers: readonly string[] } {
  if (!isNode(callee)) return { name: '', modifiers };
  if (callee.type === 'CallExpression') return calledName(callee['callee'], modifiers);
  if (callee.type !== 'MemberExpression') return { name: String(callee['name']), modifiers };
  return calledName(callee['object'], [...modifiers, String((callee['property'] as Node)['name'])]);
}

/** A title as it stands in the source: of a template the parts in braces, too. */
function titleOf(argument: unknown, source: string): string | undefined {
  if (!isNode(argument)) return undefined;
  if (argument.type === 'Literal' && typeof argument['value'] === 'string') return argument['value'];
  if (argument.type !== 'TemplateLiteral') return undefined;
  return source.slice(Number(argument['start']) + 1, Number(argument['end']) - 1);
}

/** The titles of a file's tests, each with those of the groups that it stands in. What is never run is no test. */
function testsIn(source: string): string[][] {
  const found: string[][] = [];
  const visit = (node: Node, groups: readonly string[]): void => {
    const { name, modifiers } = node.type === 'CallExpression' ? calledName(node['callee']) : calledName(undefined);
    const isOurs = name === 'describe' || name === 'test';
    if (isOurs && (modifiers.includes('skip') || modifiers.includes('todo'))) return;
    const title = isOurs ? titleOf([node['arguments']].flat()[0], source) : undefined;
    if (title !== undefined && name === 'test') found.push([...groups, title]);
    const inside = title !== undefined && name === 'describe' ? [...groups, title] : groups;
    for (const child of childrenOf(node)) visit(child, inside);
  };
  visit(parseAst(source, { lang: 'ts' }) as unknown as Node, []);
  return found;
}

// The parser comes with vitest's command line, which opens the standard input.
afterAll(() => void process.stdin.destroy());

const files = new Map<string, string[][]>();

function testsOf(file: string): string[][] {
  const known = files.get(file) ?? testsIn(readFileSync(join(root, file), 'utf8'));
  files.set(file, known);
  return known;
}

/** How many tests of the file are meant: by their own title, or by it behind those of their groups and ` > `. */
function testsMeant({ file, title }: Proof['tests'][number]): number {
  return testsOf(file).filter((titles) => titles.at(-1) === title || titles.join(' > ') === title).length;
}

const rules = rulesOf(contract).map(({ section, label }) => `${section} | ${label}`);
const proofs = proofsOf(conformance);
const beside = 'Beside the tables';
/** The tables that were added to the decisions, and how many rows each has. */
const added = [
  ['Added after the first version was judged', 9],
  ['Added after the second judgement', 5],
] as const;
/** Decisions that nothing proves yet. */
const unproven = ['Standard Webhooks', 'Retry-After'];
const isIn = (section: string) => (rule: string) => rule.startsWith(`${section} |`);
const ofTables = proofs.filter(
  ({ rule }) => ![beside, ...added.map(([section]) => section)].some((section) => isIn(section)(rule)),
);

test('the whole API document is read', () => {
  // Counted by hand in three of its tables, and the rules of two lists.
  const of = (section: string) => rules.filter((rule) => rule.startsWith(`${section} |`)).length;
  expect(of('Limits')).toBe(10);
  expect(of('Events')).toBe(7);
  expect(of('Resources and their fields / LotAward (awards feed record)')).toBe(6 + 5);
  expect(of('Endpoints / Supplier management')).toBe(5 + 6);
  expect(new Set(rules).size).toBe(rules.length);
});

test('every rule of the API document has a row, in its order, and there are no other rows', () => {
  expect(ofTables.map(({ rule }) => rule)).toEqual(rules);
});

test('each row outside the tables quotes the API document, and occurs once', () => {
  const sentences = proofs
    .filter(({ rule }) => rule.startsWith(`${beside} |`))
    .map(({ rule }) => rule.slice(`${beside} | `.length));
  expect(sentences.length).toBeGreaterThan(0);
  expect(sentences.filter((sentence) => !contract.includes(sentence))).toEqual([]);
  expect(new Set(sentences).size).toBe(sentences.length);
});

test.each(added)('each decision of "%s" has its proof in a row of its own, in their order', (section, count) => {
  const topics = rulesOf(decisions)
    .map((rule) => `${rule.section} | ${rule.label}`)
    .filter(isIn(section));
  expect(topics).toHaveLength(count);
  const proven = proofs.map(({ rule }) => rule).filter(isIn(section));
  expect(proven).toEqual(topics.filter((rule) => !unproven.some((topic) => rule === `${section} | ${topic}`)));
});

test('a title is found only as a whole; a skipped test is no test', () => {
  const source = `
    test("it's one", () => {});
    describe('a group', () => {
      test.each([['a'], ['b']])('each %s', async (one: string) => { test_('x'); });
      test('it is one', () => {});
      describe.each(list)('within', () => { test(\`of \${kind}\`, () => {}); });
    });
    test.skip('left out', () => {});
    describe.skip('all left out', () => { test('one of them', () => {}); });
    test.todo('to be written');
    // test('in a comment', () => {});`;
  expect(testsIn(source)).toEqual([
    ["it's one"],
    ['a group', 'each %s'],
    ['a group', 'it is one'],
    // biome-ignore lint/suspicious/noTemplateCurlyInString: as it stands in the source
    ['a group', 'within', 'of ${kind}'],
  ]);
});

test.each(proofs.map(({ rule, tests }) => [rule, tests] as const))(
  '%s: is proven by tests that exist',
  (_rule, tests) => {
    expect(tests.length).toBeGreaterThan(0);
    expect(tests.map((one) => ({ ...one, found: testsMeant(one) }))).toEqual(
      tests.map((one) => ({ ...one, found: 1 })),
    );
  },
);
