/** The settings of a flow to PostgreSQL, and where they lead: one place that is connected to, with how it is encrypted. */
import { ConfigError, type Secret, secret, z } from 'sourcing-bridge/connector';

/** As PostgreSQL keeps it, upper and lower case told apart; longer names it would cut. */
const identifier = z
  .string()
  .regex(/^[A-Za-z_][A-Za-z0-9_$]*$/, 'must be a name of letters, digits and underscores that begins with no digit')
  .max(63);

const sslModes = ['disable', 'require', 'verify-ca', 'verify-full'] as const;

export const settings = z
  .strictObject({
    url: secret()
      .optional()
      .describe(
        'postgres://user:password@host:5432/database, instead of `host`, `port`, `user`, `password`, `database`',
      ),
    host: z.string().min(1).optional().describe("The server's name or address, or the folder of its socket"),
    port: z.int().min(1).max(65_535).optional().describe('5432 when it is left out'),
    user: z.string().min(1).optional().describe('Who owns the tables, or may write them'),
    password: secret().optional(),
    database: z.string().min(1).optional().describe('Its name'),
    ssl: z
      .enum(sslModes)
      .optional()
      .describe('As sslmode of libpq; left out: `disable` on this machine, `verify-full` to any other'),
    ssl_ca: z.string().min(1).optional().describe("PEM of the authority that signed the server's certificate"),
    ssl_cert: z.string().min(1).optional().describe('PEM of a certificate that the server wants to see'),
    ssl_key: secret().optional().describe('PEM of its key'),
    schema: identifier.default('sourcing').describe("Where the connector's own tables are"),
    mode: z
      .enum(['tables', 'function'])
      .default('tables')
      .describe('Writes tables of its own, or calls a function that is yours'),
    function: z
      .string()
      .regex(
        /^[A-Za-z_][A-Za-z0-9_$]*\.[A-Za-z_][A-Za-z0-9_$]*$/,
        'must be a schema and a name, like erp.take_document',
      )
      .optional()
      .describe('With `mode: function`: which one, with its schema, as PostgreSQL keeps the name'),
    history: z.boolean().default(false).describe('Keeps each version of a document in `document_history`'),
    file_bytes: z.boolean().default(true).describe('false: files are not loaded, and only their names are written'),
    batch_max: z.int().min(1).max(5_000).default(500).describe('Most documents in one transaction'),
    connections: z.int().min(1).max(20).default(2).describe('Most transactions at once'),
    statement_timeout_ms: z.int().min(1_000).max(600_000).default(30_000).describe('Longest time for one statement'),
    lock_timeout_ms: z
      .int()
      .min(100)
      .max(60_000)
      .default(5_000)
      .describe('Longest wait for a row or table that somebody else holds'),
  })
  .superRefine((given, context) => {
    const issue = (path: string, message: string) => context.addIssue({ code: 'custom', path: [path], message });
    if (given.url) {
      for (const name of ['host', 'port', 'user', 'password', 'database'] as const)
        if (given[name] !== undefined) issue(name, 'stands in the URL already: leave one of them out');
      const fault = faultOfUrl(given.url.reveal());
      if (fault !== undefined) issue('url', fault);
    } else
      for (const name of ['host', 'user', 'database'] as const)
        if (given[name] === undefined) issue(name, 'is missing; or give `url` instead');
    if ((given.mode === 'function') !== (given.function !== undefined))
      issue('function', 'belongs to `mode: function`: give both, or neither');
    if (given.mode === 'function' && given.history)
      issue('history', 'belongs to `mode: tables`: the function may keep what it wants');
    if ((given.ssl_cert === undefined) !== (given.ssl_key === undefined))
      issue('ssl_cert', 'and `ssl_key` belong together: give both, or neither');
  });

export type Settings = z.output<typeof settings>;

/** What the URL says, or the single settings. */
export interface Place {
  readonly host: string;
  readonly port: number;
  readonly user: string;
  readonly password: string | undefined;
  readonly database: string;
  readonly ssl: false | Readonly<Record<string, unknown>>;
  /** `host:port/database`: for messages. */
  readonly name: string;
}

/** Throws ConfigError for a URL that says what is not known. */
export function placeOf(given: Settings): Place {
  const { host, port, user, password, database, sslmode } = given.url ? readUrl(given.url) : readSingle(given);
  const mode = given.ssl ?? sslmode ?? (isHere(host) ? 'disable' : 'verify-full');
  return {
    host,
    port,
    user,
    password,
    database,
    name: `${host}:${port}/${database}`,
    ssl:
      mode === 'disable'
        ? false
        : {
            rejectUnauthorized: mode !== 'require',
            ...(mode === 'verify-ca' ? { checkServerIdentity: () => undefined } : {}),
            ...(given.ssl_ca === undefined ? {} : { ca: given.ssl_ca }),
            ...(given.ssl_cert === undefined ? {} : { cert: given.ssl_cert }),
            ...(given.ssl_key === undefined ? {} : { key: given.ssl_key.reveal() }),
          },
  };
}

/** What is wrong with it, without repeating it: it may hold a password. */
function faultOfUrl(text: string): string | undefined {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (!url || !/^postgres(ql)?:$/.test(url.protocol))
    return 'cannot be read: it must look like postgres://user:password@host:5432/database, with characters such as @ / # ? % in the password percent-encoded';
  if (url.username === '' || url.hostname === '' || url.pathname.length < 2)
    return 'must name a user, a host and a database: postgres://user:password@host:5432/database';
  try {
    for (const part of [url.username, url.password, url.pathname]) decodeURIComponent(part);
  } catch {
    return 'has a % that begins no percent-encoded character: write it as %25';
  }
  for (const [name, value] of url.searchParams) {
    if (name !== 'sslmode') return `has a parameter that is not known: ${name}; only sslmode is`;
    if (!isSslMode(value)) return `has an sslmode that is not known: use ${sslModes.join(', ')}`;
  }
  return undefined;
}

function isSslMode(text: string): text is (typeof sslModes)[number] {
  return (sslModes as readonly string[]).includes(text);
}

function readUrl(secretUrl: Secret) {
  const url = new URL(secretUrl.reveal());
  const sslmode = url.searchParams.get('sslmode') ?? '';
  return {
    // An IPv6 address stands in brackets in a URL only.
    host: decodeURIComponent(url.hostname).replace(/^\[(.*)\]$/, '$1'),
    port: url.port === '' ? 5432 : Number(url.port),
    user: decodeURIComponent(url.username),
    password: url.password === '' ? undefined : decodeURIComponent(url.password),
    database: decodeURIComponent(url.pathname.slice(1)),
    sslmode: isSslMode(sslmode) ? sslmode : undefined,
  };
}

function readSingle({ host, port = 5432, user, password, database }: Settings) {
  if (host === undefined || user === undefined || database === undefined)
    throw new ConfigError('settings.url is missing, or settings.host, user and database.');
  return { host, port, user, password: password?.reveal(), database, sslmode: undefined };
}

function isHere(host: string): boolean {
  return host.startsWith('/') || host === 'localhost' || host === '::1' || /^127(\.\d{1,3}){3}$/.test(host);
}
