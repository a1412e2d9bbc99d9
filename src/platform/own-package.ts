/**
 * The package that this program runs from: the repository, whose TypeScript Node runs as it stands, or what
 * `npm run build` has made of it. Folders lie alike in both. Node runs no TypeScript below node_modules, so the ending of
 * this file's name tells them apart.
 */
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

/** The folder of package.json. */
export const packageDir = fileURLToPath(new URL('../..', import.meta.url));

export const runsFromRepository = import.meta.url.endsWith('.ts');

// Where npm has not installed it, as in the container image, the program is on the PATH.
const installedCommand = /[/\\]node_modules[/\\]/.test(packageDir) ? 'npx sourcing-bridge' : 'sourcing-bridge';

/** How a person calls the command line: `<commandLine> bridge status`. */
export const commandLine = runsFromRepository ? 'npm run -s cli --' : installedCommand;

/** How a person starts service and bridge together. */
export const startCommand = runsFromRepository ? 'npm start' : `${installedCommand} start`;

interface OwnManifest {
  readonly version: string;
  readonly engines: { readonly node: string };
  readonly devDependencies?: Readonly<Record<string, string>>;
}

/** Reads package.json. Throws when the installation is damaged. */
export function ownManifest(): OwnManifest {
  return JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8')) as OwnManifest;
}
