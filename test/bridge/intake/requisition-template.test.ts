/** `make: event-from-template` at the real service: the bid sheet is the template's, the lots are the requisition's. */
import { expect, test } from 'vitest';
import { eventually } from '../../harness/eventually.ts';
import { createEvent, createSuppliers, desk, eventPayload, readWholeFeed } from '../../harness/sourcing.ts';
import { startTestService } from '../../harness/test-service.ts';
import { startRequisitions } from './real-requisitions.ts';
import { lotRows } from './requisition-world.ts';

const requisition = {
  number: 'PR-7',
  name: 'Fasteners',
  closed: false,
  category: 'Steel',
  plant: 'Rome',
  items: [
    { line: '10', name: 'Bolt', quantity: '4', unit: 'kg' },
    { line: '20', name: 'Nut', quantity: '8', unit: 'pc' },
  ],
};

test('the event has the columns of the template, the lots of the requisition, and follows it while it is a draft', async () => {
  const service = await startTestService();
  const organisation = await service.organisation();
  await createSuppliers(organisation, ['S1']);
  const template = await createEvent(organisation, {
    ...eventPayload({ name: 'Buying steel', lots: ['An example'], suppliers: ['S1'] }),
    settings: { is_template: true },
  });
  const { erp, database, run, status, letters, makeAll } = await startRequisitions(
    { service, organisation },
    { make: 'event-from-template', template, mapping: { lots: { columns: { Volume: 'line.quantity' } } } },
  );
  erp.saveRecord('requisitions', requisition);
  await makeAll();
  const made = async () => {
    const feed = await readWholeFeed(organisation, 'sourcing-events');
    const [event, ...more] = feed.filter((each) => each['reference_id'] === 'PR-7');
    expect(more).toEqual([]);
    return event;
  };
  /** The lots that the service holds, each with the volume that its buyer wants. */
  const lots = async () =>
    service.db.database.query<{ name: string; volume: string }>(
      `select name, values ->> 'Volume' as volume from service.lots where event_id = $1 order by position`,
      [(await made()).id],
    );
  const event = await made();
  expect(event).toMatchObject({ name: 'Fasteners', category: 'Steel', status: 'DRAFT', lot_count: 2 });
  expect(event.columns.map(({ name }: { name: string }) => name)).toEqual(['Volume', 'Price']);
  expect(await lots()).toEqual([
    { name: 'Bolt', volume: '4' },
    { name: 'Nut', volume: '8' },
  ]);
  expect(await database.query(`select lot, line from ${lotRows} order by lot`)).toEqual([
    { lot: 'Bolt', line: '10' },
    { lot: 'Nut', line: '20' },
  ]);

  erp.saveRecord('requisitions', {
    ...requisition,
    items: [
      { line: '10', name: 'Bolt', quantity: '5', unit: 'kg' },
      { line: '30', name: 'Washer', quantity: '2', unit: 'pc' },
    ],
  });
  await eventually('the draft follows', async () => {
    await run();
    return (await status())?.lag.why === 'in step' && (await lots())[1]?.name === 'Washer';
  });
  expect(await lots()).toEqual([
    { name: 'Bolt', volume: '5' },
    { name: 'Washer', volume: '2' },
  ]);
  // It can be published and bid for, with the template's formula and invitations.
  await desk(organisation, 'POST', `${event.id}/publish`);
  await desk(organisation, 'POST', `${event.id}/bids`, {
    supplier: 'S1',
    lots: ['Bolt', 'Washer'].map((lot) => ({ lot, values: { Price: '2' } })),
  });
  expect(await letters()).toEqual([]);
});
