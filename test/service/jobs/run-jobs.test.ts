import { Client } from 'pg';
import { describe, expect, test } from 'vitest';
import { createSourcingEventPayload } from '#contract/sourcing-event.ts';
import { systemClock } from '#platform/clock.ts';
import { silentLogger } from '#platform/log.ts';
import { createSecretBox } from '#platform/secrets.ts';
import { createLocalStorage } from '#service/files/storage/local-storage.ts';
import { createJobWorker } from '#service/jobs/run-jobs.ts';
import { createUnitOfWork } from '#service/unit-of-work.ts';
import { eventually } from '../../harness/eventually.ts';
import { scratchFolder } from '../../harness/scratch-folder.ts';
import { createSuppliers, endedJob, eventPayload, readWholeFeed } from '../../harness/sourcing.ts';
import { testOutgoing } from '../../harness/test-certificates.ts';
import type { TestOrganisation } from '../../harness/test-organisation.ts';
import { startTestService } from '../../harness/test-service.ts';

const jobs = '/api/jobs/create-sourcing-events';
const service = await startTestService();
const { database } = service.db;

async function submit(organisation: TestOrganisation, payload: unknown): Promise<string> {
  const answer = await organisation.call('POST', jobs, payload);
  expect(answer.status).toBe(202);
  return answer.body.id;
}

async function ended(organisation: TestOrganisation, id: string) {
  return eventually('the job has ended', async () => {
    const { body } = await organisation.call('GET', `/api/jobs/${id}`);
    return body.status === 'PENDING' ? undefined : body;
  });
}

/** Blocks an organisation's jobs by a lock on its feeds, as a running command does. */
async function holdFeed(organisation: TestOrganisation): Promise<Client> {
  const client = new Client({ connectionString: service.db.url });
  await client.connect();
  await client.query('begin');
  await client.query('select from service.feed_heads where organisation_id = $1 for update', [organisation.id]);
  return client;
}

describe('a job', () => {
  test('is answered at once as pending, and completes with the id of its event', async () => {
    const organisation = await service.organisation();
    const answer = await organisation.call('POST', jobs, eventPayload());
    expect(answer.body).toEqual({
      id: expect.stringMatching(/^[0-9a-f-]{36}$/),
      type: 'CREATE_SOURCING_EVENT',
      status: 'PENDING',
      created: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$/),
    });
    const done = await ended(organisation, answer.body.id);
    expect(done).toEqual({ ...answer.body, status: 'COMPLETED', created_entity: expect.any(String) });
    const [record] = await readWholeFeed(organisation, 'sourcing-events');
    expect(record).toMatchObject({ id: done.created_entity, status: 'DRAFT', name: 'Office chairs', lot_count: 1 });
  });

  test('with an invalid payload is refused, and gets no id', async () => {
    const organisation = await service.organisation();
    const wrong = { ...eventPayload(), primary_cost_calculation: '[Volume] * [Prise]' };
    const answer = await organisation.call('POST', jobs, wrong);
    expect([answer.status, answer.body.errors[0].path]).toEqual([400, 'primary_cost_calculation']);
    const rows = await database.query('select from service.jobs where organisation_id = $1', [organisation.id]);
    expect(rows).toEqual([]);
  });

  test('fails with everything that it names and does not exist, and creates nothing', async () => {
    const organisation = await service.organisation();
    await createSuppliers(organisation, ['S1', 'OLD']);
    const archived = await organisation.call('POST', '/api/manage/supplier_changes', {
      change_data: { suppliers: [{ external_id: 'OLD', archived: true }] },
    });
    await eventually('it is archived', async () => {
      const { body } = await organisation.call('GET', `/api/manage/supplier_changes/${archived.body.result.uuid}`);
      return body.result.current_state === 'PROCESSED';
    });
    const job = await endedJob(organisation, jobs, eventPayload({ suppliers: ['S1', 'NONE', 'OLD'] }));
    expect(job).toMatchObject({
      status: 'FAILED',
      errors: [
        { path: 'suppliers[1].external_id', message: expect.stringContaining('NONE') },
        { path: 'suppliers[2].external_id', message: expect.stringContaining('archived') },
      ],
    });
    expect(job).not.toHaveProperty('created_entity');
    expect(await readWholeFeed(organisation, 'sourcing-events')).toEqual([]);
    expect((await organisation.call('GET', '/desk/events')).body.count).toBe(0);
  });

  test('that fails with an internal error ends, reveals no internals, and does not block the next job', async () => {
    const organisation = await service.organisation();
    await database.query(
      `create function pg_temp_fault() returns trigger language plpgsql as
         $$ begin if new.name = 'broken' then raise exception 'secret of the inside'; end if; return new; end $$;
       create trigger fault before insert on service.sourcing_events for each row execute function pg_temp_fault()`,
    );
    const broken = await submit(organisation, { name: 'broken' });
    const next = await submit(organisation, { name: 'next' });
    const job = await ended(organisation, broken);
    expect(job).toMatchObject({ status: 'FAILED', errors: [{ message: expect.stringContaining('our side') }] });
    expect(JSON.stringify(job)).not.toContain('secret');
    expect(Object.keys(job.errors[0])).toEqual(['message']);
    expect((await ended(organisation, next)).status).toBe('COMPLETED');
    await database.query('drop trigger fault on service.sourcing_events; drop function pg_temp_fault');
  });

  test('whose payload is no longer valid fails with the reason, and does not block the next job', async () => {
    const organisation = await service.organisation();
    const held = await holdFeed(organisation);
    // The worker waits for the feed, so the test can corrupt the next job's payload before it is read.
    await submit(organisation, { name: 'first' });
    const old = await submit(organisation, { name: 'old' });
    const next = await submit(organisation, { name: 'next' });
    await database.query(`update service.jobs set payload = '{"name": 5}' where id = $1`, [old]);
    await held.query('rollback');
    await held.end();
    expect(await ended(organisation, old)).toMatchObject({
      status: 'FAILED',
      errors: [{ path: 'name', message: 'must be a string' }],
    });
    expect((await ended(organisation, next)).status).toBe('COMPLETED');
  });
});

