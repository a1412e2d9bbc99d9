/**
 * `npm run test:package`: what somebody does who has never seen the repository. Packs dist/package, installs the tarball
 * in an empty folder outside, and runs it there with an empty environment: every verb in the help, a new connector whose
 * tests pass, and a start until an award lies in the inbox of the ERP. Prints times and sizes; exits with 1 at the first
 * thing that is not as it should be. Only the installation gets this environment, which knows the way to the registry.
 * Install scripts are blocked, as some companies have it: the harder case.
 */
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { createHmac } from 'node:crypto';
import { once } from 'node:events';
import {
  copyFileSync,
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
import { tmpdir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';

const npm = process.env['npm_execpath'];
if (npm === undefined) throw new Error('Run this with npm: npm run test:package');
const root = join(import.meta.dirname, '../..');
const built = join(root, 'dist/package');
const folder = mkdtempSync(join(tmpdir(), 'newcomer-'));
const home = join(folder, 'home');
const place = join(folder, 'empty');
for (const made of [home, place]) mkdirSync(made);
/** Nothing of the person who runs this, and no tool of the repository. */
const empty = { HOME: home, PATH: [dirname(process.execPath), '/usr/bin', '/bin'].join(delimiter) };
const awardWaitMs = 90_000;

try {
  const tarball = run(npm, ['pack', built, '--silent', '--pack-destination', folder], { env: process.env }).trim();
  const installed = seconds(() =>
    run(npm, ['install', '--no-audit', '--no-fund', '--prefer-offline', '--ignore-scripts', join(folder, tarball)], {
      env: process.env,
    }),
  );
  console.log(`installed in ${installed} s: ${sizeOf('node_modules')}, with PostgreSQL`);
  for (const left of [
    'typescript',
    'vitest',
    '@aws-sdk',
    'ssh2',
    'swagger-ui-dist',
    '@opentelemetry/sdk-trace',
    '@modelcontextprotocol',
  ])
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
    'mcp',
  ])
    expect(new RegExp(`^ {2}${verb}\\b`, 'm').test(help), `the help must name ${verb}`);
  expect(refusal('mcp').includes(install('@modelcontextprotocol/server')), 'without its package mcp must name it');
  npx('connector', 'new', 'acme');
  const tests = run(npm, ['test'], { cwd: join(place, 'acme') });
  const passed = Number(/^. pass (\d+)$/m.exec(tests)?.[1]);
  expect(passed > 20 && /^. fail 0$/m.test(tests), 'the tests of the new connector must pass');
  console.log(`a new connector passes its ${passed} tests`);

  useTypes();
  await useReceiver();
  const awarded = await startUntilAward();
  console.log(`the first award arrives ${awarded} s after the start, on Node ${process.versions.node}`);
} finally {
  rmSync(folder, { recursive: true, force: true });
}

/** Starts the program as it stands on free ports, and ends it in order. Returns the seconds until the first award. */
async function startUntilAward(): Promise<number> {
  const ports = Object.fromEntries(
    ['SERVICE__PORT', 'BRIDGE__PORT', 'BRIDGE__CONSOLE_PORT'].map((name) => [`SOURCING__${name}`, '0']),
  );
  const from = performance.now();
  let awardedAfterMs = 0;
  const program = join(place, 'node_modules/sourcing-bridge/src/cli/launch.js');
  const child = spawn(process.execPath, [program, 'start'], { cwd: place, env: { ...empty, ...ports } });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (text: Buffer) => (output += text.toString()));
  const exit = once(child, 'exit');
  try {
    const inbox = join(place, 'data', 'erp-inbox');
    while (!existsSync(inbox) || !readdirSync(inbox).some((name) => /^award.*\.json$/.test(name))) {
      expect(child.exitCode === null && performance.now() - from < awardWaitMs, `no award has arrived:\n${output}`);
      await sleep(200);
    }
    awardedAfterMs = performance.now() - from;
    useClient();
    await lackOptional();
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
  expect(page.includes(install('swagger-ui-dist')), `the page of the API must name its package:\n${page}`);
  const sftp = { host: '127.0.0.1', user: 'none', password: 'none-at-all', fingerprint: `SHA256:${'A'.repeat(43)}` };
  const flow = { name: 'erp', source: 'local', connector: 'file', settings: { directory: 'out', sftp } };
  writeFileSync(join(place, 'sftp.yaml'), JSON.stringify({ bridge: { flows: [flow] } }));
  const check = refusal('bridge', 'check', '--config', 'sftp.yaml', '--data', 'data');
  expect(check.includes(install('ssh2')), `the check must name the package of SFTP:\n${check}`);
  console.log('what is not installed is named, with the command that installs it: mcp, /docs, SFTP');
}

