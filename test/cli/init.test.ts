import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { readdir, readFile, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { connectorNames } from '../../src/cli/commands/connector-list.ts';
import { readConfiguration } from '../../src/cli/configuration.ts';
import { startFeedSource } from '../bridge/feed-source.ts';
import { eventRecord, idOf } from '../bridge/parts.ts';
import { scratchFolder } from '../harness/scratch-folder.ts';
import { startTestService, type TestService } from '../harness/test-service.ts';
import { runCommandLine, runHere } from './command-line.ts';

let service: TestService;
beforeAll(async () => {
  service = await startTestService();
});

async function init(...args: string[]) {
  const dir = await scratchFolder();
  const result = await runHere(['init', '--dir', dir, ...args], {});
  return { dir, yaml: join(dir, 'bridge.yaml'), env: join(dir, '.env'), ...result };
}

test('with every secret at hand it writes, checks against the service, and says the next command', async () => {
  const { key } = await service.organisation();
  const dir = await scratchFolder();
  const data = await scratchFolder();
  const args = ['init', '--dir', dir, '--source', service.url, '--connector', 'file'];
  const { code, stdout, stderr } = await runCommandLine(args, {
    SOURCING_API_KEY: key,
    DATA_DIR: data,
    DATABASE_URL: service.db.url,
  });
  expect([code, stderr]).toEqual([0, '']);
  expect(stdout).toContain('flow erp');
  // The test of a webhook needs the bridge to run.
  expect(stdout).toMatch(
    /run it:\n.* bridge --config .*\nand while it runs.*\n.* bridge webhooks register --source main/,
  );
  expect(stdout + (await readFile(join(dir, 'bridge.yaml'), 'utf8'))).not.toContain(key);
  expect(await readFile(join(dir, '.env'), 'utf8')).toContain(`SOURCING_API_KEY=${key}`);
  expect((await stat(join(dir, '.env'))).mode & 0o777).toBe(0o600);
});

/** A service that shows one event with these columns in its bid sheet. */
async function serviceWithColumns() {
  const source = await startFeedSource();
  // Whoever names a column at the service cannot control the terminal.
  const columns = [{ name: 'Volume' }, { name: 'Unit Price' }, { name: '\u001b[2JNote\u009b31m' }];
  source.append('sourcing-events', eventRecord(idOf(1), [], { columns }));
  return source.url;
}

test('without a terminal it names the columns that the source shows, and chooses none', async () => {
  const dir = await scratchFolder();
  const args = ['init', '--dir', dir, '--source', await serviceWithColumns(), '--connector', 'file'];
  const env = { SOURCING_API_KEY: 'feed-key', DATA_DIR: await scratchFolder(), DATABASE_URL: service.db.url };
  const { stdout } = await runHere(args, env);
  expect(stdout).toContain('have the columns Volume, Unit Price.');
  expect(await readFile(join(dir, 'bridge.yaml'), 'utf8')).not.toContain('_column');
});

describe('the configuration of each connector', () => {
  test.each(connectorNames())(
    '%s: what is missing in .env is named, and with it the bridge accepts it',
    async (connector) => {
      const made = await init('--source', 'https://sourcing.example.com/', '--connector', connector);
      expect(made.stdout).toContain('fill in SOURCING_API_KEY');
      expect(() => readConfiguration(made.yaml, {}, {})).toThrow('SOURCING_API_KEY, which is not set');
      // Without the comment, and with the byte order mark that some editors write.
      const filled = (await readFile(made.env, 'utf8'))
        .replaceAll(/=$/gm, '=value-of-.env')
        .replace(/^#.*\n/, '\uFEFF');
      await writeFile(made.env, filled);
      const { bridge } = readConfiguration(made.yaml, {}, {});
      expect(bridge.sources).toMatchObject([{ base_url: 'https://sourcing.example.com', api_key: 'value-of-.env' }]);
      expect(bridge.flows).toMatchObject([{ name: 'erp', source: 'main', connector, documents: ['award'] }]);
      expect(readConfiguration(made.yaml, {}, { SOURCING_API_KEY: 'own' }).bridge.sources[0]?.api_key).toBe('own');
      // The columns, tags and attributes of another service are not known.
      const [flow] = bridge.flows;
      expect([flow?.quantity_column, flow?.unit_price_column, flow?.mapping]).toEqual([undefined, undefined, {}]);
    },
  );
});

test('without a terminal what is missing is named as an option; a wrong one and an existing file are refused', async () => {
  expect(await init()).toMatchObject({ code: 2, stderr: expect.stringContaining('add --source') });
  expect(await init('--source', 'ftp://x', '--connector', 'file')).toMatchObject({ code: 2 });
  expect(await init('--source', 'https://key@host', '--connector', 'file')).toMatchObject({ code: 2 });
  const unknown = await init('--source', 'local', '--connector', 'nonsense');
  expect(unknown).toMatchObject({ code: 2, stderr: expect.stringContaining('There are: file, http') });
  const made = await init('--source', 'local', '--connector', 'file');
  expect([made.code, made.stdout]).toEqual([0, expect.stringContaining('start --demo --config')]);
  const before = await readFile(made.yaml, 'utf8');
  const again = await runHere(['init', '--dir', made.dir, '--source', 'local', '--connector', 'http'], {});
  expect(again).toMatchObject({ code: 2, stderr: expect.stringContaining('overwrites nothing') });
  expect(await readFile(made.yaml, 'utf8')).toBe(before);
});

/** util-linux: a terminal for a program whose input is a pipe. That of other systems takes other options. */
const canMakeTerminal = process.platform === 'linux' && existsSync('/usr/bin/script');

describe('at a terminal', { skip: !canMakeTerminal }, () => {
  /** Answers each question as it is asked. Resolves with what stood on the screen, and the exit code. */
  async function initAtTerminal(answers: readonly [question: RegExp, answer: string][]) {
    const dir = await scratchFolder();
    const root = join(import.meta.dirname, '../..');
    const program = `"${join(root, 'node_modules/.bin/node')}" src/cli/main.ts init --dir "${dir}"`;
    const { PATH = '' } = process.env;
    const env = { PATH, TERM: 'dumb', DATA_DIR: await scratchFolder(), DATABASE_URL: service.db.url };
    const child = spawn('/usr/bin/script', ['-qefc', program, '/dev/null'], { cwd: root, env });
    onTestFinished(() => void child.kill('SIGKILL'));
    let screen = '';
    let read = 0;
    const waiting = [...answers];
    child.stdout.on('data', (text) => {
      screen += String(text);
      const [question, answer] = waiting[0] ?? [];
      const found = question?.exec(screen.slice(read));
      if (!found || answer === undefined) return;
      read += found.index + found[0].length;
      waiting.shift();
      child.stdin.write(answer);
    });
    const [code] = (await once(child, 'close')) as [number];
    return { dir, screen, code, isAllAsked: waiting.length === 0 };
  }

  test('each thing is asked for once; the secret is not shown, and stands in .env alone', async () => {
    const { dir, screen, code, isAllAsked } = await initAtTerminal([
      [/The URL of the sourcing service.*: /, 'http://127.0.0.1:9/api\r'],
      [/The connector to your ERP \(.*file.*\): /, 'file\r'],
      [/SOURCING_API_KEY \(the API key that the service issued; it is not shown.*\): /, 'sk-unseen-4711\r'],
    ]);
    expect([isAllAsked, screen.includes('unseen')]).toEqual([true, false]);
    expect(await readFile(join(dir, '.env'), 'utf8')).toContain('SOURCING_API_KEY=sk-unseen-4711');
    const yaml = await readFile(join(dir, 'bridge.yaml'), 'utf8');
    expect(yaml).toContain('base_url: http://127.0.0.1:9');
    expect(yaml).toContain('name: erp');
    // It was checked: nothing listens at this port.
    expect([code, screen]).toEqual([1, expect.stringContaining('127.0.0.1:9')]);
    expect(screen).toContain('bridge doctor --config');
  });

  test('the columns that the source shows are asked for', async () => {
    const url = await serviceWithColumns();
    const { dir, isAllAsked } = await initAtTerminal([
      [/The URL of the sourcing service.*: /, `${url}\r`],
      [/The connector to your ERP \(.*\): /, 'file\r'],
      [/SOURCING_API_KEY .*: /, 'feed-key\r'],
      [/The column of the quantity \(Volume, Unit Price; Enter for none\): /, 'Volume\r'],
      [/The column of the unit price \(Volume, Unit Price; Enter for none\): /, 'Unit Price\r'],
    ]);
    expect(isAllAsked).toBe(true);
    const yaml = await readFile(join(dir, 'bridge.yaml'), 'utf8');
    expect(yaml).toMatch(/quantity_column: Volume\n +unit_price_column: Unit Price/);
  });

  test('a secret that is left out is named, with what is next', async () => {
    const { screen, code } = await initAtTerminal([
      [/The URL of the sourcing service.*: /, 'https://sourcing.example.com\r'],
      [/The connector to your ERP \(.*\): /, 'file\r'],
      [/SOURCING_API_KEY .*: /, '\r'],
    ]);
    expect([code, screen]).toEqual([0, expect.stringContaining('Next: fill in SOURCING_API_KEY in .env')]);
  });

  test.each([
    ['Ctrl-C', '\u0003'],
    ['the end of the input', '\u0004'],
  ])('%s ends it in one sentence, with exit code 2, and nothing is written', async (_, key) => {
    const { dir, screen, code } = await initAtTerminal([
      [/The URL of the sourcing service.*: /, 'local\r'],
      [/The connector to your ERP .*: /, key],
    ]);
    expect([code, screen]).toEqual([2, expect.stringContaining('There was no answer, and nothing was written.')]);
    expect(screen).not.toMatch(/^\s+at /m);
    expect(await readdir(dir)).toEqual([]);
  });
});
