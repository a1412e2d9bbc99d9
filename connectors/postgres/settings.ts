/** The settings of a flow to PostgreSQL, and the connection target that they describe. */
import { ConfigError, requisitionPlaces, type Secret, secret, supplierPlaces, z } from 'sourcing-bridge/connector';

/** A name as PostgreSQL stores it, case-sensitive. PostgreSQL would cut off longer names. */
const identifier = z
  .string()
  .regex(
    /^[A-Za-z_][A-Za-z0-9_$]*$/,
    'must be a name of letters, digits and underscores that does not begin with a digit',
  )
  .max(63);

/** A column, as PostgreSQL stores its name. */
const column = z.string().min(1).max(63);

const relationSettings = z.strictObject({
  from: z
    .string()
    .regex(
      /^[^."\0]{1,63}(?:\.[^."\0]{1,63})?$/,
      'must be a table or view, like erp.vendor, as PostgreSQL stores the name',
    )
    .describe('The table or view with one row for each supplier or requisition'),
  unique: column.describe('The column that is different in each row'),
  changed: column.describe('The column that gets a later time, or a higher number, with each change of its row'),
  lateness_seconds: z
    .number()
    .min(0)
    .max(7 * 86_400)
    .default(300)
    .describe('How long after its stamp a row may appear: the longest transaction that writes such rows'),
  time_zone: z
    .string()
    .regex(/^[A-Za-z0-9_+/-]{1,64}$/)
    .default('UTC')
    .describe('The time zone of `changed`, where its type has none: Europe/Berlin'),
  page: z.int().min(1).max(10_000).default(1_000).describe('The number of rows in one query'),
});

export type RelationSettings = z.output<typeof relationSettings>;

const readSettings = z.strictObject({
  supplier: relationSettings.extend({ record: supplierPlaces.describe('Which columns make a supplier') }).optional(),
  requisition: relationSettings
    .extend({
      record: requisitionPlaces.describe('Which columns make a requisition'),
      acknowledge: z
        .boolean()
        .default(false)
        .describe("Writes what became of each requisition to `requisition_news` in the connector's own schema"),
    })
    .optional(),
});

export type RequisitionSettings = NonNullable<z.output<typeof readSettings>['requisition']>;

const sslModes = ['disable', 'require', 'verify-ca', 'verify-full'] as const;

export const settings = z
  .strictObject({
    url: secret()
      .optional()
      .describe(
        'postgres://user:password@host:5432/database, instead of `host`, `port`, `user`, `password`, `database`',
      ),
    host: z.string().min(1).optional().describe("The server's name or address, or the folder of its socket"),
    port: z.int().min(1).max(65_535).optional().describe('Default: 5432'),
    user: z.string().min(1).optional().describe('The user that owns the tables, or may write them'),
    password: secret().optional(),
    database: z.string().min(1).optional().describe('The name of the database'),
    ssl: z
      .enum(sslModes)
      .optional()
      .describe('As sslmode of libpq; default: `disable` on this machine, `verify-full` to any other'),
    ssl_ca: z.string().min(1).optional().describe("PEM of the authority that signed the server's certificate"),
    ssl_cert: z.string().min(1).optional().describe('PEM of the client certificate that the server requires'),
    ssl_key: secret().optional().describe('PEM of the key of `ssl_cert`'),
    schema: identifier.default('sourcing').describe("Where the connector's own tables are"),
    mode: z.enum(['tables', 'function']).default('tables').describe('Writes its own tables, or calls your function'),
    function: z
      .string()
      .regex(
        /^[A-Za-z_][A-Za-z0-9_$]*\.[A-Za-z_][A-Za-z0-9_$]*$/,
        'must be a schema and a name, like erp.take_document',
      )
      .optional()
      .describe('With `mode: function`: the function with its schema, as PostgreSQL stores the name'),
    history: z.boolean().default(false).describe('Keeps each version of a document in `document_history`'),
    file_bytes: z.boolean().default(true).describe('false: files are not downloaded, and only their names are written'),
    batch_max: z.int().min(1).max(5_000).default(500).describe('The largest number of documents in one transaction'),
    connections: z.int().min(1).max(20).default(2).describe('The largest number of transactions at once'),
    statement_timeout_ms: z
      .int()
      .min(1_000)
      .max(600_000)
      .default(30_000)
      .describe('The longest time for one statement'),
    lock_timeout_ms: z
      .int()
      .min(100)
      .max(60_000)
      .default(5_000)
      .describe('The longest wait for a row or table that another transaction has locked'),
    read: readSettings.default({}).describe('What an intake reads'),
  })
  .superRefine((given, context) => {
    const issue = (path: string, message: string) => context.addIssue({ code: 'custom', path: [path], message });
    if (given.url) {
      for (const name of ['host', 'port', 'user', 'password', 'database'] as const)
        if (given[name] !== undefined) issue(name, 'is in the URL already: leave one of them out');
      const fault = faultOfUrl(given.url.reveal());
      if (fault !== undefined) issue('url', fault);
    } else
      for (const name of ['host', 'user', 'database'] as const)
        if (given[name] === undefined) issue(name, 'is missing; or set `url` instead');
    if ((given.mode === 'function') !== (given.function !== undefined))
      issue('function', 'belongs to `mode: function`: set both, or neither');
    if (given.mode === 'function' && given.history)
      issue('history', 'belongs to `mode: tables`: a function can keep versions by itself');
    if ((given.ssl_cert === undefined) !== (given.ssl_key === undefined))
      issue('ssl_cert', 'and `ssl_key` belong together: set both, or neither');
  });

export type Settings = z.output<typeof settings>;

/** The connection target, from the URL or from the single settings. */
export interface Target {
  readonly host: string;
  readonly port: number;
  readonly user: string;
  readonly password: string | undefined;
  readonly database: string;
  readonly ssl: false | Readonly<Record<string, unknown>>;
  /** `host:port/database`, for messages. */
  readonly name: string;
}

/** The target of parsed settings. Throws ConfigError when neither a URL nor host, user and database are set. */
export function targetOf(given: Settings): Target {
  const { host, port, user, password, database, sslmode } = given.url ? readUrl(given.url) : readSingle(given);
  const mode = given.ssl ?? sslmode ?? (isLocal(host) ? 'disable' : 'verify-full');
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

/** What is wrong with a URL. The message does not repeat it, as it may contain a password. */
function faultOfUrl(text: string): string | undefined {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (!url || !/^postgres(ql)?:$/.test(url.protocol))
    return 'cannot be read: it must look like postgres://user:password@host:5432/database, with characters such as @ / # ? % in the password percent-encoded';
  if (url.username === '' || url.hostname === '' || url.pathname.length < 2)
    return 'must name a user, a host and a database: postgres://user:password@host:5432/database; for a socket set host, user and database in place of url';
  try {
    for (const part of [url.username, url.password, url.pathname]) decodeURIComponent(part);
  } catch {
    return 'has a % that does not begin a percent-encoded character: write it as %25';
  }
  for (const [name, value] of url.searchParams) {
    if (name !== 'sslmode') return `has an unknown parameter: ${name}; only sslmode is allowed`;
    if (!isSslMode(value)) return `has an unknown sslmode: use ${sslModes.join(', ')}`;
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
    // Only a URL has brackets around an IPv6 address.
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

function isLocal(host: string): boolean {
  return host.startsWith('/') || host === 'localhost' || host === '::1' || /^127(\.\d{1,3}){3}$/.test(host);
}
