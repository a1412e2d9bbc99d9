/** The routes of a service that misbehaves, over HTTP: what the model answers is what a client gets. */
import { beforeAll, describe, expect, test } from 'vitest';
import type { FeedName } from '#contract/feed.ts';
import { timestampFromMs } from '#contract/timestamp.ts';
import type { Clock } from '#platform/clock.ts';
import { appendFeedRecords, hideFeedRecords } from '#service/feeds/append-feed-records.ts';
import { createFeedCopies } from '#service/misbehave/feed-copies.ts';
import type { HostileAnswer } from '#service/misbehave/hostile-feed.ts';
import { readMisbehaviour } from '#service/misbehave/misbehaviour.ts';
import { writtenChange } from '../../harness/feed-writer.ts';
import { startMisbehavingServer } from '../../harness/misbehaving-server.ts';
import type { TestOrganisation } from '../../harness/test-organisation.ts';
import { startTestService, type TestService } from '../../harness/test-service.ts';

const feed = 'awards';
const startMs = Date.UTC(2030, 0, 1);
const eventId = '4d1f6a52-7f0e-4a35-8a3e-0c2f6a1d9b70';
const idOf = (n: number) => `00000000-0000-4000-8000-${String(n).padStart(12, '0')}`;

let service: TestService;

beforeAll(async () => {
  service = await startTestService();
});

/** Appends records as a command does at this time. */
async function append(
  organisation: TestOrganisation,
  atMs: number,
  numbers: readonly number[],
  text = 'lot',
  to: Exclude<FeedName, 'sourcing-events'> = feed,
) {
  const records = numbers.map((n) => ({ id: idOf(n), event: eventId, requests: [], text: `${text} ${n}` }));
  await service.db.database.transaction((tx) =>
    appendFeedRecords(
      { tx, wake: () => undefined },
      {
        event: { id: eventId, organisationId: organisation.id, name: 'event', sourcingRequests: [] },
        now: timestampFromMs(atMs),
        changes: [writtenChange(to, records)],
      },
    ),
  );
}

/** An organisation with twelve awards that were written before the start, three at a time. */
async function organisationWithAwards(): Promise<TestOrganisation> {
  const organisation = await service.organisation();
  for (let n = 0; n < 12; n += 3) await append(organisation, startMs - (12 - n) * 1_000, [n, n + 1, n + 2]);
  return organisation;
}

/** The misbehaving routes on the test service's database, with a clock that stands still. */
async function startMisbehaving(list: string, seed = 'seed') {
  const now = { ms: startMs };
  const slept: number[] = [];
  const clock: Clock = { nowMs: () => now.ms, sleep: async (ms) => void slept.push(ms) };
  const deps = { database: service.db.database, clock, misbehaviour: readMisbehaviour(list), seed };
  const url = await startMisbehavingServer(deps);
  const ask = (key: string, path: string, method = 'GET') =>
    fetch(new URL(path, url), { method, headers: { authorization: `Bearer ${key}` }, redirect: 'manual' });
  return { url, now, slept, ask, copies: createFeedCopies(deps) };
}

const headersCompared = ['date', 'retry-after', 'feed-order', 'location', 'content-type'];

/** What a client sees of an answer; `cut` when the connection breaks. */
async function seenOf(answering: Promise<Response>) {
  try {
    const answer = await answering;
    const headers = headersCompared.map((name) => [
      name,
      answer.headers.get(name)?.replace(/; charset.*$/, '') ?? null,
    ]);
    return { status: answer.status, headers, body: await answer.text() };
  } catch {
    return 'cut';
  }
}

function seenOfModel(model: HostileAnswer | 'cut') {
  if (model === 'cut') return 'cut';
  const headers = headersCompared.map((name) => [name, model.headers[name] ?? null]);
  return { status: model.status, headers, body: model.body };
}

describe('over HTTP a client gets what the model answers:', () => {
  // One of each way in which an answer goes out: the model itself is tested with every quirk.
  test.each([
    '',
    'page-numbers',
    'next-other-host',
    'no-date',
    'clock-jumps',
    'too-many',
    'server-errors',
    'cut',
    'truncated',
    'slow',
    'slash-redirect',
  ])('%s', async (list) => {
    const organisation = await organisationWithAwards();
    const { url, now, slept, ask, copies } = await startMisbehaving(list);
    const delays: number[] = [];
    const askBoth = async (path: string): Promise<string | undefined> => {
      const seen = await seenOf(ask(organisation.key, path));
      const model = (await copies.copyOf(organisation.id, feed)).answer(new URL(path, url), now.ms * 1_000);
      expect(seen).toEqual(seenOfModel(model));
      if (model === 'cut') return undefined;
      delays.push(model.delayMs);
      // `next` may name another host.
      const next = /"next":"([^"]+)"/.exec(model.body)?.[1];
      return next && next.slice(next.indexOf('/api/'));
    };
    for (const seconds of [0, 60]) {
      now.ms = startMs + seconds * 1_000;
      if (seconds > 0) await append(organisation, now.ms, [3, 12], 'changed');
      const next = await askBoth(`/api/feeds/${feed}?page_size=4`);
      const third = next === undefined ? undefined : await askBoth(next);
      if (third !== undefined) await askBoth(third);
      for (let n = 0; n < 8; n += 1) await askBoth(`/api/feeds/${feed}/?page_size=100`);
      await askBoth(
        `/api/feeds/${feed}?page_size=5&modified_after=2029-12-31T23:59:50Z&modified_before=2029-12-31T23:59:54Z`,
      );
    }
    expect(slept).toEqual(delays);
  });
});

