/**
 * The service as a process, killed with -9 at seeded instants while the simulator plays every plot against it and a
 * receiver takes its notifications. FAULTS sets the number of kills, FAULT_SEED the instants.
 */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { createSourceClient, type SourceClient } from '#client/source-client.ts';
import { type FeedName, feedNames } from '#contract/feed.ts';
import { signatureMatches } from '#contract/signature.ts';
import { feedTriggers } from '#contract/webhook.ts';
import { systemClock } from '#platform/clock.ts';
import { AppError } from '#platform/errors.ts';
import { playStory } from '#service/simulator/play-story.ts';
import { closeAtEnd } from '../harness/close-at-end.ts';
import { freePort } from '../harness/free-port.ts';
import { testCertificates, testOutgoing } from '../harness/test-certificates.ts';
import { createOrganisation } from '../harness/test-organisation.ts';
import { type Received, startWebhookReceiver } from '../harness/webhook-receiver.ts';
import { readRows, readServiceState } from './awards-in-sql.ts';
import { createInstallation, lineOf, outcomeOf, until, useEmbedded } from './program-process.ts';
import { seededRandom } from './seeded-random.ts';

type Client = Pick<SourceClient, 'readFeed' | 'readList' | 'call'>;

const kills = Number(process.env['FAULTS'] ?? 2);
const seed = Number(process.env['FAULT_SEED'] ?? 23);
const triggers = [...Object.values(feedTriggers), 'JOB_UPDATED'];

interface FeedRecord {
  id: string | number;
  modified: string;
}

test(`a service killed at ${kills} instants finishes every submission and announces every change`, {
  timeout: 180_000 + kills * 15_000,
}, async () => {
  const receiver = await startWebhookReceiver();
  const port = await freePort();
  const baseUrl = `http://127.0.0.1:${port}`;
  const installation = await createInstallation({ configuration: { sweep_seconds: 1 } });
  const env = { NODE_EXTRA_CA_CERTS: testCertificates().caFile };
  const start = () => installation.start(['service', '--port', String(port)], env);

  const first = start();
  await lineOf(first, /ready/);
  const { apiKey, signingKey } = await setUp(installation.dataDir, baseUrl, receiver.url);
  const failed = new AbortController();
  const client = await retryingClient(baseUrl, apiKey, failed.signal);
  const killed = new AbortController();
  const played = new AbortController();
  const playing = playOn(client, () => killed.signal.aborted, failed.signal);
  const reading = Promise.all(feedNames.map((feed) => follow(client, feed, played.signal)));
  // When the test fails, playing and reading end before their connections are closed.
  closeAtEnd(async () => {
    failed.abort();
    played.abort();
    await Promise.allSettled([playing, reading]);
  });
  const random = seededRandom(seed);
  let service = first;
  for (let number = 0; number < kills; number += 1) {
    // Every fourth kill comes while the service starts.
    if (number % 4 !== 3) await lineOf(service, /ready/);
    await sleep(random.upTo(1_200));
    await service.kill();
    expect(outcomeOf(service)).toBe('killed');
    service = start();
  }
  await lineOf(service, /ready/);
  killed.abort();
  await playing;
  played.abort();
  const seen = await reading;

  await useEmbedded(installation.dataDir, async (url) => {
    await until('nothing waits any more', async () => (await readWaiting(url)).length === 0);
    await expectAnnounced(url, receiver.received, signingKey);
    await expectNothingTwice(url);
    const { awards, reopened } = await readServiceState(url);
    expect(Object.keys(awards).length).toBeGreaterThan(0);
    // Each event was played to its end.
    expect(reopened).toEqual([]);
    expect(await awardsOfFeed(client)).toEqual(awards);
  });
  for (const [index, feed] of feedNames.entries()) {
    const whole = await readAll(client, feed, '');
    const versions = new Map(whole.map(({ id, modified }) => [id, modified]));
    // The reader only followed `modified_after`. Other records that it holds have been hidden since.
    await until(`the reader of ${feed} holds every record's last state`, async () => {
      await seen[index]?.readOn();
      return [...versions].every(([id, modified]) => seen[index]?.held.get(id) === modified);
    });
  }
  await service.terminate();
  expect(outcomeOf(service)).toBe('exit code 0');
});

/** The jobs, submissions and deliveries that were accepted and are not finished. */
async function readWaiting(url: string) {
  return readRows(
    url,
    `select id::text from service.jobs where status = 'PENDING'
     union all select id::text from service.supplier_submissions where state = 'UNPROCESSED'
     union all select id::text from service.deliveries where state in ('pending', 'sending')`,
  );
}

