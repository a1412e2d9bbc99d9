/**
 * The command line: the name and the options of each command. The module of a program is loaded when it is started: a
 * command that needs neither of them begins in half of the time.
 */

import { Argument, Command, CommanderError, Option } from 'commander';
import { bridgeRoles } from '#bridge/settings/bridge-deps.ts';
import { AppError, hasErrorCode } from '#platform/errors.ts';
import { commandLine } from '#platform/own-package.ts';
import { type ApiName, apiNames } from '#service/openapi/api-names.ts';
import { profileNames } from '#service/profile/profile.ts';
import { addActionFilters, addBridgeCommands } from './add-bridge-commands.ts';
import { addConnectorCommands } from './add-connector-commands.ts';
import { addConsoleCommands } from './add-console-commands.ts';
import { addBridgeSubcommand, configOption, countOption, dataOption, run, wholeNumber } from './command-options.ts';
import type { AuditLogOptions } from './commands/audit-log.ts';
import type { BridgeOptions } from './commands/bridge.ts';
import type { DemoOptions } from './commands/demo.ts';
import type { InitOptions } from './commands/init.ts';
import type { MigratedProgram } from './commands/migrate.ts';
import type { ErasePersonOptions } from './commands/person-data.ts';
import type { ServiceOptions } from './commands/service.ts';
import type { SimulateOptions } from './commands/simulate.ts';
import type { StartOptions } from './commands/start.ts';
import type { VerifyReportOptions } from './commands/verify-report.ts';
import { printable } from './output.ts';

const profile = () =>
  new Option('--profile <name>', 'how the service speaks: spec, as documented here, or public, as public pages say')
    .choices(profileNames)
    .default('spec');
const seed = () =>
  new Option('--seed <number>', 'the same seed plays the same story').argParser(wholeNumber(0, 2 ** 32)).default(7);

/**
 * Runs one command line and sets `process.exitCode`: 0 done, 1 failed or different, 2 wrong usage or settings. Never
 * rejects: it prints what went wrong on standard error.
 */
export async function runProgram(args: readonly string[]): Promise<void> {
  try {
    await createProgram().parseAsync(args, { from: 'user' });
  } catch (error) {
    process.exitCode = report(error);
  }
}

