/**
 * Every command line of README and the guides is run: those of blocks (`npx sourcing-bridge …`, `npm …`), after `$` in a
 * transcript, and those that a sentence quotes whole. One `start` runs beside them, with an ERP in memory and events that
 * the simulator played. `placeholders` replaces what stands for something of the reader's own; what cannot be run here
 * stands in `notRun` with its reason. A new line is run as it stands until it is named in one of the two.
 */
import { randomUUID } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { mkdir, readFile, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Command } from 'commander';
import { expect, test } from 'vitest';
import { makeConnector } from '#cli/connector-template.ts';
import { createProgram } from '#cli/program.ts';
import { startMemoryErp } from '../../connectors/memory/memory-erp.ts';
import { runHere, startCommandLine } from '../cli/command-line.ts';
import { freePort } from '../harness/free-port.ts';
import { scratchFolder } from '../harness/scratch-folder.ts';
import { createEmptyDatabase } from '../harness/test-database.ts';

const root = join(import.meta.dirname, '../..');
const { scripts } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { scripts: object };

const notRun: readonly (readonly [RegExp, string])[] = [
  [/^…$|^npm run -s cli --$/, 'names no command'],
  [/\bsudo |^kubectl /, 'changes the machine, or needs a cluster'],
  [/^npm (init|install|pack|ci)\b/, 'installs from the registry: npm run test:package does it in an empty folder'],
  [/^npm test$/, 'is what runs this test, or the tests of a connector: test/cli/connector-commands.test.ts'],
  [/^npm run (test:|bench|build$)/, 'takes minutes, and has a job of its own'],
  [/^npm run docs:/, 'rewrites a page of this repository: a test fails while the page differs'],
  [/^npx (openapi-typescript|-p typescript)/, 'installs from the registry: npm run test:rare does it'],
  [/^verify-report/, 'needs the report of an auditor: test/cli/bridge-reconcile.test.ts'],
  [/^bridge show .* --sent/, 'needs two versions of a document: test/cli/operations-transcript.test.ts'],
  [/^bridge replay .* --dead/, 'needs a dead letter: test/cli/bridge-commands.test.ts'],
  [/^bridge alerts test/, 'needs somebody who takes alerts: test/cli/bridge-alerts.test.ts'],
  [/^console users remove-factor/, 'needs an authenticator: test/cli/console-commands.test.ts'],
  [/^init$/, 'asks at a terminal: test/cli/init.test.ts'],
];

/** What a reader has, and what stands for it here. */
const placeholders = ({
  url,
  folder,
  organisation,
  document,
  connector,
}: World): readonly (readonly [RegExp | string, string])[] => [
  [/ --config \S+/, ''],
  [/ --data \S+/, ''],
  ['history 4711 meyer', `history ${document} --flow erp`],
  [/4711( meyer)?/, 'RFQ'],
  ['--source cloud', '--source main'],
  ['http://127.0.0.1:8080', url],
  ['$api', url],
  ['$seed', '1'],
  ['--port 8080', '--port 0'],
  [/--events \d+ --speed \d+/, '--events 1 --speed 100'],
  ['0190…', organisation],
  ['0f8e…', organisation],
  [/\/backups\/2026-11-23|<folder>/, join(folder, 'backup')],
  ['--in ../our-connectors', `--in ${join(folder, 'new')}`],
  ['../our-connectors/orderbook', connector],
  ['sample.yaml', join(folder, 'sample.yaml')],
  ['https://sourcing.example.com', url],
  ['2026-11-23T01:00:00Z', new Date(Date.now() - 60_000).toISOString()],
];

interface World {
  readonly url: string;
  readonly folder: string;
  readonly organisation: string;
  /** The key of a document that was delivered. */
  readonly document: string;
  readonly connector: string;
}

const pages = [
  'README.md',
  ...readdirSync(join(root, 'docs'))
    .filter((name) => name.endsWith('.md'))
    .map((name) => `docs/${name}`),
];
const lines = pages.flatMap((page) =>
  commandsIn(readFileSync(join(root, page), 'utf8')).map((command) => ({ page, command })),
);

