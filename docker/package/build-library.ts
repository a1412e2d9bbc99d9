/**
 * Makes dist/library, the package `sourcing-bridge-library`: the client and the receiver for programs that need nothing
 * else, such as a function of AWS Lambda. They are made of the same sources, with the packages that they use built in; zod
 * alone stays outside, because callers pass its schemas in. The types are those of dist/package.
 */
import { cpSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { build } from 'vite';
import { billOfMaterials, licenceList } from './bill-of-materials.ts';
import { libraryEntries, libraryManifest } from './manifest.ts';

/** `typesFrom` is the built dist/package. Throws when a type needs a package that is not installed with the library. */
export async function buildLibrary(root: string, typesFrom: string): Promise<string> {
  const target = join(root, 'dist', 'library');
  const draft = join(root, 'dist', `.library-${process.pid}`);
  const bundledNames = await bundle(root, draft);
  copyTypes(typesFrom, draft);
  for (const [file, name] of [
    ['LICENSE', 'LICENSE'],
    ['docker/package/library-readme.md', 'README.md'],
  ] as const)
    cpSync(join(root, file), join(draft, name));
  const { components } = billOfMaterials(root);
  const bundled = components.filter(({ name }) => bundledNames.has(name));
  writeFileSync(join(draft, 'THIRD-PARTY-LICENSES.md'), licenceList(root, { components: bundled }));
  writeFileSync(join(draft, 'package.json'), `${JSON.stringify(libraryManifest(), null, 2)}\n`);
  rmSync(target, { recursive: true, force: true });
  renameSync(draft, target);
  return target;
}

/** Returns the names of the packages that were built in. */
async function bundle(root: string, outDir: string): Promise<Set<string>> {
  const input = Object.fromEntries(
    Object.entries(libraryEntries).map(([name, file]) => [name, join(root, `${file}.ts`)]),
  );
  const built = await build({
    root,
    configFile: false,
    logLevel: 'warn',
    publicDir: false,
    ssr: { noExternal: true, external: ['zod'] },
    build: {
      ssr: true,
      outDir,
      target: 'node22',
      minify: false,
      rollupOptions: { input, output: { entryFileNames: '[name].js', chunkFileNames: 'shared/[name].js' } },
    },
  });
  if (!('output' in built)) throw new Error('vite.build has returned no single output.');
  const modules = built.output.flatMap((file) => (file.type === 'chunk' ? file.moduleIds : []));
  const names = modules.map((id) => /.*\/node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(id)?.[1]);
  return new Set(names.filter((name) => name !== undefined));
}

/** Copies the types of the entries and of all that they name. */
function copyTypes(from: string, to: string): void {
  const waiting = Object.values(libraryEntries).map((file) => `${file}.d.ts`);
  const copied = new Set<string>();
  for (let file = waiting.pop(); file !== undefined; file = waiting.pop()) {
    if (copied.has(file)) continue;
    copied.add(file);
    mkdirSync(dirname(join(to, file)), { recursive: true });
    cpSync(join(from, file), join(to, file));
    const code = readFileSync(join(from, file), 'utf8').replaceAll(/\/\*.*?\*\//gs, '');
    for (const [, specifier = ''] of code.matchAll(/(?:from|import) ?\(?['"]([^'"]+)['"]/g)) {
      if (specifier.startsWith('#')) waiting.push(`src/${specifier.slice(1).replace(/\.ts$/, '.d.ts')}`);
      else if (specifier.startsWith('.')) waiting.push(join(dirname(file), specifier.replace(/\.js$/, '.d.ts')));
      else if (specifier !== 'zod' && !specifier.startsWith('node:'))
        throw new Error(`${file} needs the types of ${specifier}, which is not installed with the library.`);
    }
  }
}
