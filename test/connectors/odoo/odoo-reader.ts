/** Reads and changes what an Odoo holds, as a user of it would, and not through the connector. */
import type { OdooStandIn } from './stand-in/server.ts';

export type OdooRow = { id: number } & Readonly<Record<string, unknown>>;

export interface OdooReader {
  /** Rows whose fields have these values, archived ones included, by id. */
  search(model: string, where: Readonly<Record<string, unknown>>, fields: readonly string[]): Promise<OdooRow[]>;
  read(model: string, ids: readonly number[], fields: readonly string[]): Promise<OdooRow[]>;
  create(model: string, values: Readonly<Record<string, unknown>>): Promise<number>;
  write(model: string, id: number, values: Readonly<Record<string, unknown>>): Promise<void>;
  /** A method of the model, on these records. */
  call(model: string, method: string, ids: readonly number[]): Promise<unknown>;
}

/** Reads the rows of the stand-in themselves. */
export function readerOfStandIn({ rows, orm, installed, call }: OdooStandIn): OdooReader {
  const shown = (model: string, row: OdooRow, fields: readonly string[]) => orm.shown(model, row, fields) as OdooRow;
  return {
    search: async (model, where, fields) =>
      rows
        .all(model)
        .filter((row) => Object.entries(where).every(([name, value]) => row[name] === value))
        .map((row) => shown(model, row, fields)),
    read: async (model, ids, fields) =>
      ids.flatMap((id) => {
        const row = rows.find(model, id);
        return row ? [shown(model, row, fields)] : [];
      }),
    create: async (model, values) => installed.create(model, values).id,
    write: async (model, id, values) => orm.write(model, orm.get(model, id), values, installed.system),
    call: async (model, method, ids) => call(model, method, ids),
  };
}

/** Reads over the API of a real Odoo. */
export function readerOfServer({ url, database, key }: { url: string; database: string; key: string }): OdooReader {
  async function call(model: string, method: string, args: object): Promise<unknown> {
    const response = await fetch(`${url}/json/2/${model}/${method}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', authorization: `bearer ${key}`, 'x-odoo-database': database },
      body: JSON.stringify({ ...args, context: { active_test: false } }),
    });
    const answer: unknown = await response.json();
    if (!response.ok)
      throw new Error(`${model}.${method}: ${(answer as { message?: string }).message ?? response.status}`);
    return answer;
  }
  return {
    search: async (model, where, fields) => {
      const domain = Object.entries(where).map(([name, value]) => [name, '=', value]);
      return (await call(model, 'search_read', { domain, fields, order: 'id asc' })) as OdooRow[];
    },
    read: async (model, ids, fields) => (await call(model, 'read', { ids, fields })) as OdooRow[],
    create: async (model, values) => ((await call(model, 'create', { vals_list: [values] })) as number[])[0] ?? 0,
    write: async (model, id, values) => void (await call(model, 'write', { ids: [id], vals: values })),
    call: async (model, method, ids) => call(model, method, { ids }),
  };
}
