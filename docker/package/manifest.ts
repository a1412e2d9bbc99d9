/** The package.json of the package that is published, made of the repository's. */
import { readFileSync } from 'node:fs';
import { optionalPackages } from '#platform/optional-package.ts';

/** The oldest Node that runs the small package. */
const nodeMinOfLibrary = '22.19';

/** What the exports of the package are called, and the module of each. */
const entries = {
  './client': 'src/client/index',
  './connector': 'src/connector/index',
  './connector/testing': 'src/connector/testing/index',
  './contract': 'src/contract/index',
  './receiver': 'src/receiver/index',
} as const;

/** The exports of the small package, and the module of each. */
export const libraryEntries = {
  client: entries['./client'],
  receiver: entries['./receiver'],
} as const;

/** The packages that the built pages of the console hold parts of. */
export const bundledPackages = ['preact', '@preact/signals', 'preact-iso'] as const;

/** The packages that an installation gets only when somebody asks for them, in alphabetical order. */
export const optionalNames: readonly string[] = Object.values(optionalPackages).toSorted();

interface RepositoryManifest {
  readonly name: string;
  readonly version: string;
  readonly description: string;
  readonly engines: { readonly node: string };
  readonly dependencies: Readonly<Record<string, string>>;
  readonly devDependencies: Readonly<Record<string, string>>;
}

export function repositoryManifest(): RepositoryManifest {
  return JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8')) as RepositoryManifest;
}

/** Tools are not installed with the package: `connector new` writes their versions into the connector's package. */
const connectorTools = ['typescript', '@types/node'];

export function packageManifest(
  { name, version, description, engines, dependencies, devDependencies } = repositoryManifest(),
) {
  const isOptional = ([dependency]: [string, string]) => optionalNames.includes(dependency);
  const all = Object.entries(dependencies);
  return {
    name,
    version,
    description,
    license: 'Apache-2.0',
    type: 'module',
    engines,
    bin: { 'sourcing-bridge': 'src/cli/launch.js' },
    // Source files name each other by the endings of TypeScript. Types are found beside the JavaScript.
    imports: { '#*.ts': './src/*.js' },
    exports: Object.fromEntries(
      Object.entries(entries).map(([path, file]) => [path, { types: `./${file}.d.ts`, default: `./${file}.js` }]),
    ),
    dependencies: Object.fromEntries(all.filter((entry) => !isOptional(entry))),
    peerDependencies: Object.fromEntries(all.filter(isOptional)),
    peerDependenciesMeta: Object.fromEntries(optionalNames.map((optional) => [optional, { optional: true }])),
    devDependencies: Object.fromEntries(connectorTools.map((tool) => [tool, devDependencies[tool]])),
  };
}

/** The package.json of the small package: the library without the programs. */
export function libraryManifest({ name, version, dependencies } = repositoryManifest()) {
  return {
    name: `${name}-library`,
    version,
    description: 'Receive the webhooks of a sourcing service in your own web server, and call its API',
    license: 'Apache-2.0',
    type: 'module',
    engines: { node: `>=${nodeMinOfLibrary}` },
    // The types name each other as the sources do.
    imports: { '#*.ts': { types: './src/*.d.ts' } },
    exports: Object.fromEntries(
      Object.entries(libraryEntries).map(([path, file]) => [
        `./${path}`,
        { types: `./${file}.d.ts`, default: `./${path}.js` },
      ]),
    ),
    sideEffects: false,
    dependencies: { zod: dependencies['zod'] },
  };
}
