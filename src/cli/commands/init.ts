/**
 * `init`: writes the configuration of one source, one ERP and one flow between them, checks it, and says the next
 * command. What the options do not say is asked at the terminal. Secrets are in no option and not in the configuration:
 * they are in .env beside it, which only its owner may read; those that the environment lacks are asked for, unseen. No
 * file is overwritten, and nothing is written before the last answer.
 */
import { existsSync } from 'node:fs';
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { createInterface } from 'node:readline/promises';
import { isatty } from 'node:tty';
import { parseDocument, stringify } from 'yaml';
import { z } from 'zod';
import { connectorFolder } from '#bridge/connectors/load-connector.ts';
import { createClient } from '#client/create-client.ts';
import { AppError } from '#platform/errors.ts';
import { commandLine } from '#platform/own-package.ts';
import { localSource } from '../local-settings.ts';
import { printable } from '../output.ts';
import { readHidden } from '../read-password.ts';
import { runDoctor } from './bridge-doctor.ts';
import { connectorNames } from './connector-list.ts';

export interface InitOptions {
  source?: string;
  connector?: string;
  dir: string;
}

const apiKeyVariable = 'SOURCING_API_KEY';

/** Exit code 1 when the check finds a fault. Throws an AppError `invalid` for what cannot be written. */
export async function runInit(options: InitOptions, env: NodeJS.ProcessEnv = process.env): Promise<number> {
  const files = { yaml: join(options.dir, 'bridge.yaml'), env: join(options.dir, '.env') };
  for (const file of Object.values(files))
    if (existsSync(file)) throw new AppError('invalid', `${file} exists already: init overwrites nothing.`);
  const chosen = await choose(options);
  const flow = await flowOf(chosen);
  const variables = [
    ...new Set([...textOf(chosen, flow).matchAll(/\$\{([A-Za-z_]\w*)\}/g)].map(([, name = '']) => name)),
  ];
  const secrets = await readSecrets(variables, env);
  const shown = await columnsAt(chosen, secrets[apiKeyVariable]);
  const text = `${head(chosen)}${textOf(chosen, { ...flow, ...(await chooseColumns(shown)) })}`;
  await mkdir(options.dir, { recursive: true });
  await writeFile(files.env, envText(variables, secrets), { mode: 0o600, flag: 'wx' });
  try {
    await writeFile(files.yaml, text, { flag: 'wx' });
  } catch (error) {
    await rm(files.env);
    throw error;
  }
  const missing = variables.filter((name) => !secrets[name]);
  const file = relative('', files.yaml) || files.yaml;
  console.log(`Wrote ${file} and ${relative('', files.env) || files.env}.\n`);
  if (shown.length > 0 && !text.includes('quantity_column'))
    console.log(
      `The bid sheets of the source have the columns ${shown.join(', ')}. Name those of the quantity and of the unit price in\n` +
        'quantity_column and unit_price_column of the flow; without them each lot is one piece at its cost.\n',
    );
  const isLocal = chosen.source === localSource;
  const next = `${commandLine} ${isLocal ? 'start --demo' : 'bridge doctor'} --config ${file}`;
  if (missing.length > 0) {
    console.log(`Next: fill in ${missing.join(', ')} in .env and the settings in ${file}, then\n  ${next}`);
    return 0;
  }
  if (isLocal) {
    console.log(`Next, with a service of your own to try it:\n  ${next}`);
    return 0;
  }
  const code = await runDoctor({ config: file });
  console.log(
    code === 0
      ? `\nNext, run it:\n  ${commandLine} bridge --config ${file}\n` +
          'and while it runs, in another terminal, let the service announce its changes:\n' +
          `  ${commandLine} bridge webhooks register --source main --config ${file}`
      : `\nCorrect ${file}, then:\n  ${commandLine} bridge doctor --config ${file}`,
  );
  return code;
}

type Chosen = Readonly<Record<'source' | 'connector', string>>;

async function choose({ source, connector }: InitOptions): Promise<Chosen> {
  const known = connectorNames();
  const chosenSource = checkedSource(
    source ??
      (await ask(
        'source',
        `The URL of the sourcing service, like https://sourcing.example.com without /api, or "${localSource}" to try it with its simulator`,
      )),
  );
  const chosenConnector = connector ?? (await ask('connector', `The connector to your ERP (${known.join(', ')})`));
  if (!known.includes(chosenConnector))
    throw new AppError('invalid', `There is no connector "${chosenConnector}". There are: ${known.join(', ')}.`);
  return { source: chosenSource, connector: chosenConnector };
}

/** The values of these variables: of the environment, else what a person types at the terminal. */
async function readSecrets(variables: readonly string[], env: NodeJS.ProcessEnv): Promise<NodeJS.ProcessEnv> {
  const secrets: NodeJS.ProcessEnv = {};
  for (const name of variables) {
    const known = env[name];
    if (known) secrets[name] = known;
    else if (isAtTerminal())
      secrets[name] = await readHidden(`${name} (${formOf(name)}it is not shown; Enter to fill it in later in .env): `);
  }
  return secrets;
}

/** What the value looks like, where its name says it. */
function formOf(variable: string): string {
  if (variable === apiKeyVariable) return 'the API key that the service issued; ';
  if (variable.endsWith('_URL')) return 'like postgresql://user:password@host:5432/database; ';
  return '';
}

