/** A requisition of a real ERP (the one of the memory connector) at the real service: its event, and the award of it. */
import { expect, test } from 'vitest';
import { findIntakeRecords, readIntakeHistory } from '#bridge/intake/intake-history.ts';
import { planRequisitions } from '#bridge/intake/requisitions/plan-requisitions.ts';
import { documentHash, makeDocuments } from '#bridge/mirror/assemble/make-documents.ts';
import { storeRecords } from '#bridge/mirror/store-records.ts';
import { fetchErrorOf } from '#platform/guarded-fetch/fetch-error.ts';
import { eventually } from '../../harness/eventually.ts';
import { createSuppliers, desk, readWholeFeed } from '../../harness/sourcing.ts';
import { startTestService } from '../../harness/test-service.ts';
import { startRequisitions } from './real-requisitions.ts';

test('a requisition becomes an event, and the award of each lot names it and its line', async () => {
  const service = await startTestService();
  const organisation = await service.organisation();
  await createSuppliers(organisation, ['S1']);
  const { erp, database, flow, deps, run, status, now, makeAll } = await startRequisitions(
    { service, organisation },
    { make: 'event', mapping: { event: { suppliers: [{ value: 'S1' }] } } },
  );
  erp.saveRecord('requisitions', {
    number: 'PR-7',
    name: 'Fasteners',
    closed: false,
    category: 'Steel',
    plant: 'Rome',
    needed_by: '2030-03-31T00:00:00.000000Z',
    items: [
      { line: '10', name: 'Bolt', quantity: '4.5', unit: 'kg' },
      { line: '20', name: 'Nut', quantity: '8', unit: 'pc' },
    ],
    files: [{ file_name: 'drawing.pdf', content: 'JVBERi0=' }],
  });
  await run();
  expect(await status()).toMatchObject({ pausedKind: 'first-run', creates: 1, events: 1 });
  expect(await planRequisitions(database, deps, 10)).toMatchObject([
    { action: 'create', name: 'Fasteners', lots: 2, requisitions: ['PR-7'] },
  ]);
  await makeAll();
  const [record] = await readWholeFeed(organisation, 'sourcing-events');
  expect(record).toMatchObject({
    name: 'Fasteners',
    reference_id: 'PR-7',
    category: 'Steel',
    tags: [{ name: 'Plant', value: 'Rome' }],
    lot_count: 2,
    status: 'DRAFT',
  });
  const { body } = await organisation.call('GET', `/desk/events/${record.id}`);
  expect(JSON.stringify(body)).toContain('drawing.pdf');

  // A buyer lets suppliers bid, and awards.
  await desk(organisation, 'POST', `${record.id}/publish`);
  const price = (lot: string, value: string) => ({ lot, values: { Price: value } });
  await desk(organisation, 'POST', `${record.id}/bids`, {
    supplier: 'S1',
    lots: [price('Bolt', '2'), price('Nut', '3')],
  });
  await desk(organisation, 'PUT', `${record.id}/scenarios/best`, {
    awards: ['Bolt', 'Nut'].map((lot) => ({ lot, supplier: 'S1', share_awarded: '1' })),
  });
  await desk(organisation, 'POST', `${record.id}/award`, { scenario: 'best' });
  await desk(organisation, 'POST', `${record.id}/close`);
  await database.transaction(async (tx) => {
    for (const feed of ['sourcing-events', 'awards'] as const)
      await storeRecords(tx, { source: 'main', feed, records: await readWholeFeed(organisation, feed), now: now() });
  });
  const keys = await database.query<{ kind: string; key: string }>(
    `select kind, key from bridge.flow_documents where kind = 'award'`,
  );
  const [made] = [...(await makeDocuments(database, flow, keys)).values()];
  if (made?.made !== 'document' || made.document.kind !== 'award') throw new Error(JSON.stringify(made));
  expect(made.document.lines.map(({ lot, quantity, requisition }) => [lot, quantity, requisition])).toEqual([
    ['Bolt', '4.5', { intake: 'requisitions', reference_id: 'PR-7', line: '10' }],
    ['Nut', '8', { intake: 'requisitions', reference_id: 'PR-7', line: '20' }],
  ]);

  // The flow has delivered it: its order stands in the requisition's history.
  await database.query(
    `update bridge.flow_documents set delivered = now(), reference = 'PO-1', delivered_hash = $1 where kind = 'award'`,
    [documentHash(made.document)],
  );
  const history = await readIntakeHistory(database, { intake: 'requisitions', erpKey: 'PR-7', limit: 10 });
  expect(history.map(({ step }) => step)).toEqual(['read', 'sent', 'taken', 'made', 'sent', 'taken', 'delivered']);
  expect(history.at(-1)?.text).toContain('PO-1');
  const found = await findIntakeRecords(database, { text: record.id, limit: 10 });
  expect(found).toMatchObject([{ erpKey: 'PR-7', stream: 'requisition', key: record.id, state: 'in step' }]);
});

