/** Finds and loads a connector by the name that a flow's settings give it, and checks what it declares. */
import { existsSync, statSync } from 'node:fs';
import { createRequire, registerHooks } from 'node:module';
import { dirname, isAbsolute, join, resolve } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { z } from 'zod';
import type { Connector } from '#connector/connector.ts';
import { documentKinds } from '#connector/documents.ts';
import { readStreams } from '#connector/records.ts';
import { AppError, errorText, hasErrorCode } from '#platform/errors.ts';
import { packageDir } from '#platform/own-package.ts';

/** The folder in which each connector of this program has a folder with its name. */
export const connectorsDir = join(packageDir, 'connectors');

/**
 * Loads a connector by its folder's name under `connectors/`, by a path (absolute, or `./…` and `../…` from the working
 * directory, as all paths of the configuration), or by the name of an installed package. Nothing else is edited to add
 * a connector. Throws AppError `invalid` that says what is wrong with it, and in which file and line.
 */
export async function loadConnector(name: string): Promise<Connector> {
  const target = targetOf(name);
  redirectKitImports();
  let module: ConnectorModule;
  try {
    module = (await import(target)) as ConnectorModule;
  } catch (cause) {
    throw new AppError('invalid', `The connector "${name}" cannot be loaded${reasonFor(cause, target)}`, { cause });
  }
  const connector = connectorOf(module);
  if (!connector)
    throw new AppError('invalid', `The connector "${name}" has no default export made with defineConnector().`);
  checkedCapabilities(name, connector.capabilities);
  // The connector may have its own copy of zod, of version 4.
  if (!('_zod' in connector.settings))
    throw new AppError(
      'invalid',
      `The connector "${name}" declares what cannot work: settings: must be a schema of zod 4.`,
    );
  return connector;
}

/** Returns the file of the connector of this program that has this name; undefined when there is none. */
export function ownConnectorFile(name: string): string | undefined {
  if (!/^[a-z0-9-]+$/.test(name)) return undefined;
  // Those of the built package are JavaScript; one that somebody has put beside them may be TypeScript.
  return ['index.ts', 'index.js'].map((file) => join(connectorsDir, name, file)).find((file) => existsSync(file));
}

/** Returns the folder of this connector; undefined for a package. Throws as `loadConnector` does. */
export function connectorFolder(name: string): string | undefined {
  const target = targetOf(name);
  return target.startsWith('file:') ? dirname(fileURLToPath(target)) : undefined;
}

/**
 * Returns the declared capabilities. Throws AppError `invalid` for capabilities with which nothing could be written.
 */
export function checkedCapabilities(name: string, declared: Connector['capabilities']): Connector['capabilities'] {
  const [issue] = capabilitiesForm.safeParse(declared).error?.issues ?? [];
  if (!issue) return declared;
  const path = ['capabilities', ...issue.path].join('.');
  throw new AppError('invalid', `The connector "${name}" declares what cannot work: ${path}: ${issue.message}.`);
}

/**
 * The exports of a connector's module. The exports of a CommonJS module are members of its default export; in compiled
 * CommonJS the connector is the default export of that.
 */
interface ConnectorModule {
  default?: Partial<Connector> & { default?: Partial<Connector> };
}

function connectorOf({ default: exported }: ConnectorModule): Connector | undefined {
  const isConnector = (candidate: Partial<Connector> | undefined): candidate is Connector =>
    candidate?.open !== undefined && candidate.settings !== undefined && candidate.capabilities !== undefined;
  return [exported, exported?.default].find(isConnector);
}

const kitUrl = import.meta.resolve('#connector/index.ts');
let kitImportsAreRedirected = false;

/**
 * Makes every import of `sourcing-bridge/connector` load this program's own kit, wherever the connector is and whatever
 * is installed there. The errors of another copy would be of other classes, and its secrets would not be known as
 * secrets.
 */
function redirectKitImports(): void {
  if (kitImportsAreRedirected) return;
  kitImportsAreRedirected = true;
  registerHooks({
    resolve: (specifier, context, next) =>
      specifier === 'sourcing-bridge/connector' ? { url: kitUrl, shortCircuit: true } : next(specifier, context),
  });
}

