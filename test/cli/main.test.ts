import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { describe, expect, test } from 'vitest';
import { runCommandLine, runHere } from './command-line.ts';

const commands = ['start', 'demo', 'service', 'bridge', 'connector', 'simulate', 'config-schema', 'openapi'];

const bridgeCommands = [
  'status',
  'doctor',
  'run',
  'plan',
  'mapping',
  'pause',
  'resume',
  'dead-letters',
  'replay',
  'checkpoint',
  'backfill',
  'audit',
  'webhooks',
  'document-schema',
];

describe('help', () => {
  test('--help names every command and its purpose, on standard output, and exits with 0', async () => {
    const { code, stdout, stderr } = await runHere(['--help']);
    expect([code, stderr]).toEqual([0, '']);
    for (const command of commands)
      expect(stdout).toMatch(new RegExp(`^ {2}${command}( \\[options\\])? {2,}[a-z]`, 'm'));
    for (const line of stdout.split('\n')) expect(line.length).toBeLessThanOrEqual(80);
  });

  test('bridge --help names every command of a bridge, and what their exit codes mean', async () => {
    const { code, stdout } = await runHere(['bridge', '--help']);
    expect(code).toBe(0);
    for (const command of bridgeCommands)
      expect(stdout).toMatch(new RegExp(`^ {2}${command}( \\[options\\])?( [[<][a-z]+[\\]>])? {2,}[a-z]`, 'm'));
    expect(stdout).toContain('Exit codes of the commands: 0 done and all is well; 1 failed');
    for (const line of stdout.split('\n')) expect(line.length).toBeLessThanOrEqual(80);
  });

  test.each(commands)('%s --help explains each of its options and exits with 0', async (command) => {
    const { code, stdout } = await runHere([command, '--help']);
    expect(code).toBe(0);
    const options = stdout.split('\n').filter((line) => /^ {2}-/.test(line));
    expect(options.length).toBeGreaterThan(0);
    for (const option of options) expect(option).toMatch(/^ {2}(-h, )?--[a-z-]+( <[a-z]+>)? {2,}\S/);
  });
});

describe('wrong usage exits with 2, says what is wrong on standard error, and shows no stack', () => {
  test.each([
    [['nonsense'], "unknown command 'nonsense'"],
    [['service', '--nonsense'], "unknown option '--nonsense'"],
    [['service', 'nonsense'], 'too many arguments'],
    [['service', '--port', 'high'], 'It must be a whole number from 0 to 65535.'],
    [['service', '--port', '65536'], 'It must be a whole number from 0 to 65535.'],
    [['demo', '--events', '0'], 'It must be a whole number from 1'],
    [['simulate'], "required option '--base-url <url>' not specified"],
    [['simulate', '--base-url', 'http://127.0.0.1:1'], 'Set SOURCING_API_KEY'],
    [['bridge', '--config', '/nowhere/bridge.yaml'], 'file /nowhere/bridge.yaml does not exist'],
    [['bridge', 'nonsense'], "unknown command 'nonsense'"],
    [['bridge', 'statsu'], '(Did you mean status?)'],
    [['bridge', 'webhooks', 'lists', '--source', 'main'], '(Did you mean list?)'],
    [['bridge', 'backfill', 'strat'], '(Did you mean start?)'],
    [['conector', 'list'], '(Did you mean connector?)'],
    [['bridge', 'status', '--jsn'], '(Did you mean --json?)'],
    [['bridge', 'status', '--config', '/nowhere/bridge.yaml'], 'file /nowhere/bridge.yaml does not exist'],
    [[], 'Usage: sourcing-bridge'],
  ])('%j', async (args, message) => {
    // Two run as processes: one that the parser refuses and one that a command refuses. The others run here: it is
    // quicker.
    const run = args[0] === 'nonsense' || args[1] === '--base-url' ? runCommandLine : runHere;
    const { code, stdout, stderr } = await run(args, { DATA_DIR: '/nowhere' });
    expect([code, stdout]).toEqual([2, '']);
    expect(stderr).toContain(message);
    expect(stderr).not.toMatch(/^\s+at .*:\d+/m);
  });

  test('every wrong setting is named, with the variable or the line it comes from, and no secret is shown', async () => {
    const secret = 'hunter2-hunter2';
    const example = 'config/examples/cloud-to-folder.yaml';
    const lines = readFileSync(join(import.meta.dirname, '..', '..', example), 'utf8').split('\n');
    const line = lines.findIndex((text) => text.includes('"${CLOUD_SIGNING_KEY}"')) + 1;
    const { code, stdout, stderr } = await runCommandLine(['service', '--config', example], {
      SOURCING__SERVICE__PORT: 'high',
      SOURCING_MASTER_KEY: secret,
      DATABASE_URL: `mysql://root:${secret}@db/x`,
      REDIS_URL: secret,
      CLOUD_API_KEY: secret,
    });
    expect([code, stdout]).toEqual([2, '']);
    expect(stderr.trim().split('\n').toSorted()).toEqual([
      `  bridge.sources[0].signing_keys[0] needs the environment variable CLOUD_SIGNING_KEY, which is not set (${example}, line ${line})`,
      '  database_url must be like postgresql://user:password@host:5432/database (set by DATABASE_URL)',
      '  master_key must be 32 bytes in base64; make one with: openssl rand -base64 32 (set by SOURCING_MASTER_KEY)',
      '  redis_url must be like redis://host:6379 or rediss://:password@host:6379 (set by REDIS_URL)',
      '  service.port must be a number (set by SOURCING__SERVICE__PORT)',
      'The configuration is not valid:',
    ]);
    expect(stderr).not.toContain('hunter2');
  });
});

test('an old Node is told in one sentence which one is needed', async () => {
  const old = `data:text/javascript,Object.defineProperty(process, 'versions', { value: { node: '20.9.0' } })`;
  const launch = join(import.meta.dirname, '../../src/cli/launch.js');
  const failed = await promisify(execFile)(process.execPath, ['--import', old, launch, 'start']).catch(
    (error: { code: number; stdout: string; stderr: string }) => error,
  );
  expect(failed).toMatchObject({
    code: 2,
    stdout: '',
    stderr: expect.stringMatching(/^sourcing-bridge needs Node 24\.7 or newer, .*\n$/),
  });
});
