/** The subcommands of `connector`, as one table. They need no configuration and no database. */
import type { Command } from 'commander';
import { configOption, dataOption, whenCalled } from './command-options.ts';

const runConnectorList = whenCalled(async () => (await import('./commands/connector-list.ts')).runConnectorList);
const runConnectorNew = whenCalled(async () => (await import('./commands/connector-new.ts')).runConnectorNew);
const runConnectorShow = whenCalled(async () => (await import('./commands/connector-show.ts')).runConnectorShow);
const runConnectorVerify = whenCalled(async () => (await import('./commands/connector-verify.ts')).runConnectorVerify);

export function addConnectorCommands(connector: Command): void {
  add(connector, 'list', 'list the connectors of this program and what each can do', runConnectorList);
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
  ).option(
    '--in <folder>',
    "the folder in which the connector's folder is made (default: connectors of the repository, else the working directory)",
  );
  add(
    connector,
    'verify <name>',
    'try a connector on your own test system, with the settings of a flow; it removes what it has made',
    runConnectorVerify,
  )
    .addOption(configOption())
    .addOption(dataOption())
    .option('--flow <name>', 'the flow whose settings are used (default: the only one with the connector)')
    .option('--kinds <kinds>', 'kinds of documents, separated by commas (default: all of the flow but suppliers)')
    .option('--sample <file>', 'YAML with what your system has: supplier, currency, fields, line_fields')
    .option('--test-system', 'confirms that it is a test system: documents are written (default: nothing is)');
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
