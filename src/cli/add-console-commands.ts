/** The subcommands of `console`, as one table. */
import { type Command, Option } from 'commander';
import { viewerRoles } from '#console/access/viewer.ts';
import { addBridgeSubcommand, whenCalled } from './command-options.ts';
import type { LinkOptions } from './commands/console-link.ts';
import type { PasswordOptions, RoleOptions } from './commands/console-users.ts';

const runConsoleLink = whenCalled(async () => (await import('./commands/console-link.ts')).runConsoleLink);
const runUsersAdd = whenCalled(async () => (await import('./commands/console-users.ts')).runUsersAdd);
const runUsersList = whenCalled(async () => (await import('./commands/console-users.ts')).runUsersList);
const runUsersRemove = whenCalled(async () => (await import('./commands/console-users.ts')).runUsersRemove);
const runUsersSetPassword = whenCalled(async () => (await import('./commands/console-users.ts')).runUsersSetPassword);
const runUsersSetRole = whenCalled(async () => (await import('./commands/console-users.ts')).runUsersSetRole);

const runUsersRemoveFactor = whenCalled(async () => (await import('./commands/console-users.ts')).runUsersRemoveFactor);

const role = () => new Option('--role <role>', 'what the person may see and do').choices(viewerRoles);
const flows = () => new Option('--flows <flow...>', 'the flows that are seen and operated (default: all)');
const generate = () => new Option('--generate', 'make a password and print it, instead of asking for one');

/** Adds every subcommand to `console`. */
export function addConsoleCommands(console: Command): void {
  addBridgeSubcommand<LinkOptions>(
    console,
    'link',
    'print a link that logs in once, where the console listens on this machine alone',
    runConsoleLink,
  )
    .addOption(role().default('operator'))
    .addOption(flows());
  const users = console.command('users').description('the accounts with which people log in to the console');
  addBridgeSubcommand<RoleOptions & PasswordOptions>(users, 'add <name>', 'add an account', runUsersAdd)
    .addOption(role().default('viewer'))
    .addOption(flows())
    .addOption(generate());
  addBridgeSubcommand(users, 'list', 'list the accounts', runUsersList);
  addBridgeSubcommand(users, 'remove <name>', 'remove an account, and end its sessions', runUsersRemove).option(
    '--yes',
    'do not ask',
  );
  addBridgeSubcommand<PasswordOptions>(
    users,
    'set-password <name>',
    'replace the password of an account, and end its sessions',
    runUsersSetPassword,
  ).addOption(generate());
  addBridgeSubcommand(
    users,
    'remove-factor <name>',
    'remove the second factor of an account whose owner has lost it, and end its sessions',
    runUsersRemoveFactor,
  );
  addBridgeSubcommand<RoleOptions>(
    users,
    'set-role <name>',
    'replace the role and the flows of an account, and end its sessions',
    runUsersSetRole,
  )
    .addOption(role().makeOptionMandatory())
    .addOption(flows());
}
