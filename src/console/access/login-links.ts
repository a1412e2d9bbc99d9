/**
 * Links that log in once. They serve a console that only this machine reaches: who can run a command of the installation
 * can read its database anyway, and needs no password to see it in a browser.
 */
import { timestampFromMs } from '#contract/timestamp.ts';
import type { Clock } from '#platform/clock.ts';
import type { Sql } from '#platform/database/sql.ts';
import { createSessionToken, hashSessionToken } from './session-tokens.ts';
import type { Viewer, ViewerRole } from './viewer.ts';

/** How long a link can be used. */
export const linkMs = 60 * 60_000;

/** The paths of links; the token follows. */
export const linkPath = '/login/link/';

/** Makes a link for the viewer and returns its path. Also deletes the links and sessions that have ended. */
export async function createLoginLink(sql: Sql, viewer: Viewer, clock: Clock): Promise<string> {
  const nowMs = clock.nowMs();
  const { token, hash } = createSessionToken();
  await sql.query('delete from bridge.console_tokens where ends <= $1', [timestampFromMs(nowMs)]);
  await sql.query(
    `insert into bridge.console_tokens (token_hash, kind, name, role, flows, created, ends)
     values ($1, 'link', $2, $3, $4, $5, $6)`,
    [
      hash,
      viewer.name,
      viewer.role,
      viewer.flows === 'all' ? null : viewer.flows,
      timestampFromMs(nowMs),
      timestampFromMs(nowMs + linkMs),
    ],
  );
  return `${linkPath}${token}`;
}

/** Uses the link up, and returns for whom it was made; undefined when it was used before, has expired or never existed. */
export async function useLoginLink(tx: Sql, token: string, clock: Clock): Promise<Viewer | undefined> {
  const [used] = await tx.query<{ name: string; role: ViewerRole; flows: string[] | null }>(
    `delete from bridge.console_tokens where token_hash = $1 and kind = 'link' and ends > $2
     returning name, role, flows`,
    [hashSessionToken(token), timestampFromMs(clock.nowMs())],
  );
  return used && { name: used.name, role: used.role, flows: used.flows ?? 'all' };
}
