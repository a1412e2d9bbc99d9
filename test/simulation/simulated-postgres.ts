/**
 * A PostgreSQL server as the simulated processes see it. The SQL runs on a real server, in as many real sessions as the
 * processes have, so locks, isolation and constraints are PostgreSQL's own. The seed chooses only when each statement
 * arrives, and what breaks. As on a real connection, the statements of a session are executed in the order in which they
 * were sent, also when one is sent before the answer to the one before. In real time one statement runs at a time. A
 * statement that would have to wait for a lock is undone, and tried again when another transaction has ended, so no
 * statement ever waits in real time.
 *
 * The database has the world's clock: `clock_timestamp()` and `now()` in a statement are replaced by its time.
 */
import { Client, DatabaseError, type QueryResult } from 'pg';
import { timestampFromMicros } from '#contract/timestamp.ts';
import { sqlTypes } from '#platform/database/sql-types.ts';
import type { Random } from './random.ts';
import type { Answered, SimulatedEvent, SimulatedProcess, World } from './world.ts';

export interface DatabaseFaults {
  /** Chances per statement. */
  cut: number;
  cutAtCommit: number;
  slow: number;
  /** How long the sessions of a dead process may go on. */
  lingerMs: number;
  /** How long a transaction may be idle: as long as a lease, as the bridge sets it. */
  idleMs: number;
}

/** A statement as `pg` accepts it. */
export interface Statement {
  text: string;
  name?: string;
  values?: unknown[];
}

type Result = Pick<QueryResult, 'rows' | 'command'>;

/** One connection of a process. */
export interface Session {
  readonly process: SimulatedProcess;
  readonly client: Client;
  readonly listeners: Set<(error: Error) => void>;
  /** `begin` was called; it is sent with the first statement. */
  inTransaction: boolean;
  statements: number;
  /** In a transaction that has begun: the event that checks whether it is idle. */
  idleWatch: SimulatedEvent | undefined;
  begun: boolean;
  failed: boolean;
  /** The lease that this transaction has checked, and that another process has taken over since. */
  lostLease: string | undefined;
  /** Holds, or may hold, locks beyond the end of a transaction. */
  locks: boolean;
  closed: boolean;
  /** What was sent and is not answered, in the order in which it was sent. */
  readonly sent: Sent[];
}

interface Sent {
  /** Once it has arrived; runs when everything that was sent before it is answered. */
  run: (() => Promise<void>) | undefined;
}

interface Waiting {
  readonly session: Session;
  /** Resolves to false while the statement would still have to wait. */
  readonly tryAgain: () => Promise<boolean>;
  readonly fail: (error: Error) => Promise<void>;
}

const lockTimeout = '55P03';
const deadlockAfterMs = 1_000;

/** Real connections to a test's database; they are opened when needed, and used by one world after the other. */
export interface RealSessions {
  open(): Promise<Client>;
  release(client: Client): void;
  /** Makes `open` return the released clients in the order in which they were opened. */
  sort(): void;
  close(): Promise<void>;
}

export function createRealSessions(url: string): RealSessions {
  const options = [
    'TimeZone=UTC',
    'DateStyle=ISO',
    'lock_timeout=1ms',
    'synchronous_commit=off',
    // Rows without an order come in the order of an index, where there is one.
    'plan_cache_mode=force_generic_plan',
    'enable_seqscan=off',
    'enable_bitmapscan=off',
    'enable_hashjoin=off',
    'enable_hashagg=off',
    'jit=off',
  ];
  const all: Client[] = [];
  let free: Client[] = [];
  return {
    async open() {
      const known = free.pop();
      if (known) return known;
      const settings = options.map((option) => `-c ${option}`).join(' ');
      const client = new Client({ connectionString: url, types: sqlTypes, options: settings, pipeline: true });
      await client.connect();
      all.push(client);
      return client;
    },
    release: (client) => void free.push(client),
    sort: () => {
      free = all.filter((client) => free.includes(client)).reverse();
    },
    close: async () => {
      for (const client of all) await client.end();
    },
  };
}

/**
 * Returns a function that empties the tables of a database between two worlds. It rarely truncates, because new files
 * are slow; the dead rows that a delete leaves do not change the results of statements.
 */
