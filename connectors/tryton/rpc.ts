/**
 * Calls to trytond (JSON-RPC over HTTP), with a session that is made when the first call needs it and renewed once when
 * Tryton has forgotten it. An error answer means that the transaction was rolled back, with two exceptions that are told
 * apart here: a connection to the database that broke may have broken during the commit, and what Tryton itself did not
 * expect (`ServerFault`) may have happened after it.
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
  /** A call that changes nothing. `answer` says what it must look like. */
  ask<T>(
    method: string,
    params: readonly unknown[],
    answer: z.ZodType<T>,
    signal: AbortSignal,
    context?: Json,
  ): Promise<T>;
  /** A call that changes something; as a whole or not at all. */
  change<T>(
    method: string,
    params: readonly unknown[],
    answer: z.ZodType<T>,
    signal: AbortSignal,
    context?: Json,
  ): Promise<T>;
  /** Who and where the session is, as Tryton says. */
  self(signal: AbortSignal): Promise<Self>;
  /** The clock of the machine that answered last, in milliseconds since 1970; undefined when it does not say. */
  serverMs(): number | undefined;
  close(): Promise<void>;
}

type Json = Readonly<Record<string, unknown>>;

export interface Self {
  readonly user: number;
  readonly company: number;
  readonly companyName: string;
}

/** Tryton asks what a user would confirm. */
export class Warned extends DataError {
  readonly warning: string;

  constructor(message: string, warning: string) {
    super(message);
    this.warning = warning;
  }
}

/** Tryton met what it did not expect: whether it was before or after the commit has to be looked up. */
export class ServerFault extends DataError {}

const loginAnswer = z.object({ result: z.tuple([z.int(), z.string().min(1)]) });
const preferences = z.looseObject({ company: z.int().nullish() });
/** Of one call; further ones are told. */
const warningsMost = 20;

export function createTryton(
  settings: Settings,
  { clock, caPem }: { clock: Clock; caPem: string | undefined },
): Tryton {
  const { url, database, user, password } = settings;
  let userId = 0;
  let dateHeader: string | undefined;
  let known: Promise<{ self: Self; context: Json }> | undefined;

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
    baseUrl: `${url.replace(/\/+$/u, '')}/${database}`,
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
    const read = answer.safeParse(result);
    if (isAnswer && read.success) return read.data;
    const why = read.success || !isAnswer ? 'it has neither result nor error' : z.prettifyError(read.error);
    const fault = `Tryton's answer to ${method} is not as expected: ${why}`;
    throw safe ? new ConfigError(`${fault} (is it version 6.0?)`) : new UnknownOutcome(fault);
  }

  async function findSelf(signal: AbortSignal): Promise<{ self: Self; context: Json }> {
    const given = await call('res.user.get_preferences', [true, {}], preferences, { signal, safe: true });
    // English, so that what Tryton says can be told apart.
    const context = { ...given, language: 'en' };
    const companies = await call(
      'company.company.search_read',
      [
        settings.company === undefined
          ? [['id', '=', given.company ?? -1]]
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
          ? `The Tryton user ${user} works for no company: give the user one, or name it (settings.company).`
          : `Tryton has no company with the code or name "${settings.company}" (settings.company).`,
      );
    if (companies.length > 1)
      throw new ConfigError(`Tryton has several companies "${settings.company}" (settings.company): use the code.`);
    return {
      self: { user: userId, company: company.id, companyName: company.rec_name },
      context: { ...context, company: company.id },
    };
  }

  async function know(signal: AbortSignal): Promise<{ self: Self; context: Json }> {
    known ??= findSelf(signal).catch((error: unknown) => {
      known = undefined;
      throw error;
    });
    return known;
  }

  return {
    async ask(method, params, answer, signal, context = {}) {
      const { context: own } = await know(signal);
      return call(method, [...params, { ...own, ...context }], answer, { signal, safe: true });
    },
    async change(method, params, answer, signal, context = {}) {
      const { self, context: own } = await know(signal);
      const withContext = [...params, { ...own, ...context }];
      for (let accepted = 0; ; accepted += 1) {
        try {
          return await call(method, withContext, answer, { signal, safe: false });
        } catch (error) {
          if (!(error instanceof Warned) || settings.warnings === 'refuse' || accepted === warningsMost) throw error;
          // Good for the next time that it is asked, and for that only.
          const warning = { user: self.user, name: error.warning, always: false };
          await call('res.user.warning.create', [[warning], own], z.unknown(), { signal, safe: true });
        }
      }
    },
    self: async (signal) => (await know(signal)).self,
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
        `Tryton asks the user ${settings.user} for more than a password: allow this user to log in with one.`,
      );
    const told = errorOfAnswer(body.error, { method: 'common.db.login', safe: true });
    // So SQLite says that there is no such file.
    throw told instanceof ServerFault
      ? new ConfigError(`Tryton cannot open the database ${settings.database} (settings.database): ${told.message}`)
      : told;
  }
  const read = loginAnswer.safeParse(body);
  if (!read.success)
    throw new ConfigError('What answers at settings.url is no Tryton 6.0: its login gives no session.');
  return read.data;
}

