import { existsSync } from 'node:fs';
import { isAbsolute, join, resolve } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import type { Connector } from '#connector/connector.ts';
import { AppError, errorText } from '#platform/errors.ts';

const connectorsDir = fileURLToPath(new URL('../../../connectors', import.meta.url));

/**
 * Finds a connector by its folder's name under `connectors/`, by a path, or by a package's name: nothing else is edited
 * to add one. Throws AppError `invalid` that says where it was looked for.
 */
export async function loadConnector(name: string): Promise<Connector> {
  const target = targetOf(name);
  let module: { default?: Partial<Connector> };
  try {
    module = (await import(target)) as typeof module;
  } catch (cause) {
    throw new AppError('invalid', `The connector "${name}" cannot be loaded (${errorText(cause)}).`, { cause });
  }
  const connector = module.default;
  if (!connector?.open || !connector.settings || !connector.capabilities)
    throw new AppError('invalid', `The connector "${name}" has no default export made with defineConnector().`);
  return connector as Connector;
}

function targetOf(name: string): string {
  if (/^[a-z0-9-]+$/.test(name) && existsSync(join(connectorsDir, name, 'index.ts')))
    return pathToFileURL(join(connectorsDir, name, 'index.ts')).href;
  if (!name.startsWith('.') && !isAbsolute(name)) return name;
  const path = resolve(name);
  return pathToFileURL(existsSync(join(path, 'index.ts')) ? join(path, 'index.ts') : path).href;
}
