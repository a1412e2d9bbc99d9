import { beforeAll, expect, test } from 'vitest';
import { registerWebhook } from '#bridge/operate/webhooks/register-webhook.ts';
import { rotateWebhooks } from '#bridge/operate/webhooks/rotate-webhooks.ts';
import { openKey, readOwnWebhooks, retiredKeyMs } from '#bridge/receive/webhook-store.ts';
import { signBody } from '#contract/signature.ts';
import { systemClock } from '#platform/clock.ts';
import { parseCidrs } from '#platform/network-guard.ts';
import { createManualClock } from '../../../harness/manual-clock.ts';
import { testOutgoing } from '../../../harness/test-certificates.ts';
import { createTestDatabase, type TestDatabase } from '../../../harness/test-database.ts';
import { startTestService } from '../../../harness/test-service.ts';
import { testClock } from '../../parts.ts';
import { type Receiver, startReceiver, testSecrets } from '../../receive/receiver.ts';
import { type Commander, createCommander, type Death, survives } from './commander.ts';

const service = await startTestService();
const name = 'sourcing-bridge';
const loopback = parseCidrs(['127.0.0.0/8', '::1/128']);
let db: TestDatabase;
let receiver: Receiver;
beforeAll(async () => {
  db = await createTestDatabase();
  // Waits take no time.
  receiver = await startReceiver({ database: db.database, clock: testClock() });
});

async function newCommander(): Promise<Commander> {
  await db.database.query('delete from bridge.webhooks');
  await db.database.query('delete from bridge.checkpoints');
  const commander = createCommander(service, await service.organisation(), db);
  await registerWebhook(await commander.deps(), { name, url: receiver.url });
  return commander;
}

const rotate = async (commander: Commander, death?: Death) => rotateWebhooks(await commander.deps(death));

/** Returns the stored keys, the newest last. */
async function keys(): Promise<string[]> {
  const own = await readOwnWebhooks(db.database, 'main');
  return own.flatMap(({ id, secret }) => (secret === null ? [] : [openKey(testSecrets, { id, secret })]));
}

test('a rotation leaves one webhook with a new key, and makes every feed of the source due', async () => {
  const commander = await newCommander();
  const [before] = await commander.atService();
  await db.database.query(
    `insert into bridge.checkpoints (source, feed, next_pull, failures) values
       ('main', 'awards', '2999-01-01', 0), ('main', 'latest-bids', '2999-01-01', 3),
       ('other', 'awards', '2999-01-01', 0)`,
  );
  const { webhooks, deleted } = await rotate(commander);
  expect(deleted).toEqual([before?.uuid]);
  expect(await commander.atService()).toMatchObject([{ uuid: webhooks[0]?.uuid, name, url: receiver.url }]);
  const [old, fresh, ...more] = await keys();
  expect(more).toEqual([]);
  expect(old).not.toBe(fresh);
  expect(await commander.arrived()).toBe(1);
  expect(
    await db.database.query('select source, feed from bridge.checkpoints where next_pull <= now() order by feed'),
  ).toEqual([
    { source: 'main', feed: 'awards' },
    { source: 'main', feed: 'latest-bids' },
  ]);
});

test('without a webhook the error says how to register one', async () => {
  const commander = createCommander(service, await service.organisation(), db);
  await db.database.query('delete from bridge.webhooks');
  await expect(rotate(commander)).rejects.toMatchObject({
    publicMessage: expect.stringContaining('webhooks register'),
  });
});

test('a process that dies at any step leaves a working webhook, and the next rotation leaves exactly one', async () => {
  let unfinished = 0;
  for (const when of ['before', 'after'] as const)
    for (let step = 0; ; step += 1) {
      const commander = await newCommander();
      const finished = await survives(rotate(commander, { step, when }));
      const place = `${when} step ${step}`;
      const active = (await commander.atService()).map(({ uuid }) => uuid);
      const own = await readOwnWebhooks(db.database, 'main');
      // It is active at the service, and its key is stored and not retired: nothing has to be repaired.
      const working = own.filter((one) => one.secret && !one.retired && active.includes(String(one.uuid)));
      expect(working, `died ${place}`).toHaveLength(1);
      expect(await commander.arrived(), `died ${place}`).toBe(1);
      const { webhooks } = await rotate(commander);
      expect(
        (await commander.atService()).map(({ uuid }) => uuid),
        `died ${place}`,
      ).toEqual([webhooks[0]?.uuid]);
      expect(await commander.arrived(), `died ${place}`).toBe(1);
      if (finished) break;
      unfinished += 1;
    }
  expect(unfinished).toBeGreaterThan(14);
});

test('during a rotation every process accepts what the old and the new key sign', async () => {
  const commander = await newCommander();
  const [old] = await keys();
  if (old === undefined) throw new Error('no key');
  const processes: Receiver[] = [];
  for (let count = 0; count < 3; count += 1) processes.push(await startReceiver({ database: db.database }));
  const { fetch } = testOutgoing();
  const refused: unknown[] = [];
  let sent = 0;
  const send = async (key: string, kind: string) => {
    sent += 1;
    const body = JSON.stringify({ trigger: 'TEST', timestamp: '2030-01-01T00:00:00Z', payload: { number: sent } });
    const { status } = await fetch({
      url: processes[sent % processes.length]?.url ?? '',
      method: 'POST',
      headers: { 'x-signature': signBody(body, key) },
      body,
      allowedNetworks: loopback,
      timeoutMs: 30_000,
      responseBytesMax: 10_000,
    });
    if (status !== 200) refused.push({ status, kind });
  };
  const rotation = { isOver: false };
  const signed = { old: 0, fresh: 0 };
  const signOld = async () => {
    while (!rotation.isOver || signed.old < 50) {
      await send(old, 'old');
      signed.old += 1;
    }
  };
  const signFresh = async () => {
    // From the moment at which the key is stored.
    let fresh: string | undefined;
    while (fresh === undefined) fresh = (await keys()).find((key) => key !== old);
    while (!rotation.isOver || signed.fresh < 50) {
      await send(fresh, 'fresh');
      signed.fresh += 1;
    }
  };
  const signing = [signOld(), signOld(), signFresh(), signFresh()];
  await rotate(commander);
  rotation.isOver = true;
  await Promise.all(signing);
  expect(refused).toEqual([]);
});

test('a retired key is accepted for an hour and no longer', async () => {
  const commander = await newCommander();
  const [old] = await keys();
  await rotate(commander);
  const [, fresh] = await keys();
  const clock = createManualClock(systemClock.nowMs());
  const { signingKeys } = await startReceiver({ database: db.database, clock });
  const known = async () => {
    await signingKeys.refresh();
    return signingKeys.keysOf('main');
  };
  expect(new Set(await known())).toEqual(new Set([old, fresh]));
  clock.advance(retiredKeyMs - 60_000);
  expect(await known()).toContain(old);
  clock.advance(60_000);
  expect(await known()).toEqual([fresh]);
});
