/**
 * Connectors from outside of the project, loaded by the Node that runs the bridge and not by the tests' own loader: in
 * a copy of the program, whose node_modules holds packages of these tests, too.
 */
import { execFile } from 'node:child_process';
import { cp, mkdir, symlink, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { beforeAll, describe, expect, test } from 'vitest';
import { copyProgram } from '../../harness/program-copy.ts';
import { scratchFolder } from '../../harness/scratch-folder.ts';

const root = join(import.meta.dirname, '..', '..', '..');

const typescript = `
import { ConfigError, defineConnector, secret, z } from 'sourcing-bridge/connector';
const settings = z.strictObject({ token: secret() });
export default defineConnector({
  name: 'acme',
  settings,
  capabilities: { kinds: ['award'], batchMax: 1, timeoutMs: 1_000, lateEffectMs: 0, idempotency: 'key' },
  open: async (): Promise<never> => {
    throw new ConfigError('from the connector');
  },
});
`;
const capabilities = `{ kinds: ['award'], batchMax: 1, timeoutMs: 1000, lateEffectMs: 0, idempotency: 'key' }`;
const ownZod = typescript
  .replace('secret, z }', 'secret }')
  .replace('const settings', "import { z } from 'zod';\nconst settings");
const commonJs = `const { z } = require('zod');
const settings = z.strictObject({ token: z.string() });
module.exports = { name: 'acme', settings, capabilities: ${capabilities}, open() {} };`;
const compiled = `Object.defineProperty(exports, '__esModule', { value: true });
const { z } = require('zod');
const settings = z.strictObject({ token: z.string() });
exports.default = { name: 'acme', settings, capabilities: ${capabilities}, open() {} };`;
const manifest = (main: string, type = 'module') => JSON.stringify({ name: 'x', type, main });
const anotherKit = 'export const defineConnector = undefined;';

/** Files in the folder `out`, which is outside of the copy, and in the copy's connectors and node_modules. */
const files: Readonly<Record<string, string>> = {
  'out/alone/index.ts': typescript,
  'out/with-another-kit/index.ts': typescript,
  'out/with-another-kit/node_modules/sourcing-bridge/package.json':
    '{ "name": "sourcing-bridge", "type": "module", "exports": { "./connector": "./kit.js" } }',
  'out/with-another-kit/node_modules/sourcing-bridge/kit.js': anotherKit,
  'out/own-zod/index.ts': ownZod,
  'out/without-zod/index.ts': ownZod,
  'out/main/package.json': manifest('lib/start.ts'),
  'out/main/lib/start.ts': typescript,
  'out/linked/package.json': manifest('index.ts'),
  'out/linked/index.ts': typescript,
  'out/empty/README.md': '',
  'out/no-default/index.ts': 'export const acme = 1;\n',
  'out/syntax/index.ts': 'const x = 1;\n\nexport default { x: 2 +* x };\n',
  'out/enum/index.ts': 'export enum State {\n  open,\n}\n',
  'out/throws/index.ts': "import { fail } from './deep.ts';\n\nexport default fail();\n",
  'out/throws/deep.ts': "export function fail(): never {\n  throw new Error('it fails');\n}\n",
  'out/wrong-import/index.ts': "import { nothing } from 'sourcing-bridge/connector';\n\nexport default nothing;\n",
  'out/missing-file/index.ts': "import './not-there.ts';\n",
  'connectors/mounted-typescript/index.ts': typescript,
  'connectors/mounted-javascript/index.js': typescript.replace(': Promise<never>', ''),
  'node_modules/acme-javascript/package.json': manifest('index.js'),
  'node_modules/acme-javascript/index.js': typescript.replace(': Promise<never>', ''),
  'node_modules/@acme/commonjs/package.json': manifest('index.js', 'commonjs'),
  'node_modules/@acme/commonjs/index.js': commonJs,
  'node_modules/acme-compiled/package.json': manifest('index.js', 'commonjs'),
  'node_modules/acme-compiled/index.js': compiled,
  'node_modules/acme-typescript/package.json': manifest('index.ts'),
  'node_modules/acme-typescript/index.ts': typescript,
};

/** Loads each connector named in its argument, and prints the results. */
const loader = `
import { loadConnector } from '#bridge/connectors/load-connector.ts';
import { ConfigError } from '#connector/errors.ts';
import { secretsIn } from '#connector/settings.ts';
const results = {};
for (const name of JSON.parse(process.argv[2])) {
  try {
    const connector = await loadConnector(name);
    const settings = connector.settings.parse({ token: 'hunter2' });
    const error = await Promise.try(() => connector.open(settings, {})).catch((thrown) => thrown);
    results[name] = { name: connector.name, secrets: secretsIn(settings), isOurError: error instanceof ConfigError };
  } catch (error) {
    results[name] = { code: error.code, message: error.message };
  }
}
console.log(JSON.stringify(results));
`;

const names = [
  './out/alone',
  './out/alone/index.ts',
  './out/with-another-kit',
  './out/own-zod',
  './out/main',
  'mounted-typescript',
  'mounted-javascript',
  'acme-linked',
  'acme-javascript',
  '@acme/commonjs',
  'acme-compiled',
  'acme-typescript',
  './out/without-zod',
  './out/empty',
  './out/nowhere',
  '~/connectors/acme',
  './out/no-default',
  './out/syntax',
  './out/enum',
  './out/throws',
  './out/wrong-import',
  './out/missing-file',
  'acme-nowhere',
  'out/alone',
];

let results: Record<string, unknown>;
let out: string;

beforeAll(async () => {
  const copy = await copyProgram(['src', 'package.json']);
  const elsewhere = await scratchFolder();
  out = join(elsewhere, 'out');
  for (const [path, text] of Object.entries(files)) {
    const file = join(path.startsWith('out/') ? elsewhere : copy, path);
    await mkdir(dirname(file), { recursive: true });
    await writeFile(file, text);
  }
  await symlink(join(out, 'linked'), join(copy, 'node_modules/acme-linked'));
  await cp(join(root, 'node_modules/zod'), join(out, 'own-zod/node_modules/zod'), { recursive: true });
  await writeFile(join(copy, 'loader.ts'), loader);
  const { stdout } = await promisify(execFile)(
    join(root, 'node_modules/.bin/node'),
    [join(copy, 'loader.ts'), JSON.stringify(names)],
    { cwd: elsewhere },
  );
  results = JSON.parse(stdout) as Record<string, unknown>;
});

/** It uses the bridge's own error classes, and its secrets are known to the bridge. */
const whole = { name: 'acme', secrets: ['hunter2'], isOurError: true };

describe('a connector is loaded', () => {
  test.each([
    ['by the path of a folder that holds TypeScript and nothing installed', './out/alone'],
    ['by the path of its file', './out/alone/index.ts'],
    ['with this program’s kit although another copy of it is installed', './out/with-another-kit'],
    ['with its own copy of zod', './out/own-zod'],
    ['by the path of a package whose main is TypeScript', './out/main'],
    ['by the name of its folder beside our own, with TypeScript in it', 'mounted-typescript'],
    ['by the name of its folder beside our own, with JavaScript in it', 'mounted-javascript'],
    ['by the name of a package that is a link to TypeScript', 'acme-linked'],
    ['by the name of a package in JavaScript that has no kit installed', 'acme-javascript'],
  ])('%s', (_how, name) => {
    expect(results[name]).toEqual(whole);
  });

  test.each(['@acme/commonjs', 'acme-compiled'])('from CommonJS: %s', (name) => {
    expect(results[name]).toEqual({ name: 'acme', secrets: [], isOurError: false });
  });
});

describe('the error of a connector that cannot be loaded names the place and what to do', () => {
  test.each<[string, readonly string[]]>([
    ['acme-typescript', ['no TypeScript below node_modules', 'publish it as JavaScript, or name the path']],
    ['./out/without-zod', ["Cannot find package 'zod'", "Import z from 'sourcing-bridge/connector'"]],
    ['./out/empty', ['<out>/empty has neither an index.ts']],
    ['./out/nowhere', ['there is no <out>/nowhere (from the working directory ']],
    ['~/connectors/acme', ['write the whole path instead of ~']],
    ['./out/no-default', ['has no default export made with defineConnector()']],
    ['./out/syntax', ['at <out>/syntax/index.ts:3']],
    ['./out/enum', ['at <out>/enum/index.ts:1', 'without enums']],
    ['./out/throws', ['it fails at <out>/throws/deep.ts:2']],
    ['./out/wrong-import', ["named 'nothing'", 'at <out>/wrong-import/index.ts:1']],
    ['./out/missing-file', ['<out>/missing-file/not-there.ts', 'a file of its own']],
    ['acme-nowhere', ['nor an installed package', 'a path (with /, ./ or ../ at its start)']],
    ['out/alone', ['a path (with /, ./ or ../ at its start)']],
  ])('%s', (name, texts) => {
    expect(results[name]).toMatchObject({ code: 'invalid' });
    const { message } = results[name] as { message: string };
    expect(message).toContain(`The connector "${name}" `);
    for (const text of texts) expect(message).toContain(text.replaceAll('<out>', out));
  });
});
