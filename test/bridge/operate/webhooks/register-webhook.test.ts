import { beforeAll, describe, expect, test } from 'vitest';
import { registerWebhook } from '#bridge/operate/webhooks/register-webhook.ts';
import { readOwnWebhooks } from '#bridge/receive/webhook-store.ts';
import type { WebhookCalls } from '#client/webhook-calls.ts';
import { feedTriggers } from '#contract/webhook.ts';
import { AppError } from '#platform/errors.ts';
import { createTestDatabase, type TestDatabase } from '../../../harness/test-database.ts';
import { startTestService } from '../../../harness/test-service.ts';
import { testClock } from '../../parts.ts';
import { type Receiver, startReceiver, testSecrets } from '../../receive/receiver.ts';
import { type Commander, createCommander, type Death, survives } from './commander.ts';

const service = await startTestService();
const name = 'sourcing-bridge';
let db: TestDatabase;
let receiver: Receiver;
beforeAll(async () => {
  db = await createTestDatabase();
  // Waits take no time.
  receiver = await startReceiver({ database: db.database, clock: testClock() });
});

/** A new organisation of the service as the source `main`, and empty tables. */
async function newCommander(options: Parameters<typeof createCommander>[3] = {}): Promise<Commander> {
  await db.database.query('delete from bridge.webhooks');
  await db.database.query('delete from bridge.checkpoints');
  return createCommander(service, await service.organisation(), db, options);
}

const register = async (
  commander: Commander,
  { jobs = false, ...options }: { death?: Death; url?: string; alone?: boolean; jobs?: boolean } = {},
) =>
  registerWebhook(
    { ...(await commander.deps(options.death)), jobs },
    {
      name,
      url: options.url ?? receiver.url,
      ...(options.alone === undefined ? {} : { alone: options.alone }),
    },
  );

describe('registering', () => {
  test('creates a webhook for the feeds that are read, seals its key, and its notifications are accepted', async () => {
    const commander = await newCommander();
    const { webhook, made, deleted } = await register(commander);
    expect({ made, deleted }).toEqual({ made: true, deleted: [] });
    expect(await commander.atService()).toMatchObject([
      {
        uuid: webhook.uuid,
        name,
        url: receiver.url,
        triggers:
          '[SOURCING_EVENTS_FEED_UPDATED, LATEST_BIDS_FEED_UPDATED, AWARDS_FEED_UPDATED, RFI_RESPONSES_FEED_UPDATED]',
      },
    ]);
    const [own] = await readOwnWebhooks(db.database, 'main');
    expect(own).toMatchObject({ uuid: webhook.uuid, retired: null, deleted: null });
    // A sealed key is bound to its row: it cannot be opened as that of another row.
    const opened = testSecrets.open(own?.secret as Buffer, `bridge.webhooks.secret:${own?.id}`);
    expect(opened).toMatch(/^[\w-]{43}$/);
    expect(() => testSecrets.open(own?.secret as Buffer, 'bridge.webhooks.secret:another')).toThrow(/another row/);
    expect(own?.secret?.includes(Buffer.from(opened))).toBe(false);
    expect(await commander.arrived()).toBe(1);
  });

  test('twice creates one webhook', async () => {
    const commander = await newCommander();
    const first = await register(commander);
    expect(await register(commander)).toEqual({ webhook: first.webhook, made: false, deleted: [] });
    expect(await commander.atService()).toHaveLength(1);
  });

  test('by two commands at once creates one webhook', async () => {
    const commander = await newCommander();
    const both = await Promise.all([register(commander), register(commander)]);
    expect(both.filter(({ made }) => made)).toHaveLength(1);
    expect(await commander.atService()).toHaveLength(1);
    expect(await commander.arrived()).toBe(1);
  });

  test.each([
    ['was deleted at the service', (commander: Commander, uuid: string) => removeAt(commander, uuid)],
    [
      'was switched off by the service',
      async (_: Commander, uuid: string) =>
        void (await service.db.database.query('update service.webhooks set is_active = false where id = $1', [uuid])),
    ],
    [
      'announces other feeds than are read now',
      async (_: Commander, uuid: string) =>
        void (await service.db.database.query(`update service.webhooks set triggers = '{TEST}' where id = $1`, [uuid])),
    ],
  ])('replaces one that %s', async (_what, spoil) => {
    const commander = await newCommander();
    const first = await register(commander);
    await spoil(commander, first.webhook.uuid);
    const second = await register(commander);
    expect(second.made).toBe(true);
    expect((await commander.atService()).map(({ uuid }) => uuid)).toEqual([second.webhook.uuid]);
    expect(await commander.arrived()).toBe(1);
  });

  test('keeps foreign webhooks, and keeps its own to other URLs unless it is to be alone', async () => {
    const commander = await newCommander();
    const { client } = await commander.deps();
    await client.createWebhook({ name: 'foreign', url: receiver.url, triggers: ['TEST'] }, 'theirs');
    const elsewhere = `${receiver.url}/`;
    await register(commander, { url: elsewhere });
    await register(commander);
    expect((await commander.atService()).map((one) => [one.name, one.url])).toEqual([
      ['foreign', receiver.url],
      [name, elsewhere],
      [name, receiver.url],
    ]);
    const { made, deleted } = await register(commander, { alone: true });
    expect([made, deleted.length]).toEqual([false, 1]);
    expect((await commander.atService()).map((one) => [one.name, one.url])).toEqual([
      ['foreign', receiver.url],
      [name, receiver.url],
    ]);
  });

  test('that the service refuses leaves nothing, and the error says why', async () => {
    const commander = await newCommander();
    const refused = register(commander, { url: 'https://elsewhere.example/webhooks/main' });
    await expect(refused).rejects.toMatchObject({
      code: 'invalid',
      publicMessage: expect.stringContaining('whitelisted'),
    });
    expect(await readOwnWebhooks(db.database, 'main')).toEqual([]);
    expect(await commander.atService()).toEqual([]);
  });
});

