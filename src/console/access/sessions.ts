/**
 * Sessions of the console, in SQL: every process knows them, and they outlive a restart. A session ends by logout, when
 * it was not used for a while, after a fixed time, and as soon as its account is removed or changed in any way. One of an
 * OpenID provider lives an hour at most, since the role is that of the login, and ends when the provider says so.
 */
import { type Timestamp, timestampFromMs } from '#contract/timestamp.ts';
import type { Clock } from '#platform/clock.ts';
import type { Sql } from '#platform/database/sql.ts';
import { createSessionToken, hashSessionToken } from './session-tokens.ts';
import type { OwnSession, Viewer, ViewerRole } from './viewer.ts';

export type LoginMethod = 'password' | 'link' | 'openid';

export interface SessionLimits {
  /** A session that was not used for so long has ended. */
  readonly idleMs: number;
  /** It ends after so long, however much it is used. */
  readonly lifeMs: number;
}

/** A session may be used without a write for so long, and never for more than a tenth of the time after which it ends. */
const noteUseMs = 60_000;

/** Whoever logs in by OpenID has the role of an hour ago at most. */
const openIdLifeMs = 3_600_000;

/** A person at the OpenID provider, and the provider's own id of the session where it has one. */
export interface ProviderSession {
  readonly subject: string;
  readonly sid: string | undefined;
}

/** How long a session lives that begins now. */
export function lifeOf(method: LoginMethod, { lifeMs }: SessionLimits): number {
  return method === 'openid' ? Math.min(lifeMs, openIdLifeMs) : lifeMs;
}

/** An account, as it was when its password was checked. */
export interface LoggedInAccount {
  readonly name: string;
  readonly version: number;
}

/**
 * Begins a session and returns the token for its cookie. Returns undefined when the account has been removed since its
 * password was checked. Also deletes the sessions and links that have ended.
 */
export async function beginSession(
  sql: Sql,
  viewer: Viewer,
  { method, account, provider }: { method: LoginMethod; account?: LoggedInAccount; provider?: ProviderSession },
  { clock, limits }: { clock: Clock; limits: SessionLimits },
): Promise<string | undefined> {
  const nowMs = clock.nowMs();
  const now = timestampFromMs(nowMs);
  await sql.query('delete from bridge.console_tokens where ends <= $1 or last_used <= $2', [
    now,
    timestampFromMs(nowMs - limits.idleMs),
  ]);
  const { token, hash } = createSessionToken();
  const begun = await sql.query(
    `insert into bridge.console_tokens
       (token_hash, kind, account, account_version, name, role, flows, method, created, last_used, ends, subject,
        provider_session)
     select $1, 'session', $2::text, $3::int, $4, $5, $6, $7, $8, $8, $9, $10, $11
     -- Locked: an account that is being removed or changed is so first, or this session ends with it.
     where $2::text is null
       or exists (select from bridge.console_users where name = $2 and version = $3 for share)
     returning 1`,
    [
      hash,
      account?.name ?? null,
      account?.version ?? null,
      viewer.name,
      viewer.role,
      viewer.flows === 'all' ? null : viewer.flows,
      method,
      now,
      timestampFromMs(nowMs + lifeOf(method, limits)),
      provider?.subject ?? null,
      provider?.sid ?? null,
    ],
  );
  return begun.length === 0 ? undefined : token;
}

export interface ListedSession {
  readonly id: string;
  readonly method: LoginMethod;
  readonly created: Timestamp;
  readonly lastUsed: Timestamp;
  readonly ends: Timestamp;
}

/** Half of the hash: enough to tell sessions apart. */
const shownId = "encode(substr(s.token_hash, 1, 16), 'hex')";

/** The sessions that the person of this one has, the one that was used last first. */
export function listOwnSessions(sql: Sql, own: OwnSession, now: Timestamp): Promise<ListedSession[]> {
  return sql.query<ListedSession>(
    `select ${shownId} as id, method, created, last_used as "lastUsed", ends from bridge.console_tokens s
     where ${isOwn} and ends > $2 order by last_used desc`,
    [own.id, now],
  );
}

