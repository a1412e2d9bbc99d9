/**
 * The pages of docs/reference are made of the code: settings of their schema, commands of the command line, metrics of
 * running programs, conditions and errors of their tables and classes. `npm run docs:reference` renews them.
 */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Command } from 'commander';
import { expect, test } from 'vitest';
import { z } from 'zod';
import { mappingRule } from '#bridge/documents/mapping-rule.ts';
import { conditionMeanings } from '#bridge/operate/status/conditions.ts';
import { variables } from '#cli/configuration.ts';
import { createProgram } from '#cli/program.ts';
import { problemAnswers } from '#platform/http/problem.ts';
import { createRegistry, type Registry } from '#platform/metrics.ts';
import { startTestBridge } from '../harness/test-bridge.ts';
import { startTestService } from '../harness/test-service.ts';

const root = join(import.meta.dirname, '../..');
const folder = join(root, 'docs/reference');
const read = (path: string) => readFileSync(join(root, path), 'utf8');
const cell = (text: string) => text.replaceAll(/\s+/g, ' ').replaceAll('|', '\\|').replaceAll('<', '&lt;').trim();
const row = (cells: readonly string[]) => `| ${cells.join(' | ')} |`;
const table = (head: readonly string[], rows: readonly (readonly string[])[]) =>
  [row(head), `|${'---|'.repeat(head.length)}`, ...rows.map(row)].join('\n');

interface Schema {
  readonly title?: string;
  readonly type?: string;
  readonly description?: string;
  readonly default?: unknown;
  readonly enum?: readonly string[];
  readonly const?: unknown;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly items?: Schema;
  readonly anyOf?: readonly Schema[];
  readonly oneOf?: readonly Schema[];
  readonly additionalProperties?: boolean | Schema;
  readonly minimum?: number;
  readonly maximum?: number;
}

/** What may stand there, in a few words. */
function formOf({ title, type, enum: values, const: only, minimum, maximum, items }: Schema): string {
  if (title === 'rule') return 'path or [rule](settings-flows.md#rules)';
  if (values) return values.map((value) => `\`${value}\``).join(', ');
  if (only !== undefined) return `\`${JSON.stringify(only)}\``;
  if (type === 'array') return `list${items?.type && items.type !== 'object' ? ` of ${items.type}` : ''}`;
  const bounds = [minimum, maximum].map((bound) =>
    bound === undefined || Math.abs(bound) > 1e15 ? '' : String(bound),
  );
  return `${type ?? ''}${bounds.join('') === '' ? '' : ` ${bounds.join('–')}`}`;
}

/** A row for each setting, with form and default in one cell; the path names lists by `[]`. Of alternatives each setting stands once, and rules on their own. */
function settingsOf(schema: Schema, path = ''): string[][] {
  const rows = new Map<string, string[]>();
  const add = (more: string[][]) => {
    for (const each of more) if (!rows.has(each[0] ?? '')) rows.set(each[0] ?? '', each);
  };
  for (const alternative of [...(schema.anyOf ?? []), ...(schema.oneOf ?? [])]) add(settingsOf(alternative, path));
  for (const [name, setting] of Object.entries(schema.properties ?? {})) {
    const at = path === '' ? name : `${path}.${name}`;
    const isOfRules = setting.title === 'rule' || setting.items?.title === 'rule';
    const inner = isOfRules
      ? []
      : [...settingsOf(setting, at), ...(setting.items ? settingsOf(setting.items, `${at}[]`) : [])];
    const simple =
      setting.default !== undefined &&
      JSON.stringify(setting.default).length < 60 &&
      JSON.stringify(setting.default) !== '{}';
    const described = setting.description ?? setting.items?.description ?? '';
    if (inner.length === 0 || described !== '')
      add([
        [
          `\`${at}\``,
          [
            inner.length > 0 && setting.type === 'object' ? '' : formOf(setting),
            simple ? `default \`${JSON.stringify(setting.default)}\`` : '',
          ]
            .filter((text) => text !== '')
            .join(', '),
          cell(described),
        ],
      ]);
    add(inner);
  }
  return [...rows.values()];
}

/** Options of nearly every command: the page says so once. */
const common = ['--config', '--data', '--json'];

