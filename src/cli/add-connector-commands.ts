/** The subcommands of `connector`, as one table. They need no configuration and no database. */
import type { Command } from 'commander';
import { runConnectorList } from './commands/connector-list.ts';
import { runConnectorNew } from './commands/connector-new.ts';
import { runConnectorShow } from './commands/connector-show.ts';

export function addConnectorCommands(connector: Command): void {
  add(connector, 'list', 'list the connectors of this repository and what each can do', runConnectorList);
  add(
    connector,
    'show <name>',
    'show what a connector can do and its settings; <name> is a name, a path or a package',
    runConnectorShow,
  );
  add(
    connector,
    'new <name>',
    'make a new connector from the template; it runs and passes its tests',
    runConnectorNew,
  ).option('--in <folder>', "the folder in which the connector's folder is made (default: connectors)");
}

// Commander does not type the options, so each command declares the ones that it takes.
// oxlint-disable-next-line typescript/no-unnecessary-type-parameters
function add<Options extends { json?: boolean }>(
  parent: Command,
  usage: string,
  description: string,
  perform: (options: Options, name: string) => Promise<number>,
): Command {
  return parent
    .command(usage)
    .description(description)
    .option('--json', 'print one JSON value, for programs')
    .action(async (...given: unknown[]) => {
      const command = given.at(-1) as Command;
      process.exitCode = await perform(command.optsWithGlobals(), given[0] as string);
    });
}
