/** The check of regular expressions sees what it is there for, and what takes linear time passes. */
import { expect, test } from 'vitest';
import { slowExpressionsIn } from '../harness/slow-expressions.ts';

test.each(['/<[^>]*>/g', String.raw`/^item (.+?)\s*$/`, '/0+$/', String.raw`/\w+_UPDATED\b/`, '/(a+)+b/'])(
  'is found: %s',
  (expression) => {
    const text = `// A file.\nexport const form = ${expression};\n`;
    expect(slowExpressionsIn('file.ts', text)).toEqual([{ line: 2, expression }]);
  },
);

test.each(['/<[^<>]*>/g', '/(?<!0)0+$/', String.raw`/\w{1,60}_UPDATED\b/`, String.raw`/\s+/g`])(
  'passes: %s',
  (expression) => {
    expect(slowExpressionsIn('file.ts', `export const form = ${expression};`)).toEqual([]);
  },
);

test('a file that cannot be parsed is a fault', () => {
  expect(() => slowExpressionsIn('file.ts', 'const = 1')).toThrow('file.ts');
});