function reasonFor(cause: unknown, target: string): string {
  const text = errorText(cause);
  if (hasErrorCode(cause, 'ERR_MODULE_NOT_FOUND') && isUnknownPackage(text, target)) {
    const places = 'a folder under connectors/, nor a path (with /, ./ or ../ at its start), nor an installed package';
    return `: it is neither ${places}.`;
  }
  return ` (${text}${placeOf(cause)}).${adviceFor(cause, text)}`;
}

/** Whether the connector itself was not found, since this module imports nothing else dynamically. */
function isUnknownPackage(text: string, target: string): boolean {
  return !URL.canParse(target) && text.endsWith(fileURLToPath(import.meta.url));
}

function adviceFor(cause: unknown, text: string): string {
  if (hasErrorCode(cause, 'ERR_UNSUPPORTED_NODE_MODULES_TYPE_STRIPPING'))
    return ' Node runs no TypeScript below node_modules: publish it as JavaScript, or name the path of its folder.';
  if (hasErrorCode(cause, 'ERR_UNSUPPORTED_TYPESCRIPT_SYNTAX'))
    return ' Node only takes the types out of TypeScript: write it without enums, namespaces and parameter properties.';
  if (!hasErrorCode(cause, 'ERR_MODULE_NOT_FOUND')) return '';
  if (text.includes("'zod'")) return " Import z from 'sourcing-bridge/connector', or install zod in its folder.";
  return ' What it imports must be a file of its own, or installed in its folder or above.';
}

/** Returns ` at /path/index.ts:3`, the place in the connector's code; empty when the stack does not name one. */
function placeOf(cause: unknown): string {
  const stack = cause instanceof Error ? (cause.stack ?? '') : '';
  const [place] = /(?:file:\/\/)?\/[^\s()]{0,1000}\.[cm]?[jt]s:\d+/.exec(stack) ?? [];
  if (place === undefined) return '';
  const path = place.replace(/^file:\/\//, '');
  return path.startsWith(fileURLToPath(import.meta.url)) ? '' : ` at ${decodeURI(path)}`;
}

/** Upper bound of a timer of Node, in whole milliseconds. */
const timerMaxMs = 2 ** 31 - 1;

const capabilitiesForm = z.looseObject({
  kinds: z.array(z.enum(documentKinds)).min(1),
  batchMax: z.int().min(1),
  concurrency: z.int().min(1).optional(),
  requestsAtOnce: z.int().min(1).optional(),
  timeoutMs: z.int().min(1).max(timerMaxMs),
  lateEffectMs: z.int().min(0).max(timerMaxMs),
  visibleAfterMs: z.int().min(0).max(timerMaxMs).optional(),
  reads: z.array(z.enum(readStreams)).optional(),
  acknowledges: z.boolean().optional(),
  listsOpen: z.boolean().optional(),
  readsBack: z.array(z.enum(documentKinds)).optional(),
  leavesParts: z.array(z.enum(documentKinds)).optional(),
});

function targetOf(name: string): string {
  const own = ownConnectorFile(name);
  if (own !== undefined) return pathToFileURL(own).href;
  if (name.startsWith('~'))
    throw new AppError('invalid', `The connector "${name}" cannot be loaded: write the whole path instead of ~.`);
  if (!name.startsWith('.') && !isAbsolute(name)) return name;
  return pathToFileURL(fileAt(name)).href;
}

/** Returns the file of a path: for a folder its index.ts, else the `main` of its package.json, else its index.js. */
function fileAt(name: string): string {
  const path = resolve(name);
  if (!existsSync(path)) {
    const from = isAbsolute(name) ? '' : ` (from the working directory ${process.cwd()})`;
    throw new AppError('invalid', `The connector "${name}" cannot be loaded: there is no ${path}${from}.`);
  }
  if (!statSync(path).isDirectory()) return path;
  if (existsSync(join(path, 'index.ts'))) return join(path, 'index.ts');
  try {
    return createRequire(import.meta.url).resolve(path);
  } catch (cause) {
    const missing = 'has neither an index.ts, nor an index.js, nor a "main" in a package.json';
    throw new AppError('invalid', `The connector "${name}" cannot be loaded: ${path} ${missing}.`, { cause });
  }
}