function isAtTerminal(): boolean {
  return isatty(0) && isatty(2);
}

/**
 * Rejects with an AppError `invalid`: when there is no terminal, with the name of the option; and when the input ends
 * without an answer.
 */
async function ask(option: string, question: string): Promise<string> {
  if (!isAtTerminal()) throw new AppError('invalid', `There is no terminal to ask at: add --${option}. ${question}.`);
  const terminal = createInterface({ input: process.stdin, output: process.stderr });
  const ended = new AbortController();
  // Ctrl-C, or the end of the input: else the question would wait for ever.
  terminal.once('close', () => ended.abort());
  try {
    return (await terminal.question(`${question}: `, { signal: ended.signal })).trim();
  } catch {
    throw new AppError('invalid', 'There was no answer, and nothing was written.');
  } finally {
    terminal.close();
  }
}

function checkedSource(source: string): string {
  if (source === localSource) return source;
  const url = URL.parse(source);
  if (!url || !/^https?:$/.test(url.protocol) || url.username !== '' || url.password !== '')
    throw new AppError(
      'invalid',
      'The source must be the URL of a service, like https://sourcing.example.com, or local.',
    );
  return source.replace(/\/(api\/?)?$/, '');
}

const example = z.object({ bridge: z.object({ flows: z.array(z.looseObject({})).min(1) }) });

/**
 * The first flow of the connector's example, between the chosen source and ERP, for awards. The columns, tags and
 * attributes that the example names are those of the simulator: no other source gets them.
 */
async function flowOf({ source, connector }: Chosen): Promise<Record<string, unknown>> {
  const file = join(connectorFolder(connector) ?? '', 'settings.example.yaml');
  const { bridge } = example.parse(parseDocument(await readFile(file, 'utf8')).toJS());
  const of = {
    // The name that the guides use.
    name: 'erp',
    source: source === localSource ? localSource : 'main',
    connector,
    documents: ['award'],
  };
  const { quantity_column, unit_price_column, mapping, ...own } = bridge.flows[0] as Record<string, unknown>;
  return { ...own, ...of, ...(source === localSource && { quantity_column, unit_price_column, mapping }) };
}

function textOf({ source }: Chosen, flow: Record<string, unknown>): string {
  const sources = [{ name: 'main', base_url: source, api_key: `\${${apiKeyVariable}}` }];
  const isLocal = source === localSource;
  const settings = { bridge: { public_host: 'localhost', ...(isLocal ? {} : { sources }), flows: [flow] } };
  return stringify(settings, { lineWidth: 0, aliasDuplicateObjects: false });
}

function head({ connector }: Chosen): string {
  return `# Made by init. "${commandLine} config-schema" prints what each setting is, and "${commandLine} connector show ${connector}"
# those of the connector, and which other kinds of documents it takes. A text \${NAME} comes from the environment, or from .env beside this file.
`;
}

const eventsLooked = 100;

/**
 * The columns of the bid sheets at the source; none where it is not reached: the check that follows says why. The simulator's
 * are in the example.
 */
async function columnsAt({ source }: Chosen, apiKey: string | undefined): Promise<string[]> {
  if (source === localSource || apiKey === undefined) return [];
  const client = createClient({ baseUrl: source, apiKey, timeoutMs: 10_000, retries: 0 });
  try {
    const { records } = await client.readFeed('sourcing-events', { pageSize: eventsLooked });
    const names = records.flatMap((record) => (sheet.safeParse(record).data?.columns ?? []).map(({ name }) => name));
    // One that a terminal cannot show is chosen in the file alone.
    return [...new Set(names)].filter((name) => name === printable(name));
  } catch {
    return [];
  } finally {
    await client.close();
  }
}

const sheet = z.looseObject({ columns: z.array(z.looseObject({ name: z.string() })) });

/** Both columns, as a person at the terminal chooses them; none without a terminal, or for an empty answer. */
async function chooseColumns(shown: readonly string[]) {
  if (shown.length === 0 || !isAtTerminal()) return {};
  const quantity = await askColumn('the quantity', shown);
  if (quantity === '') return {};
  const price = await askColumn('the unit price', shown);
  return price === '' ? {} : { quantity_column: quantity, unit_price_column: price };
}

async function askColumn(what: string, shown: readonly string[]): Promise<string> {
  const column = await ask('source', `The column of ${what} (${shown.join(', ')}; Enter for none)`);
  if (column !== '' && !shown.includes(column))
    throw new AppError('invalid', `No bid sheet has a column "${column}". They have: ${shown.join(', ')}.`);
  return column;
}

function envText(variables: readonly string[], env: NodeJS.ProcessEnv): string {
  const lines = variables.map((name) => `${name}=${quoted(env[name] ?? '')}`);
  return `# Secrets of bridge.yaml. Not for the repository; the environment overrides it.\n${lines.join('\n')}\n`;
}

/** In the quotation mark that the value does not have. Throws for a value that .env cannot hold. */
function quoted(value: string): string {
  if (/^[\w./:@+=-]*$/.test(value)) return value;
  const mark = ["'", '"', '`'].find((candidate) => !value.includes(candidate));
  if (mark === undefined || /[\r\n]/.test(value))
    throw new AppError(
      'invalid',
      'A variable has a line break or all kinds of quotation marks, which .env cannot hold.',
    );
  return mark + value + mark;
}
