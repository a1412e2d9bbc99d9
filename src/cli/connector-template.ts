/**
 * The template of a new connector is the reference connector, `connectors/memory`. A copy of its folder under another
 * name runs and passes its tests before anything is edited.
 */
import { randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, readdir, readFile, realpath, rename, rm, writeFile } from 'node:fs/promises';
import { basename, dirname, isAbsolute, join, relative, resolve, sep } from 'node:path';
import { connectorsDir } from '#bridge/connectors/load-connector.ts';
import { AppError, hasErrorCode } from '#platform/errors.ts';
import { ownManifest, packageDir, runsFromRepository } from '#platform/own-package.ts';

/** Where the sources of this program's connectors are. The built package has them beside what was made of them. */
const sourcesDir = runsFromRepository ? connectorsDir : join(packageDir, 'templates');
const template = 'memory';

/** Names that have another meaning for npm, or cannot be the name of a folder on Windows. */
const reserved = /^(sourcing-bridge|node|npm|test|con|prn|aux|nul|com\d|lpt\d)$/;

export interface NewConnector {
  readonly folder: string;
  /** Whether it stands under connectors/ of the repository; otherwise it is a package of its own. */
  readonly inRepository: boolean;
  /** Whether its package must be installed before its tests run: sourcing-bridge is in no folder above it. */
  readonly needsInstall: boolean;
}

/**
 * Makes `<parent>/<name>`, completely or not at all. `parent` is connectors/ by default; where the program is an
 * installed package, the working directory. Throws an AppError `invalid` for a name or a place that is not possible.
 */
export async function makeConnector(
  name: string,
  parent: string = runsFromRepository ? connectorsDir : '.',
): Promise<NewConnector> {
  checkName(name);
  const made = await mkdir(resolve(parent), { recursive: true });
  const home = await realpath(parent);
  const inRepository = runsFromRepository && home === (await realpath(connectorsDir));
  const folder = join(home, name);
  const needsInstall = !inRepository && !isInstalledAbove(home);
  try {
    await checkPlace(folder, inRepository);
    await writeWhole(folder, async (draft) => {
      const copy = { name, folder, inRepository, needsInstall };
      await copyTemplate(draft, copy);
      if (!inRepository) await makePackage(draft, copy);
    });
  } catch (error) {
    // The parent folders that were made for this connector.
    if (made !== undefined) await rm(made, { recursive: true });
    throw error;
  }
  return { folder, inRepository, needsInstall };
}

function checkName(name: string): void {
  if (!/^[a-z][a-z0-9-]{0,62}$/.test(name) || name.endsWith('-'))
    throw new AppError(
      'invalid',
      `"${name}" cannot be the name of a connector: it must consist of lower-case letters, digits and hyphens, begin ` +
        'with a letter, and have at most 63 characters.',
    );
  if (reserved.test(name))
    throw new AppError('invalid', `"${name}" is a reserved name: choose another for the connector.`);
  if (existsSync(join(connectorsDir, name)))
    throw new AppError('invalid', `There is a connector "${name}" already (connectors/${name}): choose another name.`);
}

async function checkPlace(folder: string, inRepository: boolean): Promise<void> {
  if (existsSync(folder)) throw new AppError('invalid', `${folder} exists already: choose another name or folder.`);
  const fromRoot = relative(await realpath(packageDir), folder);
  if (!inRepository && !fromRoot.startsWith(`..${sep}`) && !isAbsolute(fromRoot))
    throw new AppError(
      'invalid',
      `${folder} is in the folder of sourcing-bridge itself, where connectors stand in connectors/: leave --in out, or ` +
        'name a folder elsewhere.',
    );
}

/** Gives the folder its name once everything is in it. A kill leaves a folder whose name begins with a dot. */
async function writeWhole(folder: string, fill: (draft: string) => Promise<void>): Promise<void> {
  const draft = join(dirname(folder), `.${basename(folder)}-${randomBytes(4).toString('hex')}`);
  try {
    await mkdir(draft);
    await fill(draft);
    await rename(draft, folder);
  } catch (error) {
    await rm(draft, { recursive: true, force: true });
    if (hasErrorCode(error, 'ENOTEMPTY') || hasErrorCode(error, 'EEXIST'))
      throw new AppError('invalid', `${folder} exists already: choose another name or folder.`, { cause: error });
    throw error;
  }
}

interface Copy extends NewConnector {
  readonly name: string;
}

/** Whether Node finds the package from this folder: it is installed there, or in a folder above. */
function isInstalledAbove(folder: string): boolean {
  if (existsSync(join(folder, 'node_modules', 'sourcing-bridge'))) return true;
  return dirname(folder) !== folder && isInstalledAbove(dirname(folder));
}

async function copyTemplate(draft: string, copy: Copy): Promise<void> {
  const from = join(sourcesDir, template);
  for (const file of await readdir(from))
    await writeFile(join(draft, file), renamed(file, await readFile(join(from, file), 'utf8'), copy));
}

