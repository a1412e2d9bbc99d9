/** What is a person's own: the password, where there is one, and the sessions. Every role may change it. */
import { z } from 'zod';
import { timestampNow } from '#platform/clock.ts';
import { AppError } from '#platform/errors.ts';
import { countAttempt, forgetAttempt } from '../access/login-throttle.ts';
import { isPassword } from '../access/passwords.ts';
import { endOwnSessions, type ListedSession, listOwnSessions } from '../access/sessions.ts';
import { findUser, setPassword } from '../access/users.ts';
import type { OwnSession } from '../access/viewer.ts';
import { type ConsoleApiDeps, type ConsoleCaller, noQuery, ownCall, readCall } from './console-call.ts';
import { ownPaths } from './own-paths.ts';

export interface AccountAnswer {
  readonly hasPassword: boolean;
  readonly sessions: readonly (ListedSession & { readonly isThis: boolean })[];
}

const password = z.string().min(1).max(1_024);

export const accountCall = ({ database, clock }: ConsoleApiDeps) =>
  readCall('/api/account', noQuery, async ({ viewer }): Promise<AccountAnswer> => {
    const own = sessionOf(viewer);
    const sessions = await listOwnSessions(database, own, timestampNow(clock));
    return {
      hasPassword: own.account !== undefined,
      sessions: sessions.map((session) => ({ ...session, isThis: session.id === own.id })),
    };
  });

/** All sessions of the account end with its old password, this one too. */
export const changePasswordCall = ({ database, clock, note }: ConsoleApiDeps) =>
  ownCall(`${ownPaths}password`, z.strictObject({ current: password, next: password }), async ({ viewer, body }) => {
    const { account } = sessionOf(viewer);
    if (account === undefined)
      throw new AppError('invalid', 'This session has no password: it was begun by a link or by the OpenID provider.');
    const attempt = { account, accountExists: true, address: viewer.from ?? undefined, knownBrowser: undefined };
    const waitMs = await countAttempt(database, attempt, clock);
    if (waitMs > 0)
      throw new AppError('too-many', `There were too many failed tries. Try again in ${Math.ceil(waitMs / 1_000)} s.`);
    const user = await findUser(database, account);
    if (!(await isPassword(body.current, user?.passwordHash, viewer.from ?? '')))
      throw new AppError('invalid', 'The current password is wrong.');
    await forgetAttempt(database, attempt, clock);
    await note(viewer, { what: 'console.user.set-password', object: `user ${account}` });
    await setPassword(database, account, body.next, clock);
  });

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