export async function createEmptying(sql: Client): Promise<() => Promise<void>> {
  const { rows } = await sql.query<{ name: string }>(
    `select oid::regclass::text as name from pg_class
     where relnamespace = 'bridge'::regnamespace and relkind = 'r' and relname <> 'migrations'
     order by relname = 'flows', relname`,
  );
  const names = rows.map(({ name }) => name);
  for (const name of names) await sql.query(`alter table ${name} set (autovacuum_enabled = false)`);
  // The audit log refuses to be emptied.
  await sql.query('alter table bridge.actions disable trigger user');
  const sequences = await sql.query<{ name: string }>(
    `select oid::regclass::text as name from pg_class where relnamespace = 'bridge'::regnamespace and relkind = 'S'`,
  );
  const emptied = [
    'begin',
    ...names.map((name) => `delete from ${name}`),
    ...sequences.rows.map(({ name }) => `select setval('${name}', 1, false)`),
    'commit',
  ].join('; ');
  let times = 0;
  return async () => {
    times += 1;
    if (times % 200 === 0) await sql.query(`truncate ${names.join(', ')}`);
    await sql.query(emptied);
    // A migration makes this row, and every database has it.
    await sql.query('insert into bridge.lost_commits default values on conflict do nothing');
  };
}

export class SimulatedPostgres {
  readonly faults: DatabaseFaults;
  readonly #world: World;
  readonly #random: Random;
  readonly #real: RealSessions;
  readonly #sessions = new Set<Session>();
  #waiting: Waiting[] = [];
  /** A commit that is sent with the next statement of its session, or before the next one of another session. */
  #unsent: { readonly client: Client; readonly done: Promise<unknown> } | undefined;
  /** The newest fencing token of each lease. */
  readonly #fencingTokens = new Map<unknown, unknown>();
  #away = false;

  constructor(world: World, real: RealSessions, faults: DatabaseFaults) {
    this.#world = world;
    this.#random = world.random.of('postgres');
    real.sort();
    this.#real = real;
    this.faults = faults;
  }

  /** The server is away for `ms`: every session is cut, and no process can connect. */
  goAway(ms: number): void {
    this.#world.log('postgres', `goes away for ${ms} ms`);
    this.#away = true;
    for (const session of this.#sessions) this.#world.after(0, () => this.cut(session));
    this.#world.after(ms, () => this.comeBack());
  }

  comeBack(): void {
    this.#away = false;
  }

  connect(process: SimulatedProcess): Promise<Session> {
    return process.beyond('connect to postgres', { toMs: this.#latencyMs(), fromMs: 0 }, async () => {
      const refused = Object.assign(new Error('connect ECONNREFUSED'), { code: 'ECONNREFUSED', syscall: 'connect' });
      if (this.#away || (this.#world.chaos && this.#random.chance(this.faults.cut))) throw refused;
      const client = await this.#real.open();
      const session: Session = {
        process,
        client,
        listeners: new Set(),
        inTransaction: false,
        statements: 0,
        idleWatch: undefined,
        begun: false,
        failed: false,
        lostLease: undefined,
        locks: false,
        closed: false,
        sent: [],
      };
      this.#sessions.add(session);
      if (!process.alive) void this.#world.after(0, () => this.close(session));
      return session;
    });
  }

  /** Runs a statement of a process. */
  query(session: Session, statement: Statement): Promise<Result> {
    const { text } = statement;
    if (text === 'begin') return this.#begin(session);
    const isEnd = text === 'commit' || text === 'rollback';
    if (isEnd && !session.begun && !session.closed && session.sent.length === 0) {
      session.inTransaction = false;
      return Promise.resolve({ rows: [], command: text.toUpperCase() });
    }
    const what = isRenewal(session, text) ? `keep lease ${String(statement.values?.[0])}` : traitsOf(text).what;
    const sent: Sent = { run: undefined };
    session.sent.push(sent);
    return session.process.reach<Result>(what, { toMs: this.#latencyMs(), fromMs: 0 }, (answer) => {
      const logAndAnswer = async (answered: Answered<Result>) => {
        const rows = 'value' in answered ? `${answered.value.rows.length} rows` : String(answered.error);
        this.#world.log(session.process.id, `sql ${what} -> ${rows}`);
        answer(answered);
        session.sent.shift();
        // The one whose turn it is now, if it has arrived.
        await session.sent[0]?.run?.();
      };
      sent.run = async () => {
        const cutChance = text === 'commit' ? this.faults.cutAtCommit : this.faults.cut;
        const breaks = this.#world.chaos && this.#random.chance(cutChance);
        const takesEffect = this.#random.chance(0.5);
        if (session.closed || (breaks && !takesEffect)) {
          await this.cut(session);
          await logAndAnswer({ error: terminated() });
          return;
        }
        const finish = async (answered: Answered<Result>) => {
          if (breaks) await this.cut(session);
          await logAndAnswer(breaks ? { error: terminated() } : answered);
        };
        if (isEnd) await finish(await this.#end(session, text));
        else if (text === 'select 1' && !session.failed) await finish({ value: { rows: [{}], command: 'SELECT' } });
        else await this.#execute(session, statement, finish);
      };
      return session.sent[0] === sent ? sent.run() : Promise.resolve();
    });
  }

  /** Cuts the connection of a process that is idle in the middle of a transaction for too long. */
  #watchIdle(session: Session): void {
    const seen = session.statements;
    session.idleWatch = this.#world.after(this.faults.idleMs, () => {
      const waits = this.#waiting.some((waiting) => waiting.session === session);
      return session.statements === seen && !waits ? this.cut(session) : this.#watchIdle(session);
    });
  }