async function expectAnnounced(url: string, received: readonly Received[], signingKey: string): Promise<void> {
  const bytes = new Map<string, string>();
  for (const { headers, body } of received) {
    expect(signatureMatches(body, String(headers['x-signature']), [signingKey])).toBe(true);
    const id = String(headers['webhook-id']);
    // A notification may come more than once, but always with the same bytes.
    expect(bytes.get(id) ?? body.toString()).toBe(body.toString());
    bytes.set(id, body.toString());
  }
  const announced = (trigger: string) =>
    received.filter(({ json }) => json.trigger === trigger).map(({ json }) => json.payload);
  const heads = await readRows<{ feed: FeedName; last: string }>(
    url,
    `select feed, to_char(last_modified at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as last
     from service.feed_heads where feed <> 'suppliers' and last_modified is not null`,
  );
  expect(heads.map(({ feed }) => feed).sort()).toEqual([...feedNames].sort());
  for (const { feed, last } of heads) {
    // A feed that had no record yet has no time to announce.
    const times = announced(feedTriggers[feed]).flatMap(({ feed_modified: at }) =>
      typeof at === 'string' ? [at] : [],
    );
    expect([feed, times.sort().at(-1)]).toEqual([feed, last]);
  }
  const jobs = await readRows<{ id: string; status: string }>(url, 'select id, status from service.jobs');
  const notified = new Set(announced('JOB_UPDATED').map(({ job, status }) => `${String(job)} ${String(status)}`));
  expect(jobs.filter(({ id, status }) => !notified.has(`${id} ${status}`))).toEqual([]);
}

/** Names of events are unique within a story, so a job that was worked twice would show up. */
async function expectNothingTwice(url: string): Promise<void> {
  const twice = await readRows(
    url,
    `select name from service.sourcing_events group by name having count(*) > 1
     union all select name from service.sourcing_requests group by name having count(*) > 1`,
  );
  expect(twice).toEqual([]);
  const failed = await readRows(url, `select type, errors from service.jobs where status = 'FAILED'`);
  expect(failed).toEqual([]);
}

/** The feed's awards in the form of `readServiceState`. */
async function awardsOfFeed(client: Client): Promise<Record<string, string[]>> {
  const awards: Record<string, string[]> = {};
  for (const record of await readAll(client, 'awards', '')) {
    const {
      sourcing_event: event,
      lot_name: lot,
      awards: entries,
    } = record as unknown as {
      sourcing_event: string;
      lot_name: string;
      awards: { supplier: string; share_awarded: string; cost: string }[];
    };
    for (const { supplier, share_awarded: share, cost } of entries)
      (awards[`${event}/${supplier}`] ??= []).push(`${lot} ${share} ${cost}`);
  }
  for (const lines of Object.values(awards)) lines.sort();
  return awards;
}

async function readAll(client: Client, feed: FeedName, modifiedAfter: string): Promise<FeedRecord[]> {
  const records: FeedRecord[] = [];
  const first = { modifiedAfter: modifiedAfter === '' ? undefined : modifiedAfter, pageSize: 50 };
  for (let at: Parameters<Client['readFeed']>[1] = first; ; ) {
    const page = await client.readFeed(feed, at);
    records.push(...(page.records as unknown as FeedRecord[]));
    if (page.next === undefined) return records;
    at = { next: page.next };
  }
}

/** A reader that keeps the newest `modified` it has seen and never reads older records again. */
async function follow(client: Client, feed: FeedName, signal: AbortSignal) {
  const held = new Map<string | number, string>();
  let checkpoint = '';
  const readOn = async () => {
    for (const { id, modified } of await readAll(client, feed, checkpoint)) {
      held.set(id, modified);
      checkpoint = modified;
    }
  };
  while (!signal.aborted) {
    await readOn();
    await sleep(50);
  }
  return { held, readOn };
}

/**
 * Plays one event after another, every plot in turn, until each plot was played and `isEnough`, or until it is aborted.
 */
async function playOn(client: Client, isEnough: () => boolean, signal: AbortSignal): Promise<void> {
  const plots = 8;
  for (let number = 1; !signal.aborted && (number <= plots || !isEnough()); number += 1)
    await playStory({
      client,
      clock: systemClock,
      seed: seed + number,
      events: 1,
      firstEvent: number,
      suppliers: 4,
      lots: 4,
      pauseMs: 5,
      print: () => undefined,
      signal,
    });
}

/**
 * A client that repeats calls while the service is down, until it is aborted: each call of the story may be repeated.
 */
async function retryingClient(baseUrl: string, apiKey: string, signal: AbortSignal): Promise<Client> {
  const { fetch } = testOutgoing();
  const settings = { baseUrl, apiKey, timeoutMs: 30_000, retries: 0 };
  const client = createSourceClient({ settings, fetch, clock: systemClock });
  const again = async <T>(once: () => Promise<T>): Promise<T> => {
    for (;;) {
      try {
        return await once();
      } catch (error) {
        if (signal.aborted || !(error instanceof AppError) || error.recovery.do !== 'retry') throw error;
        await sleep(100);
      }
    }
  };
  return {
    ...client,
    readFeed: (...args) => again(() => client.readFeed(...args)),
    call: (...args) => again(() => client.call(...args)),
  };
}

async function setUp(dataDir: string, baseUrl: string, webhookUrl: string) {
  const adminToken = (await readFile(join(dataDir, 'admin-token'), 'utf8')).trim();
  const organisation = await createOrganisation(baseUrl, adminToken);
  const webhook = await organisation.call('POST', '/api/webhooks', { name: 'receiver', url: webhookUrl, triggers });
  return { apiKey: organisation.key, signingKey: String(webhook.body.signing_key) };
}