const records = async (answer: Response) => ((await answer.json()) as { data: Record<string, unknown>[] }).data;

describe('the truth', () => {
  test('is what the real feed shows, page by page', async () => {
    const organisation = await organisationWithAwards();
    await append(organisation, startMs - 500, [5], 'changed');
    const { ask } = await startMisbehaving('no-rows=1,order-descending,page-numbers');
    const real = (await organisation.call('GET', `/api/feeds/${feed}`)).body.data as Record<string, unknown>[];
    const truth: Record<string, unknown>[] = [];
    let next: string | null = `/misbehave/truth/${feed}?page_size=5`;
    while (next !== null) {
      const page = (await (await ask(organisation.key, next)).json()) as {
        data: Record<string, unknown>[];
        next: string | null;
      };
      expect(page.data.length).toBeLessThanOrEqual(5);
      truth.push(...page.data);
      next = page.next;
    }
    expect(truth).toHaveLength(12);
    expect(truth).toEqual(real.toSorted((a, b) => (String(a['id']) < String(b['id']) ? -1 : 1)));
    expect(await records(await ask(organisation.key, `/api/feeds/${feed}`))).toEqual([]);
  });

  test('leaves out what the feed has hidden, and a record that comes back is there again', async () => {
    const organisation = await organisationWithAwards();
    const { ask } = await startMisbehaving('page-numbers');
    const count = async () => (await records(await ask(organisation.key, `/misbehave/truth/${feed}`))).length;
    expect(await count()).toBe(12);
    await service.db.database.transaction((tx) =>
      hideFeedRecords({ tx, wake: () => undefined }, { id: eventId, organisationId: organisation.id }, [feed]),
    );
    expect(await count()).toBe(0);
    expect(await records(await ask(organisation.key, `/api/feeds/${feed}`))).toEqual([]);
    await append(organisation, startMs, [1, 2]);
    expect(await count()).toBe(2);
  });

  test('needs a key, a known feed and a page size that is allowed', async () => {
    const { key } = await service.organisation();
    const { ask } = await startMisbehaving('page-numbers');
    const statuses = await Promise.all([
      ask('sb_wrong', `/misbehave/truth/${feed}`),
      ask('sb_wrong', '/misbehave'),
      ask('sb_wrong', '/misbehave/calm', 'POST'),
      ask('sb_wrong', `/api/feeds/${feed}`),
      ask(key, '/misbehave/truth/constructor'),
      ask(key, `/misbehave/truth/${feed}?page_size=1001`),
    ]);
    expect(statuses.map(({ status }) => status)).toEqual([401, 401, 401, 401, 404, 400]);
  });
});

