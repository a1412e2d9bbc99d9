import { readFile, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, describe, expect, test } from 'vitest';
import { connectorNames } from '../../src/cli/commands/connector-list.ts';
import { readConfiguration } from '../../src/cli/configuration.ts';
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
  const args = ['init', '--dir', dir, '--source', service.url, '--connector', 'file', '--flow', 'erp'];
  const { code, stdout, stderr } = await runCommandLine(args, {
    SOURCING_API_KEY: key,
    DATA_DIR: data,
    DATABASE_URL: service.db.url,
  });
  expect([code, stderr]).toEqual([0, '']);
  expect(stdout).toContain('flow erp');
  expect(stdout).toContain('bridge webhooks register --source main');
  expect(stdout + (await readFile(join(dir, 'bridge.yaml'), 'utf8'))).not.toContain(key);
  expect(await readFile(join(dir, '.env'), 'utf8')).toContain(`SOURCING_API_KEY=${key}`);
  expect((await stat(join(dir, '.env'))).mode & 0o777).toBe(0o600);
});

describe('the configuration of each connector', () => {
  test.each(connectorNames())(
    '%s: what is missing in .env is named, and with it the bridge accepts it',
    async (connector) => {
      const made = await init('--source', 'https://sourcing.example.com/', '--connector', connector);
      expect(made.stdout).toContain('fill in SOURCING_API_KEY');
      expect(() => readConfiguration(made.yaml, {}, {})).toThrow('SOURCING_API_KEY, which is not set');
      const filled = (await readFile(made.env, 'utf8')).replaceAll(/=$/gm, '=value-of-.env');
      await writeFile(made.env, filled);
      const { bridge } = readConfiguration(made.yaml, {}, {});
      expect(bridge.sources).toMatchObject([{ base_url: 'https://sourcing.example.com', api_key: 'value-of-.env' }]);
      expect(bridge.flows).toMatchObject([{ name: `to-${connector}`, source: 'main', connector }]);
      expect(readConfiguration(made.yaml, {}, { SOURCING_API_KEY: 'own' }).bridge.sources[0]?.api_key).toBe('own');
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
  expect([made.code, made.stdout]).toEqual([0, expect.stringContaining(`start --config`)]);
  const before = await readFile(made.yaml, 'utf8');
  const again = await runHere(['init', '--dir', made.dir, '--source', 'local', '--connector', 'http'], {});
  expect(again).toMatchObject({ code: 2, stderr: expect.stringContaining('overwrites nothing') });
  expect(await readFile(made.yaml, 'utf8')).toBe(before);
});
