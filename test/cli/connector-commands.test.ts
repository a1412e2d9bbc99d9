import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, readdir, readFile, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { beforeAll, describe, expect, test } from 'vitest';
import { copyProgram } from '../harness/program-copy.ts';
import { scratchFolder } from '../harness/scratch-folder.ts';
import { runHere } from './command-line.ts';

const root = join(import.meta.dirname, '..', '..');
const node = join(root, 'node_modules', '.bin', 'node');

/** Runs a program to its end; `output` is its standard output and its standard error. */
async function run(program: string, args: readonly string[], cwd: string): Promise<{ code: number; output: string }> {
  // The test runner sets variables for the programs that it starts; these are left out.
  const env = Object.fromEntries(
    Object.entries(process.env).filter(([name]) => !/^(VITEST|NODE_TEST_|NODE_ENV$|CONFORMANCE_)/.test(name)),
  );
  try {
    const { stdout, stderr } = await promisify(execFile)(program, args, { cwd, env });
    return { code: 0, output: stdout + stderr };
  } catch (error) {
    const { code, stdout = '', stderr = '' } = error as { code?: number; stdout?: string; stderr?: string };
    return { code: code ?? 1, output: stdout + stderr };
  }
}

describe('connector list', () => {
  test('shows every folder under connectors/, and what each takes and reads', async () => {
    const { code, stdout } = await runHere(['connector', 'list']);
    expect(code).toBe(0);
    const folders = (await readdir(join(root, 'connectors'))).sort();
    const [titles, ...lines] = stdout.trimEnd().split('\n');
    expect(titles).toMatch(/^connector +takes +reads +idempotency +batch$/);
    expect(lines.map((line) => line.split(' ')[0])).toEqual(folders);
    expect(lines.find((line) => line.startsWith('memory '))).toMatch(
      /^memory +supplier, sourcing-event, quotation, award, event-awards, rfi-answers, file, job +supplier, requisition +lookup +\d+$/,
    );
  });

  test('is one JSON value for programs', async () => {
    const { stdout } = await runHere(['connector', 'list', '--json']);
    const { connectors } = JSON.parse(stdout) as { connectors: object[] };
    expect(connectors).toContainEqual({
      name: 'memory',
      kinds: ['supplier', 'sourcing-event', 'quotation', 'award', 'event-awards', 'rfi-answers', 'file', 'job'],
      reads: ['supplier', 'requisition'],
      idempotency: 'lookup',
      batch_max: expect.any(Number),
    });
  });
});

describe('connector show', () => {
  test('shows what a connector is, what it can do, and its settings, with secrets marked', async () => {
    const { code, stdout } = await runHere(['connector', 'show', 'memory']);
    expect(code).toBe(0);
    expect(stdout).toMatch(/^memory: \S/);
    expect(stdout).toMatch(
      /^takes documents +supplier, sourcing-event, quotation, award, event-awards, rfi-answers, file, job$/m,
    );
    expect(stdout).toMatch(/^reads from the ERP +supplier, requisition$/m);
    expect(stdout).toMatch(/^no second object +lookup: the bridge asks the ERP before it sends again$/m);
    expect(stdout).toMatch(/^client_secret +secret +must be set +\S/m);
  });

  test('takes a path as well as a name, and prints the JSON Schema of the settings', async () => {
    for (const name of ['memory', './connectors/memory', join(root, 'connectors/memory/index.ts')]) {
      const { stdout } = await runHere(['connector', 'show', name, '--json']);
      const { settings, capabilities } = JSON.parse(stdout) as { settings: object; capabilities: object };
      expect(capabilities).toMatchObject({ idempotency: 'lookup' });
      expect(settings).toMatchObject({
        additionalProperties: false,
        properties: { client_secret: { type: 'string', format: 'password', writeOnly: true } },
      });
    }
  });

  test('says for an unknown connector what it looked for, and exits with 2', async () => {
    const { code, stderr } = await runHere(['connector', 'show', './nowhere']);
    expect(code).toBe(2);
    expect(stderr).toContain(`there is no ${join(process.cwd(), 'nowhere')}`);
  });
});

