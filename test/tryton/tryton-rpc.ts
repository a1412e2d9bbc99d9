/**
 * A client of Tryton's JSON-RPC for the tests' assertions. It shares no code with the connector, so that it can check
 * the connector's work. Values without a JSON type are text: decimals with the digits that Tryton holds, dates and
 * times in ISO 8601.
 */
import { setTimeout as sleep } from 'node:timers/promises';

// biome-ignore lint/suspicious/noExplicitAny: tests read records of any type
// oxlint-disable-next-line typescript/no-explicit-any
export type TrytonValue = any;

/** A refusal of Tryton: its kind, such as UserError, and Tryton's own message. */
export class TrytonError extends Error {
  readonly kind: string;

  constructor(kind: string, message: string) {
    super(`${kind}: ${message}`);
    this.kind = kind;
  }
}

export interface TrytonClient {
  /**
   * Calls `model.<model>.<method>`. The last parameter is the user's context, overridden by `context`. Rejects with
   * TrytonError.
   */
  call(model: string, method: string, parameters: readonly unknown[], context?: object): Promise<TrytonValue>;
  /** All records of a domain, ordered by id. A dotted field adds a nested record. */
  search(
    model: string,
    domain: readonly unknown[],
    fields: readonly string[],
    context?: object,
  ): Promise<TrytonValue[]>;
  /** Returns the ids of the new records. */
  create(model: string, records: readonly object[], context?: object): Promise<number[]>;
}

export const decimal = (value: string) => ({ __class__: 'Decimal', decimal: value });

/** Tryton's JSON for a date; `value` is YYYY-MM-DD. */
export function date(value: string) {
  const [year, month, day] = value.split('-').map(Number);
  return { __class__: 'date', year, month, day };
}

/** Logs in to a database; `url` is its address. Rejects with TrytonError. */
export async function logIn(url: string, login: string, password: string): Promise<TrytonClient> {
  const [user, session] = await post(url, {}, 'common.db.login', [login, { password }, 'en']);
  const authorization = `Session ${Buffer.from(`${login}:${user}:${session}`).toString('base64')}`;
  const request = (method: string, parameters: readonly unknown[]) => post(url, { authorization }, method, parameters);
  const preferences = await request('model.res.user.get_preferences', [true, {}]);
  const call = (model: string, method: string, parameters: readonly unknown[], context: object = {}) =>
    request(`model.${model}.${method}`, [...parameters, { ...preferences, ...context }]);
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
 * Repeats a request that was refused because of another transaction, as a user would. SQLite and a busy PostgreSQL do
 * that now and then, and Tryton itself repeats a statement only five times.
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
      const isBusy = error instanceof TrytonError && /database is locked|could not serialize/.test(error.message);
      if (!isBusy || attempt === retriesMax) throw error;
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

const twoDigits = (value: number) => String(value).padStart(2, '0');

function revive(_key: string, value: TrytonValue): TrytonValue {
  switch (value?.__class__) {
    case 'Decimal':
      return value.decimal;
    case 'date':
      return `${value.year}-${twoDigits(value.month)}-${twoDigits(value.day)}`;
    case 'datetime': {
      const day = `${value.year}-${twoDigits(value.month)}-${twoDigits(value.day)}`;
      const time = `${twoDigits(value.hour)}:${twoDigits(value.minute)}:${twoDigits(value.second)}`;
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