function faultOfStatus({ status }: HttpResponse, { url, database }: Settings): ConnectorError | undefined {
  if (status === 404)
    return new ConfigError(`Tryton has no database ${database} at ${url} (settings.url, settings.database).`);
  if (status === 403)
    return new ConfigError(`Tryton at ${url} refuses the call: a method that it does not know, or a proxy in between.`);
  return undefined;
}

/** What an `error` in a 200 means. The texts are those of Tryton 6.0's own messages in English, and of the databases. */
function errorOfAnswer(error: unknown, { method, safe }: { method: string; safe: boolean }): ConnectorError {
  const [kind, detail] = (Array.isArray(error) ? error : [error]) as unknown[];
  const texts = (Array.isArray(detail) ? detail : [detail]).filter(
    (one): one is string => typeof one === 'string' && one !== '',
  );
  if (kind === 'UserError') {
    const message = `Tryton: ${texts.slice(0, 2).join(' ')}`;
    if (isNotAllowed.test(message)) return new AuthError(`${message} (${method}; give the user the right groups)`);
    return isGone.test(message) ? new LockedError(message) : new DataError(message);
  }
  if (kind === 'UserWarning')
    return new Warned(`Tryton asks for confirmation (settings.warnings): ${texts.slice(1).join(' ')}`, texts[0] ?? '');
  if (kind === 'ConcurrencyException') return new LockedError(`Tryton: ${texts.join(' ')}`);
  if (kind === 'LoginException') return new AuthError(`Tryton asks for a login again: ${texts.join(' ')}`);
  const message = `Tryton failed at ${method}: ${typeof kind === 'string' ? kind.trim() : 'it does not say why'}`;
  if (isUnknownModel.test(String(kind)) && method.includes(String(kind).replaceAll("'", '')))
    return new ConfigError(`${message} (the module that has it is not activated)`);
  if (isBusy.test(message)) return new TransientError(message);
  if (isBroken.test(message)) return safe ? new TransientError(message) : new UnknownOutcome(message);
  return new ServerFault(message);
}

const isNotAllowed = /^Tryton: (You are not allowed to access "|Calling button ".*is not allowed)/su;
const isGone = /that don't exist anymore/u;
const isUnknownModel = /^'[a-z_]+(\.[a-z_]+)+'$/u;
const isBusy =
  /deadlock|could not serialize|could not obtain lock|lock timeout|statement timeout|database is locked|too many (clients|connections)|connection slots|could not connect|connection pool exhausted/iu;
const isBroken = /closed the connection|connection .*closed|terminating connection|connection reset|SSL SYSCALL/iu;