/** Its own options and those of its subcommands, under the heading of the noun. */
function commandText(command: Command, path: string[]): string[] {
  const name = [...path, command.name()];
  const values = command.registeredArguments.map((each) => {
    const text = `${each.name()}${each.variadic ? '...' : ''}`;
    return each.required ? `<${text}>` : `[${text}]`;
  });
  const options = command.options
    .filter(({ long }) => !common.includes(long ?? ''))
    .map((option) => [
      `\`${option.flags}\``,
      cell(option.description) +
        (option.argChoices ? `: ${option.argChoices.map((choice) => `\`${choice}\``).join(', ')}` : '') +
        (option.defaultValue === undefined ? '' : `; default \`${JSON.stringify(option.defaultValue)}\``),
    ]);
  return [
    `\`${[...name, ...values].join(' ')}\`: ${cell(command.description())}.\n`,
    ...(options.length > 0 ? [`${table(['Option', 'What it does'], options)}\n`] : []),
    ...subcommands(command).flatMap((each) => commandText(each, name)),
  ];
}

const subcommands = (command: Command) => command.commands.filter((each) => each.name() !== 'help');

/** A heading for each command, or noun, and the text below it. `bridge` has its own page for its subcommands. */
function headingsOf(commands: readonly Command[], path: string[]): string[] {
  return commands.flatMap((command) => [
    `## ${[...path, command.name()].join(' ')}\n`,
    ...(command.name() === 'bridge' ? commandText(command, path).slice(0, 2) : commandText(command, path)),
  ]);
}

interface RegisteredMetric {
  readonly name: string;
  readonly help: string;
  readonly labelNames: readonly string[];
}
const ofNode = new Set(
  createRegistry()
    .getMetricsAsArray()
    .map(({ name }) => name),
);
const metricsOf = (registries: readonly Registry[]) => {
  const all = registries.flatMap((registry) => registry.getMetricsAsArray() as unknown as RegisteredMetric[]);
  return [...new Map(all.filter(({ name }) => !ofNode.has(name)).map((metric) => [metric.name, metric])).values()]
    .toSorted((a, b) => a.name.localeCompare(b.name))
    .map(({ name, help, labelNames }) => [`\`${name}\``, labelNames.join(', '), cell(help)]);
};

/** The classes that a connector may throw, with the first sentence of their comments. */
const connectorErrors = [
  ...read('src/connector/errors.ts').matchAll(
    /\/\*\*((?:(?!\*\/)[\s\S])*)\*\/\nexport class (\w+) extends ConnectorError \{\n\s+override readonly type = '([\w-]+)'/g,
  ),
].map(([, comment = '', name = '', type = '']) => [
  `\`${name}\``,
  `\`${type}\``,
  cell(comment.replaceAll(/^\s*\* ?/gm, '')),
]);

/** The pages by their names; each is what somebody looks up at one time, and fits a phone. */
async function pagesOfCode(): Promise<Record<string, string>> {
  const bridge = await startTestBridge({
    sources: [{ name: 'main', base_url: 'http://127.0.0.1:1', api_key: 'k' }],
    flows: [{ name: 'inbox', source: 'main', connector: 'file', settings: { directory: 'inbox' } }],
  });
  const service = await startTestService();
  const settings = settingsOf(JSON.parse(read('config/bridge.schema.json')) as Schema);
  const of = (pattern: RegExp) => settings.filter(([path = '']) => pattern.test(path));
  const settingsTable = (rows: readonly (readonly string[])[]) => table(['Setting', 'Form', 'What it does'], rows);
  /** The settings below `prefix`, which the heading names once. */
  const section = (prefix: string, rows = settings) => {
    const below = rows.filter(([path = '']) => path.startsWith(`\`${prefix}`));
    return `## ${prefix}\n\n${settingsTable(below.map(([path = '', ...rest]) => [`\`${path.slice(prefix.length + 2)}`, ...rest]))}`;
  };
  const program = createProgram();
  const bridgeCommand = program.commands.find((each) => each.name() === 'bridge');
  const ofBridge = subcommands(bridgeCommand as Command);
  const looks = ofBridge.filter((each) => each.helpGroup() === 'Look:');
  const changes = ofBridge.filter((each) => each.helpGroup() !== 'Look:');
  const metrics = metricsOf([bridge.registry, service.registry]);
  const statuses = Object.entries(problemAnswers)
    .toSorted(([, a], [, b]) => a.status - b.status)
    .map(([code, { status, title }]) => [String(status), title, `\`${code}\``]);
  return {
    'settings.md': `# Settings: both programs, and the service

[config/bridge.yaml](../../config/bridge.yaml) explains every setting, with examples. \`[]\` is each entry of a list.

${settingsTable(of(/^`(?!bridge|service\.)/))}