test('an award that was made before the event was known as one of a requisition is made again, and names it', async () => {
  const service = await startTestService();
  const organisation = await service.organisation();
  await createSuppliers(organisation, ['S1']);
  const { erp, database, flow, deps, run, now, makeAll } = await startRequisitions(
    { service, organisation },
    { make: 'event', mapping: { event: { suppliers: [{ value: 'S1' }] } } },
  );
  await makeAll();
  // The answer to the POST is lost: what it has made is found later.
  const { call } = deps.client;
  const client = deps.client as { call: typeof call };
  client.call = async (request, ...rest) => {
    const answer = await call(request, ...rest);
    if (request.method !== 'POST') return answer;
    client.call = call;
    throw Object.assign(fetchErrorOf('reset', 'service'), { sent: true });
  };
  erp.saveRecord('requisitions', {
    number: 'PR-8',
    name: 'Paint',
    closed: false,
    items: [{ line: '10', name: 'Red', quantity: '2', unit: 'l' }],
  });
  const event = await eventually('the event is made', async () => {
    await run();
    return (await readWholeFeed(organisation, 'sourcing-events'))[0];
  });
  await desk(organisation, 'POST', `${event.id}/publish`);
  await desk(organisation, 'POST', `${event.id}/bids`, {
    supplier: 'S1',
    lots: [{ lot: 'Red', values: { Price: '2' } }],
  });
  await desk(organisation, 'PUT', `${event.id}/scenarios/best`, {
    awards: [{ lot: 'Red', supplier: 'S1', share_awarded: '1' }],
  });
  await desk(organisation, 'POST', `${event.id}/award`, { scenario: 'best' });
  await desk(organisation, 'POST', `${event.id}/close`);
  await database.transaction(async (tx) => {
    for (const feed of ['sourcing-events', 'awards'] as const)
      await storeRecords(tx, { source: 'main', feed, records: await readWholeFeed(organisation, feed), now: now() });
  });
  const keys = `select kind, key, due from bridge.flow_documents where kind = 'award'`;
  const made = async () => {
    const [document] = (
      await makeDocuments(database, flow, await database.query<{ kind: string; key: string }>(keys))
    ).values();
    if (document?.made !== 'document' || document.document.kind !== 'award') throw new Error(JSON.stringify(document));
    return document.document;
  };
  const unnamed = await made();
  expect(unnamed.lines.map(({ requisition }) => requisition)).toEqual([undefined]);
  // The flow has delivered it.
  await database.query(
    `update bridge.flow_documents set delivered = now(), reference = 'PO-1', delivered_hash = $1, due = null,
       waiting_since = null, reconciled = wanted where kind = 'award'`,
    [documentHash(unnamed)],
  );
  await database.query('update bridge.intake_submissions set next_look = $1, ends = $1', [now()]);
  await eventually('the event is found', async () => {
    await run();
    return (await database.query(`select from bridge.intake_events where state = 'made'`)).length > 0;
  });
  const [document] = await database.query<{ due: string | null }>(keys);
  expect(document?.due).not.toBeNull();
  expect((await made()).lines.map(({ requisition }) => requisition)).toEqual([
    { intake: 'requisitions', reference_id: 'PR-8', line: '10' },
  ]);
});
