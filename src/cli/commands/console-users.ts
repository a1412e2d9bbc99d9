/** `console users`: the accounts with which people log in to the console. Each change of one ends its sessions. */
import { randomBytes } from 'node:crypto';
import { removeFactor } from '#console/access/second-factor.ts';
import {
  accountName,
  addUser,
  type ConsoleUser,
  listUsers,
  removeUser,
  setPassword,
  setRole,
} from '#console/access/users.ts';
import type { ViewerRole } from '#console/access/viewer.ts';
import { type BridgeCommand, type BridgeCommandOptions, findFlow, withBridge } from '../bridge-command.ts';
import { confirm } from '../confirm.ts';
import { print, shortTime, tableOf } from '../output.ts';
import { readPassword } from '../read-password.ts';

export interface PasswordOptions extends BridgeCommandOptions {
  generate?: boolean;
}

export interface RoleOptions extends BridgeCommandOptions {
  role: ViewerRole;
  flows?: string[];
}

const plain = { withoutSecrets: true } as const;

/** The password comes from the terminal, or from the first line of standard input; never from the command line. */
export function runUsersAdd(options: RoleOptions & PasswordOptions, given: string): Promise<number> {
  return withBridge(
    options,
    async (command) => {
      const { database, clock, perform } = command;
      const name = accountName(given);
      const rights = rightsOf(command, options);
      const password = await newPassword(options, name);
      await perform({ what: 'console.user.add', object: `user ${name}`, details: rights }, () =>
        addUser(database, { name, ...rights, password }, clock),
      );
      const shown = options.generate ? { password } : {};
      print(options, { name, ...rights, ...shown }, () =>
        [`${name} can log in to the console as ${rights.role}.`, ...passwordLine(options, password)].join('\n'),
      );
      return 0;
    },
    plain,
  );
}

export function runUsersList(options: BridgeCommandOptions): Promise<number> {
  return withBridge(
    options,
    async ({ database, clock }) => {
      const users = await listUsers(database, clock);
      print(options, { users }, () => usersText(users));
      return 0;
    },
    plain,
  );
}

export function runUsersRemove(options: BridgeCommandOptions & { yes?: boolean }, given: string): Promise<number> {
  return withBridge(
    options,
    async ({ database, signal, perform }) => {
      const name = accountName(given);
      if (!(await confirm(`Remove ${name}, and end its sessions?`, options, signal))) return 1;
      await perform({ what: 'console.user.remove', object: `user ${name}` }, () => removeUser(database, name));
      print(options, { name, removed: true }, () => `${name} can no longer log in, and its sessions have ended.`);
      return 0;
    },
    plain,
  );
}

export function runUsersSetPassword(options: PasswordOptions, given: string): Promise<number> {
  return withBridge(
    options,
    async ({ database, clock, perform }) => {
      const name = accountName(given);
      const password = await newPassword(options, name);
      await perform({ what: 'console.user.set-password', object: `user ${name}` }, () =>
        setPassword(database, name, password, clock),
      );
      print(options, { name, ...(options.generate && { password }) }, () =>
        [`The password of ${name} is set, and its sessions have ended.`, ...passwordLine(options, password)].join('\n'),
      );
      return 0;
    },
    plain,
  );
}

export function runUsersRemoveFactor(options: BridgeCommandOptions, given: string): Promise<number> {
  return withBridge(
    options,
    async ({ database, clock, perform }) => {
      const name = accountName(given);
      await perform({ what: 'console.user.remove-factor', object: `user ${name}` }, () =>
        database.transaction((tx) => removeFactor(tx, name, clock)),
      );
      print(options, { name }, () => `${name} logs in without a code now, and its sessions have ended.`);
      return 0;
    },
    plain,
  );
}

export function runUsersSetRole(options: RoleOptions, given: string): Promise<number> {
  return withBridge(
    options,
    async (command) => {
      const name = accountName(given);
      const rights = rightsOf(command, options);
      await command.perform({ what: 'console.user.set-role', object: `user ${name}`, details: rights }, () =>
        setRole(command.database, name, rights, command.clock),
      );
      print(options, { name, ...rights }, () => `${name} is ${rights.role} now, and its sessions have ended.`);
      return 0;
    },
    plain,
  );
}

/** Throws an AppError `invalid` for a flow that is not configured. */
function rightsOf({ settings }: Pick<BridgeCommand, 'settings'>, { role, flows }: RoleOptions) {
  for (const flow of flows ?? []) findFlow(settings, flow);
  return { role, flows: flows ?? ('all' as const) };
}

function newPassword({ generate }: PasswordOptions, name: string): Promise<string> {
  return generate ? Promise.resolve(randomBytes(18).toString('base64url')) : readPassword(`New password of ${name}`);
}

function passwordLine({ generate }: PasswordOptions, password: string): string[] {
  return generate ? [`Password: ${password}`] : [];
}

function usersText(users: readonly ConsoleUser[]): string {
  return tableOf(
    ['name', 'role', 'flows', 'added', 'changed', 'last login', 'sessions'],
    users.map(({ name, role, flows, created, changed, lastLogin, sessions }) => [
      name,
      role,
      flows === 'all' ? 'all' : flows.join(', '),
      shortTime(created),
      shortTime(changed),
      shortTime(lastLogin),
      sessions,
    ]),
    'No accounts.',
  );
}