test('a webhook whose key was lost is deleted, and the feeds that it announced become due', async () => {
  const commander = await newCommander();
  const { client } = await commander.deps();
  const { uuid } = await client.createWebhook({ name, url: receiver.url, triggers: ['AWARDS_FEED_UPDATED'] }, 'lost');
  await db.database.query(
    "insert into bridge.checkpoints (source, feed, next_pull, failures) values ('main', 'awards', '2999-01-01', 0)",
  );
  expect((await register(commander)).deleted).toEqual([uuid]);
  expect(await db.database.query('select feed from bridge.checkpoints where next_pull <= now()')).toEqual([
    { feed: 'awards' },
  ]);
});

describe('a process that dies at any step of registering', () => {
  test('leaves a state from which the next run makes exactly one working webhook', async () => {
    let unfinished = 0;
    for (const when of ['before', 'after'] as const)
      for (let step = 0; ; step += 1) {
        const commander = await newCommander();
        const finished = await survives(register(commander, { death: { step, when } }));
        const { webhook } = await register(commander);
        const death = `${when} step ${step}`;
        expect(
          (await commander.atService()).map(({ uuid }) => uuid),
          `died ${death}`,
        ).toEqual([webhook.uuid]);
        const own = await readOwnWebhooks(db.database, 'main');
        expect(
          own.filter(({ retired }) => retired === null),
          `died ${death}`,
        ).toMatchObject([{ uuid: webhook.uuid }]);
        expect(await commander.arrived(), `died ${death}`).toBe(1);
        if (finished) break;
        unfinished += 1;
      }
    // Lock, own webhooks, list, intent, creation, key and clean-up: a loop that ended early would prove nothing.
    expect(unfinished).toBeGreaterThan(12);
  });
});

