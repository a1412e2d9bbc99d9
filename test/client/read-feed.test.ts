import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { createSourceClient, type SourceClient } from '#client/source-client.ts';
import { testClock } from '../bridge/parts.ts';
import { testOutgoing } from '../harness/test-certificates.ts';
import { json, type ScriptedService, startScriptedService } from './scripted-service.ts';

let service: ScriptedService;
let client: SourceClient;

beforeEach(async () => {
  service = await startScriptedService();
  client = createSourceClient({
    settings: { baseUrl: service.url, apiKey: 'key', timeoutMs: 2_000, retries: 0 },
    fetch: testOutgoing().fetch,
    clock: testClock(),
  });
});
afterEach(() => service.close());

const poll = { modifiedAfter: '2030-01-01T00:00:00.000001Z', pageSize: 100 };

describe('related objects', () => {
  test('are requested by name, each in a parameter of its own, and read by name', async () => {
    service.answers = [json({ data: [], next: null, includes: { suppliers: [{ id: 'a' }], sourcing_events: [] } })];
    const page = await client.readFeed('awards', { ...poll, include: ['sourcing_events', 'suppliers'] });
    const query = new URL(service.requests[0]?.url ?? '', service.url).searchParams;
    expect(query.getAll('include')).toEqual(['sourcing_events', 'suppliers']);
    expect(page.includes).toEqual({ suppliers: [{ id: 'a' }], sourcing_events: [] });
  });

  test('that are no lists of objects are left out; a page without includes has none', async () => {
    service.answers = [
      json({ data: [], includes: { suppliers: [1, null, [], { id: 'a' }], questions: 'x' } }),
      json({ data: [] }),
    ];
    expect((await client.readFeed('awards', poll)).includes).toEqual({ suppliers: [{ id: 'a' }] });
    expect((await client.readFeed('awards', poll)).includes).toEqual({});
  });
});
