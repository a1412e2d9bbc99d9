/**
 * Which tests a change concerns. Nearly every test imports every file, because it starts the service or the bridge; so a
 * test counts as concerned only when
 * - it imports a changed file on a path that does not lead through a file that assembles a whole program, or
 * - it is in the folder of the tests of a changed file: `test/service/desk` for `src/service/desk`. Where that folder
 *   has no tests, the one above it counts: `test/cli` for `src/cli/commands`.
 */
import { posix } from 'node:path';

/** These files import nearly everything: the path from a test through one of them says nothing. */
const assembling =
  /^(src\/cli\/|src\/service\/(api|create-service)\.ts$|src\/bridge\/create-bridge\.ts$|test\/harness\/)/;
const isTest = /\.test\.ts$/;

/** The files of the repository that each of its modules imports, types left out; all by their path from the root. */
export type ImportGraph = ReadonlyMap<string, readonly string[]>;

/** Reads the imports of each module from its text: paths from the root, and the modules' texts. */
export function importGraphOf(modules: ReadonlyMap<string, string>): ImportGraph {
  return new Map(
    [...modules].map(([path, text]) => [path, importsIn(path, text).filter((imported) => modules.has(imported))]),
  );
}

const importStatement = /^(?:import|export)\s(?!type\b)[^;'"]*?'([^']+)'|\bimport\(\s*'([^']+)'/gm;

function importsIn(path: string, text: string): string[] {
  return [...text.matchAll(importStatement)].flatMap(([, fromStatement, fromCall]) => {
    const specifier = fromStatement ?? fromCall ?? '';
    if (specifier.startsWith('#')) return [`src/${specifier.slice(1)}`];
    if (specifier.startsWith('.')) return [posix.join(posix.dirname(path), specifier)];
    if (specifier.startsWith('sourcing-bridge/'))
      return [specifier.replace('sourcing-bridge', 'src').concat('/index.ts')];
    return [];
  });
}

/** The test files that these changed files concern, the nearest first. */
export function concernedTests(changed: readonly string[], graph: ImportGraph): string[] {
  const importers = importersOf(graph);
  const testFiles = [...graph.keys()].filter((path) => isTest.test(path));
  const distances = new Map<string, number>();
  const note = (test: string, distance: number) =>
    distances.set(test, Math.min(distance, distances.get(test) ?? Number.POSITIVE_INFINITY));
  for (const path of changed) {
    for (const [module, distance] of reachedFrom(path, importers)) if (isTest.test(module)) note(module, distance);
    const own = posix.basename(path).replace(/\.ts$/, '.test.ts');
    for (const test of testsBeside(path, testFiles)) note(test, posix.basename(test) === own ? 0 : 2);
  }
  return [...distances].sort(([, a], [, b]) => a - b).map(([test]) => test);
}

/** The tests in the folder that mirrors the file's own. */
function testsBeside(path: string, testFiles: readonly string[]): string[] {
  for (let folder = testFolderOf(path); folder.startsWith('test/'); folder = posix.dirname(folder)) {
    const found = testFiles.filter((test) => posix.dirname(test) === folder);
    if (found.length > 0) return found;
  }
  return [];
}

/** Documents and examples are checked in `test/check`. */
function testFolderOf(path: string): string {
  if (path.startsWith('src/')) return posix.dirname(path).replace('src', 'test');
  if (path.startsWith('connectors/')) return posix.join('test', posix.dirname(path));
  return /^(docs|config)\/|\.md$/.test(path) ? 'test/check' : '';
}

function importersOf(graph: ImportGraph): Map<string, string[]> {
  const importers = new Map<string, string[]>();
  for (const [module, imports] of graph)
    for (const imported of imports) importers.set(imported, [...(importers.get(imported) ?? []), module]);
  return importers;
}

/** Everything that imports the file, with the number of steps to it. */
function reachedFrom(path: string, importers: ReadonlyMap<string, readonly string[]>): Map<string, number> {
  const reached = new Map([[path, 0]]);
  // A map that grows while it is walked is walked to its new end: breadth first.
  for (const [module, distance] of reached) {
    if (module !== path && assembling.test(module)) continue;
    for (const importer of importers.get(module) ?? []) if (!reached.has(importer)) reached.set(importer, distance + 1);
  }
  return reached;
}