describe('connector new refuses, makes nothing, and exits with 2', () => {
  test.each([
    ['Acme', 'lower-case letters'],
    ['acme_erp', 'lower-case letters'],
    ['../planted', 'lower-case letters'],
    ['9acme', 'begin with a letter'],
    ['acme-', 'lower-case letters'],
    ['a'.repeat(64), 'at most 63'],
    ['sourcing-bridge', 'a reserved name'],
    ['node', 'a reserved name'],
    ['com1', 'a reserved name'],
    ['memory', 'There is a connector "memory" already'],
  ])('the name %s', async (name, message) => {
    const parent = join(await scratchFolder(), 'made-for-nothing');
    const { code, stdout, stderr } = await runHere(['connector', 'new', name, '--in', parent]);
    expect([code, stdout]).toEqual([2, '']);
    expect(stderr).toContain(message);
    expect(existsSync(parent)).toBe(false);
  });

  test('a folder that exists, also an empty one', async () => {
    const parent = await scratchFolder();
    await mkdir(join(parent, 'planted'));
    const { code, stderr } = await runHere(['connector', 'new', 'planted', '--in', parent]);
    expect(code).toBe(2);
    expect(stderr).toContain(`${join(parent, 'planted')} exists already`);
    expect(await readdir(parent)).toEqual(['planted']);
  });

  test.each(['', 'src', 'connectors/file', 'new-folder'])('the place "%s" in this repository', async (place) => {
    const { code, stderr } = await runHere(['connector', 'new', 'planted', '--in', join(root, place)]);
    expect(code).toBe(2);
    expect(stderr).toContain('connectors stand in connectors/');
    expect(existsSync(join(root, place, 'planted'))).toBe(false);
    expect(existsSync(join(root, 'new-folder'))).toBe(false);
  });
});