test('the jobs of an organisation run in the order they came', async () => {
  const organisation = await service.organisation();
  const held = await holdFeed(organisation);
  const names = Array.from({ length: 12 }, (_, index) => `event ${index}`);
  for (const name of names) await submit(organisation, { name });
  await held.query('rollback');
  await held.end();
  await eventually('all are done', async () => (await readWholeFeed(organisation, 'sourcing-events')).length === 12);
  const records = await readWholeFeed(organisation, 'sourcing-events');
  expect(records.map((record) => record.name)).toEqual(names);
});

test('a worker that loses its connection leaves the job undone; the job then ends exactly once', async () => {
  const organisation = await service.organisation();
  const hook = await organisation.call('POST', '/api/webhooks', {
    name: 'jobs',
    url: 'https://localhost:1/x',
    triggers: ['JOB_UPDATED'],
  });
  const held = await holdFeed(organisation);
  const id = await submit(organisation, { name: 'cut' });
  const blocked = await eventually('the worker waits in its transaction', async () => {
    const rows = await database.query<{ pid: number }>(
      `select pid from pg_stat_activity
       where datname = current_database() and wait_event_type = 'Lock' and query like '%feed_heads%'`,
    );
    return rows[0]?.pid;
  });
  await database.query('select pg_terminate_backend($1)', [blocked]);
  await eventually('its connection is closed', async () => {
    const rows = await database.query('select from pg_stat_activity where pid = $1', [blocked]);
    return rows.length === 0;
  });
  await held.query('rollback');
  await held.end();
  expect((await organisation.call('GET', `/api/jobs/${id}`)).body.status).toBe('PENDING');
  expect(await readWholeFeed(organisation, 'sourcing-events')).toEqual([]);
  await eventually('the job has run after a sweep', async () => {
    await service.service.sweep();
    return (await organisation.call('GET', `/api/jobs/${id}`)).body.status === 'COMPLETED';
  });
  expect(await readWholeFeed(organisation, 'sourcing-events')).toHaveLength(1);
  expect((await organisation.call('GET', '/desk/events')).body.count).toBe(1);
  const notifications = await database.query('select from service.deliveries where webhook_id = $1', [hook.body.uuid]);
  expect(notifications).toHaveLength(1);
});

test('two workers on one organisation at once, as after a lost queue, run each job once', async () => {
  const organisation = await service.organisation();
  // Inserted without a wake-up: only the workers of this test see them.
  await database.query(
    `insert into service.jobs (id, organisation_id, type, status, payload, created_by, created)
     select gen_random_uuid(), $1, 'CREATE_SOURCING_EVENT', 'PENDING', $2, gen_random_uuid(), now()
     from generate_series(1, 12)`,
    [organisation.id, JSON.stringify(createSourcingEventPayload.parse({ name: 'once' }))],
  );
  const runUnitOfWork = createUnitOfWork({
    database,
    signals: { signal: async () => undefined },
  });
  const deps = {
    runUnitOfWork,
    signals: { wakeHere: () => undefined },
    database,
    clock: systemClock,
    log: silentLogger,
    secrets: createSecretBox(Buffer.alloc(32)),
    storage: createLocalStorage(await scratchFolder()),
    fetch: testOutgoing().fetch,
    settings: { bodyBytesMax: 1_000, fileBytesMax: 1_000_000_000 },
  };
  const { work } = createJobWorker(deps, 'jobs');
  const { signal } = new AbortController();
  await eventually('all jobs are done', async () => {
    await Promise.all([work(organisation.id, signal), work(organisation.id, signal), work(organisation.id, signal)]);
    const left = await database.query(`select from service.jobs where organisation_id = $1 and status = 'PENDING'`, [
      organisation.id,
    ]);
    return left.length === 0;
  });
  expect(await readWholeFeed(organisation, 'sourcing-events')).toHaveLength(12);
});
