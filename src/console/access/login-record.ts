/**
 * Writes logins, and what was refused, to the audit log. A flood of refused ones is bounded: beyond so many a minute they are
 * counted, and the next entry says how many there were.
 */
import { type ActionSubject, recordAction } from '#platform/audit-log.ts';
import { type Clock, timestampNow } from '#platform/clock.ts';
import type { Sql } from '#platform/database/sql.ts';
import { Counter, type Registry } from '#platform/metrics.ts';
import type { LoginMethod } from './sessions.ts';

const refusalsPerMinute = 60;
const minuteMs = 60_000;

export interface LoginRecord {
  /** Rejects when it cannot be written: then the login must not succeed. */
  allowed(
    sql: Sql,
    login: { name: string; from: string | null; method: LoginMethod; details?: ActionSubject['details'] },
  ): Promise<void>;
  refused(login: { name: string; from: string | null; method: LoginMethod; why: string }): Promise<void>;
  /** A login that had to wait is only counted. */
  throttled(method: LoginMethod): void;
  /** A viewer who tries to change something. */
  overstepped(by: { name: string; from: string | null }, request: string): Promise<void>;
  ended(sql: Sql, login: { name: string; from: string | null }): Promise<void>;
}

export function createLoginRecord({
  database,
  clock,
  registry,
}: {
  database: Sql;
  clock: Clock;
  registry: Registry;
}): LoginRecord {
  const logins = new Counter({
    name: 'console_logins_total',
    help: 'Logins at the console, by method (password, link, openid) and result (allowed, refused, throttled)',
    labelNames: ['method', 'result'],
    registers: [registry],
  });
  let minute = Number.NEGATIVE_INFINITY;
  let written = 0;
  let unwritten = 0;
  const write = (
    sql: Sql,
    { name, from }: { name: string; from: string | null },
    outcome: 'allowed' | 'refused',
    subject: ActionSubject,
  ) =>
    recordAction(sql, 'bridge', { who: { kind: 'user', name }, from, ...subject, outcome, when: timestampNow(clock) });

  async function writeRefusal(by: { name: string; from: string | null }, subject: ActionSubject): Promise<void> {
    const now = Math.floor(clock.nowMs() / minuteMs);
    if (now !== minute) [minute, written] = [now, 0];
    written += 1;
    if (written > refusalsPerMinute) {
      unwritten += 1;
      return;
    }
    const missing = unwritten > 0 ? { unwritten } : {};
    unwritten = 0;
    await write(database, by, 'refused', { ...subject, details: { ...subject.details, ...missing } });
  }

  return {
    allowed: async (sql, login) => {
      await write(sql, login, 'allowed', {
        what: 'console.login',
        object: null,
        details: { method: login.method, ...login.details },
      });
      logins.inc({ method: login.method, result: 'allowed' });
    },
    refused: async (login) => {
      logins.inc({ method: login.method, result: 'refused' });
      await writeRefusal(login, {
        what: 'console.login',
        object: null,
        details: { method: login.method, why: login.why },
      });
    },
    overstepped: (by, request) => writeRefusal(by, { what: 'console.request', object: request }),
    throttled: (method) => logins.inc({ method, result: 'throttled' }),
    ended: (sql, login) => write(sql, login, 'allowed', { what: 'console.logout', object: null }),
  };
}