${section('service')}

## Variables of the environment

| Variable | Setting |
|---|---|
${Object.entries(variables)
  .map(([variable, setting]) => `| \`${variable}\` | \`${setting}\` |`)
  .join('\n')}

\`SOURCING__\` and the path in capitals sets any other: \`SOURCING__SERVICE__PORT=8090\`.
`,
    'settings-bridge.md': `# Settings: the bridge, sources

${section('bridge', of(/^`bridge\.(?!(sources|flows|intakes)\[\])/))}

${section('bridge.sources[]')}
`,
    'settings-flows.md': `# Settings: flows, intakes

The connector explains its own \`settings\`: \`npx sourcing-bridge connector show <name>\`.

${section('bridge.flows[]')}

${section('bridge.intakes[]')}

## Rules

A rule is a path alone, or an object with these members. [documents.md](../documents.md) explains them.

${settingsTable(settingsOf(z.toJSONSchema(mappingRule, { io: 'input' }) as Schema))}
`,
    'commands.md': `# Commands

Each begins with \`npx sourcing-bridge\`; in the repository with \`npm run -s cli --\`. Most take \`--config <file>\` (default:
\`bridge.yaml\`, else \`config/bridge.yaml\`), \`--data <folder>\` (default: \`./data\`) and \`--json\`, which prints one JSON value.
Exit codes: 0 done and well, 1 failed or needs a person, 2 wrong usage or settings. Of the bridge: [look](commands-look.md), [change](commands-bridge.md).

${headingsOf(subcommands(program), []).join('\n')}`,
    'commands-look.md': `# Commands of the bridge: look

They work beside a running bridge. [Common options and exit codes](commands.md); [what changes something](commands-bridge.md).

${headingsOf(looks, ['bridge']).join('\n')}`,
    'commands-bridge.md': `# Commands of the bridge: change

They work beside a running bridge. [Common options and exit codes](commands.md); [what only looks](commands-look.md).

${headingsOf(changes, ['bridge']).join('\n')}`,
    'metrics.md': `# Metrics

Each process also has Node's own (\`process_…\`, \`nodejs_…\`). [How to read them](../watch.md#metrics).

${table(['Metric', 'Labels', 'What it counts'], metrics)}
`,
    'conditions.md': `# Conditions

What needs a person now: \`bridge status\`, \`bridge doctor\`, the console, \`bridge_conditions\` and
[alerts](../operations.md#alerts) show the same list. Each has a sentence that says what to do.

${table(
  ['Kind', 'When'],
  Object.entries(conditionMeanings).map(([kind, meaning]) => [`\`${kind}\``, cell(meaning)]),
)}
`,
    'errors.md': `# Errors

## Answers of the API

The body is a problem (RFC 9457): \`title\`, \`status\`, and \`detail\`, which says what was wrong and what to do.

${table(['Status', 'Title', 'In the log'], statuses)}

## What a connector reports

${table(['Class', 'In the history', 'When'], connectorErrors)}
`,
  };
}

const linesOf = (text: string) => text.split('\n').length;

test('docs/reference has every setting, command, metric, condition and error: renew it with `npm run docs:reference`', async () => {
  const pages = await pagesOfCode();
  if (process.env['REFERENCE'])
    for (const [name, text] of Object.entries(pages)) writeFileSync(join(folder, name), text);
  expect(readdirSync(folder).toSorted()).toEqual(Object.keys(pages).toSorted());
  for (const [name, text] of Object.entries(pages)) {
    expect(read(join('docs/reference', name)), `${name} is not up to date: run \`npm run docs:reference\``).toBe(text);
    expect([name, linesOf(text) <= 250]).toEqual([name, true]);
  }
  expect(connectorErrors.length).toBeGreaterThan(5);
});

test('at most 45 commands, or nouns, have a heading of their own', async () => {
  const pages = Object.entries(await pagesOfCode()).filter(([name]) => name.startsWith('commands'));
  const headings = pages.flatMap(([, text]) => [...text.matchAll(/^## /gm)]).length;
  expect(headings).toBeGreaterThan(30);
  expect(headings).toBeLessThanOrEqual(45);
});