/** The commands and their options; the pages of `docs/reference` are made of them, too. */
export function createProgram(): Command {
  const program = new Command('sourcing-bridge')
    .description('A sourcing service, and the bridge that keeps ERPs in step with it.')
    .addHelpText('after', '\nThe options of a command: sourcing-bridge <command> --help')
    // `bridge --role pull` is an option of the daemon, not of `bridge status`.
    .enablePositionalOptions()
    .exitOverride();

  program
    .command('start')
    .description('run service and bridge together, set up for each other')
    .addOption(configOption())
    .addOption(dataOption())
    .option('--demo', 'let the simulator play buyers and suppliers (default when no source and no flow is configured)')
    .option('--no-demo', 'run without the simulator')
    .addOption(profile())
    .action(run(async (options: StartOptions) => (await import('./commands/start.ts')).runStart(options)));
  program
    .command('init')
    .description('write bridge.yaml and .env for one source, one ERP and one flow, check them, and say what is next')
    .option('--source <url>', 'the URL of the sourcing service; "local" is the one that start runs')
    .option('--connector <name>', 'the connector to the ERP')
    .option('--dir <folder>', 'where the files are written', '.')
    .action(run(async (options: InitOptions) => (await import('./commands/init.ts')).runInit(options)));
  program
    .command('demo')
    .description('play a story once and compare what the connector holds with what the service awarded')
    .addOption(configOption())
    .addOption(dataOption())
    .addOption(countOption('--events <number>', 'how many sourcing events are played', 8))
    .addOption(countOption('--suppliers <number>', 'how many suppliers take part', 6))
    .addOption(countOption('--lots <number>', 'how many lots an event has', 12))
    .addOption(seed())
    .addOption(profile())
    .option(
      '--loop',
      'instead: let an ERP and the service both edit suppliers, and the ERP raise requisitions, to the order; compare both',
    )
    .action(run(async (options: DemoOptions) => (await import('./commands/demo.ts')).runDemo(options)));
  program
    .command('service')
    .description('run the sourcing service alone')
    .addOption(configOption())
    .addOption(dataOption())
    .option('--host <address>', 'where to listen (default: service.host, else 127.0.0.1)')
    .addOption(
      new Option('--port <number>', '0 takes a free port (default: service.port, else 8080)').argParser(
        wholeNumber(0, 65_535),
      ),
    )
    .addOption(profile())
    .option(
      '--misbehave <quirks>',
      'let feeds and webhooks misbehave, to test a client: names with commas between them, or "random"',
    )
    .addOption(
      new Option('--misbehave-seed <number>', 'the same seed, changes and requests lead to the same answers')
        .argParser(wholeNumber(0, 2 ** 32))
        .default(7),
    )
    .action(run(async (options: ServiceOptions) => (await import('./commands/service.ts')).runService(options)));
  const bridge = program
    .command('bridge')
    .description('run the bridge alone, or one of its commands beside a running bridge')
    .addOption(configOption())
    .addOption(dataOption())
    .addOption(
      new Option('--role <role>', 'what this process does; any number of processes may have the same role')
        .choices(bridgeRoles)
        .default('all'),
    )
    .showHelpAfterError(`The commands and options: ${commandLine} bridge --help`)
    // Else a mistyped subcommand would be called one argument too many, without a suggestion.
    .allowExcessArguments()
    .action(async (options: BridgeOptions, command: Command) => {
      if (command.args.length > 0) refuseSubcommand(command);
      process.exitCode = await (await import('./commands/bridge.ts')).runBridge(options);
    });
  addBridgeCommands(bridge);
  addConsoleCommands(
    program
      .command('console')
      .description('who may log in to the console, which shows in a browser what the bridge is doing')
      .showHelpAfterError(`The commands: ${commandLine} console --help`),
  );
  addConnectorCommands(
    program
      .command('connector')
      .description('list connectors, show one, or make a new one; a connector writes to an ERP')
      .showHelpAfterError(`The commands: ${commandLine} connector --help`),
  );
  program
    .command('migrate')
    .description('bring the tables of a program up to date, under the database role that owns them')
    .addArgument(new Argument('<program>', 'whose tables').choices(['service', 'bridge'] satisfies MigratedProgram[]))
    .addOption(configOption())
    .action(async (name: MigratedProgram, options: { config?: string }) => {
      const { runMigrate } = await import('./commands/migrate.ts');
      process.exitCode = await runMigrate(name, options);
    });
  program
    .command('certificate')
    .description('write a certificate of the local authority where bridge.tls says, so that receivers lack its key')
    .addOption(configOption())
    .addOption(dataOption())
    .action(
      run(async (options: { config?: string; data?: string }) =>
        (await import('./commands/certificate.ts')).runCertificate(options),
      ),
    );
  program
    .command('verify-report <file>')
    .description('check a report that bridge reconcile --out has written, with its signature <file>.sig')
    .option('--key <file>', 'the public key that must have signed it, in PEM')
    .action(async (file: string, options: VerifyReportOptions) => {
      process.exitCode = await (await import('./commands/verify-report.ts')).runVerifyReport(file, options);
    });
  addBridgeSubcommand(
    program,
    'backup <folder>',
    'copy the embedded database, the files and the keys into a new folder; the programs may run',
    async (options, folder) => (await import('./commands/backup.ts')).runBackup(options, folder ?? ''),
  );
  addBridgeSubcommand(
    program,
    'restore <folder>',
    'make a data folder from a backup; the bridge then looks up each document in its ERP before it writes it',
    async (options, folder) => (await import('./commands/restore.ts')).runRestore(options, folder ?? ''),
  );
  addActionFilters(
    addBridgeSubcommand<AuditLogOptions>(
      program,
      'audit-log',
      'who did what in the service and the bridge, from where, and what was refused',
      async (options) => (await import('./commands/audit-log.ts')).runAuditLog(options),
    ),
  )
    .addOption(new Option('--program <program>', 'the log of this program alone').choices(['service', 'bridge']))
    .option('--jsonl', 'print every entry that matches, one JSON object a line')
    .option('--verify', 'verify the chain of hashes, and say where somebody changed the log');
  addBridgeSubcommand(
    program.command('export').description("export a person's data"),
    'person <email>',
    'print every row of service and bridge that names this e-mail address, one JSON object a line',
    async (options, email) => (await import('./commands/person-data.ts')).runExportPerson(options, email ?? ''),
  );
  const erase = program
    .command('erase')
    .description('delete the data of a person, an organisation or a source, for good');
  addBridgeSubcommand<ErasePersonOptions>(
    erase,
    'person <email>',
    'remove this e-mail address from service and bridge: contacts, users of keys, texts, feeds',
    async (options, email) => (await import('./commands/person-data.ts')).runErasePerson(options, email ?? ''),
  ).option('--yes', 'do not ask');
  addBridgeSubcommand<ErasePersonOptions>(
    erase,
    'organisation <id>',
    'delete an organisation from the service: its keys, suppliers, events, files, webhooks',
    async (options, id) => (await import('./commands/erase-organisation.ts')).runEraseOrganisation(options, id ?? ''),
  ).option('--yes', 'do not ask');
  addBridgeSubcommand<ErasePersonOptions>(
    erase,
    'source <name>',
    'delete what the bridge stores of a source that is no longer configured',
    async (options, name) => (await import('./commands/erase-organisation.ts')).runEraseSource(options, name ?? ''),
  ).option('--yes', 'do not ask');
  const secrets = program.command('secrets').description('the secrets in the database, sealed by the master key');
  addBridgeSubcommand(secrets, 'rotate', 'seal them under the new master key', async (options) =>
    (await import('./commands/secrets-rotate.ts')).runSecretsRotate(options),
  );
  program
    .command('simulate')
    .description(
      'play buyers and suppliers against a running service (API key in SOURCING_API_KEY, else in a new organisation)',
    )
    .requiredOption('--base-url <url>', 'the URL of the service')
    .addOption(countOption('--events <number>', 'how many sourcing events are played', 10))
    .addOption(countOption('--suppliers <number>', 'how many suppliers take part', 6))
    .addOption(countOption('--lots <number>', 'how many lots an event has', 10))
    .addOption(countOption('--speed <factor>', 'steps per second', 10))
    .addOption(seed())
    .action(run(async (options: SimulateOptions) => (await import('./commands/simulate.ts')).runSimulate(options)));
  program
    .command('config-schema')
    .description('print the JSON Schema of the configuration, for editors')
    .action(run(async () => (await import('./commands/config-schema.ts')).runConfigSchema()));
  program
    .command('openapi')
    .description('print the OpenAPI document of the service')
    .addOption(new Option('--api <name>', 'which of its APIs').choices(apiNames).default('public'))
    .action(run(async (options: { api: ApiName }) => (await import('./commands/openapi.ts')).runOpenApi(options)));
  return program;
}

/** Ends as commander does for a wrong subcommand, with its suggestion; its types lack this function. */
function refuseSubcommand(command: Command): never {
  return (command as Command & { unknownCommand(): never }).unknownCommand();
}

/**
 * An operator may see what callers of the API may not, such as the database and its answer. It never holds a secret.
 */
function fullText({ publicMessage, message }: AppError): string {
  if (message.startsWith(publicMessage)) return message;
  return `${publicMessage}\n${message}`;
}

const portSettings = 'service.port or --port, bridge.port, bridge.console_port; 0 takes a free one';

/**
 * Prints what went wrong and returns the exit code. An AppError says itself what to do; for every other error the stack
 * is printed.
 */
function report(error: unknown): number {
  // Commander has printed its own error already, and its help is no error.
  if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2;
  const known = error instanceof AppError;
  if (known && hasErrorCode(error.cause, 'EADDRINUSE')) {
    console.error(fullText(error).replace(/\.$/, ` (${portSettings}).`));
    return 2;
  }
  console.error(known ? printable(fullText(error)) : error);
  return known && error.code === 'invalid' ? 2 : 1;
}
