/**
 * docs/reference.md is made of the code: settings of their schema, commands of the command line, metrics of running
 * programs, errors of their table and classes. `npm run docs:reference` renews it.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Command } from 'commander';
import { expect, test } from 'vitest';
import { z } from 'zod';
import { mappingRule } from '#bridge/documents/mapping-rule.ts';
import { createProgram } from '#cli/program.ts';
import { problemAnswers } from '#platform/http/problem.ts';
import { createRegistry, type Registry } from '#platform/metrics.ts';
import { startTestBridge } from '../harness/test-bridge.ts';
import { startTestService } from '../harness/test-service.ts';

const root = join(import.meta.dirname, '../..');
const page = join(root, 'docs/reference.md');
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
  if (title === 'rule') return 'path or [rule](#rules)';
  if (values) return values.map((value) => `\`${value}\``).join(', ');
  if (only !== undefined) return `\`${JSON.stringify(only)}\``;
  if (type === 'array') return `list${items?.type && items.type !== 'object' ? ` of ${items.type}` : ''}`;
  const bounds = [minimum, maximum].map((bound) =>
    bound === undefined || Math.abs(bound) > 1e15 ? '' : String(bound),
  );
  return `${type ?? ''}${bounds.join('') === '' ? '' : ` ${bounds.join('–')}`}`;
}

/** A row for each setting, whose path names lists by `[]`. Of alternatives each setting stands once, and rules on their own. */
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
          inner.length > 0 && setting.type === 'object' ? '' : formOf(setting),
          simple ? `\`${JSON.stringify(setting.default)}\`` : '',
          cell(described),
        ],
      ]);
    add(inner);
  }
  return [...rows.values()];
}

/** Every command that does something, with its arguments and options. */
function commandsOf(command: Command, path: string[] = []): string[] {
  const name = [...path, command.name()];
  const own = command.options.map((option) => [
    `\`${option.flags}\``,
    cell(option.description) +
      (option.argChoices ? `: ${option.argChoices.map((choice) => `\`${choice}\``).join(', ')}` : ''),
    option.defaultValue === undefined ? '' : `\`${JSON.stringify(option.defaultValue)}\``,
  ]);
  const values = command.registeredArguments.map((each) =>
    each.required ? `<${each.name()}${each.variadic ? '...' : ''}>` : `[${each.name()}${each.variadic ? '...' : ''}]`,
  );
  const text =
    path.length === 0
      ? []
      : [
          `### ${name.slice(1).join(' ')}\n`,
          `\`${[...name.slice(1), ...values].join(' ')}\`: ${cell(command.description())}.\n`,
          ...(own.length > 0 ? [`${table(['Option', '', 'Default'], own)}\n`] : []),
        ];
  return [
    ...text,
    ...command.commands.filter((each) => each.name() !== 'help').flatMap((each) => commandsOf(each, name)),
  ];
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

test('docs/reference.md has every setting, command, metric and error of the code: renew it with `npm run docs:reference`', async () => {
  const bridge = await startTestBridge({
    sources: [{ name: 'main', base_url: 'http://127.0.0.1:1', api_key: 'k' }],
    flows: [{ name: 'inbox', source: 'main', connector: 'file', settings: { directory: 'inbox' } }],
  });
  const service = await startTestService();
  const settings = settingsOf(JSON.parse(read('config/bridge.schema.json')) as Schema);
  const rules = settingsOf(z.toJSONSchema(mappingRule, { io: 'input' }) as Schema);
  const commands = commandsOf(createProgram());
  const metrics = metricsOf([bridge.registry, service.registry]);
  const statuses = Object.entries(problemAnswers)
    .toSorted(([, a], [, b]) => a.status - b.status)
    .map(([code, { status, title }]) => [String(status), title, `\`${code}\``]);
  expect([settings.length > 120, commands.length > 60, metrics.length > 25, connectorErrors.length > 5]).toEqual([
    true,
    true,
    true,
    true,
  ]);
  const text = `# Reference

Made of the code by \`npm run docs:reference\`. [The settings with explanations and examples](../config/bridge.yaml),
[the commands in the order of their use](bridge.md#commands), [the metrics with their meaning](bridge.md#metrics).

[Settings](#settings), [commands](#commands), [metrics](#metrics), [errors](#errors).

## Settings

\`[]\` is each entry of a list. The settings of a connector, under \`settings\` of a flow or intake, are on its page;
\`connector show <name>\` prints them, too.

${table(['Setting', 'Form', 'Default', ''], settings)}

### Rules

A rule is a path alone, or an object with these members. [docs/documents.md](documents.md) explains them.

${table(['Member', 'Form', 'Default', ''], rules)}

## Commands

Each begins with \`npx sourcing-bridge\`, in the repository with \`npm run -s cli --\`. Exit codes: 0 done and well, 1 failed or
something needs a person, 2 wrong usage or settings.

${commands.join('\n')}
## Metrics

Beside these, each process has Node's own (\`process_…\`, \`nodejs_…\`).

${table(['Metric', 'Labels', ''], metrics)}

## Errors

### Answers of the API

The body of each is a problem (RFC 9457): \`title\`, \`status\`, and \`detail\`, which says what was wrong and what to do.

${table(['Status', 'Title', 'In the log'], statuses)}

### What a connector reports

${table(['Class', 'In the history', ''], connectorErrors)}
`;
  if (process.env['REFERENCE']) writeFileSync(page, text);
  expect(readFileSync(page, 'utf8'), 'docs/reference.md is not up to date: run `npm run docs:reference`').toBe(text);
});
