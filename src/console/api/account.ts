/** What is a person's own: the password and the second factor, where there are any, and the sessions. For every role. */
import { z } from 'zod';
import { timestampNow } from '#platform/clock.ts';
import { AppError } from '#platform/errors.ts';
import { countAttempt, forgetAttempt } from '../access/login-throttle.ts';
import { isPassword } from '../access/passwords.ts';
import { hasFactor, newFactor, passesFactor, removeFactor, setFactor } from '../access/second-factor.ts';
import { endOwnSessions, type ListedSession, listOwnSessions } from '../access/sessions.ts';
import { findUser, setPassword } from '../access/users.ts';
import type { OwnSession } from '../access/viewer.ts';
import { type ConsoleApiDeps, type ConsoleCaller, noQuery, ownCall, readCall } from './console-call.ts';
import { ownPaths } from './own-paths.ts';

export interface AccountAnswer {
  readonly hasPassword: boolean;
  /** Whether a code is asked for at each login. */
  readonly hasFactor: boolean;
  readonly sessions: readonly (ListedSession & { readonly isThis: boolean })[];
}

const password = z.string().min(1).max(1_024);

export const accountCall = ({ database, clock }: ConsoleApiDeps) =>
  readCall('/api/account', noQuery, async ({ viewer }): Promise<AccountAnswer> => {
    const own = sessionOf(viewer);
    const sessions = await listOwnSessions(database, own, timestampNow(clock));
    return {
      hasPassword: own.account !== undefined,
      hasFactor: own.account !== undefined && (await hasFactor(database, own.account)),
      sessions: sessions.map((session) => ({ ...session, isThis: session.id === own.id })),
    };
  });

/** All sessions of the account end with its old password, this one too. */
export const changePasswordCall = (deps: ConsoleApiDeps) =>
  ownCall(`${ownPaths}password`, z.strictObject({ current: password, next: password }), async ({ viewer, body }) => {
    const account = await proveOwner(deps, viewer, body.current);
    await deps.note(viewer, { what: 'console.user.set-password', object: `user ${account}` });
    await setPassword(deps.database, account, body.next, deps.clock);
  });

/** Makes a secret for an authenticator app; nothing is kept of it. */
export const newFactorCall = () =>
  ownCall(`${ownPaths}new-factor`, z.strictObject({}), async ({ viewer }) => newFactor(accountOf(viewer)));

/** Asks for a code from now on, once the person's app has shown one. All sessions of the account end. */
export const setFactorCall = (deps: ConsoleApiDeps) =>
  ownCall(
    `${ownPaths}set-factor`,
    z.strictObject({ current: password, secret: z.string().max(100), code: z.string().max(20) }),
    async ({ viewer, body: { current, ...given } }) => {
      const account = await proveOwner(deps, viewer, current);
      await deps.note(viewer, { what: 'console.user.set-factor', object: `user ${account}` });
      await deps.database.transaction((tx) => setFactor(tx, { account, ...given }, deps));
    },
  );

/** Who has lost the app asks the operator of the machine: `console users remove-factor`. */
export const removeFactorCall = (deps: ConsoleApiDeps) =>
  ownCall(
    `${ownPaths}remove-factor`,
    z.strictObject({ current: password, code: z.string().max(20) }),
    async ({ viewer, body: { current, code } }) => {
      const account = await proveOwner(deps, viewer, current, code);
      await deps.note(viewer, { what: 'console.user.remove-factor', object: `user ${account}` });
      await deps.database.transaction((tx) => removeFactor(tx, account, deps.clock));
    },
  );

/**
 * Returns the account of the session, once the person has proved to be its owner; a wrong try counts as a failed login.
 * With `code`, the account's second factor is asked for, too.
 */
async function proveOwner(
  { database, secrets, clock }: ConsoleApiDeps,
  viewer: ConsoleCaller,
  current: string,
  code?: string,
): Promise<string> {
  const account = accountOf(viewer);
  const attempt = { account, accountExists: true, address: viewer.from ?? undefined, knownBrowser: undefined };
  const waitMs = await countAttempt(database, attempt, clock);
  if (waitMs > 0)
    throw new AppError('too-many', `There were too many failed tries. Try again in ${Math.ceil(waitMs / 1_000)} s.`);
  const user = await findUser(database, account);
  if (!(await isPassword(current, user?.passwordHash, viewer.from ?? '')))
    throw new AppError('invalid', 'The current password is wrong.');
  if (code !== undefined && !(await passesFactor(database, account, code, { secrets, clock })))
    throw new AppError('invalid', 'The code is wrong, or was used before: wait for the next.');
  await forgetAttempt(database, attempt, clock);
  return account;
}

function accountOf(viewer: ConsoleCaller): string {
  const { account } = sessionOf(viewer);
  if (account !== undefined) return account;
  throw new AppError('invalid', 'This session has no password: it was begun by a link or by the OpenID provider.');
}

/** Ends one session, or all but this one. */
export const endSessionsCall = ({ database, note }: ConsoleApiDeps) =>
  ownCall(
    `${ownPaths}end-sessions`,
    z.strictObject({
      id: z
        .string()
        .regex(/^[0-9a-f]{32}$/)
        .optional(),
    }),
    async ({ viewer, body: { id } }) => {
      const own = sessionOf(viewer);
      await note(viewer, { what: 'console.end-sessions', object: null, details: { which: id ?? 'all others' } });
      return { ended: await endOwnSessions(database, own, id) };
    },
  );

function sessionOf({ session }: ConsoleCaller): OwnSession {
  if (session) return session;
  throw new AppError('not-found', 'Only a session of the console has an account page.');
}
