import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { z } from 'zod';
import { bucketOf, type Quotas } from '#client/quotas.ts';
import { createSourceClient, type SourceClient } from '#client/source-client.ts';
import { AppError } from '#platform/errors.ts';
import { organisationApi } from '#service/api.ts';
import { profileOf } from '#service/profile/profile-of.ts';
import { type TestClock, testClock } from '../bridge/parts.ts';
import { testOutgoing } from '../harness/test-certificates.ts';
import { json, type ScriptedService, startScriptedService, status } from './scripted-service.ts';

describe('a call counts against', () => {
  // Source: API document, "Limits"; decisions, "Feeds": one row of the table is one bucket.
  test.each([
    ['GET /api/feeds/awards?page_size=1', 'feeds.awards'],
    ['GET /api/feeds/sourcing-events', 'feeds.sourcing-events'],
    ['GET /api/manage/suppliers?page_size=1', 'suppliers'],
    ['GET /api/manage/suppliers/A%2FB', 'suppliers'],
    ['GET /api/manage/supplier_changes/', 'supplier_changes_read'],
    ['GET /api/manage/supplier_changes/x', 'supplier_changes_read'],
    ['POST /api/manage/supplier_changes', 'supplier_changes_write'],
    ['GET /api/jobs/', 'jobs_read'],
    ['GET /api/jobs/x', 'jobs_read'],
    ['GET /api/jobs/generate-file-download-links/x', 'jobs_read'],
    ['POST /api/jobs/create-sourcing-events', 'jobs_write'],
    ['POST /api/jobs/generate-file-download-links', 'file_links'],
    ['POST /api/jobs', 'jobs_write'],
    ['POST /api/webhooks', 'webhooks'],
    ['DELETE /api/webhooks/x', 'webhooks'],
    ['POST /api/webhooks/x/test', 'webhooks'],
    ['GET /desk/events', undefined],
    ['POST /admin/organisations', undefined],
  ])('%s: %s', (call, bucket) => {
    const [method = '', path = ''] = call.split(' ');
    expect(bucketOf({ method, path })).toBe(bucket);
  });

  test('the generic job path: the limit of the type in the body', () => {
    const body = { type: 'GENERATE_FILE_DOWNLOAD_LINKS' };
    expect(bucketOf({ method: 'POST', path: '/api/jobs/', body })).toBe('file_links');
    expect(bucketOf({ method: 'POST', path: '/api/jobs', body: { type: 'CREATE_SOURCING_EVENT' } })).toBe('jobs_write');
  });
});

test('each call of the contract counts against the limit that the service counts it against', () => {
  const calls = organisationApi({ profile: profileOf() } as never).filter(({ path }) => path.startsWith('/api/'));
  // The generic job path counts against the limit of the type in its body.
  const limitOf = ({ limit = 'jobs_write', path }: (typeof calls)[number]) =>
    limit === 'feeds' ? `feeds.${path.slice('/api/feeds/'.length)}` : limit;
  const wrong = calls.filter((call) => bucketOf(call) !== limitOf(call));
  expect(wrong.map(({ method, path }) => `${method} ${path}`)).toEqual([]);
});

describe('a client with quotas', () => {
  let service: ScriptedService;
  let client: SourceClient;
  let clock: TestClock;
  let log: string[];
  let take: Quotas['take'];

  beforeEach(async () => {
    clock = testClock();
    log = [];
    take = async (bucket) => {
      log.push(`take ${bucket}`);
      return {
        answered: async () => void log.push('answered'),
        refused: async (afterMs) => {
          log.push(`refused ${afterMs}`);
          return 4_000;
        },
      };
    };
    service = await startScriptedService();
    client = createSourceClient({
      settings: { baseUrl: service.url, apiKey: 'key', timeoutMs: 2_000, retries: 2 },
      fetch: testOutgoing().fetch,
      clock,
      quotas: { take: (...args) => take(...args) },
    });
  });
  afterEach(() => service.close());

  const read = () => client.readFeed('awards', { pageSize: 1 });
  const page = json({ data: [] });

  test('counts each attempt before it is sent, and reports each answer', async () => {
    service.answers = [status(500), (response) => void response.destroy(), page];
    await read();
    expect(log).toEqual(['take feeds.awards', 'answered', 'take feeds.awards', 'take feeds.awards', 'answered']);
  });

  test('reports a refusal with its Retry-After, and waits as long as the quotas say', async () => {
    service.answers = [status(429), status(429, { 'retry-after': '7' }), page];
    await read();
    expect(log.filter((line) => line.startsWith('refused'))).toEqual(['refused undefined', 'refused 7000']);
    expect(clock.slept).toEqual([4_000, 4_000]);
  });

  test.each([
    new AppError('too-many', 'Spent.', { recovery: { do: 'retry', afterMs: 1_000 } }),
    new AppError('unavailable', 'The database is away.'),
  ])('sends nothing and retries nothing when the request cannot be counted: $message', async (error) => {
    let attempts = 0;
    take = () => {
      attempts += 1;
      return Promise.reject(error);
    };
    service.answers = [page];
    await expect(read()).rejects.toBe(error);
    expect([service.requests.length, attempts, clock.slept]).toEqual([0, 1, []]);
  });

  test('does not count a call without a limit', async () => {
    service.answers = [json({})];
    await client.call({ method: 'GET', path: '/desk/events' }, z.unknown());
    expect(log).toEqual([]);
  });
});
