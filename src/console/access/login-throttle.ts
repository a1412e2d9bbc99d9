/**
 * Slows the guessing of passwords, and of answers of an OpenID provider, down, across processes and restarts. Failures are counted by account and by address;
 * after some in a row, each further check must wait twice as long as the one before.
 *
 * An attacker who fails on purpose must not lock the right person out. A browser in which the account was logged in
 * before has a signed cookie: it is counted by itself, whatever happens to the account and the address elsewhere. And a
 * session that exists needs no password.
 *
 * A check is counted before it is made and taken back when the password was right: a thousand guesses at once are not
 * one.
 */
import { createHash } from 'node:crypto';
import { msFromTimestamp, type Timestamp, timestampFromMs } from '#contract/timestamp.ts';
import type { Clock } from '#platform/clock.ts';
import type { Database } from '#platform/database/database.ts';
import type { Sql } from '#platform/database/sql.ts';
import { addressGroup } from '#platform/network-guard.ts';

/** So many failures in a row are free of waiting. An address may have many people behind it. */
const freeFailures = { account: 5, browser: 5, address: 30 };
const firstWaitMs = 1_000;
const longestWaitMs = 15 * 60_000;
/** Failures are forgotten after so long without another. */
const rememberedMs = 24 * 60 * 60_000;
/** Names without an account share so many rows. */
const unknownRows = 4_096;

interface Bucket {
  readonly name: string;
  readonly free: number;
}

export interface LoginAttempt {
  /** The name as it was typed, in lower case; undefined for the answer of an OpenID provider, which names nobody yet. */
  readonly account: string | undefined;
  readonly accountExists: boolean;
  readonly address: string | undefined;
  /** The id of a browser in which this account was logged in before. */
  readonly knownBrowser: string | undefined;
}

/** Counts the attempt as failed. Returns how long it must wait, in which case it is not counted; 0: it may be checked. */
export async function countAttempt(database: Database, attempt: LoginAttempt, clock: Clock): Promise<number> {
  const nowMs = clock.nowMs();
  let waitMs = 0;
  const refused = new Error('must wait');
  await database
    .transaction(async (tx) => {
      waitMs = 0;
      for (const bucket of bucketsOf(attempt)) {
        waitMs = await countIn(tx, bucket, nowMs);
        // Rolls back what the buckets before it have counted.
        if (waitMs > 0) throw refused;
      }
    })
    .catch((error: unknown) => {
      if (error !== refused) throw error;
    });
  return waitMs;
}

/** Takes the attempt back: its password was right. The failures of the account before it are forgotten. */
export async function forgetAttempt(sql: Sql, attempt: LoginAttempt, clock: Clock): Promise<void> {
  const own = bucketsOf(attempt).map(({ name }) => name);
  await sql.query("delete from bridge.console_login_failures where bucket = any($1) and bucket not like 'address %'", [
    own,
  ]);
  await sql.query(
    `update bridge.console_login_failures set failures = failures - 1, waits_until = $2
     where bucket = any($1) and bucket like 'address %'`,
    [own, timestampFromMs(clock.nowMs())],
  );
}

/** Deletes what is forgotten. */
export async function pruneLoginFailures(sql: Sql, clock: Clock): Promise<void> {
  await sql.query('delete from bridge.console_login_failures where last < $1', [
    timestampFromMs(clock.nowMs() - rememberedMs),
  ]);
}

function bucketsOf({ account, accountExists, address, knownBrowser }: LoginAttempt): Bucket[] {
  const ofAddress = { name: `address ${addressGroup(address) ?? 'unknown'}`, free: freeFailures.address };
  if (account === undefined) return [ofAddress];
  if (knownBrowser !== undefined && accountExists)
    return [{ name: `browser ${knownBrowser} ${account}`, free: freeFailures.browser }];
  const number = createHash('sha256').update(account).digest().readUInt32BE() % unknownRows;
  // In one order for everyone, so that two attempts do not wait for each other.
  return [{ name: accountExists ? `account ${account}` : `account #${number}`, free: freeFailures.account }, ofAddress];
}

/** Returns how long to wait; 0 after it has counted. */
async function countIn(tx: Sql, { name, free }: Bucket, nowMs: number): Promise<number> {
  const now = timestampFromMs(nowMs);
  const [held] = await tx.query<{ failures: number; last: Timestamp; waitsUntil: Timestamp }>(
    `insert into bridge.console_login_failures as f (bucket, failures, last, waits_until) values ($1, 0, $2, $2)
     on conflict (bucket) do update set bucket = f.bucket
     returning failures, last, waits_until as "waitsUntil"`,
    [name, now],
  );
  if (!held) return 0;
  const waitMs = msFromTimestamp(held.waitsUntil) - nowMs;
  // A clock that was set back must not lock anyone out for longer than the longest wait.
  if (waitMs > 0 && waitMs <= longestWaitMs) return waitMs;
  const isForgotten = nowMs - msFromTimestamp(held.last) > rememberedMs;
  const failures = (isForgotten ? 0 : held.failures) + 1;
  const beyond = failures - free;
  const nextWaitMs = beyond < 0 ? 0 : Math.min(longestWaitMs, firstWaitMs * 2 ** Math.min(beyond, 20));
  await tx.query(
    'update bridge.console_login_failures set failures = $2, last = $3, waits_until = $4 where bucket = $1',
    [name, failures, now, timestampFromMs(nowMs + nextWaitMs)],
  );
  return 0;
}