describe('another service', () => {
  test('that does not list its webhooks is asked for each one, and gets one webhook', async () => {
    const commander = await newCommander({ alter: withoutList });
    const first = await register(commander);
    expect(await register(commander)).toEqual({ webhook: first.webhook, made: false, deleted: [] });
    await removeAt(commander, first.webhook.uuid);
    const second = await register(commander);
    expect(second.made).toBe(true);
    expect((await commander.atService()).map(({ uuid }) => uuid)).toEqual([second.webhook.uuid]);
  });

  test('without a list, but with idempotency keys: the webhook of a dead process is found and deleted', async () => {
    const commander = await newCommander({ alter: withoutList });
    // The webhook is created, and the answer is lost with the process.
    for (let step = 0; (await commander.atService()).length === 0; step += 1)
      expect(await survives(register(commander, { death: { step, when: 'after' } }))).toBe(false);
    const { webhook } = await register(commander);
    expect((await commander.atService()).map(({ uuid }) => uuid)).toEqual([webhook.uuid]);
    expect(await commander.arrived()).toBe(1);
  });

  test('that has another name for the awards trigger gets a webhook with that name', async () => {
    const asked: unknown[] = [];
    const commander = await newCommander({
      alter: (client) => ({
        createWebhook: async (request, key) => {
          asked.push(request.triggers);
          if (request.triggers.includes('AWARDS_FEED_UPDATED'))
            throw new AppError('invalid', 'triggers[2] is not known', { recovery: { do: 'halt' } });
          const triggers = request.triggers.filter((trigger: string) => trigger !== 'AWARD_FEED_UPDATED');
          return client.createWebhook({ ...request, triggers }, key);
        },
      }),
    });
    expect((await register(commander)).made).toBe(true);
    expect(asked.at(-1)).toEqual([
      'SOURCING_EVENTS_FEED_UPDATED',
      'LATEST_BIDS_FEED_UPDATED',
      'AWARD_FEED_UPDATED',
      'RFI_RESPONSES_FEED_UPDATED',
    ]);
  });

  const all = ['SOURCING_EVENTS_FEED_UPDATED', 'LATEST_BIDS_FEED_UPDATED', 'AWARD_FEED_UPDATED', 'JOB_UPDATED'];
  const ours = Object.values(feedTriggers);
  const eventsAndAwards = ['SOURCING_EVENTS_FEED_UPDATED', 'AWARD_FEED_UPDATED'];

  /** A service that knows these triggers, refuses others in the words of `say`, and shows them as they were sent. */
  function knowing(known: { triggers: readonly string[] }, say: (refused: string, place: number) => string) {
    const shown = new Map<string, readonly string[]>();
    let posts = 0;
    const alter = (client: WebhookCalls): Partial<WebhookCalls> => ({
      createWebhook: async (request, key) => {
        posts += 1;
        const place = request.triggers.findIndex((trigger) => !known.triggers.includes(trigger));
        const refused = request.triggers[place];
        if (refused !== undefined)
          throw new AppError('invalid', `POST /api/webhooks was answered with 400${say(refused, place)}`, {
            recovery: { do: 'halt' },
          });
        const created = await client.createWebhook({ ...request, triggers: ['TEST'] }, key);
        shown.set(created.uuid, request.triggers);
        return created;
      },
      listWebhooks: async () =>
        (await client.listWebhooks()).map((one) => ({ ...one, triggers: `[${shown.get(one.uuid)?.join(', ')}]` })),
    });
    const triggers = async (commander: Commander) =>
      (await commander.atService()).map(({ uuid }) => shown.get(uuid) ?? []);
    return { alter, triggers, posts: () => posts };
  }

  test.each([
    ['by its place', 4, (_: string, place: number) => `: triggers[${place}]: is not known`],
    ['by its name', 4, (refused: string) => `: triggers: "${refused}" is not a valid choice.`],
    ['only in a list of all that could be', 19, () => `: triggers: must be one of ${all.join(', ')}`],
    ['not at all', 19, () => '.'],
  ])('that refuses triggers, and says which %s, gets a webhook for the other feeds', async (_how, postsMax, say) => {
    const { alter, triggers, posts } = knowing({ triggers: ['JOB_UPDATED', ...eventsAndAwards] }, say);
    const commander = await newCommander({ alter });
    const { webhook, made } = await register(commander);
    expect([made, webhook.unannounced]).toEqual([true, ['latest-bids', 'rfi-responses']]);
    expect(await triggers(commander)).toEqual([eventsAndAwards]);
    expect(posts()).toBeLessThanOrEqual(postsMax);
  });

  test('that refuses triggers keeps its webhook at the next run, until it takes more of them', async () => {
    const known = { triggers: eventsAndAwards };
    const { alter, triggers } = knowing(known, (refused) => `: triggers: "${refused}" is not a valid choice.`);
    const commander = await newCommander({ alter });
    const { webhook } = await register(commander);
    expect(await register(commander)).toEqual({ webhook, made: false, deleted: [] });
    expect(await readOwnWebhooks(db.database, 'main')).toMatchObject([{ uuid: webhook.uuid, retired: null }]);
    known.triggers = all;
    const better = await register(commander);
    expect(better).toMatchObject({ made: true, deleted: [webhook.uuid], webhook: { unannounced: ['rfi-responses'] } });
    expect(await triggers(commander)).toEqual([all.slice(0, 3)]);
  });

  test('that announces the ends of jobs, too, gets another webhook where a flow takes them, and where none does any more', async () => {
    const { alter, triggers } = knowing({ triggers: ['JOB_UPDATED', ...ours] }, () => '.');
    const commander = await newCommander({ alter });
    await register(commander);
    expect(await triggers(commander)).toEqual([ours]);
    const withJobs = await register(commander, { jobs: true });
    expect(withJobs).toMatchObject({ made: true, webhook: { unannounced: [] } });
    expect(await triggers(commander)).toEqual([[...ours, 'JOB_UPDATED']]);
    expect(await register(commander, { jobs: true })).toMatchObject({ made: false, deleted: [] });
    await register(commander);
    expect(await triggers(commander)).toEqual([ours]);
  });

  test('that knows no trigger of jobs gets a webhook for all feeds, and is told of', async () => {
    const { alter, triggers } = knowing({ triggers: ours }, (refused) => `: triggers: "${refused}" is not known.`);
    const commander = await newCommander({ alter });
    expect(await register(commander, { jobs: true })).toMatchObject({ made: true, webhook: { unannounced: ['jobs'] } });
    expect(await triggers(commander)).toEqual([ours]);
    expect(await register(commander, { jobs: true })).toMatchObject({ made: false });
  });

  test('that knows none of the triggers gets no webhook, and the error is about the first try', async () => {
    const { alter, triggers } = knowing({ triggers: [] }, (refused) => `: triggers: "${refused}" is not known.`);
    const commander = await newCommander({ alter });
    await expect(register(commander)).rejects.toMatchObject({
      publicMessage: expect.stringContaining('"SOURCING_EVENTS_FEED_UPDATED" is not known'),
    });
    expect([await triggers(commander), await readOwnWebhooks(db.database, 'main')]).toEqual([[], []]);
  });

  test('that refuses something else is asked once', async () => {
    const { alter, posts } = knowing({ triggers: [] }, () => ': url: its domain is not allowed.');
    await expect(register(await newCommander({ alter }))).rejects.toMatchObject({ code: 'invalid' });
    expect(posts()).toBe(1);
  });

  test('our own in the profile public gets a webhook whose notifications are accepted, and keeps it', async () => {
    const open = await startTestService({ profile: 'public' });
    await db.database.query('delete from bridge.webhooks');
    const commander = createCommander(open, await open.organisation(), db);
    const first = await register(commander);
    const { triggers } = await (await commander.deps()).client.readWebhook(first.webhook.uuid);
    expect(triggers).toContain('AWARD_FEED_UPDATED');
    expect(await register(commander)).toEqual({ ...first, made: false });
    expect(await commander.arrived()).toBe(1);
  });

  test('that answers a repeated creation without a key gets another webhook', async () => {
    let lost = 0;
    const commander = await newCommander({
      alter: (client) => ({
        createWebhook: async (request, key) => {
          // As a client does when the first answer was lost.
          lost += 1;
          if (lost === 1) await client.createWebhook(request, key);
          return client.createWebhook(request, key);
        },
      }),
    });
    const { webhook } = await register(commander);
    expect((await commander.atService()).map(({ uuid }) => uuid)).toEqual([webhook.uuid]);
    expect(await commander.arrived()).toBe(1);
  });
});

function withoutList(): Partial<WebhookCalls> {
  return {
    listWebhooks: async () => {
      throw new AppError('invalid', 'GET /api/webhooks was answered with 405.', { recovery: { do: 'halt' } });
    },
  };
}

async function removeAt(commander: Commander, uuid: string): Promise<void> {
  const { client } = await commander.deps();
  await client.deleteWebhook(uuid);
}
