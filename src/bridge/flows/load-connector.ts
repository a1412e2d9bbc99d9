import { existsSync, statSync } from 'node:fs';
import { createRequire, registerHooks } from 'node:module';
import { dirname, isAbsolute, join, resolve } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { z } from 'zod';
import type { Connector } from '#connector/connector.ts';
import { documentKinds } from '#connector/documents.ts';
import { readStreams } from '#connector/records.ts';
import { AppError, errorText, hasErrorCode } from '#platform/errors.ts';

/** Where connectors have a folder each that goes by its name. */
export const connectorsDir = fileURLToPath(new URL('../../../connectors', import.meta.url));

/**
 * Finds a connector by its folder's name under `connectors/`, by a path (absolute, or `./…` and `../…` from the working
 * directory, as all paths of the configuration), or by the name of an installed package: nothing else is edited to add
 * one. Throws AppError `invalid` that says what is wrong with it, and in which file and line.
 */
export async function loadConnector(name: string): Promise<Connector> {
  const target = targetOf(name);
  useOurKit();
  let module: Loaded;
  try {
    module = (await import(target)) as Loaded;
  } catch (cause) {
    throw new AppError('invalid', `The connector "${name}" cannot be loaded${whyNot(cause, target)}`, { cause });
  }
  const connector = exportedBy(module);
  if (!connector)
    throw new AppError('invalid', `The connector "${name}" has no default export made with defineConnector().`);
  checkedCapabilities(name, connector.capabilities);
  // Its own zod will do, if it is not an old one.
  if (!('_zod' in connector.settings))
    throw new AppError(
      'invalid',
      `The connector "${name}" declares what cannot work: settings: must be a schema of zod 4.`,
    );
  return connector;
}

/** The folder that the connector of this name stands in; undefined for a package. Throws as `loadConnector` does. */
export function connectorFolder(name: string): string | undefined {
  const target = targetOf(name);
  return target.startsWith('file:') ? dirname(fileURLToPath(target)) : undefined;
}

/** Throws AppError `invalid` for capabilities with which nothing would ever be written. */
export function checkedCapabilities(name: string, given: Connector['capabilities']): Connector['capabilities'] {
  const [issue] = capabilities.safeParse(given).error?.issues ?? [];
  if (!issue) return given;
  const path = ['capabilities', ...issue.path].join('.');
  throw new AppError('invalid', `The connector "${name}" declares what cannot work: ${path}: ${issue.message}.`);
}

/** A module's exports; those of a CommonJS module stand in its default, and those that a compiler made in that one's. */
interface Loaded {
  default?: Partial<Connector> & { default?: Partial<Connector> };
}

function exportedBy({ default: exported }: Loaded): Connector | undefined {
  const isConnector = (one: Partial<Connector> | undefined): one is Connector =>
    one?.open !== undefined && one.settings !== undefined && one.capabilities !== undefined;
  return [exported, exported?.default].find(isConnector);
}

const kitUrl = new URL('../../connector/index.ts', import.meta.url).href;
let ourKitIsUsed = false;

/**
 * Whoever imports `sourcing-bridge/connector` gets this program's own, wherever it stands and whatever is installed there.
 * With another copy of it the errors would be of other classes, and its secrets would not be known as such.
 */
function useOurKit(): void {
  if (ourKitIsUsed) return;
  ourKitIsUsed = true;
  registerHooks({
    resolve: (specifier, context, next) =>
      specifier === 'sourcing-bridge/connector' ? { url: kitUrl, shortCircuit: true } : next(specifier, context),
  });
}

function whyNot(cause: unknown, target: string): string {
  const text = errorText(cause);
  if (hasErrorCode(cause, 'ERR_MODULE_NOT_FOUND') && isUnknownPackage(text, target))
    return ': it is no folder under connectors/, no path, and no npm package that is installed. A path begins with /, ./ or ../';
  return ` (${text}${placeOf(cause)}).${cureOf(cause, text)}`;
}

/** What this file looks for is the connector itself. */
function isUnknownPackage(text: string, target: string): boolean {
  return !URL.canParse(target) && text.endsWith(fileURLToPath(import.meta.url));
}

function cureOf(cause: unknown, text: string): string {
  if (hasErrorCode(cause, 'ERR_UNSUPPORTED_NODE_MODULES_TYPE_STRIPPING'))
    return ' Node runs no TypeScript below node_modules: publish it as JavaScript, or name the path of its folder.';
  if (hasErrorCode(cause, 'ERR_UNSUPPORTED_TYPESCRIPT_SYNTAX'))
    return ' Node only takes the types out of TypeScript: write it without enums, namespaces and parameter properties.';
  if (!hasErrorCode(cause, 'ERR_MODULE_NOT_FOUND')) return '';
  if (text.includes("'zod'")) return " Import z from 'sourcing-bridge/connector', or install zod in its folder.";
  return ' What it imports must be a file beside it, or installed in its folder or above.';
}

/** ` at /path/index.ts:3`: where in the connector's code it went wrong, as far as the stack tells. */
function placeOf(cause: unknown): string {
  const stack = cause instanceof Error ? (cause.stack ?? '') : '';
  const [place] = /(?:file:\/\/)?\/[^\s()]*\.[cm]?[jt]s:\d+/.exec(stack) ?? [];
  if (place === undefined) return '';
  const path = place.replace(/^file:\/\//, '');
  return path.startsWith(fileURLToPath(import.meta.url)) ? '' : ` at ${decodeURI(path)}`;
}

/** No timer takes more, nor a part of a millisecond. */
const timerMost = 2 ** 31 - 1;

const capabilities = z.looseObject({
  kinds: z.array(z.enum(documentKinds)).min(1),
  batchMax: z.int().min(1),
  concurrency: z.int().min(1).optional(),
  requestsAtOnce: z.int().min(1).optional(),
  timeoutMs: z.int().min(1).max(timerMost),
  lateEffectMs: z.int().min(0).max(timerMost),
  reads: z.array(z.enum(readStreams)).optional(),
});

function targetOf(name: string): string {
  if (/^[a-z0-9-]+$/.test(name) && existsSync(join(connectorsDir, name, 'index.ts')))
    return pathToFileURL(join(connectorsDir, name, 'index.ts')).href;
  if (name.startsWith('~'))
    throw new AppError('invalid', `The connector "${name}" cannot be loaded: write the whole path instead of ~.`);
  if (!name.startsWith('.') && !isAbsolute(name)) return name;
  return pathToFileURL(fileAt(name)).href;
}

/** The file of a path: of a folder its index.ts, else what its package.json names as `main`, else its index.js. */
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
    const message = `The connector "${name}" cannot be loaded: ${path} has neither an index.ts, nor an index.js, nor a "main" in a package.json.`;
    throw new AppError('invalid', message, { cause });
  }
}
