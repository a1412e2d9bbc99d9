/** The header `Link` of pages: RFC 8288, and decisions, "Added after the second judgement". */
import { expect, test } from 'vitest';
import { request } from '../harness/request.ts';
import { changeSuppliers, createEvent, createRequest, desk, eventPayload } from '../harness/sourcing.ts';
import { startTestService } from '../harness/test-service.ts';
import { startWebhookReceiver } from '../harness/webhook-receiver.ts';
import { operatorEndpoints, organisationEndpoints } from './endpoint-tables.ts';

const service = await startTestService();
const organisation = await service.organisation();
const receiver = await startWebhookReceiver();

// Two of everything that is listed.
for (const externalId of ['S1', 'S2']) {
  await changeSuppliers(organisation, { external_id: externalId, name: externalId });
  await createRequest(organisation);
  await organisation.call('POST', '/api/webhooks', { name: externalId, url: receiver.url, triggers: ['TEST'] });
  await service.operator('POST', `/admin/organisations/${organisation.id}/api-keys`, {
    name: externalId,
    scopes: ['feeds'],
  });
}
const [webhook] = (await organisation.call('GET', '/api/webhooks')).body.result;
for (let sent = 0; sent < 2; sent += 1) await organisation.call('POST', `/api/webhooks/${webhook.uuid}/test`);
const question = { identifier: '1', question_text: 'Why?', input_type: 'TEXT' };
const event = await createEvent(organisation, {
  ...eventPayload({ suppliers: ['S1', 'S2'], lots: ['A', 'B'] }),
  questions: [question, { ...question, identifier: '2' }],
});
await createEvent(organisation, eventPayload());
await desk(organisation, 'POST', `${event}/publish`);
const [one, two] = (await organisation.call('GET', `/desk/events/${event}`)).body.questions;
await desk(organisation, 'POST', `${event}/answers`, {
  supplier: 'S1',
  answers: [one, two].map(({ id }) => ({ question_uuid: id, value: 'Because' })),
});
await desk(organisation, 'POST', `${event}/bids`, {
  supplier: 'S1',
  lots: ['A', 'B'].map((lot) => ({ lot, values: { Price: '2' } })),
});
await desk(organisation, 'POST', `${event}/close`);

const paged = [...organisationEndpoints, ...operatorEndpoints].filter(
  ({ method, query }) => method === 'GET' && query?.safeParse({ page_size: '1' }).success,
);

test('every feed and every list is looked at', () => {
  expect(paged.map(({ path }) => path)).toEqual(
    expect.arrayContaining([
      '/api/feeds/rfi-responses',
      '/api/jobs',
      '/desk/events',
      '/admin/organisations/:id/api-keys',
    ]),
  );
});

test.each(paged.map(({ path }) => path))(
  '%s names its next page in Link, as in the body, and on the last page none',
  async (path) => {
    const ids = path.startsWith('/admin') ? organisation.id : webhook.uuid;
    const key = path.startsWith('/admin') ? service.adminToken : organisation.key;
    const first = `${service.url}${path.replace(/:\w+/, ids)}?page_size=1`;
    const seen: (string | null)[] = [];
    for (let url: string | null = first; url !== null; ) {
      const answer = await request('GET', url, { key });
      expect(answer.status).toBe(200);
      const { next } = answer.body;
      expect(answer.headers.get('link')).toBe(next === null ? null : `<${next}>; rel="next"`);
      seen.push(next);
      url = next;
    }
    expect(seen.length).toBeGreaterThan(1);
  },
);
