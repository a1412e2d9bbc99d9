/**
 * Calls to trytond (JSON-RPC over HTTP). The first call opens a session; when Tryton has forgotten the session, it is
 * renewed once. An error answer means that Tryton rolled the transaction back, with two exceptions. If Tryton lost its
 * connection to the database, the commit may have happened (UnknownOutcome). If Tryton failed unexpectedly, it may have
 * failed after the commit (`ServerFault`).
 */
import {
  AuthError,
  type Clock,
  ConfigError,
  type ConnectorError,
  createHttp,
  DataError,
  errorOfStatus,
  type HttpResponse,
  LockedError,
  sessionAuth,
  TransientError,
  UnknownOutcome,
  z,
} from 'sourcing-bridge/connector';
import type { Settings } from './settings.ts';

export interface Tryton {
  /** A call that changes nothing. Rejects with ConfigError if the result does not match the schema `answer`. */
  ask<T>(
    method: string,
    params: readonly unknown[],
    answer: z.ZodType<T>,
    signal: AbortSignal,
    context?: Json,
  ): Promise<T>;
  /**
   * A call that changes something; Tryton does it as a whole or not at all. Rejects with UnknownOutcome if the result
   * does not match the schema `answer`.
   */
  change<T>(
    method: string,
    params: readonly unknown[],
    answer: z.ZodType<T>,
    signal: AbortSignal,
    context?: Json,
  ): Promise<T>;
  /** The user and the company of the session. Rejects with AuthError or ConfigError if the settings do not fit. */
  session(signal: AbortSignal): Promise<SessionInfo>;
  /** The `Date` header of the last answer, in milliseconds since 1970; undefined if there was none. */
  serverMs(): number | undefined;
  close(): Promise<void>;
}

type Json = Readonly<Record<string, unknown>>;

export interface SessionInfo {
  readonly user: number;
  readonly company: number;
  readonly companyName: string;
}

/** Tryton asks the user to confirm. `warning` is the name by which it accepts the confirmation. */
export class WarningError extends DataError {
  readonly warning: string;

  constructor(message: string, warning: string) {
    super(message);
    this.warning = warning;
  }
}

/** Tryton failed unexpectedly. Whether that was before or after the commit has to be looked up. */
export class ServerFault extends DataError {}

/** Tryton does not have the model: its module is not activated. */
export class MissingModel extends ConfigError {}

const loginAnswer = z.object({ result: z.tuple([z.int(), z.string().min(1)]) });
const preferences = z.looseObject({ company: z.int().nullish() });
/** How many warnings of one call are confirmed. A further one makes the call fail. */
const warningsMax = 20;

