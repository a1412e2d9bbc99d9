/**
 * What is shipped, of package-lock.json: a bill of materials (CycloneDX 1.6) and a list of licences. It has the packages
 * that come with `npm install sourcing-bridge`, those of optional parts (scope `optional`, as those for other platforms),
 * and those that the pages of the console were built of. Tools and packages of tests are not in it.
 */
import { existsSync, globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { bundledPackages, optionalNames, packageManifest } from './manifest.ts';

interface LockedPackage {
  readonly version: string;
  readonly license?: string;
  readonly integrity?: string;
  readonly optional?: boolean;
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly optionalDependencies?: Readonly<Record<string, string>>;
  readonly peerDependencies?: Readonly<Record<string, string>>;
  readonly peerDependenciesMeta?: Readonly<Record<string, { readonly optional?: boolean }>>;
}

/** Packages that state their licence in a form that the lock does not keep. */
const licencesOfOldForm: Readonly<Record<string, string>> = {
  buildcheck: 'MIT',
  'cpu-features': 'MIT',
  ssh2: 'MIT',
};

type Lock = Readonly<Record<string, LockedPackage>>;

export interface Component {
  readonly type: 'library';
  readonly 'bom-ref': string;
  readonly name: string;
  readonly version: string;
  readonly scope: 'required' | 'optional';
  readonly purl: string;
  readonly licenses: readonly [{ readonly license: { readonly id: string } } | { readonly expression: string }];
  readonly hashes: readonly { readonly alg: string; readonly content: string }[];
}

/** Throws when a package has no entry in the lock, or no licence: that must be looked at before it is shipped. */
export function billOfMaterials(root: string) {
  const { packages } = JSON.parse(readFileSync(join(root, 'package-lock.json'), 'utf8')) as { packages: Lock };
  const { name, version, description, dependencies } = packageManifest();
  const required = closure(packages, [...Object.keys(dependencies), ...bundledPackages]);
  const all = closure(packages, [...Object.keys(dependencies), ...bundledPackages, ...optionalNames]);
  const components = [...all]
    .toSorted()
    .map((path) => componentOf(path, packages, required.has(path)))
    .filter((component, index, list) => list.findIndex((other) => other['bom-ref'] === component['bom-ref']) === index);
  const self = `${name}@${version}`;
  const refOf = (path: string) => refOfPath(path, packages);
  return {
    bomFormat: 'CycloneDX',
    specVersion: '1.6',
    version: 1,
    metadata: {
      component: {
        type: 'application',
        'bom-ref': self,
        name,
        version,
        description,
        purl: `pkg:npm/${self}`,
        licenses: [{ license: { id: 'Apache-2.0' } }],
      },
    },
    components,
    dependencies: [
      { ref: self, dependsOn: [...new Set([...roots(packages)].map(refOf))] },
      ...[...all].toSorted().map((path) => ({
        ref: refOf(path),
        dependsOn: [...new Set(dependenciesOf(path, packages).map(refOf))],
      })),
    ].filter(({ ref }, index, list) => list.findIndex((other) => other.ref === ref) === index),
  };

  function* roots(lock: Lock) {
    for (const dependency of [...Object.keys(dependencies), ...bundledPackages]) yield find('', dependency, lock) ?? '';
  }
}

/** The licence of each shipped package, and the text that came with it where it is installed here. */
export function licenceList(root: string, { components }: { components: readonly Component[] }): string {
  const sections = components.map(({ name, version, licenses, scope }) => {
    const [stated] = licenses;
    const licence = 'license' in stated ? stated.license.id : stated.expression;
    return `## ${name} ${version}\n\nLicence: ${licence}${scope === 'optional' ? ' (optional part)' : ''}\n${textOf(root, name)}`;
  });
  return `# Licences of what is shipped with sourcing-bridge\n\n${sections.join('\n')}`;
}

function textOf(root: string, name: string): string {
  const folder = join(root, 'node_modules', name);
  if (!existsSync(folder)) return '';
  const [file] = globSync('{LICEN[CS]E,licen[cs]e,COPYING}{,.*}', { cwd: folder }).toSorted();
  if (file === undefined) return '';
  return `\n\`\`\`\n${readFileSync(join(folder, file), 'utf8').trim().replaceAll('```', "'''")}\n\`\`\`\n`;
}

/** The paths in the lock of these packages and of all that they need. */
function closure(lock: Lock, names: readonly string[]): Set<string> {
  const found = new Set<string>();
  const waiting = names.map((name) => {
    const path = find('', name, lock);
    if (path === undefined) throw new Error(`package-lock.json has no ${name}.`);
    return path;
  });
  for (let path = waiting.pop(); path !== undefined; path = waiting.pop()) {
    if (found.has(path)) continue;
    found.add(path);
    waiting.push(...dependenciesOf(path, lock));
  }
  return found;
}

function dependenciesOf(path: string, lock: Lock): string[] {
  const {
    dependencies = {},
    optionalDependencies = {},
    peerDependencies = {},
    peerDependenciesMeta = {},
  } = at(path, lock);
  const peers = Object.keys(peerDependencies).filter((name) => peerDependenciesMeta[name]?.optional !== true);
  return [...Object.keys({ ...dependencies, ...optionalDependencies }), ...peers]
    .map((name) => find(path, name, lock))
    .filter((found) => found !== undefined);
}

/** Where Node finds the package that one at `from` names: below it, or below a folder above. */
function find(from: string, name: string, lock: Lock): string | undefined {
  const path = `${from === '' ? '' : `${from}/`}node_modules/${name}`;
  if (path in lock) return path;
  if (from === '') return undefined;
  const above = from.lastIndexOf('/node_modules/');
  return find(above < 0 ? '' : from.slice(0, above), name, lock);
}

function at(path: string, lock: Lock): LockedPackage {
  const found = lock[path];
  if (!found) throw new Error(`package-lock.json has no ${path}.`);
  return found;
}

function nameOf(path: string): string {
  return path.slice(path.lastIndexOf('node_modules/') + 'node_modules/'.length);
}

function refOfPath(path: string, lock: Lock): string {
  return `${nameOf(path)}@${at(path, lock).version}`;
}

function componentOf(path: string, lock: Lock, isRequired: boolean): Component {
  const { version, integrity, optional, ...locked } = at(path, lock);
  const name = nameOf(path);
  const license = locked.license ?? licencesOfOldForm[name];
  if (license === undefined) throw new Error(`package-lock.json says no licence of ${name}.`);
  const [algorithm, hash] = integrity?.split('-') ?? [];
  return {
    type: 'library',
    'bom-ref': `${name}@${version}`,
    name,
    version,
    scope: isRequired && !optional ? 'required' : 'optional',
    purl: `pkg:npm/${name.replace('@', '%40')}@${version}`,
    // One name of SPDX is an id; a choice between several is an expression.
    licenses: [/^[\w.-]+$/.test(license) ? { license: { id: license } } : { expression: license }],
    hashes:
      algorithm === 'sha512' && hash !== undefined
        ? [{ alg: 'SHA-512', content: Buffer.from(hash, 'base64').toString('hex') }]
        : [],
  };
}
