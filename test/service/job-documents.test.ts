/** What became of a job, told to the ERP: by a notification, or without one for the jobs of an intake. */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { resumeIntake } from '#bridge/intake/control-intakes.ts';
import { systemClock, timestampNow } from '#platform/clock.ts';
import { startMemoryErp } from '../../connectors/memory/memory-erp.ts';
import { eventually } from '../harness/eventually.ts';
import { registerTestWebhook } from '../harness/register-webhook.ts';
import { createSuppliers, eventPayload, jobEnd } from '../harness/sourcing.ts';
import { startTestBridge } from '../harness/test-bridge.ts';
import { startTestService } from '../harness/test-service.ts';

const flow = { name: 'inbox', source: 'main', connector: 'file', documents: ['job'], settings: { directory: 'inbox' } };

test('a job that was sent by anybody becomes a document when it has ended, with the service’s words', async () => {
  const service = await startTestService();
  const organisation = await service.organisation();
  const { bridge, db, dataDir } = await startTestBridge({
    sources: [{ name: 'main', base_url: service.url, api_key: organisation.key }],
    flows: [flow],
  });
  await registerTestWebhook({ bridge, db }, { baseUrl: service.url, apiKey: organisation.key, jobs: true });
  const document = (id: string) =>
    eventually('the document is in the folder', async () => {
      const text = await readFile(join(dataDir, 'inbox', `job_${id}.json`), 'utf8').catch(() => undefined);
      return text === undefined ? undefined : JSON.parse(text);
    });
  await createSuppliers(organisation, ['S1']);
  const send = async (payload: unknown) =>
    (await organisation.call('POST', '/api/jobs/create-sourcing-events', payload)).body.id as string;
  const made = await send(eventPayload());
  const refused = await send({ name: 'Wrong', suppliers: [{ external_id: 'STRANGER' }] });
  const { created_entity: event, created } = await jobEnd(organisation, made);
  expect(await document(made)).toMatchObject({
    state: 'current',
    key: made,
    type: 'CREATE_SOURCING_EVENT',
    status: 'COMPLETED',
    created,
    created_entity: event,
    errors: [],
  });
  expect(await document(refused)).toMatchObject({
    status: 'FAILED',
    errors: [{ path: 'suppliers[0].external_id', message: 'there is no supplier "STRANGER"' }],
  });
  // An attempt is written down after its call.
  await eventually('both writes are written down', async () => {
    const writes = await db.database.query<{ key: string }>(`select key from bridge.attempts where step = 'write'`);
    expect(writes.length).toBeLessThanOrEqual(2);
    return writes.length === 2;
  });
});

test('the job of an intake becomes a document without any webhook, and names the reference of its event', async () => {
  const service = await startTestService();
  const organisation = await service.organisation();
  await createSuppliers(organisation, ['S1']);
  const erp = await startMemoryErp({ clientId: 'bridge', clientSecret: 'secret' });
  const login = { base_url: erp.address, client_id: 'bridge', client_secret: 'secret' };
  const { db, dataDir } = await startTestBridge(
    {
      sources: [{ name: 'main', base_url: service.url, api_key: organisation.key }],
      flows: [flow],
      intakes: [
        {
          name: 'requisitions',
          source: 'main',
          connector: 'memory',
          stream: 'requisition',
          make: 'event',
          poll_seconds: 1,
          mapping: { event: { suppliers: [{ value: 'S1' }] } },
          settings: login,
        },
      ],
    },
    { sweepMs: 200 },
  );
  erp.saveRecord('requisitions', {
    number: 'PR-7',
    name: 'Fasteners',
    closed: false,
    items: [{ line: '10', name: 'Bolt', quantity: '4.5', unit: 'kg' }],
  });
  await eventually('the first run waits for a person', async () => {
    const [intake] = await db.database.query<{ paused_kind: string | null }>('select paused_kind from bridge.intakes');
    return intake?.paused_kind === 'first-run';
  });
  await resumeIntake(db.database, 'requisitions', { agreeToArchive: false }, timestampNow(systemClock));
  const [own] = await eventually('the job is done', async () => {
    const rows = await db.database.query<{ uuid: string; entity: string }>(
      `select s.uuid, e.entity from bridge.intake_submissions s join bridge.intake_events e on e.id = s.event
       where s.state = 'completed'`,
    );
    return rows.length > 0 && rows;
  });
  const text = await eventually('the document is in the folder', () =>
    readFile(join(dataDir, 'inbox', `job_${own?.uuid}.json`), 'utf8').catch(() => undefined),
  );
  expect(JSON.parse(text)).toMatchObject({
    type: 'CREATE_SOURCING_EVENT',
    status: 'COMPLETED',
    created_entity: own?.entity,
    reference_id: 'PR-7',
  });
});
