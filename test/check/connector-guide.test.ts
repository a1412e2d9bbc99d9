/**
 * Checks docs/writing-a-connector.md: its code compiles beside the template of a connector, its test passes, and its commands
 * and settings exist. `connector new` itself is tested in test/cli/connector-commands.test.ts.
 */
import { execFile } from 'node:child_process';
import { mkdir, readFile, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { beforeAll, describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { bridgeSettings } from '#bridge/settings/settings.ts';
import { makeConnector } from '#cli/connector-template.ts';
import { runHere } from '../cli/command-line.ts';
import { scratchFolder } from '../harness/scratch-folder.ts';

const root = join(import.meta.dirname, '..', '..');
const guide = await readFile(join(root, 'docs/writing-a-connector.md'), 'utf8');
const blocks = [...guide.matchAll(/^```(\w*)\n(.*?)^```$/gms)].map(([, language = '', text = '']) => ({
  language,
  text,
}));
const of = (language: string) => blocks.filter((block) => block.language === language).map(({ text }) => text);
const program = promisify(execFile);

/** A package that `connector new` has made, with the guide's modules; the first line of each is its file name. */
let folder: string;

beforeAll(async () => {
  const parent = await scratchFolder();
  folder = join(parent, 'of-the-guide');
  await makeConnector('of-the-guide', parent);
  await mkdir(join(folder, 'node_modules'));
  await symlink(root, join(folder, 'node_modules/sourcing-bridge'));
  for (const text of of('ts')) {
    const [, name] = /^\/\/ ([a-z-]+(?:\.test)?\.ts)\n/.exec(text) ?? [];
    if (name === undefined)
      throw new Error(`A block of the guide does not begin with its file name: ${text.slice(0, 60)}`);
    await writeFile(join(folder, name), text);
  }
});

/** Runs Node in the folder and returns its output. Rejects with the output when the program fails. */
async function inFolder(...args: readonly string[]): Promise<string> {
  const env = Object.fromEntries(
    Object.entries(process.env).filter(([name]) => !/^(VITEST|NODE_TEST_|NODE_ENV$|CONFORMANCE_)/.test(name)),
  );
  const { stdout } = await program(join(root, 'node_modules/.bin/node'), args, { cwd: folder, env }).catch(
    (error: { stdout?: string; stderr?: string }) => {
      throw new Error(`${error.stdout}${error.stderr}`);
    },
  );
  return stdout;
}

test('every block of the guide is in a language that is tested here', () => {
  expect(blocks.length).toBeGreaterThan(5);
  expect([...new Set(blocks.map(({ language }) => language))].sort()).toEqual(['sh', 'ts', 'yaml']);
});

test('its modules compile', async () => {
  expect(await inFolder('node_modules/sourcing-bridge/node_modules/typescript/bin/tsc')).toBe('');
});

test('its test passes', async () => {
  expect(await inFolder('--test', '--test-force-exit', 'own.test.ts')).toContain('ℹ pass 1\n');
});

test('the bridge and the connector accept its flows', async () => {
  const settings = of('yaml').map((text) => {
    const whole = parse(text) as { bridge?: { flows: object[] }; flows: object[] };
    const { flows } = whole.bridge ?? whole;
    expect(bridgeSettings.parse({ flows }).flows).toHaveLength(1);
    return (flows as [{ settings: object }])[0].settings;
  });
  await writeFile(
    join(folder, 'flow.ts'),
    `import connector from './index.ts';\nfor (const settings of JSON.parse(process.argv[2] ?? '')) console.log(connector.settings.safeParse(settings).success);\n`,
  );
  expect(await inFolder('flow.ts', JSON.stringify(settings))).toBe(settings.map(() => 'true\n').join(''));
});

describe('its commands exist, with the options that it uses', () => {
  const lines = of('sh').flatMap((text) => text.trimEnd().split('\n'));
  const ours = lines.filter((line) => line.startsWith('npx sourcing-bridge '));

  test('and all of them are commands of this program, or run the tests', () => {
    expect(lines.filter((line) => !ours.includes(line))).toEqual([
      'cd ../our-connectors/orderbook && npm install && npm test',
    ]);
  });

  test.each(ours)('%s', async (line) => {
    const words = line.replace('npx sourcing-bridge ', '').split(' ');
    const { code, stdout } = await runHere([...words, '--help']);
    expect(code).toBe(0);
    // For a command that does not exist, the parent command's help would be printed.
    const command = words.slice(0, words[0] === 'start' ? 1 : 2).join(' ');
    expect(stdout).toMatch(new RegExp(`^Usage: sourcing-bridge ${command} `));
    for (const option of words.filter((word) => word.startsWith('--'))) expect(stdout).toContain(`  ${option} `);
  });
});
