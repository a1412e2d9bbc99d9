/** `bridge webhooks`, against a real service and a receiver. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, expect, test } from 'vitest';
import { systemClock } from '#platform/clock.ts';
import { type Receiver, startReceiver } from '../bridge/receive/receiver.ts';
import { json as answer, startScriptedService, status } from '../client/scripted-service.ts';
import { closeAtEnd } from '../harness/close-at-end.ts';
import { scratchFolder } from '../harness/scratch-folder.ts';
import { createTestDatabase, type TestDatabase } from '../harness/test-database.ts';
import type { TestOrganisation } from '../harness/test-organisation.ts';
import { startTestService } from '../harness/test-service.ts';
import { runHere } from './command-line.ts';

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
  return runHere(['bridge', 'webhooks', ...args, ...config], env);
}

async function json(...args: readonly string[]) {
  const { code, stdout, stderr } = await webhooks(...args, '--source', 'main', '--json');
  expect(stderr).toBe('');
  return { code, value: JSON.parse(stdout) };
}

const atService = async () => (await organisation.call('GET', '/api/webhooks')).body.result as { uuid: string }[];

test('register, test, list, rotate and delete, for programs and for people', async () => {
  const made = await json('register', '--url', receiver.url);
  expect(made).toMatchObject({
    code: 0,
    value: { source: 'main', name: 'sourcing-bridge', url: receiver.url, made: true },
  });
  expect(await atService()).toMatchObject([{ uuid: made.value.uuid }]);
  expect((await json('register', '--url', receiver.url)).value).toMatchObject({ made: false });

  expect(await json('test')).toMatchObject({ code: 0, value: { tested: [{ uuid: made.value.uuid, arrived: true }] } });

  const rotated = await json('rotate');
  expect(rotated).toMatchObject({ code: 0, value: { deleted: [made.value.uuid] } });
  const fresh = rotated.value.webhooks[0].uuid;
  expect(await atService()).toMatchObject([{ uuid: fresh }]);
  const tested = await webhooks('test', '--source', 'main');
  expect([tested.code, tested.stdout]).toEqual([0, expect.stringMatching(new RegExp(`${fresh} is in the inbox`))]);

  const listed = await webhooks('list', '--source', 'main');
  expect(listed.stdout).toMatch(/^webhook +name +url +at the service +key here +triggers$/m);
  expect(listed.stdout).toMatch(new RegExp(`^${fresh} +sourcing-bridge +${receiver.url} +active +current `, 'm'));
  expect(listed.stdout).toMatch(
    new RegExp(`^${made.value.uuid} +sourcing-bridge +${receiver.url} +gone +retired`, 'm'),
  );

  await receiver.stop();
  const failed = await webhooks('test', '--source', 'main', '--timeout', '1');
  expect([failed.code, failed.stdout]).toEqual([1, expect.stringContaining('did not arrive')]);
  expect(failed.stdout).toMatch(/^- The service (says why: localhost could not be connected to|has not sent it yet)/m);

  expect(await json('delete')).toMatchObject({ code: 0, value: { deleted: [fresh] } });
  expect(await atService()).toEqual([]);
  const rotatedAgain = await webhooks('rotate', '--source', 'main');
  expect([rotatedAgain.code, rotatedAgain.stdout]).toEqual([1, '']);
  expect(rotatedAgain.stderr).toContain('bridge webhooks register --source main');
});

test('a trigger that the service refuses is said, and makes the exit code 1; the other feeds are registered', async () => {
  const known = ['SOURCING_EVENTS_FEED_UPDATED', 'AWARD_FEED_UPDATED', 'RFI_RESPONSES_FEED_UPDATED'];
  const uuid = '00000000-0000-4000-8000-000000000001';
  const url = 'https://bridge.example.com/webhooks/main';
  let registered: string[] = [];
  const other = await startScriptedService();
  closeAtEnd(() => other.close());
  other.answers = [
    (response, request) => {
      if (request.method === 'GET' && registered.length === 0) return status(404)(response, request);
      const shown = { uuid, name: 'sourcing-bridge', url, triggers: registered };
      if (request.method === 'GET')
        return answer(request.url === `/api/webhooks/${uuid}` ? shown : { result: [shown] })(response, request);
      const { triggers } = JSON.parse(other.requests.at(-1)?.body ?? '{}') as { triggers: string[] };
      const refused = triggers.find((trigger) => !known.includes(trigger));
      const body = { errors: [], field_errors: { triggers: [`"${refused}" is not a valid choice.`] } };
      if (refused !== undefined) return answer(body, {}, 400)(response, request);
      registered = triggers;
      answer({ ...shown, triggers, signing_key: 'k'.repeat(43) }, {}, 201)(response, request);
    },
  ];
  const sources = [{ name: 'main', base_url: other.url, api_key: 'key', poll_seconds: 90 }];
  const config = join(folder, 'other.yaml');
  await writeFile(config, JSON.stringify({ bridge: { port: 0, sources } }));
  const fresh = await createTestDatabase();
  const register = (...more: string[]) =>
    runHere(
      [
        'bridge',
        'webhooks',
        'register',
        '--source',
        'main',
        '--url',
        url,
        '--config',
        config,
        '--data',
        folder,
        ...more,
      ],
      { DATABASE_URL: fresh.url, SOURCING_MASTER_KEY: Buffer.alloc(32, 7).toString('base64') },
    );
  const made = await register();
  expect([made.code, made.stderr]).toEqual([1, '']);
  expect(made.stdout).toContain('Not registered: latest-bids.');
  expect(made.stdout).toContain('read every 90 s');
  expect(registered).toEqual(known);
  const again = await register('--json');
  expect(again.code).toBe(1);
  expect(JSON.parse(again.stdout)).toMatchObject({ uuid, made: false, unannounced: ['latest-bids'], deleted: [] });
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