  #begin(session: Session): Promise<Result> {
    if (session.closed) return Promise.reject(terminated());
    if (session.sent.length > 0)
      throw new Error('A transaction began on a connection that has not answered everything.');
    session.inTransaction = true;
    session.begun = false;
    session.failed = false;
    session.lostLease = undefined;
    return Promise.resolve({ rows: [], command: 'BEGIN' });
  }

  async #end(session: Session, text: string): Promise<Answered<Result>> {
    const { client, failed, lostLease } = session;
    if (text === 'commit' && lostLease !== undefined)
      this.#world.violate('no process writes under a lease that another has', `${session.process.id}: ${lostLease}`);
    const ended = text === 'commit' && !failed ? await this.#commit(client) : await this.#ask(client, { text });
    session.inTransaction = false;
    endTransaction(session);
    this.#wakeWaiting();
    return ended;
  }

  /** A commit cannot fail here: every constraint was checked by its statement. */
  async #commit(client: Client): Promise<Answered<Result>> {
    await this.flush();
    client.connection.stream.cork();
    this.#unsent = { client, done: client.query('commit') };
    return { value: { rows: [], command: 'COMMIT' } };
  }

  /** Afterwards, a query from outside of the simulation sees everything that was committed. */
  async flush(): Promise<void> {
    const unsent = this.#unsent;
    if (!unsent) return;
    this.#unsent = undefined;
    unsent.client.connection.stream.uncork();
    await unsent.done;
  }

  /** Round trips to the server are slow: statements that can be sent together are. */
  async #ask(client: Client, statement: Statement, before: readonly string[] = []): Promise<Answered<Result>> {
    const { stream } = client.connection;
    if (this.#unsent?.client !== client) await this.flush();
    stream.cork();
    // If one of these fails, the statement fails, too.
    for (const text of before) client.query(text).catch(() => undefined);
    const answered = answerOf(() => client.query(statement));
    stream.uncork();
    await this.flush();
    return answered;
  }

  async #execute(session: Session, statement: Statement, finish: (answer: Answered<Result>) => Promise<void>) {
    const attempt = async (): Promise<boolean> => {
      const answered = await this.#attempt(session, this.#timed(statement));
      if (answered === 'must wait') return false;
      await finish(answered);
      return true;
    };
    if (await attempt()) return;
    this.#world.log(session.process.id, `sql waits for a lock: ${traitsOf(statement.text).what.slice(0, 60)}`);
    const waiting: Waiting = {
      session,
      tryAgain: attempt,
      fail: (error) => finish({ error }),
    };
    this.#waiting.push(waiting);
    this.#world.after(deadlockAfterMs, () => this.#endDeadlock(waiting));
  }

  async #attempt(session: Session, statement: Statement): Promise<Answered<Result> | 'must wait'> {
    const { client } = session;
    session.statements += 1;
    session.locks ||= statement.text.includes('pg_advisory_lock(');
    const begins = session.inTransaction && !session.begun;
    if (begins) {
      session.begun = true;
      this.#watchIdle(session);
    }
    // While no other session is in a transaction, there is nothing to wait for. A savepoint is never released: a later
    // one of the same name hides it.
    const mayWait =
      session.begun && !session.failed && traitsOf(statement.text).locks && this.#othersHaveBegun(session);
    const before = [...(begins ? ['begin'] : []), ...(mayWait ? [savepoint] : [])];
    const answered = await this.#ask(client, statement, before);
    if (!('error' in answered)) {
      this.#watchLease(session, statement, answered.value);
      return { value: this.#inAnyOrder(statement.text, answered.value) };
    }
    if (answered.error instanceof DatabaseError && answered.error.code === lockTimeout) {
      if (mayWait) await this.#ask(client, { text: 'rollback to before_statement' });
      else if (session.begun) throw new Error('A transaction waited for a lock that no other session can hold.');
      return 'must wait';
    }
    session.failed = session.begun;
    return answered;
  }

  #watchLease(session: Session, { text, values }: Statement, { rows }: Result): void {
    const [name, fencingToken] = values ?? [];
    if (text.startsWith('update bridge.leases set fencing_token') && rows.length > 0)
      this.#fencingTokens.set(name, (rows[0] as { fencingToken: number }).fencingToken);
    if (
      text.startsWith('update bridge.leases set expires') &&
      session.inTransaction &&
      this.#fencingTokens.get(name) !== fencingToken
    )
      session.lostLease = String(name);
  }

  /** SQL guarantees no order to a statement that asks for none: the seed chooses one. */
  #inAnyOrder(text: string, result: Result): Result {
    if (result.rows.length < 2 || traitsOf(text).asksForOrder) return result;
    const rows = result.rows.map((row: unknown) => [JSON.stringify(row), row] as const);
    rows.sort(([a], [b]) => (a < b ? -1 : 1));
    const shuffled: unknown[] = [];
    while (rows.length > 0) shuffled.push(rows.splice(this.#random.whole(0, rows.length - 1), 1)[0]?.[1]);
    return { ...result, rows: shuffled };
  }

  #othersHaveBegun(session: Session): boolean {
    for (const other of this.#sessions) if (other !== session && other.begun) return true;
    return false;
  }

  /** The statement with the world's time, prepared under a name for each text. */
  #timed(statement: Statement): Statement {
    const { text, values } = statement;
    if (values === undefined) return statement;
    const { name, timed, asksForTime } = preparedOf(text, values.length);
    const given = asksForTime ? [...values, timestampFromMicros(this.#world.nowMicros)] : values;
    return { name, text: timed, values: given };
  }

  #wakeWaiting(): void {
    if (this.#waiting.length === 0) return;
    this.#world.after(0.05, async () => {
      const waitingNow = this.#waiting;
      for (const waiting of waitingNow)
        if (this.#waiting.includes(waiting) && (await waiting.tryAgain())) this.#forget(waiting);
    });
  }

  #forget(waiting: Waiting): void {
    this.#waiting = this.#waiting.filter((other) => other !== waiting);
  }

  /** When every session that has begun waits, none will ever end: one of them fails with a deadlock. */
  async #endDeadlock(waiting: Waiting): Promise<void> {
    if (!this.#waiting.includes(waiting)) return;
    const begun = [...this.#sessions].filter((session) => session.begun);
    const isDeadlock =
      waiting.session.begun && begun.every((session) => this.#waiting.some((other) => other.session === session));
    if (!isDeadlock) {
      this.#world.after(deadlockAfterMs, () => this.#endDeadlock(waiting));
      return;
    }
    this.#forget(waiting);
    waiting.session.failed = true;
    const error = new DatabaseError('deadlock detected', 0, 'error');
    error.code = '40P01';
    await waiting.fail(error);
  }

  /** The connection breaks: its transaction is rolled back, and its locks are released. */
  async cut(session: Session): Promise<void> {
    if (session.closed) return;
    await this.close(session);
    session.process.deliver(() => {
      session.listeners.forEach((listener) => listener(terminated()));
    });
  }

  async close(session: Session): Promise<void> {
    if (session.closed) return;
    session.closed = true;
    const interrupted = this.#waiting.filter((waiting) => waiting.session === session);
    this.#waiting = this.#waiting.filter((waiting) => waiting.session !== session);
    this.#sessions.delete(session);
    if (session.begun) await this.#ask(session.client, { text: 'rollback' });
    endTransaction(session);
    if (session.locks) await this.#ask(session.client, { text: 'select pg_advisory_unlock_all()' });
    this.#real.release(session.client);
    for (const waiting of interrupted) await waiting.fail(terminated());
    this.#wakeWaiting();
  }

  /** The session of a process that has died: the server notices it at once, or later. */
  abandon(session: Session): void {
    const lingers = this.#world.chaos && this.#random.chance(0.2);
    const ms = lingers ? this.#random.fraction() * this.faults.lingerMs : 0.1;
    this.#world.after(ms, () => this.close(session));
  }

  /** At the end of a world: the real sessions can be used again. */
  async closeAll(): Promise<void> {
    for (const session of Array.from(this.#sessions)) await this.close(session);
    await this.flush();
  }

  #latencyMs(): number {
    const isSlow = this.#world.chaos && this.#random.chance(this.faults.slow);
    return isSlow ? this.#random.fraction() * 8_000 : 0.1 + this.#random.fraction() * 1.5;
  }
}

const savepoint = 'savepoint before_statement';

/**
 * Renews a lease for work outside of a transaction. A process that is paused afterwards must not go on with that work.
 */
function isRenewal({ inTransaction }: Session, text: string): boolean {
  return !inTransaction && text.startsWith('update bridge.leases set expires');
}

/** Whether the statement itself has an `order by`, outside of parentheses. */
function asksForOrder(text: string): boolean {
  let depth = 0;
  for (const [token] of text.matchAll(/[()]|order by/gi)) {
    if (token === '(') depth += 1;
    else if (token === ')') depth -= 1;
    else if (depth === 0) return true;
  }
  return false;
}

/** What the text of a statement tells about it. */
interface StatementTraits {
  /** For the log. */
  readonly what: string;
  /** Whether it may have to wait for a lock. */
  readonly locks: boolean;
  readonly asksForOrder: boolean;
}

const traitsByText = new Map<string, StatementTraits>();

function traitsOf(text: string): StatementTraits {
  const known = traitsByText.get(text);
  if (known) return known;
  const traits = {
    what: text.replace(/\s+/g, ' ').slice(0, 100),
    locks: !/^\s*select\b/.test(text) || /\bfor (no key )?update\b|\bfor (key )?share\b|lock|bridge\.\w+\(/.test(text),
    asksForOrder: asksForOrder(text),
  };
  traitsByText.set(text, traits);
  return traits;
}

interface Prepared {
  readonly name: string;
  readonly timed: string;
  /** Its last parameter is the world's time. */
  readonly asksForTime: boolean;
}

const prepared = new Map<string, Prepared>();

/** A statement text has the same number of values each time. */
function preparedOf(text: string, valuesCount: number): Prepared {
  const known = prepared.get(text);
  if (known) return known;
  const now = `$${valuesCount + 1}::timestamptz`;
  const timed = text
    .replace(/\b(clock_timestamp|now|statement_timestamp)\(\)/g, now)
    // Where several rows are due at the same time SQL may return any; here it is always the same.
    .replace(/\bdue limit\b/g, 'due, key limit');
  const statement = { name: `statement ${prepared.size}`, timed, asksForTime: timed.includes(now) };
  prepared.set(text, statement);
  return statement;
}

function endTransaction(session: Session): void {
  session.begun = false;
  if (session.idleWatch) session.idleWatch.cancelled = true;
}

function terminated(): Error {
  return new Error('Connection terminated unexpectedly');
}

async function answerOf(run: () => Promise<Result>): Promise<Answered<Result>> {
  try {
    return { value: await run() };
  } catch (error) {
    return { error };
  }
}
