/** Options of several commands, and the exit code from a command's result. */
import { type Command, InvalidArgumentError, Option } from 'commander';
import type { BridgeCommandOptions } from './bridge-command.ts';

/** Parses an option's whole number; throws commander's InvalidArgumentError for anything else. */
export function wholeNumber(min: number, max: number) {
  return (text: string): number => {
    const value = Number(text);
    if (!/^\d+$/.test(text) || value < min || value > max)
      throw new InvalidArgumentError(`It must be a whole number from ${min} to ${max}.`);
    return value;
  };
}

export const countOption = (flags: string, what: string, number: number) =>
  new Option(flags, what).argParser(wholeNumber(1, 1_000_000)).default(number);
export const configOption = () =>
  new Option('--config <file>', 'the configuration file (default: bridge.yaml or config/bridge.yaml, if it exists)');
export const dataOption = () => new Option('--data <folder>', 'the data folder (default: ./data)');

/** Runs a command without arguments and makes its result the exit code. */
export function run<Options>(command: (options: Options) => Promise<number>) {
  return async (options: Options): Promise<void> => {
    process.exitCode = await command(options);
  };
}

/**
 * A command whose module is loaded when it is called: a program that runs for months does not hold those of the others,
 * and a command begins sooner.
 */
export function whenCalled<Given extends unknown[]>(
  load: () => Promise<(...given: Given) => Promise<number>>,
): (...given: Given) => Promise<number> {
  return async (...given) => (await load())(...given);
}

/**
 * Adds a subcommand of `bridge` with the options that each of them has: `--config`, `--data`, `--json`. `usage` is its
 * name with its arguments: `pause <flow>`. `perform` gets the arguments and the options, also those before the
 * subcommand's name, and returns the exit code.
 */
// Commander does not type the options, so each command declares the ones that it takes.
// oxlint-disable-next-line typescript/no-unnecessary-type-parameters
export function addBridgeSubcommand<Options extends BridgeCommandOptions>(
  parent: Command,
  usage: string,
  description: string,
  perform: (options: Options, ...args: string[]) => Promise<number>,
): Command {
  return parent
    .command(usage)
    .description(description)
    .addOption(configOption())
    .addOption(dataOption())
    .option('--json', 'print one JSON value, for programs')
    .action(async (...given: unknown[]) => {
      const command = given.at(-1) as Command;
      // An optional argument that was left out is undefined.
      const args = given.slice(0, -2).map((arg) => arg as string);
      process.exitCode = await perform(command.optsWithGlobals(), ...args);
    });
}
