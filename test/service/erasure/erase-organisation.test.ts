/**
 * After the erasure of an organisation the tables, the file storage and the answers to others are what they were before it
 * came; killed at any statement, it goes on.
 */
import { readdir } from 'node:fs/promises';
import { expect, test } from 'vitest';
import { eraseOrganisation } from '#service/erasure/erase-organisation.ts';
import { findOwnedTables } from '#service/erasure/organisation-tables.ts';
import { createLocalStorage } from '#service/files/storage/local-storage.ts';
import { allText } from '../../harness/all-text.ts';
import { uploadFile } from '../../harness/files.ts';
import { killedAfter } from '../../harness/killed-after.ts';
import { createManualClock } from '../../harness/manual-clock.ts';
import { scratchFolder } from '../../harness/scratch-folder.ts';
import { changeSuppliers, createEvent, createRequest, desk, eventPayload } from '../../harness/sourcing.ts';
import type { TestOrganisation } from '../../harness/test-organisation.ts';
import { startTestService, type TestService } from '../../harness/test-service.ts';

/** Something in as many tables as the desk and the interface fill. */
async function fill(service: TestService, organisation: TestOrganisation): Promise<void> {
  await service.operator('POST', `/admin/organisations/${organisation.id}/supplier-attributes`, { name: 'Mail' });
  await changeSuppliers(
    organisation,
    { external_id: 'S1', name: 'Acme', contacts: [{ name: 'Ann', email: 'ann@example.com' }] },
    { external_id: 'S2', name: 'Beta' },
  );
  const request = await createRequest(organisation, { requested_by: 'ann@example.com' });
  const id = await createEvent(organisation, {
    ...eventPayload({ suppliers: ['S1', 'S2'], lots: ['A', 'B'] }),
    sourcing_requests: [request],
  });
  const file = await uploadFile(organisation);
  for (const target of [{ sourcing_event: id }, { sourcing_request: request }])
    await organisation.call('POST', '/api/jobs', {
      type: 'sourcing_event' in target ? 'ATTACH_FILES_TO_SOURCING_EVENT' : 'ATTACH_FILES_TO_SOURCING_REQUEST',
      ...target,
      files: [{ file_name: 'a.txt', content: Buffer.from('bytes').toString('base64') }],
    });
  const made = async (status: number, method: string, path: string, body?: unknown) => {
    const answer = await organisation.call(method, path, body);
    expect([path, answer.status, answer.body]).toEqual([path, status, answer.body]);
    return answer.body;
  };
  const question = { identifier: '1', question_text: 'Why?', question_type: 'OPTIONAL', input_type: 'TEXT' };
  const questions = await made(200, 'PUT', `/desk/events/${id}/questions`, [
    { ...question, supporting_documents_enabled: true },
  ]);
  await desk(organisation, 'POST', `${id}/publish`);
  await made(200, 'POST', `/desk/events/${id}/answers`, {
    supplier: 'S1',
    answers: [{ question_uuid: questions[0].id, value: 'so', document_file_uuids: [file] }],
  });
  await desk(organisation, 'POST', `${id}/bids`, { supplier: 'S1', lots: [{ lot: 'A', values: { Price: '3' } }] });
  await desk(organisation, 'PUT', `${id}/scenarios/best`, {
    awards: [{ lot: 'A', supplier: 'S1', share_awarded: '1' }],
  });
  await desk(organisation, 'POST', `${id}/award`, { scenario: 'best' });
  await desk(organisation, 'POST', `${id}/close`);
  const url = 'https://localhost:1/hook';
  const { uuid } = await made(201, 'POST', '/api/webhooks', { name: 'w', url, triggers: ['AWARDS_FEED_UPDATED'] });
  await made(202, 'POST', `/api/webhooks/${uuid}/test`);
}

/** The webhook's receiver is away: each notification was tried once, and waits for a time that does not come. */
async function jobsDone({ db }: TestService): Promise<void> {
  const open = `select from service.jobs where status = 'PENDING' union all
    select from service.deliveries where state = 'sending' or attempts = 0`;
  await expect.poll(() => db.database.query(open), { timeout: 20_000 }).toEqual([]);
}

