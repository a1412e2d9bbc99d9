/** What is deleted when its time is over, and what is never deleted. */
import { readdir } from 'node:fs/promises';
import { expect, test } from 'vitest';
import { createLocalStorage } from '#service/files/storage/local-storage.ts';
import { createRetention } from '#service/retention/delete-old.ts';
import { linkJob, uploadFile } from '../../harness/files.ts';
import { createManualClock } from '../../harness/manual-clock.ts';
import { scratchFolder } from '../../harness/scratch-folder.ts';
import { changeSuppliers, createEvent, desk, endedJob, eventPayload } from '../../harness/sourcing.ts';
import { createTestDatabase } from '../../harness/test-database.ts';
import type { TestOrganisation } from '../../harness/test-organisation.ts';
import { startTestService } from '../../harness/test-service.ts';

const dayMs = 24 * 3_600_000;
const clock = createManualClock();
const service = await startTestService({ clock });
const { database } = service.db;

const contact = { name: 'Anna Ash', email: 'anna@example.com' };
const supplier = { external_id: 'S1', name: 'Acme', contacts: [contact] };

async function kept(organisationId: string) {
  const [row] = await database.query<{ submissions: number; jobs: number; payloads: number; contacts: number }>(
    `select (select count(*)::int from service.supplier_submissions where organisation_id = $1) as submissions,
       (select count(*)::int from service.jobs where organisation_id = $1) as jobs,
       (select count(*)::int from service.jobs where organisation_id = $1 and payload <> '{}') as payloads,
       (select count(*)::int from service.supplier_contacts c join service.suppliers s on s.id = c.supplier_id
        where s.organisation_id = $1) as contacts`,
    [organisationId],
  );
  return row;
}

test('submissions and payloads of jobs go when their time is over; suppliers, contacts and jobs stay', async () => {
  const organisation = await service.organisation();
  await changeSuppliers(organisation, supplier);
  await createEvent(organisation, eventPayload({ suppliers: ['S1'] }));
  const all = { submissions: 1, jobs: 1, payloads: 1, contacts: 1 };
  const after = async (days: number) => {
    clock.advance(days * dayMs);
    await service.service.sweep();
    return kept(organisation.id);
  };
  expect(await after(89)).toEqual(all);
  expect(await after(2)).toEqual({ submissions: 0, jobs: 1, payloads: 0, contacts: 1 });
  // Its lists are answered as before.
  const jobs = await organisation.call('GET', '/api/jobs');
  expect([jobs.status, JSON.stringify(jobs.body)]).toEqual([200, expect.stringContaining('"status":"COMPLETED"')]);
});

test('what waits is never deleted, however old it is', async () => {
  const organisation = await service.organisation();
  const [key] = await database.query<{ id: string }>('select id from service.api_keys where organisation_id = $1', [
    organisation.id,
  ]);
  const { database: other } = await createTestDatabase();
  await other.query("insert into service.organisations (id, name, created) values ($1, 'o', '2000-01-01Z')", [
    organisation.id,
  ]);
  await other.query(
    `insert into service.supplier_submissions (id, organisation_id, state, suppliers, created_by, created, last_changed)
     values (gen_random_uuid(), $1, 'UNPROCESSED', '[]', $2, '2000-01-01Z', '2000-01-01Z')`,
    [organisation.id, key?.id],
  );
  await other.query(
    `insert into service.jobs (id, organisation_id, type, status, payload, created_by, created)
     values (gen_random_uuid(), $1, 'CREATE_SOURCING_EVENT', 'PENDING', '{"name":"x"}', $2, '2000-01-01Z')`,
    [organisation.id, key?.id],
  );
  await createRetention({
    database: other,
    clock,
    retention: { submissionDays: 1, deliveryLogDays: 1, eventDays: null, fileDays: null },
  })();
  const rows = await other.query(
    `select (select count(*)::int from service.supplier_submissions) as submissions,
       (select count(*)::int from service.jobs where payload <> '{}') as payloads`,
  );
  expect(rows).toEqual([{ submissions: 1, payloads: 1 }]);
});

test('much is deleted in steps, one a sweep, and nothing is left in the end', async () => {
  const { database: other } = await createTestDatabase();
  await other.query(
    "insert into service.organisations (id, name, created) select gen_random_uuid(), 'o', now() from generate_series(1, 2)",
  );
  await other.query(
    `insert into service.supplier_submissions (id, organisation_id, state, suppliers, created_by, created, last_changed)
     select gen_random_uuid(), o.id, 'PROCESSED', '[]', o.id, '2000-01-01Z', '2000-01-01Z'
     from service.organisations o, generate_series(1, 750)`,
  );
  const count = async () => {
    const [row] = await other.query<{ count: number }>(
      'select count(*)::int as count from service.supplier_submissions',
    );
    return row?.count;
  };
  const deleteOld = createRetention({
    database: other,
    clock,
    retention: { submissionDays: 1, deliveryLogDays: 1, eventDays: null, fileDays: null },
  });
  const left: (number | undefined)[] = [];
  for (let sweeps = 1; sweeps <= 2; sweeps += 1) {
    await deleteOld();
    left.push(await count());
  }
  expect(left).toEqual([500, 0]);
});

async function readEvent(organisation: TestOrganisation, id: string) {
  return (await organisation.call('GET', `/desk/events/${id}`)).body;
}