describe('a misbehaving feed', () => {
  test('takes the filters and includes of the real one, and refuses what that refuses', async () => {
    const organisation = await organisationWithAwards();
    const { ask } = await startMisbehaving('page-numbers');
    const path = `/api/feeds/${feed}`;
    expect(await records(await ask(organisation.key, `${path}?sourcing_event=${eventId}`))).toHaveLength(12);
    expect(await records(await ask(organisation.key, `${path}?sourcing_event=${idOf(1)}`))).toEqual([]);
    const query = '?include=suppliers&include=sourcing_events&page_size=1';
    const page = (await (await ask(organisation.key, path + query)).json()) as Record<string, unknown>;
    const real = (await organisation.call('GET', path + query)).body as Record<string, unknown>;
    expect(page).toEqual({ ...real, next: expect.stringContaining('page_number=2') });
    expect((await ask(organisation.key, `${path}?page_size=0`)).status).toBe(400);
    expect((await ask(organisation.key, `${path}?unknown=1`)).status).toBe(400);
  });

  test('has a hundred records on a page when none is asked for, as the real one', async () => {
    const organisation = await service.organisation();
    await append(
      organisation,
      startMs - 1_000,
      Array.from({ length: 101 }, (_, n) => n),
    );
    const { ask } = await startMisbehaving('order-descending');
    expect(await records(await ask(organisation.key, `/api/feeds/${feed}`))).toHaveLength(100);
  });

  test('counts requests against the rate limits', async () => {
    const organisation = await organisationWithAwards();
    await service.operator('PUT', `/admin/organisations/${organisation.id}/limits`, {
      enabled: true,
      feeds: { burst: 2, sustained: 100 },
    });
    const { ask } = await startMisbehaving('page-numbers');
    const answers = [];
    for (let n = 0; n < 3; n += 1) answers.push(await ask(organisation.key, `/api/feeds/${feed}`));
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 429]);
    expect(answers[2]?.headers.get('ratelimit')).toContain('feeds.awards');
  });

  test('never shows the records of another organisation, nor tells of them', async () => {
    const [acme, other] = [await organisationWithAwards(), await service.organisation()];
    await append(other, startMs - 1_000, [77], 'secret');
    const all = 'order-random-by-page,unstable-ties,replica-lag=5,hidden-rows=3,page-numbers,next-missing=0.2';
    const { ask } = await startMisbehaving(all);
    for (let n = 0; n < 20; n += 1) {
      const texts = await Promise.all(
        [`/api/feeds/${feed}?page_size=100`, `/misbehave/truth/${feed}`, '/misbehave'].map(async (path) =>
          (await ask(acme.key, path)).text(),
        ),
      );
      expect(texts.join('')).not.toContain('secret');
      const shown = await records(await ask(other.key, `/api/feeds/${feed}?page_size=100`));
      expect(shown.map(({ id }) => id).filter((id) => id !== idOf(77))).toEqual([]);
    }
    // An organisation that is calm changes nothing for another.
    await ask(other.key, '/misbehave/calm', 'POST');
    const calm = async (key: string) => ((await (await ask(key, '/misbehave')).json()) as { calm: boolean }).calm;
    expect([await calm(acme.key), await calm(other.key)]).toEqual([false, true]);
  });

  test('is refused when its copies are too large for the memory, and not read any further', async () => {
    const organisation = await organisationWithAwards();
    let reads = 0;
    const { database } = service.db;
    const query: typeof database.query = (statement, ...rest) => {
      if (typeof statement === 'string' && statement.includes('modified, body')) reads += 1;
      return database.query(statement, ...rest);
    };
    const clock = { nowMs: () => startMs, sleep: () => Promise.resolve() };
    const deps = { database: { ...database, query }, clock, misbehaviour: readMisbehaviour('offsets'), seed: 'seed' };
    const copies = createFeedCopies({ ...deps, textLengthMax: 1_000 });
    expect((await copies.copyOf(organisation.id, feed)).textLength).toBeGreaterThan(1_000);
    await append(organisation, startMs, [1], 'changed');
    for (let n = 0; n < 2; n += 1)
      await expect(copies.copyOf(organisation.id, feed)).rejects.toThrow('these are too large');
    expect(reads).toBe(1);
  });

  test('answers requests that come at once from one copy: each version is taken over once', async () => {
    const organisation = await organisationWithAwards();
    const { ask } = await startMisbehaving('late-commits=20');
    const state = async () => (await (await ask(organisation.key, '/misbehave')).json()) as object;
    await Promise.all(Array.from({ length: 8 }, () => ask(organisation.key, `/api/feeds/${feed}`)));
    const { copies } = await startMisbehaving('late-commits=20');
    const waiting = (await copies.copyOf(organisation.id, feed)).waiting(startMs * 1_000);
    expect(waiting).toBeGreaterThan(0);
    expect(await state()).toMatchObject({ feeds: { [feed]: { waiting } } });
  });
});

describe('a service that is calmed', () => {
  test('has no faults and no new late versions, keeps its paging and order, and starts again when asked', async () => {
    const organisation = await organisationWithAwards();
    const { ask, now } = await startMisbehaving('server-errors=1,late-commits=20,order-descending');
    const state = async (method: string, path = '/misbehave/calm') =>
      (await (await ask(organisation.key, path, method)).json()) as object;
    const quirks = ['server-errors=1', 'late-commits=20', 'order-descending'];
    expect(await state('GET', '/misbehave')).toMatchObject({ quirks, seed: 'seed', calm: false });
    expect((await ask(organisation.key, `/api/feeds/${feed}`)).status).toBeGreaterThanOrEqual(500);
    expect(await state('POST')).toMatchObject({ calm: true });
    // What was late before comes in its time.
    now.ms = startMs + 20_000;
    await append(
      organisation,
      now.ms,
      Array.from({ length: 20 }, (_, n) => n + 20),
    );
    expect(await state('GET', '/misbehave')).toMatchObject({ feeds: { [feed]: { waiting: 0 } } });
    const shown = await records(await ask(organisation.key, `/api/feeds/${feed}`));
    const truth = await records(await ask(organisation.key, `/misbehave/truth/${feed}`));
    expect(shown).toHaveLength(32);
    expect(shown.toReversed()).toEqual(
      truth.toSorted((a, b) => (String(a['modified']) < String(b['modified']) ? -1 : 1)),
    );
    expect(await state('DELETE')).toMatchObject({ calm: false });
    expect((await ask(organisation.key, `/api/feeds/${feed}`)).status).toBeGreaterThanOrEqual(500);
  });
});
