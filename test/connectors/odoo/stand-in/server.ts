/**
 * A stand-in for Odoo 19, for `/json/2`: a test double that behaves as the facts about a running Odoo 19.0 say.
 * `replay.test.ts` holds it against recorded exchanges. It keeps what Odoo has of its traps: `load` answers 200 for
 * what it refuses, a call whose client has gone commits, actions without ids succeed and do nothing, and orders with a
 * wrong unit, currency, product or company are taken in silence.
 */
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import http, { type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { buffer } from 'node:stream/consumers';
import { accessError, bodyOfFault, notFound, OdooFault } from './faults.ts';
import { type Call, type MethodDeps, run } from './methods.ts';
import { type Constraint, createOrm } from './orm.ts';
import { createRows } from './rows.ts';
import { type Installed, install, mayCall, users } from './seed.ts';
import { textOf } from './text-of.ts';

export const databaseName = 'erp19';

export interface StandInOptions {
  /** How long a call works before it commits. Calls that overlap and touch the same records cannot be serialized. */
  readonly workMs?: number;
  readonly constraints?: readonly Constraint[];
  /** Orders of at least this amount are to be approved. Default: none. */
  readonly approveFrom?: number;
  readonly nowMs?: () => number;
}

export type OdooStandIn = Awaited<ReturnType<typeof startStandIn>>;

const json = { 'content-type': 'application/json; charset=utf-8' };
const notFoundPage =
  '<!DOCTYPE html>\n<title>404 Not Found</title>\n<h1>Not Found</h1>\n<p>No database is selected and the requested URL was not found in the server-wide controllers.</p>\n';

/** Listens on a free port of this machine until it is closed. */
export async function startStandIn(options: StandInOptions = {}) {
  let { workMs = 0 } = options;
  const { constraints = [], approveFrom = Number.POSITIVE_INFINITY, nowMs = Date.now } = options;
  const rows = createRows(nowMs);
  const orm = createOrm(rows, constraints);
  const installed: Installed = install(rows, orm);
  /** By key: the user's id. */
  const keys = new Map<string, number>();
  const newKey = (user: number) => {
    const key = randomBytes(20).toString('hex');
    keys.set(key, user);
    return key;
  };
  /** By external id: the number of the commit that changed it last. */
  const changedIn = new Map<string, number>();
  const running = new Set<Promise<void>>();
  let refused: number | undefined;
  let isAway = false;
  let commits = 0;
  let requests = 0;

  function carryOut(
    call: Omit<Call, 'caller' | 'context'>,
    user: number,
    context: Record<string, unknown>,
    began: number,
  ): unknown {
    const companies = installed.companiesOf(user);
    const asked = Array.isArray(context['allowed_company_ids'])
      ? (context['allowed_company_ids'] as number[])
      : undefined;
    if (asked?.some((company) => !companies.includes(company)))
      throw accessError('Access to unauthorized or invalid companies.');
    const caller = {
      user,
      companies: asked ?? companies,
      company: asked?.[0] ?? installed.companyOf(user),
      activeTest: context['active_test'] !== false,
      zone: textOf(context['tz'] || rows.find('res.users', user)?.['tz'] || 'UTC'),
    };
    const refused = mayCall(user, call.model, call.method);
    if (refused !== undefined) throw accessError(refused);
    const touched: string[] = [];
    const deps: MethodDeps = {
      rows,
      orm,
      approveFrom: () => approveFrom,
      conflict: (externalIds) => {
        touched.push(...externalIds);
        const isChanged = externalIds.some((id) => (changedIn.get(id) ?? 0) > began);
        return isChanged ? 'could not serialize access due to concurrent update\n' : undefined;
      },
    };
    const result = rows.transaction(() => run({ ...call, context, caller }, deps));
    commits += 1;
    const isRefused = typeof result === 'object' && result !== null && 'ids' in result && result.ids === false;
    if (!isRefused) for (const id of touched) changedIn.set(id, commits);
    return result;
  }

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const body = await buffer(request);
    const send = (status: number, value: unknown) => response.writeHead(status, json).end(JSON.stringify(value));
    requests += 1;
    const began = commits;
    if (workMs > 0) await new Promise((resolve) => setTimeout(resolve, workMs));
    try {
      if (request.url === '/web/version')
        return void send(200, { version_info: [19, 0, 0, 'final', 0, ''], version: '19.0' });
      const database = request.headers['x-odoo-database'];
      if (database !== undefined && database !== databaseName)
        return void response.writeHead(404, { 'content-type': 'text/html; charset=utf-8' }).end(notFoundPage);
      const [, model = '', method = ''] = /^\/json\/2\/([\w.]+)\/(\w+)$/.exec(request.url ?? '') ?? [];
      if (request.method !== 'POST' || model === '') throw notFound('Did you mean POST /json/2/<model>/<method>?');
      const isRefused = requests === refused;
      const user = isRefused
        ? undefined
        : keys.get(/^bearer (.+)$/i.exec(request.headers.authorization ?? '')?.[1] ?? '');
      if (user === undefined)
        throw new OdooFault(
          401,
          'werkzeug.exceptions.Unauthorized',
          request.headers.authorization
            ? 'Invalid apikey'
            : 'User not authenticated, use an API Key with a Bearer Authorization header.',
        );
      const { ids = [], context = {}, ...args } = argumentsOf(body.toString('utf8'));
      const call = { model, method, ids: ids as number[], args };
      send(200, carryOut(call, user, context as Record<string, unknown>, began) ?? null);
    } catch (error) {
      const fault = error instanceof OdooFault ? error : new OdooFault(500, 'builtins.RuntimeError', String(error));
      send(fault.status, bodyOfFault(fault));
    }
  }

  const server = http.createServer((request, response) => {
    if (isAway) return void response.destroy();
    const done = answer(request, response).catch(() => void response.destroy());
    running.add(done);
    void done.finally(() => running.delete(done));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    rows,
    orm,
    installed,
    newKey,
    /** A method, as a user with all rights calls it. */
    call: (model: string, method: string, ids: readonly number[], args: Readonly<Record<string, unknown>> = {}) =>
      carryOut({ model, method, ids, args }, users.admin, {}, commits),
    workFor: (ms: number) => {
      workMs = ms;
    },
    /** While it is away, every connection breaks. */
    goAway: (away: boolean) => {
      isAway = away;
    },
    /** One call is refused, the next or one after it, as when the key has expired and a person then makes a new one. */
    refuseOnce: (after = 0) => {
      refused = requests + after + 1;
    },
    /** Calls that have arrived so far. */
    get requests() {
      return requests;
    },
    /** Resolves when every call that has arrived has committed or failed. */
    idle: async () => {
      while (running.size > 0) await Promise.all(running);
    },
    close: async () => {
      const closed = once(server, 'close');
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
}

function argumentsOf(text: string): Record<string, unknown> {
  try {
    return text === '' ? {} : (JSON.parse(text) as Record<string, unknown>);
  } catch {
    throw new OdooFault(
      400,
      'werkzeug.exceptions.BadRequest',
      'could not parse the body as json: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)',
    );
  }
}