/** The commands of a page, without `npx sourcing-bridge`; those of npm and npx are whole. */
function commandsIn(text: string): string[] {
  const parts = text.replaceAll(/\\\n\s*/g, ' ').split(/^ *```(\w*)\n/m);
  const inBlocks = parts.flatMap((part, index) => {
    if (index % 4 !== 2) return [];
    const isShell = parts[index - 1] === 'sh';
    const all = part.split('\n');
    return isShell ? all : all.filter((line) => /^(\$ |([A-Z_]+=\S+ )*npx )/.test(line));
  });
  const sentences = parts.filter((_part, index) => index % 4 === 0).join(' ');
  const quoted = [...sentences.replaceAll(/\s+/g, ' ').matchAll(/`((?:npx sourcing-bridge|npm) [^`]*)`/g)];
  return [...inBlocks, ...quoted.map(([, span = '']) => span)].flatMap(commandsOfLine);
}

/** Without comments, variables, and what stands before and behind them in a pipe. */
function commandsOfLine(line: string): string[] {
  if (/\bsudo |kubectl /.test(line)) return [line.trim().replace(/^.*kubectl/, 'kubectl')];
  if (/^\$ (?!npx )/.test(line)) return [line.slice(2).trim()];
  return line
    .replace(/ +# .*$/, '')
    .split(/ +(?:&&|\||>) +|[;)]/)
    .flatMap((part) => /\b(?:npx|npm) .*/.exec(part)?.[0] ?? [])
    .map((command) => command.replace(/^npx sourcing-bridge |^npm run -s cli -- (?=.)/, '').trim());
}

/** The scripts of package.json that are commands of the program. */
function withoutNpm(command: string): string {
  return command.replace(/^npm start$/, 'start').replace(/^npm run demo$/, 'demo');
}

function wordsOf(command: string, world: World): string[] {
  const text = placeholders(world).reduce((old, [from, to]) => old.replace(from, to), command);
  return [...text.matchAll(/"([^"]*)"|(\S+)/g)].map(([, quoted, plain]) => quoted ?? plain ?? '');
}

/** The options that every line needs here: where things are, and what a terminal would have been asked. */
function optionsFor(words: readonly string[], { folder }: World): string[] {
  let command: Command = createProgram();
  for (const word of words) command = command.commands.find((each) => each.name() === word) ?? command;
  const given: Record<string, string[]> = {
    '--config': ['--config', join(folder, configOf(words))],
    '--data': ['--data', join(folder, ['restore', 'demo'].includes(words[0] ?? '') ? randomUUID() : 'data')],
    '--yes': ['--yes'],
    '--generate': ['--generate'],
    '--dir': ['--dir', join(folder, randomUUID())],
    '--in': ['--in', join(folder, randomUUID())],
  };
  return command.options.flatMap(({ long }) => (long && !words.includes(long) ? (given[long] ?? []) : []));
}

function configOf(words: readonly string[]): string {
  if (words[0] === 'certificate') return 'certificate.yaml';
  // A source can be erased once it is in no configuration.
  return ['start', 'demo'].includes(words[0] ?? '') || words[1] === 'source' ? 'start.yaml' : 'bridge.yaml';
}

/** `bridge`, `service` and `start` run until they are stopped. */
const isDaemon = (words: readonly string[]) =>
  ['start', 'service', 'bridge'].includes(words[0] ?? '') &&
  (words[1]?.startsWith('--') ?? true) &&
  !words.includes('list');

const freePorts = {
  SOURCING__SERVICE__PORT: '0',
  SOURCING__BRIDGE__PORT: '0',
  SOURCING__BRIDGE__CONSOLE_PORT: '0',
};

/** Starts it, beside what runs or on a database of its own, and stops it once it says that it is ready. */
async function runDaemon(words: readonly string[], { folder }: World) {
  await using db = await disposableDatabase();
  const isBridge = words[0] === 'bridge';
  const config = words[0] === 'service' ? [] : ['--config', join(folder, configOf(words))];
  const place = ['--data', join(folder, isBridge ? 'data' : randomUUID())];
  const daemon = startCommandLine([...words, ...config, ...place], {
    ...freePorts,
    ...(isBridge ? {} : { DATABASE_URL: db.url }),
  });
  await daemon.line(/ ready /);
  daemon.signal('SIGTERM');
  return { code: await daemon.ended, stdout: daemon.stdout(), stderr: daemon.stderr() };
}

async function startWorld() {
  const folder = await scratchFolder();
  const erp = await startMemoryErp({ clientId: 'bridge', clientSecret: 'secret' });
  erp.saveRecord('suppliers', { number: 'V-1', name: 'Meyer', closed: false, items: [] });
  const login = { base_url: erp.address, client_id: 'bridge', client_secret: 'secret' };
  const { folder: connector } = await makeConnector('orderbook', folder);
  await mkdir(join(connector, 'node_modules'));
  await symlink(root, join(connector, 'node_modules/sourcing-bridge'));
  const data = join(folder, 'data');
  const startFile = join(folder, 'start.yaml');
  const ports = {
    service: { port: await freePort() },
    bridge: { port: await freePort(), console_port: await freePort() },
  };
  await writeFile(startFile, JSON.stringify(ports));
  const start = startCommandLine(['start', '--no-demo', '--config', startFile, '--data', data]);
  await start.line(/ ready /);
  const setup = JSON.parse(await readFile(join(data, 'local-setup.json'), 'utf8'));

  const intake = { connector: 'memory', source: 'main', settings: login };
  const bridge = {
    port: await freePort(),
    console_port: await freePort(),
    sources: [{ name: 'main', base_url: setup.serviceUrl, api_key: setup.bridgeKey }],
    flows: [
      { name: 'erp', source: 'main', connector: 'file', settings: { directory: join(folder, 'inbox') } },
      { name: 'orders', source: 'main', connector, documents: ['quotation'], settings: login },
    ],
    intakes: [
      { ...intake, name: 'vendors', owns: ['name'] },
      { ...intake, name: 'requisitions', stream: 'requisition', make: 'event' },
    ],
  };
  const file = join(folder, 'bridge.yaml');
  await writeFile(file, JSON.stringify({ bridge }));
  await writeFile(join(folder, 'sample.yaml'), 'currency: EUR\n');
  const tls = { cert_file: join(folder, 'tls.crt'), key_file: join(folder, 'tls.key') };
  const certificate = { bridge: { tls, ca_file: join(folder, 'ca.pem') } };
  await writeFile(join(folder, 'certificate.yaml'), JSON.stringify(certificate));
  const env = { SOURCING_API_KEY: setup.deskKey };
  await runHere(['simulate', '--base-url', setup.serviceUrl, '--events', '2', '--speed', '100'], env);
  const place = ['--config', file, '--data', data];
  await runHere(['bridge', 'run', ...place]);
  const found = JSON.parse((await runHere(['bridge', 'find', 'RFQ', '--json', ...place])).stdout);
  const daemon = startCommandLine(['bridge', ...place]);
  await daemon.line(/^bridge ready /);
  const stop = async () => {
    for (const each of [daemon, start]) each.signal('SIGTERM');
    await Promise.all([daemon.ended, start.ended]);
  };
  const world: World = {
    url: setup.serviceUrl,
    folder,
    organisation: setup.organisation,
    document: found.documents[0].key,
    connector,
  };
  return { world, env, stop };
}

/** These also end with 1: something needs a person. The others end with 0. */
const needsPerson = /^bridge (doctor|status|plan|run|intake (plan|status))\b/;

/** What erases comes late; last what wants no program beside it. */
function turnOf(command: string): number {
  if (/^(bridge restored|secrets rotate|erase source)/.test(command)) return 2;
  return command.startsWith('erase ') ? 1 : 0;
}

test('every command line of README and guides runs, or is listed as not run', { timeout: 600_000 }, async () => {
  const { world, env, stop } = await startWorld();
  const listed = lines.filter(({ command }) => notRun.some(([pattern]) => pattern.test(command)));
  const others = lines
    .filter((line) => !listed.includes(line))
    .map(({ page, command }) => ({ page, command: withoutNpm(command) }))
    .toSorted((a, b) => turnOf(a.command) - turnOf(b.command));
  const done = new Set<string>();
  const faults: string[] = [];
  let turn = 0;
  for (const { page, command } of others) {
    const words = wordsOf(command, world);
    if (done.has(words.join(' '))) continue;
    done.add(words.join(' '));
    if (turn < 2 && turnOf(command) === 2) await stop();
    turn = turnOf(command);
    const { code, stdout, stderr } = await runOne(words, world, env);
    if (code !== 0 && !(code === 1 && needsPerson.test(command)))
      faults.push(`${page}: ${command} ended with ${code}: ${stdout.slice(-600)}${stderr.slice(-600)}`);
  }
  expect(faults).toEqual([]);
  expect(done.size).toBeGreaterThan(60);
});

test('an entry of the list of what is not run stands for a line that is there', () => {
  const unused = notRun.filter(([pattern]) => !lines.some(({ command }) => pattern.test(command)));
  expect(unused).toEqual([]);
});

test('every script of npm that they name exists', () => {
  const named = lines.flatMap(({ command }) => /^npm run (?:-s )?([\w:]+)/.exec(command)?.[1] ?? []);
  expect(named.filter((name) => !Object.hasOwn(scripts, name))).toEqual([]);
});

async function runOne(words: readonly string[], world: World, env: Readonly<Record<string, string>>) {
  if (isDaemon(words)) return runDaemon(words, world);
  const args = [...words, ...optionsFor(words, world)];
  if (words[0] !== 'migrate' && words[0] !== 'demo') return runHere(args, env);
  await using db = await disposableDatabase();
  return await runHere(args, { ...freePorts, DATABASE_URL: db.url });
}

async function disposableDatabase() {
  const db = await createEmptyDatabase();
  return { url: db.url, [Symbol.asyncDispose]: () => db.drop() };
}