/** All but the log of what was done, and when keys were last used. */
async function everything({ db }: TestService): Promise<string[]> {
  const lines = await allText(db.database, 'service');
  return lines
    .filter((line) => !/^service\.(actions|counted_requests|api_keys|migrations|processes) /.test(line))
    .sort();
}

test('everything of it is gone, and nothing of another one has changed', async () => {
  const folder = await scratchFolder();
  const storage = createLocalStorage(folder);
  const service = await startTestService({ storage, clock: createManualClock() });
  const { database } = service.db;
  const other = await service.organisation();
  await fill(service, other);
  await jobsDone(service);
  const [before, files] = [await everything(service), await storedIn(folder)];
  const owned = await service.organisation();
  await fill(service, owned);
  await jobsDone(service);
  const tables = await findOwnedTables(database);
  const filled: string[] = [];
  for (const { table, owned: condition } of tables) {
    const rows = await database.query(`select from ${table} where ${condition} limit 1`, [owned.id]);
    if (rows.length > 0) filled.push(table);
  }
  expect(filled.length).toBeGreaterThan(18);
  expect((await storedIn(folder)).length).toBeGreaterThan(files.length);

  const removed = await eraseOrganisation({ database, storage, clock: createManualClock() }, owned.id);

  expect(Object.keys(removed).sort()).toEqual(filled.sort());
  expect(await everything(service)).toEqual(before);
  expect(await storedIn(folder)).toEqual(files);
  expect((await owned.call('GET', '/api/feeds/awards')).status).toBe(401);
  expect((await other.call('GET', '/api/feeds/awards')).body.data).toHaveLength(2);
  const admin = await service.operator('GET', `/admin/organisations/${owned.id}/api-keys`);
  expect(admin.status).toBe(404);
});

async function storedIn(folder: string): Promise<string[]> {
  const names = await readdir(folder, { recursive: true, withFileTypes: true });
  return names.filter((entry) => entry.isFile()).map(({ name }) => name);
}

test('killed at any statement, or by a storage that fails, it goes on and counts everything once', async () => {
  const folder = await scratchFolder();
  const storage = createLocalStorage(folder);
  const clock = createManualClock();
  const service = await startTestService({ storage, clock });
  const { database } = service.db;
  const whole = await service.organisation();
  await fill(service, whole);
  const parts = await service.organisation();
  await fill(service, parts);
  await jobsDone(service);
  const expected = await eraseOrganisation({ database, storage, clock }, whole.id);
  let removals = 0;
  const failing = {
    remove: async (id: string) => {
      removals += 1;
      if (removals % 2 === 1) throw new Error('killed');
      await storage.remove(id);
    },
  };
  let kills = 0;
  let outcome: unknown;
  const answers: number[] = [];
  for (let statements = 1; ; statements += 3) {
    const deps = { database: killedAfter(database, statements), storage: failing, clock };
    outcome = await eraseOrganisation(deps, parts.id).catch((error: unknown) => error);
    if (!(outcome instanceof Error)) break;
    expect(outcome.message).toBe('killed');
    kills += 1;
    answers.push((await parts.call('GET', '/api/feeds/awards')).status);
  }
  expect(outcome).toEqual(expected);
  // Before it has begun all is as it was; then nobody comes in any more.
  expect(answers.slice(2).filter((status) => status !== 401)).toEqual([]);
  expect(kills).toBeGreaterThan(8);
  expect(await storedIn(folder)).toEqual([]);
  await expect(eraseOrganisation({ database, storage, clock }, parts.id)).rejects.toThrow(/no organisation/);
});

test('every table of the schema belongs to an organisation, or to none', async () => {
  const { db } = await startTestService();
  const found = new Set((await findOwnedTables(db.database)).map(({ table }) => table));
  const all = await db.database.query<{ name: string }>(
    `select oid::regclass::text as name from pg_class where relnamespace = 'service'::regnamespace and relkind = 'r'`,
  );
  const ofNone = ['actions', 'migrations', 'processes'].map((name) => `service.${name}`);
  expect(
    all
      .map(({ name }) => name)
      .filter((name) => !found.has(name))
      .sort(),
  ).toEqual(ofNone);
});