describe('connector new outside of the repository', () => {
  let folder: string;
  let output: string;

  beforeAll(async () => {
    const parent = join(await scratchFolder(), 'our', 'connectors');
    folder = join(parent, 'planted');
    const { code, stdout } = await runHere(['connector', 'new', 'planted', '--in', parent]);
    if (code !== 0) throw new Error('It was not made.');
    output = stdout;
    // As `npm install` does for the only dependency.
    const { dependencies } = JSON.parse(await readFile(join(folder, 'package.json'), 'utf8'));
    await mkdir(join(folder, 'node_modules'));
    await symlink(
      join(folder, dependencies['sourcing-bridge'].replace('file:', '')),
      join(folder, 'node_modules/sourcing-bridge'),
    );
  });

  test('makes a package with every file of the template, under its own name', async () => {
    const template = await readdir(join(root, 'connectors/memory'));
    const made = await readdir(folder);
    expect(made.sort()).toEqual([...template, 'package.json', 'tsconfig.json', '.gitignore', 'node_modules'].sort());
    expect(await readFile(join(folder, 'index.ts'), 'utf8')).toContain("name: 'planted'");
    const readme = await readFile(join(folder, 'README.md'), 'utf8');
    expect(readme).toMatch(/^# planted: /);
    expect(readme).toContain('Run the test with `npm test`.');
    expect(readme).not.toContain('reference connector');
    expect(await readFile(join(folder, 'settings.example.yaml'), 'utf8')).toContain(`connector: ${folder}\n`);
    expect(JSON.parse(await readFile(join(folder, 'package.json'), 'utf8'))).toMatchObject({
      name: 'planted',
      type: 'module',
      engines: { node: '>=24.7' },
      scripts: { test: 'node --test --test-force-exit', pretest: expect.stringContaining('need Node 24.7 or newer') },
      allowScripts: { node: true },
    });
    expect(await readdir(join(folder, '..'))).toEqual(['planted']);
  });

  test('claims to be verified against nothing real', async () => {
    expect(await readFile(join(folder, 'conformance-target.ts'), 'utf8')).toMatch(
      /verified: 'documentation only',\n +against: '.*no real one yet',/,
    );
    expect(await readFile(join(folder, 'README.md'), 'utf8')).not.toContain('real server');
  });

  test.each([
    ['20.19.0', 1, /^These tests are TypeScript and need Node 24\.7 or newer/],
    ['24.6.0', 1, /^These tests are TypeScript and need Node 24\.7 or newer/],
    ['24.7.0', 0, /^$/],
    ['26.1.0', 0, /^$/],
  ])('before its tests, Node %s ends with %d', async (version, code, said) => {
    const { scripts } = JSON.parse(await readFile(join(folder, 'package.json'), 'utf8'));
    const versions = `Object.defineProperty(process.versions, 'node', { value: '${version}' });`;
    const script = /^node -e "(.*)"$/.exec(scripts.pretest)?.[1] ?? '';
    const ended = await run(node, ['-e', versions + script], folder);
    expect(ended).toMatchObject({ code, output: expect.stringMatching(said) });
  });

  test('says what to do next: its tests, the file to begin with, and how documents reach its ERP', () => {
    expect(output).toContain(`cd ${folder} && npm install && npm test`);
    expect(output).toContain('mapping.ts');
    // The Node of the repository: one that begins the commands may be too old for TypeScript.
    expect(output).toContain(`npx node ${folder}/memory-erp.ts`);
    expect(output).toContain(`start --demo --config ${folder}/settings.example.yaml`);
  });

  test('passes its tests under Node’s own runner, and the types are right', async () => {
    // One check of each sort: the others run in the template itself.
    const args = ['--test', '--test-name-pattern', '^(settings|check|same document twice|lookup|secrets):'];
    const tested = await run(node, args, folder);
    expect(tested).toMatchObject({ code: 0, output: expect.stringMatching(/^ℹ pass 5$/m) });
    const checked = await run(node, ['node_modules/sourcing-bridge/node_modules/typescript/bin/tsc'], folder);
    expect(checked).toEqual({ code: 0, output: '' });
  });

  test('is found by its path, as in a flow', async () => {
    const { code, stdout } = await runHere(['connector', 'show', folder]);
    expect(code).toBe(0);
    expect(stdout).toMatch(/^client_secret +secret +must be set/m);
  });
});

describe('connector new in the repository', () => {
  let copy: string;
  const command = (...args: string[]) => run(node, ['src/cli/main.ts', 'connector', ...args], copy);

  beforeAll(async () => {
    copy = await copyProgram(['src', 'connectors', 'package.json', 'tsconfig.json']);
  });

  test('makes a folder under connectors/ that has its own name, and is listed', async () => {
    const made = await command('new', 'planted');
    expect(made.output).toContain('npx vitest run connectors/planted');
    expect(made.code).toBe(0);
    expect((await readdir(join(copy, 'connectors/planted'))).sort()).toEqual(
      (await readdir(join(root, 'connectors/memory'))).sort(),
    );
    expect(await readFile(join(copy, 'connectors/planted/settings.example.yaml'), 'utf8')).toContain(
      'connector: planted\n',
    );
    expect((await command('list')).output).toMatch(/^planted +supplier/m);
  });

  test('leaves nothing behind when it cannot be made', async () => {
    await writeFile(join(copy, 'connectors/memory/index.ts'), 'export default 1;\n');
    const before = await readdir(join(copy, 'connectors'));
    const { code, output } = await command('new', 'never-made');
    expect(code).toBe(1);
    expect(output).toContain('connectors/memory/index.ts has changed');
    expect(await readdir(join(copy, 'connectors'))).toEqual(before);
  });
});
