/** `bridge webhooks` as real processes, against a real service and a receiver in another process. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, expect, test } from 'vitest';
import { systemClock } from '#platform/clock.ts';
import { type Receiver, startReceiver } from '../bridge/receive/receiver.ts';
import { scratchFolder } from '../harness/scratch-folder.ts';
import { createTestDatabase, type TestDatabase } from '../harness/test-database.ts';
import type { TestOrganisation } from '../harness/test-organisation.ts';
import { startTestService } from '../harness/test-service.ts';
import { runCommandLine } from './command-line.ts';

const service = await startTestService();
let organisation: TestOrganisation;
let db: TestDatabase;
let receiver: Receiver;
let folder: string;
beforeAll(async () => {
  organisation = await service.organisation();
  db = await createTestDatabase();
  receiver = await startReceiver({ database: db.database, clock: systemClock });
  folder = await scratchFolder();
  const sources = [{ name: 'main', base_url: service.url, api_key: organisation.key }];
  await writeFile(join(folder, 'bridge.yaml'), JSON.stringify({ bridge: { port: 0, sources } }));
});

function webhooks(...args: readonly string[]) {
  const env = {
    DATABASE_URL: db.url,
    // The same as the receiver's: both seal and open the same signing keys.
    SOURCING_MASTER_KEY: Buffer.alloc(32, 7).toString('base64'),
  };
  const config = ['--config', join(folder, 'bridge.yaml'), '--data', folder];
  return runCommandLine(['bridge', 'webhooks', ...args, ...config], env);
}

async function json(...args: readonly string[]) {
  const { code, stdout, stderr } = await webhooks(...args, '--source', 'main', '--json');
  expect(stderr).toBe('');
  return { code, value: JSON.parse(stdout) };
}

const atService = async () => (await organisation.call('GET', '/api/webhooks')).body.result as { uuid: string }[];

test('register, test, list, rotate and delete, for programs and for people', { timeout: 120_000 }, async () => {
  const made = await json('register', '--url', receiver.url, '--name', 'erp');
  expect(made).toMatchObject({ code: 0, value: { source: 'main', name: 'erp', url: receiver.url, made: true } });
  expect(await atService()).toMatchObject([{ uuid: made.value.uuid }]);
  expect((await json('register', '--url', receiver.url, '--name', 'erp')).value).toMatchObject({ made: false });

  expect(await json('test')).toMatchObject({ code: 0, value: { tested: [{ uuid: made.value.uuid, arrived: true }] } });

  const rotated = await json('rotate');
  expect(rotated).toMatchObject({ code: 0, value: { deleted: [made.value.uuid] } });
  const fresh = rotated.value.webhooks[0].uuid;
  expect(await atService()).toMatchObject([{ uuid: fresh }]);
  const tested = await webhooks('test', '--source', 'main');
  expect([tested.code, tested.stdout]).toEqual([0, expect.stringMatching(new RegExp(`${fresh} is in the inbox`))]);

  const listed = await webhooks('list', '--source', 'main');
  expect(listed.stdout).toMatch(/^webhook +name +url +at the service +key here +triggers$/m);
  expect(listed.stdout).toMatch(new RegExp(`^${fresh} +erp +${receiver.url} +active +current `, 'm'));
  expect(listed.stdout).toMatch(new RegExp(`^${made.value.uuid} +erp +${receiver.url} +gone +retired`, 'm'));

  await receiver.stop();
  const failed = await webhooks('test', '--source', 'main', '--timeout', '1');
  expect([failed.code, failed.stdout]).toEqual([1, expect.stringContaining('did not arrive')]);
  expect(failed.stdout).toContain('From this machine, the URL cannot be reached');

  // As other commands have it, although this one asks nothing.
  expect(await json('delete', '--yes')).toMatchObject({ code: 0, value: { deleted: [fresh] } });
  expect(await atService()).toEqual([]);
  const rotatedAgain = await webhooks('rotate', '--source', 'main');
  expect([rotatedAgain.code, rotatedAgain.stdout]).toEqual([1, '']);
  expect(rotatedAgain.stderr).toContain('bridge webhooks register --source main');
});

test.each([
  [['register'], "required option '--source <name>' not specified"],
  [['register', '--source', 'main'], 'add --url'],
  [['register', '--source', 'main', '--url', 'http://localhost/webhooks/main'], 'begins with https://'],
  [['register', '--source', 'main', '--url', 'https://elsewhere.example/x'], 'whitelisted'],
  [['rotate', '--source', 'nobody'], 'those that exist are: main'],
  [['test', '--source', 'main', '--timeout', '0'], 'It must be a whole number from 1'],
  [['nonsense'], "unknown command 'nonsense'"],
])('%j is wrong usage: 2', async (args, message) => {
  const { code, stdout, stderr } = await webhooks(...args);
  expect([code, stdout]).toEqual([2, '']);
  expect(stderr).toContain(message);
});
