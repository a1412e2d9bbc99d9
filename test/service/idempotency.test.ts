/** `Idempotency-Key`: one effect for a key, however often a request is repeated or sent at once. */
import { expect, test } from 'vitest';
import { addMicros } from '#contract/timestamp.ts';
import { createManualClock } from '../harness/manual-clock.ts';
import type { TestOrganisation } from '../harness/test-organisation.ts';
import { startTestService } from '../harness/test-service.ts';

const clock = createManualClock();
const service = await startTestService({ clock });
const organisation = await service.organisation();
const jobs = '/api/jobs/create-sourcing-events';

const post = (path: string, body: unknown, key: string, as: TestOrganisation = organisation) =>
  as.call('POST', path, body, { 'idempotency-key': key });

async function countJobs(name: string): Promise<number> {
  const [row] = await service.db.database.query<{ count: number }>(
    `select count(*) from service.jobs where payload->>'name' = $1`,
    [name],
  );
  return row?.count ?? 0;
}

test('the same key and body return the first answer, and have one effect', async () => {
  const first = await post(jobs, { name: 'once' }, 'k1');
  clock.advance(5_000);
  const again = await post(jobs, { name: 'once' }, 'k1');
  expect(first.status).toBe(202);
  expect([again.status, again.body]).toEqual([202, first.body]);
  expect(again.headers.get('content-type')).toBe(first.headers.get('content-type'));
  expect(await countJobs('once')).toBe(1);
});

test('a path with and without a final slash is one endpoint', async () => {
  const first = await post(jobs, { name: 'slash' }, 'k2');
  expect((await post(`${jobs}/`, { name: 'slash' }, 'k2')).body).toEqual(first.body);
  expect(await countJobs('slash')).toBe(1);
});

test('the same key with another body is 409, and has no effect', async () => {
  await post(jobs, { name: 'mine' }, 'k3');
  const other = await post(jobs, { name: 'other' }, 'k3');
  expect(other.status).toBe(409);
  expect(other.headers.get('content-type')).toMatch(/^application\/problem\+json/);
  expect(await countJobs('other')).toBe(0);
});

test('the same key for another path or organisation is another key', async () => {
  const stranger = await service.organisation();
  await post(jobs, { name: 'shared' }, 'k4');
  expect((await post(jobs, { name: 'shared' }, 'k4', stranger)).status).toBe(202);
  expect(await countJobs('shared')).toBe(2);
  const suppliers = { change_data: { suppliers: [{ external_id: 'S', name: 'S' }] } };
  expect((await post('/api/manage/supplier_changes', suppliers, 'k4')).status).toBe(202);
});

test('another API key of the organisation can repeat the request', async () => {
  const second = await service.operator('POST', `/admin/organisations/${organisation.id}/api-keys`, { name: 'second' });
  const first = await post(jobs, { name: 'two keys' }, 'k5');
  const headers = { 'idempotency-key': 'k5', authorization: `Bearer ${second.body.key}` };
  expect((await organisation.call('POST', jobs, { name: 'two keys' }, headers)).body).toEqual(first.body);
});

test('many requests at once have one effect, and all get its answer', async () => {
  const answers = await Promise.all(Array.from({ length: 12 }, () => post(jobs, { name: 'rush' }, 'k6')));
  expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([202]));
  expect(new Set(answers.map(({ body }) => body.id)).size).toBe(1);
  expect(await countJobs('rush')).toBe(1);
});

test('of two bodies at once with one key, one is accepted and the other refused', async () => {
  const answers = await Promise.all(['a', 'b'].map((name) => post(jobs, { name: `race ${name}` }, 'k7')));
  expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([202, 409]));
  expect((await countJobs('race a')) + (await countJobs('race b'))).toBe(1);
});

test('a refused request does not use up its key', async () => {
  expect((await post(jobs, { nmae: 'x' }, 'k8')).status).toBe(400);
  expect(
    (await post('/api/webhooks', { name: 'h', url: 'https://elsewhere.example/', triggers: ['TEST'] }, 'k8')).status,
  ).toBe(400);
  expect((await post(jobs, { name: 'corrected' }, 'k8')).status).toBe(202);
  expect((await post('/api/webhooks', { name: 'h', url: 'https://localhost/', triggers: ['TEST'] }, 'k8')).status).toBe(
    201,
  );
});

test('a repeated webhook creation creates no second one, and does not show the signing key again', async () => {
  const body = { name: 'hook', url: 'https://localhost/x', triggers: ['TEST'] };
  const first = await post('/api/webhooks', body, 'k9');
  const again = await post('/api/webhooks', body, 'k9');
  const { signing_key: signingKey, ...rest } = first.body;
  expect(signingKey).toEqual(expect.any(String));
  expect([again.status, again.body]).toEqual([201, rest]);
  expect(again.headers.get('location')).toBe(first.headers.get('location'));
  const kept = await service.db.database.query('select body, headers from service.idempotency_keys');
  expect(JSON.stringify(kept)).not.toContain(signingKey);
});

test('a key is kept for 24 hours, and then deleted', async () => {
  const first = await post(jobs, { name: 'a day' }, 'k10');
  clock.advance(24 * 3_600_000);
  expect((await post(jobs, { name: 'a day' }, 'k10')).body).toEqual(first.body);
  clock.advance(1);
  expect((await post(jobs, { name: 'a day later' }, 'k10')).status).toBe(202);
  await service.service.sweep();
  const oldest = addMicros(first.body.created, 1);
  expect(await service.db.database.query('select from service.idempotency_keys where created < $1', [oldest])).toEqual(
    [],
  );
});

test.each(['', 'x'.repeat(256), 'a b', 'ä'])('the key %j is refused', async (key) => {
  const answer = await post(jobs, { name: 'bad key' }, Buffer.from(key, 'utf8').toString('latin1'));
  // fetch sends an empty header: a key without characters.
  expect(answer.status).toBe(400);
  expect(await countJobs('bad key')).toBe(0);
});
