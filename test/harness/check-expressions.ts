/** `npm run check:expressions`: no regular expression of the programs and the connectors takes more than linear time. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { slowExpressionsIn } from './slow-expressions.ts';

const root = join(import.meta.dirname, '..', '..');
const files = ['src', 'connectors'].flatMap((folder) =>
  readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
    .filter((name) => /\.tsx?$/.test(name) && !name.endsWith('.test.ts'))
    .map((name) => join(folder, name)),
);
const slow = files.flatMap((file) =>
  slowExpressionsIn(file, readFileSync(join(root, file), 'utf8')).map((found) => ({ file, ...found })),
);
for (const { file, line, expression } of slow)
  console.error(
    `${file}:${line}: ${expression} may take quadratic time. test/harness/slow-expressions.ts says what helps.`,
  );
if (slow.length > 0 || files.length === 0) process.exitCode = 1;
