/**
 * Tryton's JSON-RPC for the assertions of tests: nothing of the connector's, so that it can be the judge of it. Types that
 * JSON has not come as text: decimals with their digits as the ERP holds them, dates and times as in ISO 8601.
 */
import { setTimeout as sleep } from 'node:timers/promises';

// biome-ignore lint/suspicious/noExplicitAny: a test looks into records of every shape
// oxlint-disable-next-line typescript/no-explicit-any
export type TrytonValue = any;

/** What the ERP refused: `kind` as UserError, `message` in its own words. */
export class TrytonError extends Error {
  readonly kind: string;

  constructor(kind: string, message: string) {
    super(`${kind}: ${message}`);
    this.kind = kind;
  }
}

export interface TrytonClient {
  /** Calls `model.<model>.<method>`; the user's context goes last, with `context` over it. */
  call(model: string, method: string, parameters: readonly unknown[], context?: object): Promise<TrytonValue>;
  /** All records of a domain, ordered by id; a dotted field nests. */
  search(
    model: string,
    domain: readonly unknown[],
    fields: readonly string[],
    context?: object,
  ): Promise<TrytonValue[]>;
  /** Gives the new records' ids. */
  create(model: string, records: readonly object[], context?: object): Promise<number[]>;
}

export const decimal = (value: string) => ({ __class__: 'Decimal', decimal: value });

/** From YYYY-MM-DD. */
export function date(value: string) {
  const [year, month, day] = value.split('-').map(Number);
  return { __class__: 'date', year, month, day };
}

/** Logs in; `url` is a database's. */
export async function logIn(url: string, login: string, password: string): Promise<TrytonClient> {
  const [user, session] = await post(url, {}, 'common.db.login', [login, { password }, 'en']);
  const authorization = `Session ${Buffer.from(`${login}:${user}:${session}`).toString('base64')}`;
  const ask = (method: string, parameters: readonly unknown[]) => post(url, { authorization }, method, parameters);
  const preferences = await ask('model.res.user.get_preferences', [true, {}]);
  const call = (model: string, method: string, parameters: readonly unknown[], context: object = {}) =>
    ask(`model.${model}.${method}`, [...parameters, { ...preferences, ...context }]);
  return {
    call,
    search: (model, domain, fields, context) =>
      call(model, 'search_read', [domain, 0, null, [['id', 'ASC']], fields], context),
    create: (model, records, context) => call(model, 'create', [records], context),
  };
}

const retriesMax = 20;
const retryAfterMs = 50;

/**
 * SQLite and a busy PostgreSQL now and then refuse a statement because of another transaction; Tryton tries it again five
 * times, and so does this, as a person would.
 */
async function post(
  url: string,
  headers: Record<string, string>,
  method: string,
  parameters: readonly unknown[],
): Promise<TrytonValue> {
  for (let attempt = 1; ; attempt += 1)
    try {
      return await postOnce(url, headers, method, parameters);
    } catch (error) {
      const busy = error instanceof TrytonError && /database is locked|could not serialize/.test(error.message);
      if (!busy || attempt === retriesMax) throw error;
      await sleep(retryAfterMs);
    }
}

async function postOnce(
  url: string,
  headers: Record<string, string>,
  method: string,
  parameters: readonly unknown[],
): Promise<TrytonValue> {
  const answer = await fetch(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify({ id: 1, method, params: parameters }),
  });
  const text = await answer.text();
  if (!answer.ok) throw new TrytonError(`HTTP ${answer.status}`, `${method}: ${text.slice(0, 500)}`);
  const { result, error } = JSON.parse(text, revive);
  if (error !== undefined) throw new TrytonError(String(error[0]), `${method}: ${JSON.stringify(error.slice(1))}`);
  return result;
}

const two = (value: number) => String(value).padStart(2, '0');

function revive(_key: string, value: TrytonValue): TrytonValue {
  switch (value?.__class__) {
    case 'Decimal':
      return value.decimal;
    case 'date':
      return `${value.year}-${two(value.month)}-${two(value.day)}`;
    case 'datetime': {
      const day = `${value.year}-${two(value.month)}-${two(value.day)}`;
      const time = `${two(value.hour)}:${two(value.minute)}:${two(value.second)}`;
      return `${day}T${time}.${String(value.microsecond).padStart(6, '0')}`;
    }
    case 'timedelta':
      return value.seconds;
    case 'bytes':
      return Buffer.from(value.base64, 'base64');
    default:
      return value;
  }
}
