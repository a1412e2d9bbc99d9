/** The command line: `npm run -s cli -- <command>`. Exit codes: 0 done, 1 failed or different, 2 wrong usage or settings. */
import { Command, CommanderError, InvalidArgumentError, Option } from 'commander';
import { AppError, hasErrorCode } from '#platform/errors.ts';
import { apiNames } from '#service/openapi/api-documents.ts';
import { runBridge } from './commands/bridge.ts';
import { runConfigSchema } from './commands/config-schema.ts';
import { runDemo } from './commands/demo.ts';
import { runOpenApi } from './commands/openapi.ts';
import { runService } from './commands/service.ts';
import { runSimulate } from './commands/simulate.ts';
import { runStart } from './commands/start.ts';

function wholeNumber(least: number, most: number) {
  return (text: string): number => {
    const value = Number(text);
    if (!/^\d+$/.test(text) || value < least || value > most)
      throw new InvalidArgumentError(`It must be a whole number from ${least} to ${most}.`);
    return value;
  };
}

const count = (flags: string, what: string, number: number) =>
  new Option(flags, what).argParser(wholeNumber(1, 1_000_000)).default(number);
const config = () => new Option('--config <file>', 'the configuration (default: config/bridge.yaml, if it exists)');
const data = () => new Option('--data <folder>', 'where everything is kept (default: ./data)');
const seed = () =>
  new Option('--seed <number>', 'the same seed gives the same story').argParser(wholeNumber(0, 2 ** 32)).default(7);

/** Runs a command and makes its result the exit code. */
function run<Options>(command: (options: Options) => Promise<number>) {
  return async (options: Options): Promise<void> => {
    process.exitCode = await command(options);
  };
}

const program = new Command('sourcing-bridge')
  .description('A sourcing service, and the bridge that keeps ERPs in step with it.')
  .addHelpText('after', '\nThe options of a command: sourcing-bridge <command> --help')
  .exitOverride();

program
  .command('start')
  .description('service and bridge together, set up for each other')
  .addOption(config())
  .addOption(data())
  .option('--demo', 'let the simulator buy and sell (default when no source and no flow is configured)')
  .option('--no-demo', 'leave the simulator out')
  .action(run(runStart));
program
  .command('demo')
  .description('play a story once and compare what the connector holds with what the service awarded')
  .addOption(config())
  .addOption(data())
  .addOption(count('--events <number>', 'how many sourcing events are played', 8))
  .addOption(count('--suppliers <number>', 'how many suppliers take part', 6))
  .addOption(count('--lots <number>', 'how many lots an event has', 12))
  .addOption(seed())
  .action(run(runDemo));
program
  .command('service')
  .description('the sourcing service alone')
  .addOption(config())
  .addOption(data())
  .option('--host <address>', 'where to listen (default: service.host, else 127.0.0.1)')
  .addOption(
    new Option('--port <number>', '0 takes a free port (default: service.port, else 8080)').argParser(
      wholeNumber(0, 65_535),
    ),
  )
  .action(run(runService));
program.command('bridge').description('the bridge alone').addOption(config()).addOption(data()).action(run(runBridge));
program
  .command('simulate')
  .description(
    'play buyers and suppliers against a running service (API key in SOURCING_API_KEY, else in a new organisation)',
  )
  .requiredOption('--base-url <url>', 'where the service answers')
  .addOption(count('--events <number>', 'how many sourcing events are played', 10))
  .addOption(count('--suppliers <number>', 'how many suppliers take part', 6))
  .addOption(count('--lots <number>', 'how many lots an event has', 10))
  .addOption(count('--speed <factor>', '1: a step each second', 10))
  .addOption(seed())
  .action(run(runSimulate));
program
  .command('config-schema')
  .description('print the JSON Schema of the configuration, for editors')
  .action(run(runConfigSchema));
program
  .command('openapi')
  .description('print the OpenAPI document of the service')
  .addOption(new Option('--api <name>', 'which of its APIs').choices(apiNames).default('public'))
  .action(run(runOpenApi));

const portHint = `The ports: service.port (or --port), bridge.port and bridge.console_port, in config/bridge.yaml or as a variable:
SOURCING__SERVICE__PORT, SOURCING__BRIDGE__PORT and SOURCING__BRIDGE__CONSOLE_PORT. 0 takes a free one.`;

// Who reads our output may be gone before us (a closed terminal, a pipe into head): that must not break an orderly stop.
for (const stream of [process.stdout, process.stderr]) stream.on('error', () => undefined);

try {
  await program.parseAsync();
} catch (error) {
  process.exitCode = report(error);
}

/** Says what went wrong, and gives the exit code. Our own errors say what to do; for all others the place helps more. */
function report(error: unknown): number {
  // Commander has printed its own already, and its help is no error.
  if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2;
  const known = error instanceof AppError;
  console.error(known ? error.publicMessage : error);
  if (known && hasErrorCode(error.cause, 'EADDRINUSE')) console.error(portHint);
  return known && error.code === 'invalid' ? 2 : 1;
}
