/**
 * Holds the stand-in against exchanges that were recorded with a running Odoo 19.0 Community (modules purchase,
 * purchase_requisition, purchase_stock): the same requests in the same order have the same status, error name and shape
 * of the answer. recordings.jsonl holds the requests, and of the answers their shapes only: no ids, texts or keys.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { expect, test } from 'vitest';
import { closeAtEnd } from '../../harness/close-at-end.ts';
import { users } from './stand-in/seed.ts';
import { databaseName, type OdooStandIn, startStandIn } from './stand-in/server.ts';

type Shape = string | readonly Shape[] | { readonly [name: string]: Shape };

interface Exchange {
  readonly label: string;
  readonly path: string;
  readonly left_out?: string;
  readonly as: 'connector' | 'admin' | 'weak' | 'nobody' | 'anonymous';
  /** Left out: the recorded database; null: no header. */
  readonly database?: string | null;
  readonly method: string;
  readonly body: unknown;
  readonly status: number;
  readonly error?: string;
  readonly shape?: Shape;
  /** Of `fields_get`: type and whether it is required, by field. */
  readonly fields?: Readonly<Record<string, readonly [string, boolean]>>;
  /** The ids that the recorded Odoo gave: later requests name them. */
  readonly made?: readonly number[];
}

const exchanges = readFileSync(join(import.meta.dirname, 'recordings.jsonl'), 'utf8')
  .trimEnd()
  .split('\n')
  .map((line) => JSON.parse(line) as Exchange);

/** The exchanges that are not compared, each with the reason. */
const exceptions: Readonly<Record<string, string>> = {
  '/jsonrpc': 'the connector does not speak JSON-RPC, which Odoo 20 removes',
  '/web/webclient/version_info': 'the same',
};

/** Ids that later requests name, of records that a create makes beside its own: before which exchange, model, id. */
const otherIds: Readonly<Record<number, readonly [model: string, id: number]>> = {
  214: ['stock.picking.type', 9],
  222: ['purchase.order.line', 295],
  223: ['stock.picking', 4],
};

function formOf(value: unknown): Shape {
  if (value === null) return 'null';
  if (typeof value === 'boolean') return String(value);
  if (typeof value === 'number') return 'number';
  if (typeof value === 'string') return /^\d{4}-\d\d-\d\d( \d\d:\d\d:\d\d)?$/.test(value) ? 'time' : 'text';
  if (Array.isArray(value)) {
    const isNumbers = value.length > 0 && value.every((entry) => typeof entry === 'number');
    return isNumbers ? `number*${value.length}` : value.map(formOf);
  }
  const entries = Object.entries(value as object);
  return Object.fromEntries(entries.map(([name, member]) => [name, name === 'moreinfo' ? 'object' : formOf(member)]));
}

async function send(erp: OdooStandIn, keys: Record<string, string>, exchange: Exchange) {
  const { as, method, path, body, database = databaseName } = exchange;
  const key = as === 'nobody' ? 'no-such-key' : keys[as];
  const response = await fetch(`${erp.url}${path}`, {
    method,
    headers: {
      'content-type': 'application/json',
      ...(key === undefined ? {} : { authorization: `bearer ${key}` }),
      ...(database === null ? {} : { 'x-odoo-database': database }),
    },
    ...(method === 'GET' ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
  });
  const text = await response.text();
  const isJson = response.headers.get('content-type')?.startsWith('application/json') === true;
  const answer: unknown = isJson ? JSON.parse(text) : text;
  const error = response.ok ? undefined : (answer as { name?: string }).name;
  return { status: response.status, error, answer };
}

const modelOf = (path: string) => path.split('/')[3] ?? '';

test('status, error name and shape of each recorded exchange are those of the recorded Odoo', async () => {
  const erp = await startStandIn();
  closeAtEnd(() => erp.close());
  const { connector, admin, weak } = users;
  const keys = { connector: erp.newKey(connector), admin: erp.newKey(admin), weak: erp.newKey(weak) };
  let compared = 0;
  const differences: unknown[] = [];
  for (let at = 0; at < exchanges.length; at += 1) {
    const exchange = exchanges[at] as Exchange;
    if (exchange.left_out !== undefined) {
      if (exceptions[exchange.path] === undefined) differences.push({ at, leftOut: exchange.path });
      continue;
    }
    const other = otherIds[at];
    if (other) erp.rows.continueAt(...other);
    const [first] = exchange.made ?? [];
    if (first !== undefined && erp.rows.find(modelOf(exchange.path), first) === undefined)
      erp.rows.continueAt(modelOf(exchange.path), first);
    const together = /^par load [0-5]$/.test(exchange.label)
      ? exchanges.slice(at).filter(({ label }) => /^par load [0-5]$/.test(label))
      : [exchange];
    // Long enough that all of them have begun before the first is done, on a busy machine, too.
    erp.workFor(together.length > 1 ? 1_000 : 0);
    const answers = await Promise.all(together.map((one) => send(erp, keys, one)));
    const seen = answers.map(({ status, error, answer }, index) => ({
      status,
      error,
      ...(together[index]?.fields ? {} : { shape: formOf(answer) }),
    }));
    const wanted = together.map(({ status, error, shape, fields }) => ({
      status,
      error,
      ...(fields ? {} : { shape }),
    }));
    const order = (list: readonly unknown[]) =>
      list
        .map((one) => JSON.stringify(one))
        .sort()
        .map((one) => JSON.parse(one));
    if (!isDeepStrictEqual(order(seen), order(wanted)))
      differences.push({ at, label: exchange.label, wanted: order(wanted), seen: order(seen) });
    if (exchange.fields) {
      // The stand-in has some fields of each model: those are as Odoo has them.
      const own = answers[0]?.answer as Record<string, { type: string; required: boolean }>;
      const described = Object.fromEntries(
        Object.entries(own).map(([name, { type, required }]) => [name, [type, required]]),
      );
      for (const [name, one] of Object.entries(described))
        if (!isDeepStrictEqual(one, exchange.fields[name]))
          differences.push({ at, field: name, wanted: exchange.fields[name], seen: one });
    }
    compared += together.length;
    at += together.length - 1;
  }
  expect(differences).toEqual([]);
  expect(compared).toBe(exchanges.filter(({ left_out }) => left_out === undefined).length);
});