/** An event with a bid, an award, an answer with a file, a contact and a file of its own; it is closed. */
async function closedEvent(organisation: TestOrganisation): Promise<{ id: string; files: string[] }> {
  await changeSuppliers(organisation, supplier);
  const answered = await uploadFile(organisation, 'answer.pdf');
  const id = await createEvent(organisation, {
    ...eventPayload({ suppliers: ['S1'] }),
    event_contact: contact,
    suppliers: [{ external_id: 'S1', contacts: [contact.email] }],
  });
  await desk(organisation, 'PUT', `${id}/questions`, [
    { identifier: '1', question_text: 'Why?', input_type: 'TEXT', supporting_documents_enabled: true },
  ]);
  await desk(organisation, 'POST', `${id}/publish`);
  const { questions } = await readEvent(organisation, id);
  await desk(organisation, 'POST', `${id}/answers`, {
    supplier: 'S1',
    answers: [{ question_uuid: questions[0].id, value: 'so', document_file_uuids: [answered] }],
  });
  await desk(organisation, 'POST', `${id}/bids`, { supplier: 'S1', lots: [{ lot: 'A', values: { Price: '3' } }] });
  await desk(organisation, 'PUT', `${id}/scenarios/best`, {
    awards: [{ lot: 'A', supplier: 'S1', share_awarded: '1' }],
  });
  await desk(organisation, 'POST', `${id}/award`, { scenario: 'best' });
  const attached = await endedJob(organisation, '/api/jobs/attach-files-to-sourcing-event', {
    sourcing_event: id,
    files: [{ file_name: 'a.txt', content: Buffer.from('bytes').toString('base64') }],
  });
  await desk(organisation, 'POST', `${id}/close`);
  return { id, files: [answered, attached.detail.data[0].file_uuid] };
}

async function shownBy(organisation: TestOrganisation): Promise<unknown[]> {
  const feeds = ['sourcing-events', 'latest-bids?include=suppliers', 'awards', 'rfi-responses?include=questions'];
  return Promise.all(feeds.map(async (feed) => (await organisation.call('GET', `/api/feeds/${feed}`)).body.data));
}

test('the workings of events that closed long ago go where it is set, and no reader of the feeds sees a difference', async () => {
  const folder = await scratchFolder();
  const own = await startTestService({ clock, storage: createLocalStorage(folder), eventDays: 100 });
  const organisation = await own.organisation();
  const old = await closedEvent(organisation);
  clock.advance(99 * dayMs);
  await own.service.sweep();
  expect((await readEvent(organisation, old.id)).bids).toHaveLength(1);
  const young = await closedEvent(organisation);
  const open = await createEvent(organisation, { ...eventPayload({ suppliers: ['S1'] }), event_contact: contact });
  await desk(organisation, 'POST', `${open}/publish`);
  const before = await shownBy(organisation);
  const untouched = [await readEvent(organisation, young.id), await readEvent(organisation, open)];
  clock.advance(2 * dayMs);
  await own.service.sweep();
  const emptied = await readEvent(organisation, old.id);
  expect(emptied).toMatchObject({
    status: 'CLOSED',
    allowed: ['delete'],
    bids: [],
    scenarios: [],
    answers: [],
    history: [],
    event_contact: null,
  });
  expect(JSON.stringify(emptied)).not.toContain(contact.email);
  expect(await shownBy(organisation)).toEqual(before);
  expect([await readEvent(organisation, young.id), await readEvent(organisation, open)]).toEqual(untouched);
  const reopened = await organisation.call('POST', `/desk/events/${old.id}/reopen`);
  expect([reopened.status, reopened.body.detail]).toEqual([409, expect.stringContaining('closed so long ago')]);
});

test('old files go with their bytes and their room, but for those of events that are not closed', async () => {
  const folder = await scratchFolder();
  const own = await startTestService({ clock, storage: createLocalStorage(folder), fileDays: 30 });
  const organisation = await own.organisation();
  const closed = await closedEvent(organisation);
  const open = await closedEvent(organisation);
  await desk(organisation, 'POST', `${open.id}/reopen`);
  const alone = await uploadFile(organisation, 'alone.pdf');
  clock.advance(31 * dayMs);
  const fresh = await uploadFile(organisation, 'fresh.pdf');
  const shown = await shownBy(organisation);
  await own.service.sweep();
  // The sweep of uploads removes the bytes beside it.
  const bytes = async () => (await readdir(folder, { recursive: true, withFileTypes: true })).filter((f) => f.isFile());
  await expect
    .poll(async () => {
      await own.service.sweep();
      return (await bytes()).length;
    })
    .toBe(3);
  const rows = await own.db.database.query<{ id: string }>('select id from service.files order by id');
  expect(rows.map(({ id }) => id)).toEqual([...open.files, fresh].sort());
  const link = await linkJob(organisation, [...closed.files, alone, fresh]);
  expect(link.detail.errors.map(({ file_uuid: id }: { file_uuid: string }) => id).sort()).toEqual(
    [...closed.files, alone].sort(),
  );
  expect(await shownBy(organisation)).toEqual(shown);
  await expect
    .poll(() => own.db.database.query('select file_bytes::int as used from service.organisations'))
    .toEqual([{ used: 9 * 2 + 5 }]);
});