/** The text of a template's file as it stands in the copy. */
function renamed(file: string, text: string, { name, folder, inRepository }: Copy): string {
  const replace = (...changes: readonly Change[]) => changes.reduce((old, change) => replaced(file, old, change), text);
  if (file === 'index.ts')
    return replace(
      [`name: '${template}'`, `name: '${name}'`],
      ['The reference connector, and the folder that `connector new` copies.', 'Made by `connector new`.'],
    );
  if (file === 'README.md')
    return replace(
      [/^# .*?\n(?=\| File)/s, readmeHead(name)],
      ['npx vitest run connectors/<name>', inRepository ? `npx vitest run connectors/${name}` : 'npm test'],
      [/^Verified: .*$/m, `Verified: \`documentation only\`, ${nothingYet}.`],
    );
  if (file === 'settings.example.yaml')
    return replace(
      [`connector: ${template}`, `connector: ${inRepository ? name : folder}`],
      [`name: to-${template}`, `name: to-${name}`],
    );
  if (file === 'conformance-target.ts')
    return replace(
      [`verified: 'real server'`, `verified: 'documentation only'`],
      [/against: '.*'/, `against: '${nothingYet}'`],
    );
  if (file.endsWith('.test.ts') && !inRepository) return replace([vitestImport, nodeTestImport(text)]);
  return text;
}

/** What a new connector was verified against. Its author replaces it. */
const nothingYet = 'the ERP in memory of the template, and no real one yet';

function readmeHead(name: string): string {
  return `# ${name}: what it connects to

Describe the ERP and the parts of it that are used. Until you replace it, the ERP is in memory
([memory-erp.ts](memory-erp.ts)).

`;
}

const vitestImport = /^import \{ (.*) \} from 'vitest';$/m;

/** Node's own test runner has other names for the hooks before and after all tests. */
function nodeTestImport(text: string): string {
  const [, names = ''] = vitestImport.exec(text) ?? [];
  const renames: Readonly<Record<string, string>> = { afterAll: 'after as afterAll', beforeAll: 'before as beforeAll' };
  const imported = names.split(', ').map((name) => renames[name] ?? name);
  return `import { ${imported.join(', ')} } from 'node:test';`;
}

type Change = readonly [from: string | RegExp, to: string];

function replaced(file: string, text: string, [from, to]: Change): string {
  const changed = text.replace(from, () => to);
  if (changed === text)
    throw new Error(`connectors/${template}/${file} has changed: "connector new" finds no ${String(from)} in it.`);
  return changed;
}

/** The oldest Node that runs the TypeScript of a connector, and the package. */
const nodeMin = ownManifest().engines.node.replace('>=', '');
const [nodeMajor, nodeMinor = 0] = nodeMin.split('.').map(Number);

/** Ends with one sentence on an older Node, also one that cannot read TypeScript. Has no character that a shell takes. */
const nodeCheck = `node -e "const [major, minor] = process.versions.node.split('.').map(Number); if (major > ${nodeMajor} || major === ${nodeMajor} && minor >= ${nodeMinor}) process.exit(0); console.error('These tests are TypeScript and need Node ${nodeMin} or newer; this is ' + process.version + '. Run: npx --package node@24 npm test'); process.exit(1)"`;

/** The files that a folder outside of the repository needs, so that the connector can be tested and edited there. */
async function makePackage(draft: string, { name, folder, needsInstall }: Copy): Promise<void> {
  const tools = ownManifest().devDependencies ?? {};
  const kit = 'node_modules/sourcing-bridge';
  const manifest = {
    name,
    version: '0.1.0',
    private: true,
    type: 'module',
    engines: { node: `>=${nodeMin}` },
    scripts: {
      // An older Node finds no test in TypeScript, and would pass with none.
      pretest: nodeCheck,
      // --test-force-exit: a run ends with its last test, even when a simulated ERP still listens.
      test: 'node --test --test-force-exit',
      check: runsFromRepository ? `node ${kit}/node_modules/typescript/bin/tsc` : 'tsc',
    },
    ...(needsInstall && {
      dependencies: { 'sourcing-bridge': `file:${relative(folder, await realpath(packageDir)).replaceAll(sep, '/')}` },
    }),
    ...(runsFromRepository
      ? // The package's install script downloads Node for this machine.
        { devDependencies: { node: tools['node'] }, allowScripts: { node: true } }
      : { devDependencies: { typescript: tools['typescript'], '@types/node': tools['@types/node'] } }),
  };
  const { compilerOptions } = JSON.parse(await readFile(join(packageDir, 'tsconfig.json'), 'utf8')) as {
    compilerOptions: object;
  };
  const typescript = {
    compilerOptions: { ...compilerOptions, ...(runsFromRepository && { typeRoots: [`./${kit}/node_modules/@types`] }) },
    include: ['*.ts'],
  };
  await writeFile(join(draft, 'package.json'), `${JSON.stringify(manifest, null, 2)}\n`);
  await writeFile(join(draft, 'tsconfig.json'), `${JSON.stringify(typescript, null, 2)}\n`);
  await writeFile(join(draft, '.gitignore'), 'node_modules\n');
}
