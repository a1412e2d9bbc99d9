/** Options that several commands have, and how a command's result becomes the exit code. */
import { type Command, InvalidArgumentError, Option } from 'commander';
import type { BridgeCommandOptions } from './bridge-command.ts';

export function wholeNumber(least: number, most: number) {
  return (text: string): number => {
    const value = Number(text);
    if (!/^\d+$/.test(text) || value < least || value > most)
      throw new InvalidArgumentError(`It must be a whole number from ${least} to ${most}.`);
    return value;
  };
}

export const countOption = (flags: string, what: string, number: number) =>
  new Option(flags, what).argParser(wholeNumber(1, 1_000_000)).default(number);
export const configOption = () =>
  new Option('--config <file>', 'the configuration (default: config/bridge.yaml, if it exists)');
export const dataOption = () => new Option('--data <folder>', 'where everything is kept (default: ./data)');

/** Runs a command without arguments and makes its result the exit code. */
export function run<Options>(command: (options: Options) => Promise<number>) {
  return async (options: Options): Promise<void> => {
    process.exitCode = await command(options);
  };
}

/**
 * Adds a subcommand of `bridge` with the options that each of them has: `--config`, `--data`, `--json`. `usage` is its
 * name with its arguments: `pause <flow>`. `perform` gets the arguments and the options, also those that stand before
 * the subcommand's name; what it gives is the exit code. `isDefault`: it is what `parent` does when no other is named.
 */
// Commander does not know what options there are: each command says what it takes.
// oxlint-disable-next-line typescript/no-unnecessary-type-parameters
export function addBridgeSubcommand<Options extends BridgeCommandOptions>(
  parent: Command,
  usage: string,
  description: string,
  perform: (options: Options, ...words: string[]) => Promise<number>,
  { isDefault = false }: { isDefault?: boolean } = {},
): Command {
  return parent
    .command(usage, { isDefault })
    .description(description)
    .addOption(configOption())
    .addOption(dataOption())
    .option('--json', 'print one JSON value, for programs')
    .action(async (...given: unknown[]) => {
      const command = given.at(-1) as Command;
      // An optional argument that was left out is undefined.
      const words = given.slice(0, -2).map((word) => word as string);
      process.exitCode = await perform(command.optsWithGlobals(), ...words);
    });
}