export function createTryton(
  settings: Settings,
  { clock, caPem }: { clock: Clock; caPem: string | undefined },
): Tryton {
  const { url, database, user, password } = settings;
  let userId = 0;
  let dateHeader: string | undefined;
  let opened: Promise<{ info: SessionInfo; context: Json }> | undefined;

  const auth = sessionAuth(async (send, signal) => {
    const response = await send('/', {
      method: 'POST',
      path: '/',
      headers: { 'content-type': 'application/json' },
      json: { id: 0, method: 'common.db.login', params: [user, { password: password.reveal() }, 'en'] },
      signal,
    });
    const { result } = loginOf(response, { settings, nowMs: clock.nowMs() });
    userId = result[0];
    return { headers: { authorization: `Session ${Buffer.from(`${user}:${result.join(':')}`).toString('base64')}` } };
  }, clock);

  const http = createHttp({
    baseUrl: `${url.replace(/(?<!\/)\/+$/u, '')}/${database}`,
    auth: [auth],
    connections: 2,
    timeoutMs: settings.timeout_seconds * 1_000,
    responseBytesMax: 64 * 2 ** 20,
    ...(caPem === undefined ? {} : { caPem }),
    errorOf: (response) => faultOfStatus(response, settings),
    clock,
  });

  async function call<T>(
    method: string,
    params: readonly unknown[],
    answer: z.ZodType<T>,
    { signal, safe }: { signal: AbortSignal; safe: boolean },
  ): Promise<T> {
    const response = await http.request({
      method: 'POST',
      path: '/',
      json: { id: 0, method: `model.${method}`, params },
      safe,
      signal,
    });
    dateHeader = response.headers['date'];
    const body = response.json();
    const isAnswer = typeof body === 'object' && body !== null && ('result' in body || 'error' in body);
    const { result, error } = (isAnswer ? body : {}) as { result?: unknown; error?: unknown };
    if (error !== undefined) throw errorOfAnswer(error, { method, safe });
    const parsed = answer.safeParse(result);
    if (isAnswer && parsed.success) return parsed.data;
    const why = parsed.success || !isAnswer ? 'it has neither result nor error' : z.prettifyError(parsed.error);
    const message = `Tryton's answer to ${method} is not as expected: ${why}`;
    throw safe ? new ConfigError(`${message} (is it version 6.0?)`) : new UnknownOutcome(message);
  }

  async function openSession(signal: AbortSignal): Promise<{ info: SessionInfo; context: Json }> {
    const userPreferences = await call('res.user.get_preferences', [true, {}], preferences, { signal, safe: true });
    // English, because `errorOfAnswer` recognises Tryton's messages by their text.
    const context = { ...userPreferences, language: 'en' };
    const companies = await call(
      'company.company.search_read',
      [
        settings.company === undefined
          ? [['id', '=', userPreferences.company ?? -1]]
          : ['OR', ['party.code', '=', settings.company], ['party.name', '=', settings.company]],
        0,
        2,
        null,
        ['rec_name'],
        context,
      ],
      companyRows,
      { signal, safe: true },
    );
    const [company] = companies;
    if (company === undefined)
      throw new ConfigError(
        settings.company === undefined
          ? `The Tryton user ${user} has no company: set one for the user in Tryton, or name it in settings.company.`
          : `Tryton has no company with the code or name "${settings.company}" (settings.company).`,
      );
    if (companies.length > 1)
      throw new ConfigError(`Tryton has several companies "${settings.company}" (settings.company): use the code.`);
    return {
      info: { user: userId, company: company.id, companyName: company.rec_name },
      context: { ...context, company: company.id },
    };
  }

  async function openOnce(signal: AbortSignal): Promise<{ info: SessionInfo; context: Json }> {
    opened ??= openSession(signal).catch((error: unknown) => {
      opened = undefined;
      throw error;
    });
    return opened;
  }

  return {
    async ask(method, params, answer, signal, context = {}) {
      const { context: sessionContext } = await openOnce(signal);
      return call(method, [...params, { ...sessionContext, ...context }], answer, { signal, safe: true });
    },
    async change(method, params, answer, signal, context = {}) {
      const { info, context: sessionContext } = await openOnce(signal);
      const withContext = [...params, { ...sessionContext, ...context }];
      for (let confirmed = 0; ; confirmed += 1) {
        try {
          return await call(method, withContext, answer, { signal, safe: false });
        } catch (error) {
          if (!(error instanceof WarningError) || settings.warnings === 'refuse' || confirmed === warningsMax)
            throw error;
          // Confirms the warning for the next call only (`always: false`).
          const warning = { user: info.user, name: error.warning, always: false };
          await call('res.user.warning.create', [[warning], sessionContext], z.unknown(), { signal, safe: true });
        }
      }
    },
    session: async (signal) => (await openOnce(signal)).info,
    serverMs: () => {
      const ms = Date.parse(dateHeader ?? '');
      return Number.isNaN(ms) ? undefined : ms;
    },
    close: () => http.close(),
  };
}

const companyRows = z.array(z.object({ id: z.int(), rec_name: z.string() }));