/** Ends one session of the same person, or all but this one. Returns how many have ended. */
export async function endOwnSessions(sql: Sql, own: OwnSession, id: string | undefined): Promise<number> {
  const ended = await sql.query(
    `delete from bridge.console_tokens s where ${isOwn}
       and case when $2::text is null then ${shownId} <> $1 else ${shownId} = $2 end returning 1`,
    [own.id, id ?? null],
  );
  return ended.length;
}

/** Names alone do not tell persons apart: one may be an account's and that of a link. */
const isOwn = `s.kind = 'session' and exists (
  select from bridge.console_tokens t
  where t.kind = 'session' and encode(substr(t.token_hash, 1, 16), 'hex') = $1
    and (t.name, t.account, t.subject) is not distinct from (s.name, s.account, s.subject))`;

/**
 * Returns who has this token, and the session; undefined when there is no such session or it has ended. This
 * counts as a use of the session.
 */
export async function findSession(
  sql: Sql,
  token: string,
  { clock, limits }: { clock: Clock; limits: SessionLimits },
): Promise<{ viewer: Viewer; session: OwnSession } | undefined> {
  const nowMs = clock.nowMs();
  const hash = hashSessionToken(token);
  const [found] = await sql.query<{
    name: string;
    role: ViewerRole;
    flows: string[] | null;
    lastUsed: Timestamp;
    id: string;
    account: string | null;
  }>(
    `select ${shownId} as id, s.account, s.name, coalesce(u.role, s.role) as role, case when u.name is null then s.flows else u.flows end as flows,
       s.last_used as "lastUsed"
     from bridge.console_tokens s left join bridge.console_users u on u.name = s.account
     where s.token_hash = $1 and s.kind = 'session' and s.ends > $2 and s.last_used > $3
       and (s.account is null or u.version = s.account_version)`,
    [hash, timestampFromMs(nowMs), timestampFromMs(nowMs - limits.idleMs)],
  );
  if (!found) return undefined;
  const now = timestampFromMs(nowMs);
  if (found.lastUsed < timestampFromMs(nowMs - Math.min(noteUseMs, limits.idleMs / 10)))
    await sql.query('update bridge.console_tokens set last_used = greatest(last_used, $2) where token_hash = $1', [
      hash,
      now,
    ]);
  return {
    viewer: { name: found.name, role: found.role, flows: found.flows ?? 'all' },
    session: { id: found.id, account: found.account ?? undefined },
  };
}

/** Ends the session; returns whose it was, if there was one. */
export async function endSession(sql: Sql, token: string): Promise<{ name: string } | undefined> {
  const [ended] = await sql.query<{ name: string }>(
    "delete from bridge.console_tokens where token_hash = $1 and kind = 'session' returning name",
    [hashSessionToken(token)],
  );
  return ended;
}

/** Ends the sessions that the provider names: one by its id, or all of the person. Returns whose they were. */
export async function endProviderSessions(
  sql: Sql,
  { subject, sid }: { subject: string | undefined; sid: string | undefined },
): Promise<string[]> {
  const ended = await sql.query<{ name: string }>(
    `delete from bridge.console_tokens where kind = 'session' and method = 'openid'
       and ($1::text is null or subject = $1) and ($2::text is null or provider_session = $2) returning name`,
    [subject ?? null, sid ?? null],
  );
  return ended.map(({ name }) => name);
}

/** Returns whether this answer of a provider is used for the first time; it is remembered until it counts no more. */
export async function useCallback(sql: Sql, state: string, endsMs: number, clock: Clock): Promise<boolean> {
  const used = await sql.query(
    `insert into bridge.console_tokens (token_hash, kind, created, ends) values ($1, 'callback', $2, $3)
     on conflict do nothing returning 1`,
    [hashSessionToken(`callback ${state}`), timestampFromMs(clock.nowMs()), timestampFromMs(endsMs)],
  );
  return used.length > 0;
}
