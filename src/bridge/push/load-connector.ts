import { existsSync } from 'node:fs';
import { isAbsolute, join, resolve } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { z } from 'zod';
import type { Connector } from '#connector/connector.ts';
import { documentKinds } from '#connector/documents.ts';
import { AppError, errorText, hasErrorCode } from '#platform/errors.ts';

const connectorsDir = fileURLToPath(new URL('../../../connectors', import.meta.url));

/**
 * Finds a connector by its folder's name under `connectors/`, by a path, or by a package's name: nothing else is edited
 * to add one. Throws AppError `invalid` that says what is wrong with it.
 */
export async function loadConnector(name: string): Promise<Connector> {
  const target = targetOf(name);
  let module: { default?: Partial<Connector> };
  try {
    module = (await import(target)) as typeof module;
  } catch (cause) {
    throw new AppError('invalid', `The connector "${name}" cannot be loaded${whyNot(cause)}`, { cause });
  }
  const connector = module.default;
  if (!connector?.open || !connector.settings || !connector.capabilities)
    throw new AppError('invalid', `The connector "${name}" has no default export made with defineConnector().`);
  const { error } = capabilities.safeParse(connector.capabilities);
  const [issue] = error?.issues ?? [];
  if (issue)
    throw new AppError(
      'invalid',
      `The connector "${name}" declares what cannot work: ${['capabilities', ...issue.path].join('.')}: ${issue.message}.`,
    );
  return connector as Connector;
}

function whyNot(cause: unknown): string {
  const text = errorText(cause);
  if (!hasErrorCode(cause, 'ERR_MODULE_NOT_FOUND')) return ` (${text}).`;
  // What this file looks for is the connector itself.
  return text.endsWith(fileURLToPath(import.meta.url))
    ? ': it is no folder under connectors/, no path, and no npm package that is installed.'
    : ` (${text}). What it imports must be in a node_modules of its folder or above; sourcing-bridge there is a link to this repository.`;
}

/** No timer takes more, nor a part of a millisecond. */
const timerMost = 2 ** 31 - 1;

/** With other values nothing would ever be written. */
const capabilities = z.looseObject({
  kinds: z.array(z.enum(documentKinds)).min(1),
  batchMax: z.int().min(1),
  concurrency: z.int().min(1).optional(),
  timeoutMs: z.int().min(1).max(timerMost),
  settleMs: z.int().min(0).max(timerMost),
});

function targetOf(name: string): string {
  if (/^[a-z0-9-]+$/.test(name) && existsSync(join(connectorsDir, name, 'index.ts')))
    return pathToFileURL(join(connectorsDir, name, 'index.ts')).href;
  if (!name.startsWith('.') && !isAbsolute(name)) return name;
  const path = resolve(name);
  return pathToFileURL(existsSync(join(path, 'index.ts')) ? join(path, 'index.ts') : path).href;
}