function loginOf(
  response: HttpResponse,
  { settings, nowMs }: { settings: Settings; nowMs: number },
): z.output<typeof loginAnswer> {
  const { status } = response;
  if (status === 401 || status === 403)
    throw new AuthError(
      `Tryton refused the login of the user ${settings.user}: check settings.user and settings.password.`,
    );
  const error =
    faultOfStatus(response, settings) ?? errorOfStatus(response, { method: 'POST', path: '/', safe: true }, nowMs);
  if (error) throw error;
  const body = response.json() as { error?: unknown };
  if (body.error !== undefined) {
    const [kind] = Array.isArray(body.error) ? (body.error as unknown[]) : [];
    if (kind === 'LoginException')
      throw new AuthError(
        `Tryton asks the user ${settings.user} for more than a password: allow this user to log in with the password only.`,
      );
    const refused = errorOfAnswer(body.error, { method: 'common.db.login', safe: true });
    // With SQLite, this is how Tryton reports a database that does not exist.
    throw refused instanceof ServerFault
      ? new ConfigError(`Tryton cannot open the database ${settings.database} (settings.database): ${refused.message}`)
      : refused;
  }
  const parsed = loginAnswer.safeParse(body);
  if (!parsed.success)
    throw new ConfigError('The server at settings.url is not Tryton 6.0: its login returns no session.');
  return parsed.data;
}

function faultOfStatus({ status }: HttpResponse, { url, database }: Settings): ConnectorError | undefined {
  if (status === 404)
    return new ConfigError(`Tryton has no database ${database} at ${url} (settings.url, settings.database).`);
  if (status === 403)
    return new ConfigError(
      `Tryton at ${url} refuses the call: Tryton does not know the method, or a proxy in between refuses it.`,
    );
  return undefined;
}

/**
 * Translates the `error` member of a 200 answer. It recognises Tryton 6.0's own messages in English, and those of the
 * databases.
 */
function errorOfAnswer(error: unknown, { method, safe }: { method: string; safe: boolean }): ConnectorError {
  const [kind, detail] = (Array.isArray(error) ? error : [error]) as unknown[];
  const texts = (Array.isArray(detail) ? detail : [detail]).filter(
    (part): part is string => typeof part === 'string' && part !== '',
  );
  if (kind === 'UserError') {
    const message = `Tryton: ${texts.slice(0, 2).join(' ')}`;
    if (isNotAllowed.test(message)) return new AuthError(`${message} (${method}; add the user to the right groups)`);
    return isGone.test(message) ? new LockedError(message) : new DataError(message);
  }
  if (kind === 'UserWarning')
    return new WarningError(
      `Tryton asks for confirmation (settings.warnings): ${texts.slice(1).join(' ')}`,
      texts[0] ?? '',
    );
  if (kind === 'ConcurrencyException') return new LockedError(`Tryton: ${texts.join(' ')}`);
  if (kind === 'LoginException') return new AuthError(`Tryton asks for a login again: ${texts.join(' ')}`);
  const message = `Tryton failed at ${method}: ${typeof kind === 'string' ? kind.trim() : 'without a reason'}`;
  if (isUnknownModel.test(String(kind)) && method.includes(String(kind).replaceAll("'", '')))
    return new MissingModel(`${message} (the module with this model is not activated)`);
  if (isBusy.test(message)) return new TransientError(message);
  if (isBroken.test(message)) return safe ? new TransientError(message) : new UnknownOutcome(message);
  return new ServerFault(message);
}

const isNotAllowed = /^Tryton: (You are not allowed to access "|Calling button ".*is not allowed)/su;
const isGone = /that don't exist anymore/u;
const isUnknownModel = /^'[a-z_]+(\.[a-z_]+)+'$/u;
const isBusy =
  /deadlock|could not serialize|could not obtain lock|lock timeout|statement timeout|database is locked|too many (clients|connections)|connection slots|could not connect|connection pool exhausted/iu;
const isBroken =
  /closed the connection|connection .{0,200}closed|terminating connection|connection reset|SSL SYSCALL/iu;
