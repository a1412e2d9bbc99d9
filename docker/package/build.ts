/**
 * `npm run build`: makes dist/package, which `npm pack ./dist/package` packs: JavaScript, types, migrations, the pages of
 * the console, the sources of the template of new connectors, guides, and a list of what is shipped. Folders
 * lie as in the repository, so that a path between files is the same in both. The folder gets its name when everything is
 * in it: a build that is killed leaves the old one. Then it makes dist/library of it.
 */
import { execFileSync } from 'node:child_process';
import {
  cpSync,
  existsSync,
  globSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { billOfMaterials, licenceList } from './bill-of-materials.ts';
import { buildLibrary } from './build-library.ts';
import { packageManifest } from './manifest.ts';

const root = join(import.meta.dirname, '../..');
const target = join(root, 'dist', 'package');
const draft = join(root, 'dist', `.package-${process.pid}`);

mkdirSync(join(root, 'dist'), { recursive: true });
for (const left of readdirSync(join(root, 'dist')).filter((name) => /^\.(package|library)-/.test(name)))
  rmSync(join(root, 'dist', left), { recursive: true });
if (process.argv.includes('--pages') || !existsSync(join(root, 'dist', 'console', 'index.html')))
  run('src/console/web/build.js');
run('node_modules/typescript/bin/tsc', '--project', 'docker/package', '--outDir', draft);
narrowTypes();
for (const pattern of [
  'src/**/*.sql',
  'connectors/**/*.{sql,md,yaml}',
  'config/**/*.{yaml,json}',
  'docs/**/*.{md,json,mjs}',
  'docker/systemd/**/*.{service,timer,conf}',
  'dist/console/**/*.*',
  '{README,CHANGELOG,SECURITY,CONTRIBUTING}.md',
  'LICENSE',
  'tsconfig.json',
])
  copy(pattern);
for (const file of globSync('connectors/memory/*', { cwd: root }))
  copyFile(file, file.replace('connectors/', 'templates/'));
const materials = billOfMaterials(root);
writeFileSync(join(draft, 'sbom.cdx.json'), `${JSON.stringify(materials, null, 2)}\n`);
writeFileSync(join(draft, 'THIRD-PARTY-LICENSES.md'), licenceList(root, materials));
writeFileSync(join(draft, 'package.json'), `${JSON.stringify(packageManifest(), null, 2)}\n`);
rmSync(target, { recursive: true, force: true });
renameSync(draft, target);
const library = await buildLibrary(root, target);
console.log(`Built ${target} and ${library}. Pack them: npm pack ./dist/package ./dist/library`);

function run(program: string, ...args: string[]): void {
  execFileSync(process.execPath, [join(root, program), ...args], { cwd: root, stdio: 'inherit' });
}

function copy(pattern: string): void {
  for (const file of globSync(pattern, { cwd: root })) copyFile(file, file);
}

function copyFile(from: string, to: string): void {
  mkdirSync(dirname(join(draft, to)), { recursive: true });
  cpSync(join(root, from), join(draft, to));
}

/** Removes the types of rooms that no export shows, and lets the others name each other as JavaScript. */
function narrowTypes(): void {
  for (const file of globSync('**/*.d.ts', { cwd: draft })) {
    const path = join(draft, file);
    if (/^(src\/(bridge|cli|console|service)|connectors)\//.test(file)) {
      rmSync(path);
      continue;
    }
    const text = readFileSync(path, 'utf8');
    writeFileSync(path, text.replaceAll(/((?:from|import) ?\(?['"]\.[^'"]*)\.ts(?=['"])/g, '$1.js'));
  }
}
