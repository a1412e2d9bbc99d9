/** The subcommands of `connector`, as one table. They need no configuration and no database. */
import type { Command } from 'commander';
import { runConnectorList } from './commands/connector-list.ts';
import { runConnectorNew } from './commands/connector-new.ts';
import { runConnectorShow } from './commands/connector-show.ts';

export function addConnectorCommands(connector: Command): void {
  add(connector, 'list', 'the connectors of this repository, and what each can do', runConnectorList);
  add(connector, 'show <name>', 'what one can do, and its settings: a name, a path or a package', runConnectorShow);
  add(connector, 'new <name>', 'make one out of the template: it runs, and passes its tests', runConnectorNew).option(
    '--in <folder>',
    'the folder in which its own is made (default: connectors)',
  );
}

// Commander does not know what options there are: each command says what it takes.
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
