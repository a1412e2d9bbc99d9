/**
 * `npm run test:package`: what somebody does who has never seen the repository. Packs dist/package, installs the tarball
 * in an empty folder outside, and runs it there with an empty environment: every verb in the help, a new connector whose
 * tests pass, and a start until an award lies in the inbox of the ERP. Prints times and sizes; exits with 1 at the first
 * thing that is not as it should be. Only the installation gets this environment, which knows the way to the registry.
 * Install scripts are blocked, as some companies have it: the harder case. The same start is tried after an installation
 * by pnpm, which blocks them itself. The small package is installed alone, and its examples run with the same service.
 */
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import {
  existsSync,
  globSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { request as httpRequest } from 'node:http';
import { createServer as createHttpsServer } from 'node:https';
import { type AddressInfo, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import type * as Client from '#client/index.ts';

const npm = process.env['npm_execpath'];
if (npm === undefined) throw new Error('Run this with npm: npm run test:package');
const root = join(import.meta.dirname, '../..');
const folder = mkdtempSync(join(tmpdir(), 'newcomer-'));
const home = join(folder, 'home');
const place = join(folder, 'empty');
const pnpmPlace = join(folder, 'empty-for-pnpm');
const libraryPlace = join(folder, 'empty-for-library');
for (const made of [home, place, pnpmPlace, libraryPlace]) mkdirSync(made);
/** Nothing of the person who runs this, and no tool of the repository. */
const empty = { HOME: home, PATH: [dirname(process.execPath), '/usr/bin', '/bin'].join(delimiter) };
const awardWaitMs = 90_000;
const pnpm = 'pnpm@12';
const program = join(place, 'node_modules/sourcing-bridge/src/cli/launch.js');

try {
  const tarball = pack('package');
  const installed = install(tarball, place);
  console.log(`installed in ${installed} s: ${sizeOf(place)}, with PostgreSQL`);
  const installedLibrary = install(pack('library'), libraryPlace);
  console.log(`the library alone is installed in ${installedLibrary} s: ${sizeOf(libraryPlace)}`);
  const libraryPackages = readdirSync(join(libraryPlace, 'node_modules')).filter((name) => !name.startsWith('.'));
  expect(
    libraryPackages.join() === 'sourcing-bridge-library,zod',
    `the library must need zod alone: ${String(libraryPackages)}`,
  );
  for (const left of ['typescript', 'vitest', '@aws-sdk', 'ssh2-sftp-client', 'ssh2', 'swagger-ui-dist'])
    expect(!existsSync(join(place, 'node_modules', left)), `${left} must not come with the package`);

  const help = npx('--help');
  for (const verb of [
    'start',
    'init',
    'demo',
    'service',
    'bridge',
    'console',
    'connector',
    'migrate',
    'simulate',
    'openapi',
  ])
    expect(new RegExp(`^ {2}${verb}\\b`, 'm').test(help), `the help must name ${verb}`);
  npx('connector', 'new', 'acme');
  const tests = run(npm, ['test'], { cwd: join(place, 'acme') });
  const passed = Number(/^. pass (\d+)$/m.exec(tests)?.[1]);
  expect(passed > 20 && /^. fail 0$/m.test(tests), 'the tests of the new connector must pass');
  console.log(`a new connector passes its ${passed} tests`);

  useTypes();
  useLibraryTypes();
  await refuseTakenPort();
  const awarded = await startUntilAward(place, async () => {
    for (const cwd of [place, libraryPlace]) {
      useClient(cwd);
      await useReceiver(cwd);
    }
    console.log('the examples of the client and of the receiver work with the started service, from both packages');
    await lackOptional();
  });
  console.log(`the first award arrives ${awarded} s after the start, on Node ${process.versions.node}`);
  await usePnpm(tarball);
} finally {
  rmSync(folder, { recursive: true, force: true });
}

/** Installs the tarball by pnpm, whose node_modules has links only, and starts it until an award arrives. */
async function usePnpm(tarball: string): Promise<void> {
  const npxProgram = join(dirname(npm ?? ''), 'npx-cli.js');
  const options = ['--store-dir', join(folder, 'pnpm-store'), '--ignore-scripts'];
  const installed = seconds(() =>
    run(npxProgram, ['--yes', pnpm, 'add', ...options, tarball], { cwd: pnpmPlace, env: process.env }),
  );
  const awarded = await startUntilAward(pnpmPlace, async () => undefined);
  console.log(`${pnpm} installs it in ${installed} s, and the first award arrives ${awarded} s after the start`);
}

/** A port that another program has is one sentence and exit code 2. */
async function refuseTakenPort(): Promise<void> {
  const other = createServer().listen(0, '127.0.0.1');
  await once(other, 'listening');
  const { port } = other.address() as AddressInfo;
  const { status, stderr } = spawnSync(
    process.execPath,
    [program, 'service', '--port', String(port), '--data', 'taken'],
    {
      cwd: place,
      env: { ...empty, LOG_LEVEL: 'fatal' },
      encoding: 'utf8',
      timeout: 120_000,
    },
  );
  other.close();
  const isOneSentence = new RegExp(`^Cannot listen on 127\\.0\\.0\\.1:${port}: [^\\n]*\\.\\n$`).test(stderr);
  expect(status === 2 && isOneSentence, `a taken port is one sentence and exit code 2, not ${status}:\n${stderr}`);
}

/**
 * Starts the program as it stands in a folder on free ports, and ends it in order. Returns the seconds until the first
 * award; `meanwhile` is what is tried beside it before it ends.
 */
async function startUntilAward(cwd: string, meanwhile: () => Promise<void>): Promise<number> {
  const ports = Object.fromEntries(
    ['SERVICE__PORT', 'BRIDGE__PORT', 'BRIDGE__CONSOLE_PORT'].map((name) => [`SOURCING__${name}`, '0']),
  );
  const from = performance.now();
  let awardedAfterMs = 0;
  const launch = join(cwd, 'node_modules/sourcing-bridge/src/cli/launch.js');
  const child = spawn(process.execPath, [launch, 'start'], { cwd, env: { ...empty, ...ports } });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (text: Buffer) => (output += text.toString()));
  const exit = once(child, 'exit');
  try {
    const inbox = join(cwd, 'data', 'erp-inbox');
    while (!existsSync(inbox) || !readdirSync(inbox).some((name) => /^award.*\.json$/.test(name))) {
      expect(child.exitCode === null && performance.now() - from < awardWaitMs, `no award has arrived:\n${output}`);
      await sleep(200);
    }
    awardedAfterMs = performance.now() - from;
    await meanwhile();
  } finally {
    child.kill('SIGTERM');
    await exit;
  }
  expect(output.includes('Stopped.'), `it must stop in order:\n${output}`);
  return Math.round(awardedAfterMs / 100) / 10;
}

/** Beside the program that runs: what is not installed is named, with the command that installs it. */
async function lackOptional(): Promise<void> {
  const { serviceUrl = '' } = localSetup();
  const page = await (await fetch(`${serviceUrl}/docs`)).text();
  expect(page.includes(commandFor('swagger-ui-dist')), `the page of the API must name its package:\n${page}`);
  const sftp = { host: '127.0.0.1', user: 'none', password: 'none-at-all', fingerprint: `SHA256:${'A'.repeat(43)}` };
  const flow = { name: 'erp', source: 'local', connector: 'file', settings: { directory: 'out', sftp } };
  writeFileSync(join(place, 'sftp.yaml'), JSON.stringify({ bridge: { flows: [flow] } }));
  const found = refusal('bridge', 'doctor', '--config', 'sftp.yaml', '--data', 'data');
  expect(found.includes(commandFor('ssh2-sftp-client')), `the doctor must name the package of SFTP:\n${found}`);
  console.log('what is not installed is named, with the command that installs it: /docs, SFTP');
}

function commandFor(name: string): string {
  return `npm install ${name}`;
}

/** Packs a folder of dist, and returns the tarball. */
function pack(name: string): string {
  const options = ['--silent', '--pack-destination', folder];
  return join(folder, run(npm ?? '', ['pack', join(root, 'dist', name), ...options], { env: process.env }).trim());
}

/** Installs a tarball in a folder; returns the seconds that it took. */
function install(tarball: string, cwd: string): number {
  const options = ['--no-audit', '--no-fund', '--prefer-offline', '--ignore-scripts'];
  return seconds(() => run(npm ?? '', ['install', ...options, tarball], { cwd, env: process.env }));
}

interface LocalSetup {
  serviceUrl?: string;
  /** May change webhooks. */
  bridgeKey?: string;
  /** May read suppliers and feeds. */
  deskKey?: string;
}

function localSetup(): LocalSetup {
  return JSON.parse(readFileSync(join(place, 'data/local-setup.json'), 'utf8')) as LocalSetup;
}

/** The example of the client, against the service that runs. */
function useClient(cwd: string): void {
  const { serviceUrl = '', deskKey = '' } = localSetup();
  const output = run(example('client.mjs', cwd), [], { env: { ...empty, BASE_URL: serviceUrl, API_KEY: deskKey } });
  expect(/^supplier SUP-\d+$/m.test(output), `the client must list the suppliers:\n${output}`);
  expect(/^award [\w-]+ of event [\w-]+$/m.test(output), `the client must read the awards:\n${output}`);
}

/** The example of the receiver, behind HTTPS as its text says, takes what the service signs and sends. */
async function useReceiver(cwd: string): Promise<void> {
  const { serviceUrl = '', bridgeKey = '' } = localSetup();
  let receiverPort = 0;
  const pem = readFileSync(join(place, 'data/tls/server.pem'), 'utf8');
  const front = createHttpsServer({ key: pem, cert: pem }, (request, response) => {
    const { method, headers } = request;
    const onwards = httpRequest({ port: receiverPort, host: '127.0.0.1', method, headers }, (answer) => {
      response.writeHead(answer.statusCode ?? 502, answer.headers);
      answer.pipe(response);
    });
    onwards.on('error', () => response.destroy());
    request.pipe(onwards);
  }).listen(0, '127.0.0.1');
  await once(front, 'listening');
  const { createClient } = (await import(
    join(place, 'node_modules/sourcing-bridge/src/client/index.js')
  )) as typeof Client;
  const client = createClient({ baseUrl: serviceUrl, apiKey: bridgeKey });
  const url = `https://localhost:${(front.address() as AddressInfo).port}/`;
  const triggers = ['AWARDS_FEED_UPDATED' as const];
  const { uuid, signing_key = '' } = await client.createWebhook({ name: 'example', url, triggers }, randomUUID());
  const child = spawn(process.execPath, [example('receiver.mjs', cwd)], {
    cwd,
    env: { ...empty, SIGNING_KEY: signing_key, PORT: '0' },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const tooLate = setTimeout(() => child.kill(), awardWaitMs);
  const wanted = [/^test: /, /^read the awards of [\w-]{36}$/];
  try {
    for await (const line of createInterface({ input: child.stdout })) {
      if (receiverPort === 0) {
        receiverPort = Number(/\d+/.exec(line)?.[0]);
        await client.testWebhook(uuid);
      }
      const index = wanted.findIndex((pattern) => pattern.test(line));
      if (index >= 0) wanted.splice(index, 1);
      if (wanted.length === 0) break;
    }
    expect(wanted.length === 0, `the receiver must take what the service sends: ${String(wanted)} is missing`);
  } finally {
    clearTimeout(tooLate);
    child.kill();
    await client.close();
    front.closeAllConnections();
    front.close();
  }
}

/** A program in TypeScript, in strict mode and without skipLibCheck, finds the types of each export. */
function useTypes(): void {
  writeFileSync(
    join(place, 'program.ts'),
    `import { createClient } from 'sourcing-bridge/client';
import { defineConnector } from 'sourcing-bridge/connector';
import { conformance } from 'sourcing-bridge/connector/testing';
import { lotAward } from 'sourcing-bridge/contract';
import { createReceiver } from 'sourcing-bridge/receiver';
const name: string = lotAward.parse({}).lot_name;
createReceiver({ signingKeys: [name], on: { AWARDS_FEED_UPDATED: ({ payload }) => payload.sourcing_event satisfies string | undefined } });
// @ts-expect-error -- there is no such feed
createClient({ baseUrl: '', apiKey: '' }).feed('nonsense');
export default [defineConnector, conformance];
`,
  );
  compile(place);
}

/** The same of the small package, with the names of its exports. */
function useLibraryTypes(): void {
  writeFileSync(
    join(libraryPlace, 'program.ts'),
    `import { createClient } from 'sourcing-bridge-library/client';
import { createReceiver } from 'sourcing-bridge-library/receiver';
createReceiver({ signingKeys: [process.env['KEY']], on: { AWARDS_FEED_UPDATED: ({ payload }) => payload.sourcing_event satisfies string | undefined } });
// @ts-expect-error -- there is no such feed
createClient({ baseUrl: '', apiKey: '' }).feed('nonsense');
`,
  );
  compile(libraryPlace);
}

function compile(cwd: string): void {
  const types = ['--types', 'node', '--typeRoots', join(root, 'node_modules/@types')];
  const strict = [
    '--noEmit',
    '--strict',
    '--module',
    'nodenext',
    '--target',
    'es2024',
    '--lib',
    'es2024,esnext.disposable',
  ];
  run(join(root, 'node_modules/typescript/bin/tsc'), [...strict, ...types, 'program.ts'], { cwd });
}

/** Copies an example into a folder, with the name of the package that is installed there. */
function example(name: string, cwd: string): string {
  const file = join(cwd, name);
  const text = readFileSync(join(place, 'node_modules/sourcing-bridge/docs/examples', name), 'utf8');
  writeFileSync(file, cwd === libraryPlace ? text.replaceAll("'sourcing-bridge/", "'sourcing-bridge-library/") : text);
  return file;
}

function npx(...args: string[]): string {
  return run(join(dirname(npm ?? ''), 'npx-cli.js'), ['sourcing-bridge', ...args], {});
}

/** What a command says that must not succeed. */
function refusal(...args: string[]): string {
  const { status, stdout, stderr } = spawnSync(process.execPath, [program, ...args], {
    cwd: place,
    env: empty,
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'pipe'],
    timeout: 120_000,
  });
  expect(status === 1 || status === 2, `${args.join(' ')} must be refused, and ended with ${status}:\n${stderr}`);
  expect(!/^ +at .*:\d+/m.test(stderr), `${args.join(' ')} must not print a stack:\n${stderr}`);
  return stdout + stderr;
}

function run(program: string, args: readonly string[], options: { cwd?: string; env?: NodeJS.ProcessEnv }): string {
  return execFileSync(process.execPath, [program, ...args], {
    cwd: place,
    env: empty,
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'inherit'],
    timeout: 300_000,
    ...options,
  });
}

function seconds(work: () => unknown): number {
  const from = performance.now();
  work();
  return Math.round((performance.now() - from) / 100) / 10;
}

function sizeOf(cwd: string): string {
  const files = globSync('node_modules/**/*', { cwd, withFileTypes: true }).filter((entry) => entry.isFile());
  const bytes = files.reduce((sum, { parentPath, name }) => sum + statSync(join(parentPath, name)).size, 0);
  return `${Math.round(bytes / 1e5) / 10} MB in ${files.length} files`;
}

function expect(holds: boolean, what: string): asserts holds {
  if (!holds) throw new Error(`Not as it should be: ${what}`);
}
