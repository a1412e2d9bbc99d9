/**
 * The second factor of an account: codes of an authenticator app (TOTP, RFC 6238: SHA-1, six digits, 30 s), through
 * otpauth. The secret is sealed under the master key. A code counts once, and one of an earlier step never after it. Each
 * change ends the sessions of the account.
 */
import { Secret, TOTP } from 'otpauth';
import { secondFactorColumn } from '#bridge/sealed-bridge-columns.ts';
import { type Clock, timestampNow } from '#platform/clock.ts';
import type { Sql } from '#platform/database/sql.ts';
import { AppError } from '#platform/errors.ts';
import type { SecretBox } from '#platform/secrets.ts';

const periodSeconds = 30;
/** Codes of the step before and after count, too: clocks differ, and typing takes a while. */
const stepsAround = 1;
const secretBytes = 20;

export interface NewFactor {
  /** In base 32, as people type it into an app. */
  readonly secret: string;
  /** `otpauth://totp/…`: what a QR code of it holds. */
  readonly uri: string;
}

/** Makes a secret, which counts for nothing before `setFactor` has proved that the person's app has it. */
export function newFactor(account: string): NewFactor {
  const totp = totpOf(new Secret({ size: secretBytes }), account);
  return { secret: totp.secret.base32, uri: totp.toString() };
}

export async function hasFactor(sql: Sql, account: string): Promise<boolean> {
  const found = await sql.query('select from bridge.second_factors where id = $1', [account]);
  return found.length > 0;
}

/** Whether any account has one: the login page then asks for a code. */
export async function hasFactors(sql: Sql): Promise<boolean> {
  const [row] = await sql.query<{ found: boolean }>('select exists (select from bridge.second_factors) as found');
  return row?.found === true;
}

/** Gives the account this secret. Throws `invalid` for a code that is not of it, or when there is a factor already. */
export async function setFactor(
  tx: Sql,
  { account, secret, code }: { account: string; secret: string; code: string },
  { secrets, clock }: { secrets: SecretBox; clock: Clock },
): Promise<void> {
  const step = stepOf(secret, account, code, clock);
  if (step === undefined) throw new AppError('invalid', 'This code is not the one of the secret. Is the clock right?');
  const set = await tx.query(
    `insert into bridge.second_factors (id, secret, used_step) values ($1, $2, $3) on conflict do nothing returning 1`,
    [account, secrets.seal(secret, secondFactorColumn.context(account)), step],
  );
  if (set.length === 0) throw new AppError('conflict', 'The account has a second factor already: remove it first.');
  await endSessions(tx, account, clock);
}

/** Throws `not-found` for an account without one. */
export async function removeFactor(tx: Sql, account: string, clock: Clock): Promise<void> {
  const removed = await tx.query('delete from bridge.second_factors where id = $1 returning 1', [account]);
  if (removed.length === 0) throw new AppError('not-found', `The account "${account}" has no second factor.`);
  await endSessions(tx, account, clock);
}

/** Whether the account needs no code, or this one counts; it is used up. */
export async function passesFactor(
  sql: Sql,
  account: string,
  code: string,
  { secrets, clock }: { secrets: SecretBox; clock: Clock },
): Promise<boolean> {
  const [held] = await sql.query<{ secret: Buffer }>('select secret from bridge.second_factors where id = $1', [
    account,
  ]);
  if (!held) return true;
  const secret = secrets.open(held.secret, secondFactorColumn.context(account));
  const step = stepOf(secret, account, code, clock);
  if (step === undefined) return false;
  const used = await sql.query(
    // Two logins with one code at the same time: one of them finds it used.
    'update bridge.second_factors set used_step = $2 where id = $1 and used_step < $2 returning 1',
    [account, step],
  );
  return used.length > 0;
}

/** The step of time whose code this is; undefined for another code, or a secret that is none. */
function stepOf(secret: string, account: string, code: string, clock: Clock): number | undefined {
  const token = code.replaceAll(/\s/g, '');
  const timestamp = clock.nowMs();
  const totp = /^[A-Z2-7]{32}$/.test(secret) ? totpOf(Secret.fromBase32(secret), account) : undefined;
  const delta = /^\d{6}$/.test(token) ? totp?.validate({ token, timestamp, window: stepsAround }) : undefined;
  return delta === undefined || delta === null ? undefined : TOTP.counter({ period: periodSeconds, timestamp }) + delta;
}

function totpOf(secret: Secret, account: string): TOTP {
  return new TOTP({ issuer: 'sourcing-bridge', label: account, secret, period: periodSeconds });
}

async function endSessions(tx: Sql, account: string, clock: Clock): Promise<void> {
  await tx.query('update bridge.console_users set version = version + 1, changed = $2 where name = $1', [
    account,
    timestampNow(clock),
  ]);
  await tx.query('delete from bridge.console_tokens where account = $1', [account]);
}
