/**
 * The template of a new connector is the reference connector, `connectors/memory`. A copy of its folder under another
 * name runs and passes its tests before anything is edited.
 */
import { randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, readdir, readFile, realpath, rename, rm, writeFile } from 'node:fs/promises';
import { basename, dirname, isAbsolute, join, relative, resolve, sep } from 'node:path';
import { fileURLToPath } from 'node:url';
import { connectorsDir } from '#bridge/flows/load-connector.ts';
import { AppError, hasErrorCode } from '#platform/errors.ts';

const repository = fileURLToPath(new URL('../..', import.meta.url));
const template = 'memory';

/** Names that have another meaning for npm, or cannot be the name of a folder on Windows. */
const reserved = /^(sourcing-bridge|node|npm|test|con|prn|aux|nul|com\d|lpt\d)$/;

export interface NewConnector {
  readonly folder: string;
  /** Whether it stands under connectors/; otherwise it is a package of its own. */
  readonly inRepository: boolean;
}

/**
 * Makes `<parent>/<name>`, completely or not at all; `parent` is connectors/ by default. Throws an AppError `invalid`
 * for a name or a place that is not possible.
 */
export async function makeConnector(name: string, parent: string = connectorsDir): Promise<NewConnector> {
  checkName(name);
  const made = await mkdir(resolve(parent), { recursive: true });
  const home = await realpath(parent);
  const inRepository = home === (await realpath(connectorsDir));
  const folder = join(home, name);
  try {
    await checkPlace(folder, inRepository);
    await writeWhole(folder, async (draft) => {
      await copyTemplate(draft, { name, folder, inRepository });
      if (!inRepository) await makePackage(name, draft, folder);
    });
  } catch (error) {
    // The parent folders that were made for this connector.
    if (made !== undefined) await rm(made, { recursive: true });
    throw error;
  }
  return { folder, inRepository };
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
  const fromRoot = relative(await realpath(repository), folder);
  if (!inRepository && !fromRoot.startsWith(`..${sep}`) && !isAbsolute(fromRoot))
    throw new AppError(
      'invalid',
      `${folder} is in this repository, where connectors stand in connectors/: leave --in out, or name a folder ` +
        'elsewhere.',
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

async function copyTemplate(draft: string, copy: Copy): Promise<void> {
  const from = join(connectorsDir, template);
  for (const file of await readdir(from)) {
    const text = await readFile(join(from, file), 'utf8');
    await writeFile(join(draft, file), renamed(file, text, copy));
  }
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
    );
  if (file === 'settings.example.yaml')
    return replace(
      [`connector: ${template}`, `connector: ${inRepository ? name : folder}`],
      [`name: to-${template}`, `name: to-${name}`],
    );
  if (file.endsWith('.test.ts') && !inRepository) return replace([vitestImport, nodeTestImport(text)]);
  return text;
}

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

/** The files that a folder outside of the repository needs, so that the connector can be tested and edited there. */
async function makePackage(name: string, draft: string, folder: string): Promise<void> {
  const own = JSON.parse(await readFile(join(repository, 'package.json'), 'utf8')) as {
    devDependencies: Record<string, string>;
  };
  const kit = 'node_modules/sourcing-bridge';
  const manifest = {
    name,
    version: '0.1.0',
    private: true,
    type: 'module',
    // --test-force-exit: a run ends with its last test, even when a simulated ERP still listens.
    scripts: { test: 'node --test --test-force-exit', check: `node ${kit}/node_modules/typescript/bin/tsc` },
    dependencies: { 'sourcing-bridge': `file:${relative(folder, await realpath(repository)).replaceAll(sep, '/')}` },
    devDependencies: { node: own.devDependencies['node'] },
    // The package's install script downloads Node for this machine.
    allowScripts: { node: true },
  };
  const { compilerOptions } = JSON.parse(await readFile(join(repository, 'tsconfig.json'), 'utf8')) as {
    compilerOptions: object;
  };
  const typescript = {
    compilerOptions: { ...compilerOptions, typeRoots: [`./${kit}/node_modules/@types`] },
    include: ['*.ts'],
  };
  await writeFile(join(draft, 'package.json'), `${JSON.stringify(manifest, null, 2)}\n`);
  await writeFile(join(draft, 'tsconfig.json'), `${JSON.stringify(typescript, null, 2)}\n`);
  await writeFile(join(draft, '.gitignore'), 'node_modules\n');
}
