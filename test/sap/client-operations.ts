/**
 * What SAP's own client can do with each service, read from the packages: which sets it creates, changes and deletes, and
 * the function imports, which the descriptions (CSN) do not have, with their methods and parameters.
 */
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { descriptions, type Model } from './stub-model.ts';

export interface FunctionImport {
  readonly method: string;
  /** By name: `Edm.String`. */
  readonly parameters: Readonly<Record<string, string>>;
}

/** By service. */
export type ServiceOperations = Readonly<
  Record<
    string,
    {
      /** By set: `POST`, `PATCH`, `DELETE`. */
      readonly sets: Readonly<Record<string, readonly string[]>>;
      readonly functions: Readonly<Record<string, FunctionImport>>;
    }
  >
>;

/** Reads the packages in `folder`. */
export async function readOperations(folder: string): Promise<ServiceOperations> {
  const services: Record<string, ServiceOperations[string]> = {};
  for (const name of descriptions) {
    const packageFolder = join(folder, `node_modules/@sap/cloud-sdk-vdm-${name}-service`);
    const files = await readdir(packageFolder);
    const text = async (file: string) => (files.includes(file) ? readFile(join(packageFolder, file), 'utf8') : '');
    const sets: Record<string, string[]> = {};
    for (const file of files) {
      const [, entity] = /^(\w+)RequestBuilder\.d\.ts$/.exec(file) ?? [];
      if (entity === undefined || entity === 'Batch') continue;
      const source = await text(`${entity}.js`);
      const set = /_entityName = '(\w+)'/.exec(source)?.[1];
      const builder = await text(file);
      const methods = { create: 'POST', update: 'PATCH', delete: 'DELETE' } as const;
      if (set !== undefined)
        sets[set] = Object.entries(methods).flatMap(([call, method]) =>
          new RegExp(`^\\s+${call}\\(`, 'm').test(builder) ? [method] : [],
        );
    }
    const model = JSON.parse(await text(`${name}-service-csn.json`)) as Model;
    const [service = ''] = Object.keys(model.definitions).filter((id) => model.definitions[id]?.kind === 'service');
    services[service] = { sets, functions: functionsIn(await text('function-imports.js')) };
  }
  return services;
}

function functionsIn(source: string): Record<string, FunctionImport> {
  const functions: Record<string, FunctionImport> = {};
  for (const part of source.split(/^function /m).slice(1)) {
    const [, method, name] = /FunctionImportRequestBuilder\('(\w+)', '[^']*', '(\w+)'/.exec(part) ?? [];
    if (method === undefined || name === undefined) continue;
    const parameters = [...part.matchAll(/FunctionImportParameter\('(\w+)', '([\w.]+)'/g)];
    functions[name] = {
      method: method.toUpperCase(),
      parameters: Object.fromEntries(parameters.map(([, parameter = '', type = '']) => [parameter, type])),
    };
  }
  return functions;
}
