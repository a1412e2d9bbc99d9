/** The command line: `npm run -s cli -- <command>`. Exit codes: 0 done, 1 failed or different, 2 wrong usage or settings. */
import { Command, InvalidArgumentError, Option } from 'commander';
import { AppError } from '#platform/errors.ts';
import { runBridge } from './bridge.ts';
import { runDemo } from './demo.ts';
import { runService } from './service.ts';
import { runSimulate } from './simulate.ts';
import { runStart } from './start.ts';

function wholeNumber(least: number, most: number) {
  return (text: string): number => {
    const value = Number(text);
    if (!/^\d+$/.test(text) || value < least || value > most)
      throw new InvalidArgumentError(`It must be a whole number from ${least} to ${most}.`);
    return value;
  };
}

const count = wholeNumber(1, 1_000_000);
const config = () => new Option('--config <file>', 'the configuration (default: config/bridge.yaml)');
const data = () => new Option('--data <folder>', 'where everything is kept (default: ./data)');
const seed = () =>
  new Option('--seed <number>', 'the same seed gives the same story').argParser(wholeNumber(0, 2 ** 32)).default(7);

/** Runs a command and makes its result the exit code. */
function run<Options>(command: (options: Options) => Promise<number>) {
  return async (options: Options): Promise<void> => {
    process.exitCode = await command(options);
  };
}

const program = new Command('sourcing-bridge').description(
  'A sourcing service, and the bridge that keeps ERPs in step with it.',
);

program
  .command('start')
  .description('service and bridge together, set up for each other')
  .addOption(config())
  .addOption(data())
  .option('--demo', 'let the simulator produce activity (default when nothing is configured)')
  .option('--no-demo', 'do not')
  .action(run(runStart));
program
  .command('demo')
  .description('play a story once and compare the connector with the service')
  .addOption(config())
  .addOption(data())
  .addOption(new Option('--events <number>').argParser(count).default(8))
  .addOption(new Option('--suppliers <number>').argParser(count).default(6))
  .addOption(new Option('--lots <number>').argParser(count).default(12))
  .addOption(seed())
  .action(run(runDemo));
program
  .command('service')
  .description('the sourcing service alone')
  .addOption(config())
  .addOption(data())
  .option('--host <address>', 'where to listen')
  .addOption(new Option('--port <number>', '0 takes a free port').argParser(wholeNumber(0, 65_535)))
  .action(run(runService));
program.command('bridge').description('the bridge alone').addOption(config()).addOption(data()).action(run(runBridge));
program
  .command('simulate')
  .description('play buyers and suppliers against a running service (key in SOURCING_API_KEY)')
  .requiredOption('--base-url <url>', 'where the service answers')
  .addOption(new Option('--events <number>').argParser(count).default(10))
  .addOption(new Option('--suppliers <number>').argParser(count).default(6))
  .addOption(new Option('--lots <number>').argParser(count).default(10))
  .addOption(new Option('--speed <factor>', '1: a step each second').argParser(wholeNumber(1, 1_000_000)).default(10))
  .addOption(seed())
  .action(run(runSimulate));

try {
  await program.parseAsync();
} catch (error) {
  // Our own errors say what to do; for all others the place helps more than the text.
  const known = error instanceof AppError;
  console.error(known ? error.publicMessage : error);
  process.exitCode = known && error.code === 'invalid' ? 2 : 1;
}
