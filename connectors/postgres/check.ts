/** Checks the server, the schema and the rights in it, for the command `check`. Changes nothing. */

import { escapeIdentifier } from 'pg';
import type { CheckResult } from 'sourcing-bridge/connector';
import type { Connections, Tx } from './connections.ts';
import { grants, howToCreate, readSchemaState, type SchemaPart } from './migrations.ts';
import { checkRead, requisitionRead, supplierRead } from './reads.ts';
import type { Settings } from './settings.ts';
import { connectorErrorOf } from './sql-errors.ts';
import { ownTables } from './tables.ts';
import { functionName } from './write-function.ts';

/** One line per finding. A server that cannot be reached is a line, too; never rejects. */
export async function checkAll(connections: Connections, settings: Settings): Promise<CheckResult[]> {
  const results: CheckResult[] = [];
  const { schema, mode } = settings;
  const { supplier, requisition } = settings.read;
  // A standby will do for an intake, and not for what writes.
  const readOnly = (supplier ?? requisition) !== undefined && requisition?.acknowledge !== true;
  try {
    await connections.read({ readOnly }, async (tx) => {
      results.push(await checkServer(tx, connections.targetName));
      // An intake only reads, unless it acknowledges: its user need not be able to write documents.
      if (supplier) results.push(...(await checkRead(tx, supplierRead(supplier))));
      if (requisition) results.push(...(await checkRead(tx, requisitionRead(requisition))));
      if (requisition?.acknowledge) results.push(...(await checkSchema(tx, { schema, part: 'news' })));
      if (!supplier && !requisition) results.push(...(await checkSchema(tx, { schema, part: mode })));
      if (settings.function !== undefined) results.push(await checkFunction(tx, settings.function));
    });
  } catch (error) {
    results.push({ name: 'server', ok: false, message: connectorErrorOf(error, connections.targetName).message });
  }
  return results;
}

async function checkServer(tx: Tx, targetName: string): Promise<CheckResult> {
  const [server] = await tx.query<{ version: string; number: number; user: string; encoding: string; ssl: boolean }>(
    `select current_setting('server_version') as version, current_setting('server_version_num')::int as number,
       current_user as user, current_setting('server_encoding') as encoding,
       coalesce((select ssl from pg_stat_ssl where pid = pg_backend_pid()), false) as ssl`,
  );
  const name = 'server';
  if (!server) return { name, ok: false, message: `PostgreSQL at ${targetName} does not report its version.` };
  const what = `PostgreSQL ${server.version} at ${targetName}, as ${server.user}, ${server.ssl ? 'encrypted' : 'not encrypted'}`;
  if (server.number < 150_000) return { name, ok: false, message: `${what}: it must be version 15 or newer.` };
  if (server.encoding !== 'UTF8')
    return {
      name,
      ok: false,
      message: `${what}: its database has the encoding ${server.encoding}, which cannot hold every text; it must be UTF8.`,
    };
  return { name, ok: true, message: `${what}.` };
}

async function checkSchema(tx: Tx, of: SchemaPart): Promise<CheckResult[]> {
  const { schema, part } = of;
  const name = 'schema';
  const [rights] = await tx.query<{ there: boolean; usable: boolean; may_create: boolean }>(
    `select found.oid is not null as there,
       coalesce(has_schema_privilege(found.oid, 'usage'), true) as usable,
       coalesce(has_schema_privilege(found.oid, 'create'), has_database_privilege(current_database(), 'create')) as may_create
     from (select to_regnamespace($1) as oid) as found`,
    [escapeIdentifier(schema)],
  );
  if (rights?.usable !== true)
    return [{ name, ok: false, message: `This user may not use the schema ${schema}: ${grants(schema)}.` }];
  const { missing, fault } = await readSchemaState(tx, of);
  if (fault !== undefined) return [{ name, ok: false, message: fault }];
  if (missing.length > 0)
    return [
      rights.may_create
        ? {
            name,
            ok: true,
            message: `The first write creates the tables in the schema ${schema} (${missing.join(', ')}).`,
          }
        : {
            name,
            ok: false,
            message: `The tables in the schema ${schema} are missing (${missing.join(', ')}), and this user may not create them. ${howToCreate(of)}.`,
          },
    ];
  const refused = await tx.query<{ table: string; right: string }>(
    `select tablename as table, privilege as right from pg_tables, unnest(array['select', 'insert', 'update', 'delete']) as privilege
     where schemaname = $1 and tablename = any($2::text[])
       and not has_table_privilege(format('%I.%I', schemaname, tablename), privilege)
     order by 1, 2`,
    [schema, ownTables(part)],
  );
  if (refused.length > 0)
    return [
      {
        name,
        ok: false,
        message: `This user lacks rights in the schema ${schema} (${refused.map(({ right, table }) => `${right} on ${table}`).join(', ')}): ${grants(schema)}.`,
      },
    ];
  return [{ name, ok: true, message: `The tables in the schema ${schema} can be written.` }];
}

async function checkFunction(tx: Tx, given: string): Promise<CheckResult> {
  const name = 'function';
  const signature = `${functionName(given)}(text, text, text, text, text, jsonb)`;
  const [found] = await tx.query<{ there: boolean; allowed: boolean; returns: string | null }>(
    `select found.oid is not null as there, coalesce(has_function_privilege(found.oid, 'execute'), false) as allowed,
       (select prorettype::regtype::text from pg_proc where oid = found.oid) as returns
     from (select to_regprocedure($1) as oid) as found`,
    [signature],
  );
  if (!found?.there)
    return { name, ok: false, message: `There is no function ${signature}: create it, or correct settings.function.` };
  if (!found.allowed)
    return { name, ok: false, message: `This user may not call it: GRANT EXECUTE ON FUNCTION ${signature} TO ….` };
  if (found.returns !== 'text')
    return { name, ok: false, message: `The function ${signature} must return text, not ${found.returns}.` };
  return { name, ok: true, message: `The function ${signature} can be called.` };
}
