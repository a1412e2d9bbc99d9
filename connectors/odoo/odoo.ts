/**
 * Calls to Odoo 19 over `/json/2`. An error is told by its name, because Odoo answers final errors with 500, and by
 * nothing of its stack trace (`debug`), which is never shown.
 */
import {
  AuthError,
  bearerAuth,
  type Clock,
  ConfigError,
  type ConnectorError,
  createHttp,
  DataError,
  errorOfStatus,
  type HttpRequest,
  type HttpResponse,
  LockedError,
  TransientError,
  UnknownOutcome,
  z,
} from 'sourcing-bridge/connector';
import type { Settings } from './settings.ts';

export interface Odoo {
  /** A call that changes nothing. `args` are Odoo's named arguments, with `ids` and `context`. */
  ask<T>(model: string, method: string, args: Args, answer: z.ZodType<T>, signal: AbortSignal): Promise<T>;
  /** A call that may change something: without a clear answer it is an UnknownOutcome. */
  change<T>(model: string, method: string, args: Args, answer: z.ZodType<T>, signal: AbortSignal): Promise<T>;
  /** The version that the server tells without a login. */
  version(signal: AbortSignal): Promise<string>;
  /** The company of the settings; undefined without one: Odoo then takes the user's own. */
  company(signal: AbortSignal): Promise<number | undefined>;
  /** The bridge's own user: its id, and its time zone. */
  user(signal: AbortSignal): Promise<{ readonly uid: number; readonly zone: string }>;
  /** The server's clock at its last answer; undefined if it sends no date. */
  serverMs(): number | undefined;
  close(): Promise<void>;
}

export type Args = Readonly<Record<string, unknown>>;

/** A final refusal of a record. */
export class OdooRefusal extends DataError {}

/** A model that does not exist: its module is not installed. */
export class MissingModule extends ConfigError {}

export const connections = 2;
const requestTimeoutMs = 600_000;

const companyRows = z.array(z.object({ id: z.int() }));
const userForm = z.object({ uid: z.int(), tz: z.union([z.string(), z.literal(false)]).optional() });
const versionForm = z.object({ version: z.string() });

export function createOdoo(settings: Settings, { clock, caPem }: { clock: Clock; caPem: string | undefined }): Odoo {
  const { url, database, api_key } = settings;
  const http = createHttp({
    baseUrl: url,
    auth: [bearerAuth(api_key)],
    headers: { 'x-odoo-database': database },
    connections,
    timeoutMs: Math.min(settings.timeout_seconds * 1_000, requestTimeoutMs),
    responseBytesMax: 64 * 2 ** 20,
    clock,
    errorOf: (response, request) => errorOfAnswer(response, request, settings, clock.nowMs()),
    ...(caPem === undefined ? {} : { caPem }),
  });
  let serverDate: string | undefined;
  let companyId: number | undefined;
  let user: z.output<typeof userForm> | undefined;

  async function call<T>(
    model: string,
    method: string,
    { context = {}, ...args }: Args,
    answer: z.ZodType<T>,
    { signal, safe }: { signal: AbortSignal; safe: boolean },
  ): Promise<T> {
    const json = {
      ...args,
      context: { ...(companyId ? { allowed_company_ids: [companyId] } : {}), ...(context as object) },
    };
    const response = await http.request({ method: 'POST', path: `/json/2/${model}/${method}`, json, safe, signal });
    serverDate = response.headers['date'] ?? serverDate;
    const parsed = answer.safeParse(response.json());
    if (parsed.success) return parsed.data;
    const message = `Odoo answered ${model}.${method} with something else than expected: ${z.prettifyError(parsed.error).slice(0, 300)}`;
    throw safe ? new TransientError(message) : new UnknownOutcome(message, { answered: true });
  }

  async function company(signal: AbortSignal): Promise<number | undefined> {
    if (settings.company === undefined || companyId !== undefined) return companyId;
    const domain = [['name', '=', settings.company]];
    const args = { domain, fields: ['name'] };
    const rows = await call('res.company', 'search_read', args, companyRows, { signal, safe: true });
    if (rows.length !== 1)
      throw new ConfigError(
        `Odoo shows the bridge's user ${rows.length === 0 ? 'no company' : `${rows.length} companies`} "${settings.company}" (settings.company): allow the user this company, or correct its name.`,
      );
    companyId = rows[0]?.id;
    return companyId;
  }

  return {
    async ask(model, method, args, answer, signal) {
      await company(signal);
      return call(model, method, args, answer, { signal, safe: true });
    },
    async change(model, method, args, answer, signal) {
      await company(signal);
      return call(model, method, args, answer, { signal, safe: false });
    },
    async version(signal) {
      const response = await http.request({ method: 'GET', path: '/web/version', signal });
      const { data } = versionForm.safeParse(response.jsonIfAny());
      if (!data) throw new ConfigError(`The server at ${url} (settings.url) is not Odoo: it tells no version.`);
      return data.version;
    },
    company,
    async user(signal) {
      user ??= await call('res.users', 'context_get', {}, userForm, { signal, safe: true });
      return { uid: user.uid, zone: user.tz || 'UTC' };
    },
    serverMs: () => {
      const ms = Date.parse(serverDate ?? '');
      return Number.isNaN(ms) ? undefined : ms;
    },
    close: () => http.close(),
  };
}

