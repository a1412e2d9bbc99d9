/** The accounts of the console that have a password. Each change of one ends its sessions. */
import type { Timestamp } from '#contract/timestamp.ts';
import { type Clock, timestampNow } from '#platform/clock.ts';
import type { Sql } from '#platform/database/sql.ts';
import { AppError } from '#platform/errors.ts';
import { hashPassword } from './passwords.ts';
import type { ViewerRole } from './viewer.ts';

export interface ConsoleUser {
  readonly name: string;
  readonly role: ViewerRole;
  readonly flows: 'all' | readonly string[];
  readonly created: Timestamp;
  readonly changed: Timestamp;
  readonly lastLogin: Timestamp | null;
  /** Sessions that have neither been ended nor reached their end; some may be idle for too long. */
  readonly sessions: number;
}

/** Also e-mail addresses; in lower case, so that a name is one account however it is typed. */
const namePattern = /^[a-z0-9][a-z0-9._@+-]{0,127}$/;

/** The name as the accounts have it. Throws `invalid` for text that no account can have as its name. */
export function accountName(text: string): string {
  const name = text.trim().toLowerCase();
  if (namePattern.test(name)) return name;
  throw new AppError(
    'invalid',
    'A name has letters, digits and . _ @ + - only, begins with a letter or digit, and has at most 128 characters.',
  );
}

/** Adds an account. Throws `invalid` for a bad password, and `conflict` when there is one of this name. */
export async function addUser(
  sql: Sql,
  user: { name: string; role: ViewerRole; flows: 'all' | readonly string[]; password: string },
  clock: Clock,
): Promise<void> {
  const hash = await hashPassword(user.password, user.name);
  const added = await sql.query(
    `insert into bridge.console_users (name, role, flows, password_hash, created, changed)
     values ($1, $2, $3, $4, $5, $5) on conflict do nothing returning 1`,
    [user.name, user.role, user.flows === 'all' ? null : user.flows, hash, timestampNow(clock)],
  );
  if (added.length === 0)
    throw new AppError('conflict', `There is an account "${user.name}" already: console users list shows it.`);
}

/** Returns all accounts by name. */
export async function listUsers(sql: Sql, clock: Clock): Promise<ConsoleUser[]> {
  const rows = await sql.query<Omit<ConsoleUser, 'flows'> & { flows: string[] | null }>(
    `select name, role, flows, created, changed, last_login as "lastLogin",
       (select count(*)::int from bridge.console_tokens s where s.account = u.name and s.ends > $1) as sessions
     from bridge.console_users u order by name`,
    [timestampNow(clock)],
  );
  return rows.map((row) => ({ ...row, flows: row.flows ?? 'all' }));
}

export async function hasUsers(sql: Sql): Promise<boolean> {
  const [row] = await sql.query<{ found: boolean }>('select exists (select from bridge.console_users) as found');
  return row?.found === true;
}

/** Removes the account; its sessions end with it. Throws `not-found`. */
export async function removeUser(sql: Sql, name: string): Promise<void> {
  expectOne(name, await sql.query('delete from bridge.console_users where name = $1 returning 1', [name]));
}

/** Throws `invalid` for a bad password, and `not-found`. */
export async function setPassword(sql: Sql, name: string, password: string, clock: Clock): Promise<void> {
  const hash = await hashPassword(password, name);
  const changed = await sql.query(
    'update bridge.console_users set password_hash = $2, version = version + 1, changed = $3 where name = $1 returning 1',
    [name, hash, timestampNow(clock)],
  );
  expectOne(name, changed);
  await endSessionsOf(sql, name);
}

/** Sets the role and the flows. Throws `not-found`. */
export async function setRole(
  sql: Sql,
  name: string,
  { role, flows }: { role: ViewerRole; flows: 'all' | readonly string[] },
  clock: Clock,
): Promise<void> {
  const changed = await sql.query(
    'update bridge.console_users set role = $2, flows = $3, version = version + 1, changed = $4 where name = $1 returning 1',
    [name, role, flows === 'all' ? null : flows, timestampNow(clock)],
  );
  expectOne(name, changed);
  await endSessionsOf(sql, name);
}

/** Their version is that of before: this only deletes what has ended already. */
async function endSessionsOf(sql: Sql, name: string): Promise<void> {
  await sql.query('delete from bridge.console_tokens where account = $1', [name]);
}

function expectOne(name: string, rows: readonly unknown[]): void {
  if (rows.length === 0)
    throw new AppError('not-found', `There is no account "${name}": console users list shows those that exist.`);
}

/** What a login needs of an account. */
export interface StoredUser {
  readonly name: string;
  readonly role: ViewerRole;
  readonly flows: 'all' | readonly string[];
  readonly passwordHash: string;
  readonly version: number;
}

export async function findUser(sql: Sql, name: string): Promise<StoredUser | undefined> {
  const [row] = await sql.query<Omit<StoredUser, 'flows'> & { flows: string[] | null }>(
    `select name, role, flows, password_hash as "passwordHash", version from bridge.console_users where name = $1`,
    [name],
  );
  return row && { ...row, flows: row.flows ?? 'all' };
}

export async function noteLogin(sql: Sql, name: string, clock: Clock): Promise<void> {
  await sql.query('update bridge.console_users set last_login = $2 where name = $1', [name, timestampNow(clock)]);
}