function install(name: string): string {
  return `npm install ${name}`;
}

interface LocalSetup {
  serviceUrl?: string;
  deskKey?: string;
}

function localSetup(): LocalSetup {
  return JSON.parse(readFileSync(join(place, 'data/local-setup.json'), 'utf8')) as LocalSetup;
}

/** The example of the client, against the service that runs. */
function useClient(): void {
  const { serviceUrl = '', deskKey = '' } = localSetup();
  const output = run(example('client.mjs'), [], { env: { ...empty, BASE_URL: serviceUrl, API_KEY: deskKey } });
  expect(/^supplier SUP-\d+$/m.test(output), `the client must list the suppliers:\n${output}`);
  expect(/^award [\w-]+ of event [\w-]+$/m.test(output), `the client must read the awards:\n${output}`);
}

/** The example of the receiver, with a notification that is signed as the documents say. */
async function useReceiver(): Promise<void> {
  const child = spawn(process.execPath, [example('receiver.mjs')], {
    cwd: place,
    env: { ...empty, SIGNING_KEY: 'key', PORT: '0' },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  try {
    const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
    const port = /\d+/.exec((await lines.next()).value ?? '')?.[0];
    const event = '6f3f0f8c-5a6e-4c1c-9d60-2f6a4f6f0c11';
    const body = JSON.stringify({
      trigger: 'AWARDS_FEED_UPDATED',
      timestamp: new Date().toISOString(),
      payload: { sourcing_event: event, sourcing_event_name: 'Chairs' },
    });
    const hmac = createHmac('sha256', 'key').update(body).digest('hex');
    const { status } = await fetch(`http://127.0.0.1:${port}`, {
      method: 'POST',
      body,
      headers: { 'x-signature': `hmac-sha256=${hmac}` },
    });
    expect(status === 200, `the receiver must answer 200, not ${status}`);
    const said = (await lines.next()).value;
    expect(said === `read the awards of ${event}`, `the handler must be called, it said: ${said}`);
  } finally {
    child.kill();
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
createReceiver({ signingKeys: [name], on: { AWARDS_FEED_UPDATED: ({ payload }) => payload.sourcing_event satisfies string } });
// @ts-expect-error -- there is no such feed
createClient({ baseUrl: '', apiKey: '' }).feed('nonsense');
export default [defineConnector, conformance];
`,
  );
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
  run(join(root, 'node_modules/typescript/bin/tsc'), [...strict, ...types, 'program.ts'], {});
}

function example(name: string): string {
  const file = join(place, name);
  copyFileSync(join(place, 'node_modules/sourcing-bridge/docs/examples', name), file);
  return file;
}

function npx(...args: string[]): string {
  return run(join(dirname(npm ?? ''), 'npx-cli.js'), ['sourcing-bridge', ...args], {});
}

/** What a command says that must not succeed. */
function refusal(...args: string[]): string {
  const program = join(place, 'node_modules/sourcing-bridge/src/cli/launch.js');
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

function sizeOf(path: string): string {
  const files = globSync('**/*', { cwd: join(place, path), withFileTypes: true }).filter((entry) => entry.isFile());
  const bytes = files.reduce((sum, { parentPath, name }) => sum + statSync(join(parentPath, name)).size, 0);
  return `${Math.round(bytes / 1e6)} MB in ${files.length} files`;
}

function expect(holds: boolean, what: string): asserts holds {
  if (!holds) throw new Error(`Not as it should be: ${what}`);
}