const faultForm = z.object({ name: z.string(), message: z.string() });

/** What an answer with an error means; undefined for an answer that is none. */
function errorOfAnswer(
  response: HttpResponse,
  request: HttpRequest,
  { url, database }: Settings,
  nowMs: number,
): ConnectorError | undefined {
  const { status, headers } = response;
  if (status < 400) return undefined;
  const fault = faultForm.safeParse(response.jsonIfAny()).data;
  if (fault) return errorOfFault(fault.name, fault.message, request);
  if (status === 404)
    return new ConfigError(
      `The server at ${url} has no Odoo database ${database}, or is no Odoo 19 (settings.url, settings.database).`,
    );
  // The rest of the text may be a page with a stack trace.
  const text = () => /<title>([^<]*)/i.exec(response.text())?.[1] ?? '';
  return errorOfStatus({ status, headers, text }, request, nowMs);
}

/** The message is Odoo's own, on one line and of a length that a person reads. */
function errorOfFault(name: string, text: string, { path, safe = false }: HttpRequest): ConnectorError {
  const call = path.replace('/json/2/', '').replace('/', '.');
  const message = `Odoo: ${shortened(text)}`;
  if (isBusy.test(`${name} ${text}`)) return new LockedError(message);
  switch (name) {
    case 'werkzeug.exceptions.Unauthorized':
    case 'odoo.exceptions.AccessDenied':
      return new AuthError(`${message} (settings.api_key: it may have expired)`);
    case 'odoo.exceptions.AccessError':
      return /unauthorized or invalid companies/i.test(text)
        ? new ConfigError(`${message} (settings.company)`)
        : new AuthError(`${message} (${call})`);
    case 'werkzeug.exceptions.NotFound':
      return new MissingModule(`${message} (${call}: the module with it is not installed)`);
    case 'odoo.exceptions.MissingError':
      // Somebody deleted a record between the read and the write; the next attempt reads again.
      return new LockedError(message);
    case 'odoo.exceptions.UserError':
    case 'odoo.exceptions.ValidationError':
    case 'odoo.exceptions.RedirectWarning':
    case 'werkzeug.exceptions.UnprocessableEntity':
    case 'werkzeug.exceptions.BadRequest':
      return new OdooRefusal(message);
  }
  if (/^builtins\.(Value|Type|Key|Attribute|Index|Assertion|NotImplemented|Unicode\w*)Error$/.test(name))
    return new OdooRefusal(`${message} (${call})`);
  // Odoo has answered, so it has ended its transaction; but nobody has said what this error leaves.
  const unknown = `Odoo failed at ${call}: ${name}: ${shortened(text)}`;
  return safe ? new TransientError(unknown) : new UnknownOutcome(unknown, { answered: true });
}

/** Two transactions met; Odoo carries the same call out a moment later. */
const isBusy =
  /could not serialize|deadlock detected|could not obtain lock|lock timeout|SerializationFailure|DeadlockDetected|LockNotAvailable|ConcurrencyError/iu;

export const isBusyMessage = (message: string) => isBusy.test(message);

export function shortened(text: string): string {
  const line = text.replaceAll(/\s+/g, ' ').trim();
  return line.length > 400 ? `${line.slice(0, 400)}…` : line;
}

/**
 * The error of a later step. What came before it is done already, so the operation counts as unknown: the bridge reads
 * what Odoo holds, and the next attempt does what is missing. A refusal stays one: it would come again.
 */
export function partlyDone(error: ConnectorError, what: string): ConnectorError {
  if (['data', 'auth', 'config', 'rate-limited', 'unknown'].includes(error.type)) return error;
  return new UnknownOutcome(`${error.message} (${what})`, { cause: error, answered: true });
}
